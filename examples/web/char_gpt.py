"""A character-level GPT that writes in the browser, one character at a time, with its cache on the GPU.

python -m examples.web.char_gpt [--steps 500] [--folder examples/out/char_gpt]

It is trained first (examples/char_gpt.py has the model and its text), on the processor unless --device says otherwise.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import webgpu_backend
from examples.char_gpt import TEXT, CharGPT, cross_entropy

HERE = Path(__file__).parent


class Writer(nn.Module):
    """A CharGPT that takes one character after the other: keys and values of those before are kept in buffers."""

    def __init__(self, model: CharGPT):
        super().__init__()
        self.model = model
        block, width = model.blocks[0], model.token.embedding_dim
        shape = (len(model.blocks), block.heads, model.context, width // block.heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, token: Tensor, position: Tensor) -> dict[str, Tensor]:
        """`token` and `position` have one element each; the logits of the character that follows."""
        model = self.model
        x = model.token(token) + model.position(position)
        seen = torch.arange(model.context, device=token.device) <= position
        for block, keys, values in zip(model.blocks, self.keys, self.values):
            q, k, v = block.qkv(block.norm1(x)).view(3, block.heads, 1, -1)
            keys.index_copy_(1, position, k)
            values.index_copy_(1, position, v)
            found = F.scaled_dot_product_attention(q[None], keys[None], values[None], attn_mask=seen[None])
            x = x + block.out(found.flatten()[None])
            x = x + block.mlp(block.norm2(x))
        return {"logits": model.head(model.norm(x))[0]}


def text() -> tuple[list[str], Tensor]:
    """The alphabet, and the text in its numbers."""
    written = TEXT.read_text(encoding="utf-8")
    alphabet = sorted(set(written))
    code = {character: i for i, character in enumerate(alphabet)}
    return alphabet, torch.tensor([code[character] for character in written])


def trained(steps: int, device: str = "cpu", batch: int = 32) -> tuple[CharGPT, list[str]]:
    alphabet, tokens = text()
    torch.manual_seed(0)
    model = CharGPT(len(alphabet)).to(device)
    window, batches = torch.arange(model.context + 1), torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 30) * (1 + math.cos(math.pi * step / steps)) / 2
        starts = torch.randint(len(tokens) - model.context, (batch, 1), generator=batches)
        loss = cross_entropy(model, tokens[starts + window].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1} of {steps}, loss {loss.item():.3f}")
    return model.eval().cpu(), alphabet


def build(model: CharGPT, alphabet: list[str], folder: Path | str) -> dict:
    files = {
        "index.html": HERE / "char_gpt.html",
        "demo.css": HERE / "demo.css",
        "demo.js": HERE / "demo.js",
        "alphabet.json": json.dumps({"alphabet": alphabet, "context": model.context}).encode(),
    }
    example = {"token": torch.zeros(1, dtype=torch.int64), "position": torch.zeros(1, dtype=torch.int64)}
    return webgpu_backend.export(Writer(model), example, folder, name="A small GPT", files=files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "out" / "char_gpt")
    args = parser.parse_args()
    build(*trained(args.steps, args.device), args.folder)


if __name__ == "__main__":
    main()
