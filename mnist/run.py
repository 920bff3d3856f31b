"""Classify the held-out digits on the device with the shipped weights.

python -m mnist.run [--device webgpu]
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

from mnist import data, show
from mnist.device import describe, fallbacks, select
from mnist.model import Digits

WEIGHTS = Path(__file__).with_name("mnist_model.pth")


@torch.inference_mode()
def classify(model: Digits, images: Tensor, batch: int) -> tuple[Tensor, Tensor]:
    """Predicted digits and log-probabilities, on the host. `images` are on the model's device."""
    scores = [model(images[start : start + batch]) for start in range(0, len(images), batch)]
    predictions = [score.argmax(dim=1) for score in scores]
    return torch.cat(predictions).cpu(), torch.cat(scores).cpu()


def load_model(path: Path, device: torch.device) -> Digits:
    model = Digits()
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True), assign=True)
    return model.eval()


def time_passes(model: Digits, images: Tensor, batch: int, seconds: float) -> list[float]:
    """Seconds of each whole pass, at least three; a pass ends when its predictions are on the host."""
    passes: list[float] = []
    while len(passes) < 3 or sum(passes) < seconds:
        began = time.perf_counter()
        classify(model, images, batch)
        passes.append(time.perf_counter() - began)
    return passes


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure the throughput")
    parser.add_argument("--sheet", type=Path, default=show.OUT / "contact_sheet.png")
    args = parser.parse_args(argv)
    out = show.console()

    device = select(args.device)
    images, labels = data.load("test")
    began = time.perf_counter()
    model = load_model(args.weights, device)
    on_device = images.to(device)
    predictions, scores = classify(model, on_device, args.batch)
    first = time.perf_counter() - began
    passes = time_passes(model, on_device, args.batch, args.seconds)

    right = int((predictions == labels).sum())
    accuracy = right / len(labels)
    adapter = describe(device)
    missed = predictions != labels
    out.print(show.digits_row(images, labels, predictions, out.width))
    if missed.any():
        out.print("misses:")
        out.print(show.digits_row(images[missed], labels[missed], predictions[missed], out.width))
    sheet = show.contact_sheet(
        args.sheet,
        images,
        labels,
        predictions,
        scores.max(dim=1).values.exp(),
        f"MNIST on {adapter}: {right} of {len(labels)} right ({accuracy:.1%})",
    )
    middle = statistics.median(passes)
    out.print(f"adapter        {adapter}")
    out.print(f"accuracy       {accuracy:.1%}  ({right} of {len(labels)} held-out digits)")
    out.print(
        f"throughput     {len(labels) / middle:,.0f} digits/s  "
        f"(median of {len(passes)} passes of {middle * 1e3:.1f} ms, batch {args.batch})"
    )
    out.print(f"first answer   {first:.2f} s  (device, weights, shaders and the first pass)")
    out.print(f"CPU fallbacks  {fallbacks(device) or 'none'}")
    out.print(f"contact sheet  {sheet}", soft_wrap=True)
    return accuracy


if __name__ == "__main__":
    main()
