"""Strides of results against the CPU's, for the operator database in float32: the samples as they are, and with images
in channels_last.

    python -m benchmarks.strides [--only conv] [--samples 3]

Prints every difference that DIFFERENT does not explain, then the shares.
"""

import argparse
import warnings
from itertools import islice

import torch
from torch.utils._pytree import tree_leaves

import webgpu_backend  # noqa: F401  registers the device

from .opcheck import Unmovable, database, move, name_of

# Entries whose strides are others than the CPU's, with the reason.
DIFFERENT: dict[str, str] = {}


def _last(x):
    """Images with their channels last in memory."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if isinstance(x, torch.Tensor) and x.dim() in formats and x.layout is torch.strided:
        return x.detach().contiguous(memory_format=formats[x.dim()])
    return x


def _strides(op, sample):
    torch.manual_seed(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        result = op(sample.input, *sample.args, **sample.kwargs)
    return [(tuple(t.shape), t.stride()) for t in tree_leaves(result) if isinstance(t, torch.Tensor)]


def differences(op, samples: int = 1) -> tuple[int, list[str]]:
    """How many calls were compared, and what is other than on the CPU."""
    torch.manual_seed(0)
    calls, found = 0, []
    for sample in islice(op.sample_inputs("cpu", torch.float32), samples):
        for layout in ("as given", "channels last"):
            theirs = sample if layout == "as given" else sample.transform(_last)
            leaves = tree_leaves((theirs.input, theirs.args, theirs.kwargs))
            if layout != "as given" and all(
                a is b for a, b in zip(leaves, tree_leaves((sample.input, sample.args, sample.kwargs)))
            ):
                continue
            try:
                want = _strides(op, theirs)
                moved = move(theirs, "webgpu")
            except (Unmovable, RuntimeError, TypeError):  # the CPU refuses it, or it cannot be moved
                continue
            got, calls = _strides(op, moved), calls + 1
            if [s for _, s in got] != [s for _, s in want]:
                shapes = [tuple(t.shape) for t in leaves if isinstance(t, torch.Tensor)]
                found.append(f"{name_of(op)} of {shapes}, {layout}: {got}, the CPU {want}")
    return calls, found


def entries() -> list:
    return [op for op in database() if torch.float32 in op.dtypes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="comma-separated parts of operator names")
    parser.add_argument("--samples", type=int, default=1)
    options = parser.parse_args()
    only = [part for part in options.only.split(",") if part]
    calls = other = explained = 0
    for op in entries():
        if only and not any(part in name_of(op) for part in only):
            continue
        try:
            count, found = differences(op, options.samples)
        except Exception as error:
            print("EXC", name_of(op), type(error).__name__, str(error)[:200])
            continue
        calls, other = calls + count, other + len(found)
        if name_of(op) in DIFFERENT:
            explained += len(found)
        else:
            print(*found, sep="\n", end="\n" if found else "")
    print(f"{calls} calls, {calls - other} with the CPU's strides, {explained} of the others explained")


if __name__ == "__main__":
    main()
