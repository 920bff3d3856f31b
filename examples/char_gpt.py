"""A character-level GPT in plain torch.nn, trained from scratch on the device until it beats a loss, then writing text.

python -m examples.char_gpt [--steps 500] [--device webgpu]

It draws examples/out/char_gpt.png. A table of which character follows which gets to 2.4 on this text; the model
has to get below TARGET.
"""

import argparse
import math
import time
from pathlib import Path

import matplotlib
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.nn import functional as F

from mnist.device import describe, fallbacks, select

matplotlib.use("Agg")  # no display is needed to write a file
from matplotlib import pyplot as plt  # noqa: E402

TEXT = Path(__file__).with_name("text.txt")
PLOT = Path(__file__).with_name("out") / "char_gpt.png"
TARGET = 2.0  # nats per character of the last tenth of the text, which is not trained on
READ_EVERY = 10  # steps between read-backs of the loss: each one waits for the device


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class CharGPT(nn.Module):
    def __init__(self, characters: int, width: int = 96, depth: int = 3, heads: int = 4, context: int = 64):
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)
        for embedding in (self.token, self.position):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position(places))))

    @torch.no_grad()
    def write(self, tokens: Tensor, count: int, temperature: float = 0.8) -> Tensor:
        for _ in range(count):
            logits = self(tokens[:, -self.context :])[:, -1] / temperature
            tokens = torch.cat([tokens, torch.multinomial(logits.softmax(-1), 1)], 1)
        return tokens


def cross_entropy(model: nn.Module, windows: Tensor) -> Tensor:
    return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


def draw(path: Path, losses: list[float], held_out: list[tuple[int, float]], title: str) -> Path:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(range(1, len(losses) + 1), losses, color="#9ecae1", linewidth=0.8, label="training, by step")
    axes.plot(*zip(*held_out), color="#08519c", marker="o", markersize=3, label="held out")
    axes.axhline(TARGET, color="#1a7f37", linestyle="--", linewidth=1, label=f"to beat: {TARGET}")
    axes.set(xlabel="step", ylabel="loss, nats per character", title=title)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def main(argv: list[str] | None = None) -> tuple[list[float], float, str]:
    """The training losses by step, the held-out loss at the end, and the text written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=int, default=300, help="characters to write at the end")
    parser.add_argument("--plot", type=Path, default=PLOT)
    args = parser.parse_args(argv)
    out = Console(highlight=False)
    device = select(args.device)

    text = TEXT.read_text(encoding="utf-8")
    alphabet = sorted(set(text))
    code = {character: i for i, character in enumerate(alphabet)}
    tokens = torch.tensor([code[character] for character in text])
    split = len(tokens) * 9 // 10

    # Weights and batches are drawn on the host: a seed then gives the same run on every device.
    torch.manual_seed(args.seed)
    batches = torch.Generator().manual_seed(args.seed)
    model = CharGPT(len(alphabet))
    window = torch.arange(model.context + 1)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=device.type == "webgpu")
    # Up over the first 30 steps, then down along a cosine.
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 30) * (1 + math.cos(math.pi * step / args.steps)) / 2
    )
    unseen = tokens[split:].unfold(0, model.context + 1, model.context).contiguous().to(device)

    def held_out() -> float:
        model.eval()
        with torch.no_grad():
            value = cross_entropy(model, unseen).item()
        model.train()
        return value

    adapter = describe(device)
    parameters = sum(p.numel() for p in model.parameters())
    out.print(f"training {parameters:,} parameters on {adapter}: {split:,} characters, {args.steps} steps")
    progress = Progress(
        BarColumn(),
        TextColumn(
            "step {task.completed}/{task.total}  loss {task.fields[loss]:.3f}  held out {task.fields[unseen]:.3f}"
        ),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=out,
    )
    losses: list[float] = []
    curve = [(0, held_out())]
    pending: list[Tensor] = []
    began = time.perf_counter()
    with progress:
        task = progress.add_task("train", total=args.steps, loss=float("nan"), unseen=curve[0][1])
        for step in range(1, args.steps + 1):
            starts = torch.randint(split - model.context, (args.batch, 1), generator=batches)
            loss = cross_entropy(model, tokens[starts + window].to(device))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            pending.append(loss.detach())
            if len(pending) == READ_EVERY or step == args.steps:
                losses += torch.stack(pending).tolist()
                pending = []
                if step == args.steps or step % 100 == 0:
                    curve.append((step, held_out()))
                progress.update(task, completed=step, loss=losses[-1], unseen=curve[-1][1])
    seconds = time.perf_counter() - began

    final = curve[-1][1]
    start = torch.tensor([[code["\n"]]], device=device)
    model.eval()
    written = "".join(alphabet[i] for i in model.write(start, args.write)[0].tolist())
    plot = draw(args.plot, losses, curve, f"character-level GPT on {adapter}, {seconds:.0f} s")
    verdict = "beats" if final < TARGET else "does not beat"
    out.print(f"held-out loss  {final:.3f}, which {verdict} {TARGET}")
    out.print(f"time           {seconds:.1f} s, {args.steps / seconds:.1f} steps/s (batch {args.batch})")
    out.print(f"CPU fallbacks  {fallbacks(device) or 'none'}")
    out.print(f"plot           {plot}", soft_wrap=True)
    out.print(written, markup=False)
    return losses, final, written


if __name__ == "__main__":
    main()
