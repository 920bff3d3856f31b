"""An image classifier in the browser, on a file or the camera: a small residual network that names handwritten digits.

python -m examples.web.classify [--epochs 2] [--folder examples/out/classify]

It is trained first, on the digits of the MNIST demo, on the processor.
"""

import argparse
from pathlib import Path

import torch
from torch.nn import functional as F

import webgpu_backend
from examples.image_classification import ResNet, pixels
from mnist import data

HERE = Path(__file__).parent


class Named(torch.nn.Module):
    """Bytes of one picture, 28 x 28, to the probabilities of ten digits."""

    def __init__(self, model: ResNet):
        super().__init__()
        self.model = model

    def forward(self, image):
        return {"probabilities": self.model(pixels(image)).softmax(-1)}


def trained(epochs: int, digits: int = 6000, batch: int = 100) -> ResNet:
    torch.manual_seed(0)
    images, labels = (part[:digits] for part in data.load("train"))
    model, shuffle = ResNet(), torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        for some in torch.randperm(len(images), generator=shuffle).split(batch):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(pixels(images[some])), labels[some])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1} of {epochs}, loss {loss.item():.3f}")
    return model.eval()


def build(model: ResNet, folder: Path | str) -> dict:
    files = {"index.html": HERE / "classify.html", "demo.css": HERE / "demo.css", "demo.js": HERE / "demo.js"}
    example = (torch.zeros(1, 28, 28, dtype=torch.uint8),)
    return webgpu_backend.export(Named(model), example, folder, name="Digits in pictures", files=files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=HERE.parent / "out" / "classify")
    args = parser.parse_args()
    build(trained(args.epochs), args.folder)


if __name__ == "__main__":
    main()
