"""Pictures of the results: PNGs by matplotlib, digits in the terminal by rich. Host tensors only."""

import math
import sys
from pathlib import Path

import matplotlib
import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

matplotlib.use("Agg")  # no display is needed to write a file
from matplotlib import pyplot as plt  # noqa: E402

RIGHT, WRONG = "#1a7f37", "#cf222e"
OUT = Path(__file__).with_name("out")
# The bit of each of the 4 x 2 dots in a Braille character, from U+2800.
BRAILLE = torch.tensor([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def console() -> Console:
    # A terminal without UTF-8 shows "?" for the dots instead of ending in a UnicodeEncodeError.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    return Console(highlight=False)


def braille(image: Tensor) -> str:
    """A 28 x 28 digit as 7 lines of 14 characters, one dot per pixel: readable without colour."""
    dots = (image > 96).long().reshape(7, 4, 14, 2).permute(0, 2, 1, 3)
    return "\n".join("".join(chr(0x2800 + code) for code in line) for line in (dots * BRAILLE).sum((2, 3)).tolist())


def digits_row(images: Tensor, labels: Tensor, predictions: Tensor, width: int) -> Table:
    """As many digits side by side as the terminal is wide, each with its prediction below."""
    table = Table.grid(padding=(0, 1))
    cells = []
    for image, label, prediction in zip(images, labels.tolist(), predictions.tolist(), strict=True):
        if len(cells) == max(1, width // 16):
            break
        right = label == prediction
        caption = f"{prediction}" if right else f"{prediction}, is {label}"
        cells.append(Text(braille(image) + "\n") + Text(caption.center(14), style=RIGHT if right else f"bold {WRONG}"))
    table.add_row(*cells)
    return table


def contact_sheet(
    path: Path, images: Tensor, labels: Tensor, predictions: Tensor, confidence: Tensor, title: str
) -> Path:
    """The first 60 digits in file order, then up to 24 of the misses, each with its prediction."""
    columns = 12
    misses = (predictions != labels).nonzero().flatten()
    first, missed = list(range(min(60, len(images)))), misses[:24].tolist()
    bands = [(f"The first {len(first)} held-out digits", first)]
    if missed:
        bands.append((f"{'All' if len(missed) == len(misses) else 'First'} {len(missed)} misses", missed))
    rows = [math.ceil(len(indices) / columns) for _, indices in bands]
    figure = plt.figure(figsize=(columns * 0.85, sum(rows) * 1.04 + 0.4 * len(bands) + 0.5), layout="constrained")
    figure.suptitle(title, fontsize=11)
    for band, (heading, indices), height in zip(
        figure.subfigures(len(bands), 1, height_ratios=rows, squeeze=False)[:, 0], bands, rows, strict=True
    ):
        band.suptitle(heading, fontsize=9, x=0.01, ha="left")
        for slot, axes in enumerate(band.subplots(height, columns, squeeze=False).flat):
            axes.set_xticks([])
            axes.set_yticks([])
            if slot >= len(indices):
                axes.set_axis_off()
                continue
            index = indices[slot]
            label, prediction = int(labels[index]), int(predictions[index])
            colour = RIGHT if label == prediction else WRONG
            note = f"{prediction}  {confidence[index]:.0%}" + ("" if label == prediction else f"\nis {label}")
            axes.imshow(images[index].numpy(), cmap="gray_r", vmin=0, vmax=255)
            axes.set_xlabel(note, color=colour, fontsize=8, labelpad=2)
            for edge in axes.spines.values():
                edge.set_color(colour)
    return save(figure, path)


def curves(path: Path, losses: list[float], accuracies: list[float], title: str) -> Path:
    """Training loss by step and held-out accuracy by epoch."""
    epochs = len(accuracies)
    per_epoch = len(losses) // epochs
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    figure.suptitle(title, fontsize=11)
    means = [sum(losses[e * per_epoch : (e + 1) * per_epoch]) / per_epoch for e in range(epochs)]
    left.plot([(i + 1) / per_epoch for i in range(len(losses))], losses, color="#9ecae1", linewidth=0.7, label="step")
    left.plot([e + 0.5 for e in range(epochs)], means, color="#08519c", label="epoch mean")
    left.set(xlabel="epoch", ylabel="training loss (shifted digits)", yscale="log")
    left.legend(frameon=False)
    right.plot(range(1, epochs + 1), [100 * a for a in accuracies], color=RIGHT, marker="o", markersize=3)
    right.set(xlabel="epoch", ylabel="held-out accuracy, %")
    right.annotate(
        f"{accuracies[-1]:.1%}",
        (epochs, 100 * accuracies[-1]),
        textcoords="offset points",
        xytext=(-4, -14),
        ha="right",
        color=RIGHT,
    )
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return save(figure, path)


def save(figure: plt.Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
