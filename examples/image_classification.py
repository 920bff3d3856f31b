"""A small residual network, trained on handwritten digits on the device, then naming the ones it has not seen.

python -m examples.image_classification [--epochs 2] [--device webgpu]

It draws examples/out/digits.png. The digits are those of the MNIST demo (mnist/DATA.md).
"""

import argparse
import time
from pathlib import Path

import torch
from rich.progress import track
from torch import Tensor, nn
from torch.nn import functional as F

from mnist import data, show
from mnist.device import describe, fallbacks, select

PLOT = Path(__file__).with_name("out") / "digits.png"


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.skip(x))


class ResNet(nn.Sequential):
    def __init__(self, width: int = 16):
        super().__init__(
            nn.Conv2d(1, width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            Residual(width, width, 1),
            Residual(width, 2 * width, 2),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * width * 3 * 3, 10),
        )


def pixels(images: Tensor) -> Tensor:
    return images.float()[:, None] / 127.5 - 1


def main(argv: list[str] | None = None) -> tuple[list[float], float]:
    """The training losses by step, and the accuracy on held-out digits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--digits", type=int, default=6000, help="how many to train on")
    parser.add_argument("--test", type=int, default=1000, help="how many to hold out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=PLOT)
    args = parser.parse_args(argv)
    out = show.console()
    device = select(args.device)

    torch.manual_seed(args.seed)
    shuffle = torch.Generator().manual_seed(args.seed)
    images, labels = (part[: args.digits] for part in data.load("train"))
    test_images, test_labels = (part[: args.test] for part in data.load("test"))
    model = ResNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    adapter = describe(device)
    out.print(f"training on {adapter}: {len(images)} digits, {args.epochs} epochs")

    losses: list[Tensor] = []
    began = time.perf_counter()
    for epoch in range(args.epochs):
        order = torch.randperm(len(images), generator=shuffle)
        for batch in track(order.split(args.batch), f"epoch {epoch + 1}/{args.epochs}", console=out):
            loss = F.cross_entropy(model(pixels(images[batch].to(device))), labels[batch].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    by_step = torch.stack(losses).tolist()
    seconds = time.perf_counter() - began

    model.eval()
    with torch.no_grad():
        chances = torch.cat([model(pixels(part.to(device))).softmax(-1).cpu() for part in test_images.split(250)])
    confidence, predictions = chances.max(-1)
    accuracy = (predictions == test_labels).float().mean().item()
    title = f"ResNet on {adapter}: {accuracy:.1%}"
    plot = show.contact_sheet(args.plot, test_images, test_labels, predictions, confidence, title)
    out.print(show.digits_row(test_images, test_labels, predictions, out.width))
    out.print(f"accuracy       {accuracy:.1%} of {len(test_labels)} held-out digits")
    out.print(f"time           {seconds:.1f} s, {len(by_step) * args.batch / seconds:.0f} images/s")
    out.print(f"CPU fallbacks  {fallbacks(device) or 'none'}")
    out.print(f"plot           {plot}", soft_wrap=True)
    return by_step, accuracy


if __name__ == "__main__":
    main()
