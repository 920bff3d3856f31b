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
DIFFERENT: dict[str, str] = {
    "nn.functional.conv_transpose3d": "the CPU keeps channels_last with oneDNN's kernel and loses it with its own",
    "nn.functional.max_unpool2d": "torch's decomposition, which scatters into a new tensor",
    "nn.functional.max_unpool2d.grad": "torch's decomposition, which scatters into a new tensor",
    "stack": "the CPU joins images in channels_last by rows, or for some dimensions in neither order",
}


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
    return [_of(t) for t in tree_leaves(result) if isinstance(t, torch.Tensor)]


def _of(t: torch.Tensor) -> tuple:
    """Sizes and strides; the stride of a dimension of one element, or of no elements, says nothing."""
    return tuple(t.shape), tuple([0 if s == 1 or not t.numel() else st for s, st in zip(t.shape, t.stride())])


def _leaves(sample) -> list:
    return tree_leaves((sample.input, sample.args, sample.kwargs))


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
    return [op for op in database() if torch.float32 in op.dtypes and not op.name.startswith("jiterator")]  # CUDA's


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
        count, found = differences(op, options.samples)
        calls, other = calls + count, other + len(found)
        if name_of(op) in DIFFERENT:
            explained += len(found)
        else:
            print(*found, sep="\n", end="\n" if found else "")
    print(f"{calls} calls, {calls - other} with the CPU's strides, {explained} of the others explained")


if __name__ == "__main__":
    main()
