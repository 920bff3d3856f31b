"""Pack a sample of the MNIST idx files into mnist/digits.npz (see DATA.md; needed only to rebuild that file).

python -m mnist.prepare path/to/package/data
"""

import argparse
from pathlib import Path

import numpy as np

from mnist.data import DIGITS

TRAIN_PER_CLASS = 600
TEST_PER_CLASS = 100


def read_idx(path: Path) -> np.ndarray:
    """An idx file of unsigned bytes: two zero bytes, the type 8, the rank, big-endian sizes, data."""
    raw = path.read_bytes()
    if raw[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not an idx file of unsigned bytes")
    rank = raw[3]
    shape = np.frombuffer(raw, ">u4", rank, 4)
    return np.frombuffer(raw, np.uint8, -1, 4 + 4 * rank).reshape(shape)


def sample(images: np.ndarray, labels: np.ndarray, per_class: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As many of each digit, drawn over the whole file: the second half of the test split is the harder one."""
    rng = np.random.default_rng(seed)
    picked = np.concatenate([rng.choice(np.flatnonzero(labels == c), per_class, replace=False) for c in range(10)])
    rng.shuffle(picked)
    return images[picked], labels[picked]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with the four MNIST idx files")
    parser.add_argument("--out", type=Path, default=DIGITS)
    args = parser.parse_args()
    arrays: dict[str, np.ndarray] = {}
    for split, prefix, per_class, seed in (("train", "train", TRAIN_PER_CLASS, 0), ("test", "t10k", TEST_PER_CLASS, 1)):
        images = read_idx(args.folder / f"{prefix}-images-idx3-ubyte")
        labels = read_idx(args.folder / f"{prefix}-labels-idx1-ubyte")
        arrays[f"{split}_images"], arrays[f"{split}_labels"] = sample(images, labels, per_class, seed)
    np.savez_compressed(args.out, **arrays)
    print(f"{args.out}: {', '.join(f'{k} {v.shape}' for k, v in arrays.items())}, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
