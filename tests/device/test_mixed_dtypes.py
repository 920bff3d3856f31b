"""Operands of several dtypes: refused where the CPU refuses them, and its dtype where it does not."""

import pytest
import torch
import torch.nn.functional as F

from tests.device._compare import D, close

OTHERS = [torch.float64, torch.float16, torch.int64, torch.int32, torch.bool, torch.complex64]


def same_answer(call):
    """The result of the CPU, or its type of error and its words."""
    found = []
    for device in ("cpu", D):
        try:
            found.append(call(device))
        except (RuntimeError, NotImplementedError) as error:
            found.append((type(error), str(error)))
    theirs, ours = found
    if isinstance(theirs, tuple) or isinstance(ours, tuple):
        assert ours == theirs
    elif isinstance(theirs, bool):
        assert ours is theirs
    else:
        close(ours, theirs, 1e-3)


def positive(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1


# Each a function of a tensor [3, 3] of the dtype and one of float32.
CALLS = {
    "linear_bias": lambda x, f: F.linear(f, f, x[0]),
    "linear_bias_3d": lambda x, f: F.linear(f[None], f, x[0]),
    "linear_bias_4d": lambda x, f: F.linear(f[None, None], f, x[0]),
    "linear_weight": lambda x, f: F.linear(f, x, f[0]),
    "mm": lambda x, f: x @ f,
    "addmm": lambda x, f: torch.addmm(x, f, f),
    "addmm_last": lambda x, f: torch.addmm(f, f, x),
    "bmm": lambda x, f: torch.bmm(f[None], x[None]),
    "baddbmm": lambda x, f: torch.baddbmm(x[None], f[None], f[None]),
    "mv": lambda x, f: torch.mv(x, f[0]),
    "dot": lambda x, f: torch.dot(x[0], f[0]),
    "cross": lambda x, f: torch.linalg.cross(x, f),
    "cross_alike": lambda x, f: torch.linalg.cross(x, x),
    "equal": lambda x, f: torch.equal(x, f),
    "equal_ones": lambda x, f: torch.equal(torch.ones_like(x), torch.ones_like(f)),
    "cdist": lambda x, f: torch.cdist(x, f[:0]),
    "bce_target": lambda x, f: F.binary_cross_entropy(f, x),
    "bce_input": lambda x, f: F.binary_cross_entropy(x, f),
    "bce_alike": lambda x, f: F.binary_cross_entropy(x, x),
    "bce_weight": lambda x, f: F.binary_cross_entropy(f, f, x),
    "bce_weights": lambda x, f: F.binary_cross_entropy(f, f, x, reduction="none"),
    "bce_wide_weight": lambda x, f: torch.ops.aten.binary_cross_entropy(f, f, x[None]),
}


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_beside_float32(name, dtype):
    f = positive(3, 3)
    x = f.to(dtype)
    same_answer(lambda d: CALLS[name](x.to(d), f.to(d)))


def test_distances_have_a_number_for_a_norm():
    for device in ("cpu", D):
        with pytest.raises(RuntimeError, match="only supports non-negative p"):
            torch.cdist(positive(3, 3).to(device), positive(3, 3).to(device), float("nan"))
