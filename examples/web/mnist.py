"""Handwritten digits in the browser: draw one, see what the model thinks, teach it your hand, in the page.

python -m examples.web.mnist [folder]
"""

import sys
from pathlib import Path

import torch
from torch.nn import functional as F

import webgpu_backend
from mnist import data
from mnist.model import Digits

HERE = Path(__file__).parent
WEIGHTS = HERE.parents[1] / "mnist" / "mnist_model.pth"
BATCH = 16
SHOWN = 80  # real digits that the page has, so that it does not forget them while it learns a hand


def build(folder: Path | str) -> dict:
    """Writes the page: `predict` for one drawing, `learn` for a batch of drawings and their digits."""
    model = Digits()
    model.load_state_dict(torch.load(WEIGHTS))
    model.to("webgpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def predict(image):
        with torch.no_grad():
            return {"probabilities": model(image).exp()}

    def learn(images, digits):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), digits)
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    images, digits = data.load("train")
    examples = {"predict": (images[:1],), "learn": (images[:BATCH], digits[:BATCH])}
    files = {
        "index.html": HERE / "mnist.html",
        "demo.css": HERE / "demo.css",
        "demo.js": HERE / "demo.js",
        "digits.bin": digits[:SHOWN].to(torch.uint8).numpy().tobytes() + images[:SHOWN].numpy().tobytes(),
    }
    return webgpu_backend.export(
        {"predict": predict, "learn": learn}, examples, folder, name="Handwritten digits", files=files
    )  # fmt: skip


if __name__ == "__main__":
    build(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "out" / "mnist")
