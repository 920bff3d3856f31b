"""The digits that ship with the repository, and the small random shifts training sees them under. Host only."""

from pathlib import Path

import numpy as np
import torch

DIGITS = Path(__file__).with_name("digits.npz")


def load(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 28, 28) uint8 and labels (N,) int64 of "train" or "test", on the CPU."""
    with np.load(DIGITS) as arrays:
        return torch.from_numpy(arrays[f"{split}_images"]), torch.from_numpy(arrays[f"{split}_labels"]).long()


def shifted(images: torch.Tensor, generator: torch.Generator, reach: int = 1) -> torch.Tensor:
    """Every image moved by up to `reach` pixels each way: a few thousand digits alone overfit an MLP at about 95 %."""
    n, height, width = images.shape
    padded = torch.nn.functional.pad(images, (reach, reach, reach, reach))
    moves = torch.randint(0, 2 * reach + 1, (2, n), generator=generator)
    rows = moves[0, :, None] + torch.arange(height)
    columns = moves[1, :, None] + torch.arange(width)
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
