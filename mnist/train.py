"""Train the digit classifier from scratch on the device, and write the weights that mnist.run loads.

python -m mnist.train [--device webgpu]
"""

import argparse
import time
from pathlib import Path

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn.functional import nll_loss

from mnist import data, show
from mnist.device import describe, fallbacks, select
from mnist.model import Digits
from mnist.run import WEIGHTS, classify

READ_EVERY = 10  # steps between read-backs of the loss: each one waits for the device


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=120)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="where to write the weights")
    parser.add_argument("--plot", type=Path, default=show.OUT / "training.png")
    args = parser.parse_args(argv)
    out = show.console()

    device = select(args.device)
    torch.manual_seed(args.seed)
    shuffle = torch.Generator().manual_seed(args.seed)
    images, labels = data.load("train")
    test_images, test_labels = data.load("test")
    test_images = test_images.to(device)

    model = Digits().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    starts = range(0, len(images), args.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(starts))
    adapter = describe(device)
    out.print(f"training on {adapter}: {len(images)} digits, {args.epochs} epochs of {len(starts)} steps")

    losses: list[float] = []
    accuracies: list[float] = []
    progress = Progress(
        TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.3f}  held-out {task.fields[accuracy]:.1%}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=out,
    )
    began = time.perf_counter()
    with progress:
        task = progress.add_task(
            "train", total=args.epochs * len(starts), epoch=0, epochs=args.epochs, loss=float("nan"), accuracy=0.0
        )
        for epoch in range(args.epochs):
            progress.update(task, epoch=epoch + 1)
            order = torch.randperm(len(images), generator=shuffle)
            x = data.shifted(images[order], shuffle).to(device)
            y = labels[order].to(device)
            pending: list[Tensor] = []
            for start in starts:
                loss = nll_loss(model(x[start : start + args.batch]), y[start : start + args.batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                pending.append(loss.detach())
                if len(pending) == READ_EVERY or start == starts[-1]:
                    losses += torch.stack(pending).tolist()
                    progress.update(task, advance=len(pending), loss=sum(losses[-len(pending) :]) / len(pending))
                    pending = []
            predictions, _ = classify(model, test_images, batch=250)
            accuracies.append((predictions == test_labels).float().mean().item())
            progress.update(task, accuracy=accuracies[-1])
    seconds = time.perf_counter() - began

    torch.save({name: value.cpu() for name, value in model.state_dict().items()}, args.weights)
    plot = show.curves(args.plot, losses, accuracies, f"MNIST MLP trained on {adapter} in {seconds:.0f} s")
    out.print(f"accuracy       {accuracies[-1]:.1%} of {len(test_labels)} held-out digits")
    out.print(f"time           {seconds:.1f} s, {len(losses) / seconds:.1f} steps/s (batch {args.batch})")
    out.print(f"CPU fallbacks  {fallbacks(device) or 'none'}")
    out.print(f"weights        {args.weights}", soft_wrap=True)
    out.print(f"plot           {plot}", soft_wrap=True)
    return accuracies[-1]


if __name__ == "__main__":
    main()
