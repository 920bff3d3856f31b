"""Text generation with transformers on the device, each token shown as it comes.

python -m examples.generate [--prompt TEXT] [--tokens 120] [--model FOLDER]

Without --model, a small Llama with random weights and one token per byte is built here, so that nothing is downloaded:
it shows the machinery, not sense. With --model, a folder or a name that `from_pretrained` knows is used instead.
"""

import argparse
import time

import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.generation.streamers import BaseStreamer

from mnist.device import describe, fallbacks, select

# Printable ASCII: token i is character 32 + i.
CHARACTERS = "".join(map(chr, range(32, 127)))


class Characters:
    """The tokenizer of the small model."""

    def __call__(self, text: str, **options) -> dict[str, torch.Tensor]:
        ids = torch.tensor([[CHARACTERS.index(c) if c in CHARACTERS else 0 for c in text]])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def decode(self, ids: list[int], **options) -> str:
        return "".join(CHARACTERS[i] for i in ids)


class Stream(BaseStreamer):
    """Shows text as soon as `generate` hands its tokens over, and keeps it."""

    def __init__(self, console: Console, tokenizer):
        self.console, self.tokenizer = console, tokenizer
        self.ids: list[int] = []
        self.shown = ""
        self.steps = 0

    def put(self, value: torch.Tensor) -> None:
        # All ids again each time: a token may be a part of a character.
        self.ids += value.flatten().tolist()
        text = self.tokenizer.decode(self.ids, skip_special_tokens=True)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            self.console.print(text[len(self.shown) :], end="", markup=False, soft_wrap=True)
            self.shown = text
        self.steps += 1

    def end(self) -> None:
        self.console.print()


def small_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(CHARACTERS),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,  # grouped-query attention, as in the large ones
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
        initializer_range=0.1,
    )
    return LlamaForCausalLM(config).eval()


def main(argv: list[str] | None = None) -> tuple[str, int]:
    """The prompt with its continuation, and how often the stream was given something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--model", help="a folder with a model, or the name of one")
    parser.add_argument("--prompt", default="The device said: ")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--sample", action="store_true", help="draw tokens instead of taking the likeliest")
    args = parser.parse_args(argv)
    out = Console(highlight=False)
    device = select(args.device)

    if args.model:
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        model = AutoModelForCausalLM.from_pretrained(args.model).to(device).eval()
    else:
        tokenizer, model = Characters(), small_llama().to(device)
    inputs = {name: value.to(device) for name, value in tokenizer(args.prompt, return_tensors="pt").items()}
    out.print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {describe(device)}")

    stream = Stream(out, tokenizer)
    began = time.perf_counter()
    ids = model.generate(**inputs, max_new_tokens=args.tokens, do_sample=args.sample, streamer=stream)
    seconds = time.perf_counter() - began
    count = ids.shape[1] - inputs["input_ids"].shape[1]
    out.print(f"{count} tokens in {seconds:.1f} s, {count / seconds:.1f} tokens/s")
    out.print(f"CPU fallbacks: {fallbacks(device) or 'none'}")
    return stream.shown, stream.steps


if __name__ == "__main__":
    main()
