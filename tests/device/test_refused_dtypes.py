"""Dtypes that the CPU refuses are refused, of tensors without elements too."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import BinaryUfuncInfo, UnaryUfuncInfo, op_db

from tests import needs
from tests.device._compare import D, both
from webgpu_backend.runtime.gpu import gpu

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool,
          torch.complex64, torch.complex128]  # fmt: skip
NARROWER = [d for d in DTYPES if d not in (torch.float64, torch.complex128)]
NARROW = (torch.float16, torch.bfloat16)
OPERATORS = [op for op in op_db if isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo)) and "jiterator" not in op.name]


def takes(call) -> bool:
    try:
        call()
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("op", OPERATORS, ids=[op.full_name for op in OPERATORS])
def test_without_elements(op):
    """Some special functions have 16-bit kernels that the CPU has not."""
    if op.name in ("float_power", "double", "cdouble"):  # whose results are
        needs.feature("f64")
    count = 2 if isinstance(op, BinaryUfuncInfo) else 1
    for function in filter(None, (op.op, op.inplace_variant)):
        for dtype in DTYPES if gpu().caps.f64 else NARROWER:
            args = [torch.empty(0, dtype=dtype) for _ in range(count)]
            theirs, ours = (takes(lambda: function(*[x.to(d) for x in args])) for d in ("cpu", D))
            assert ours == theirs or (ours and dtype in NARROW), (dtype, function, theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.logaddexp(torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, device=d)),
        lambda d: torch.logaddexp2(torch.ones(2, device=d), torch.ones(2, dtype=torch.int32, device=d)),
        lambda d: torch.igamma(torch.ones(2, dtype=torch.int64, device=d), torch.ones(2, device=d)),
        lambda d: torch.special.xlog1py(torch.ones(2, dtype=torch.int32, device=d), 2),
        lambda d: torch.ones(2, dtype=torch.bool, device=d) ** 2,
        lambda d: torch.ones(2, dtype=torch.bool, device=d) ** torch.ones(2, dtype=torch.uint8, device=d),
    ],
)
def test_what_the_inputs_have_in_common_counts(call):
    both(call)


@pytest.mark.parametrize("function", [torch.logaddexp, torch.logaddexp2, torch.igamma, torch.igammac, torch.pow])
def test_of_whole_numbers(function):
    dtype = torch.bool if function is torch.pow else torch.int32
    for device in ("cpu", D):
        x = torch.ones(3, dtype=dtype, device=device)
        with pytest.raises(NotImplementedError, match="not implemented for '(Bool|Int)'"):
            function(x, x)


@pytest.mark.parametrize("sizes", [((0, 3), (3, 2)), ((2, 0), (0, 2)), ((2, 3), (3, 0))], ids=str)
def test_products_of_no_booleans(sizes):
    """Which the CPU takes, though it has no kernel for others."""

    def run(d):
        a, b = (torch.ones(s, dtype=torch.bool, device=d) for s in sizes)
        return a @ b, torch.bmm(a[None], b[None]), torch.tensordot(a, b, 1)

    both(run)
    for device in ("cpu", D):
        nothing = torch.ones(0, dtype=torch.bool, device=device)
        with pytest.raises(NotImplementedError, match="\"dot\" not implemented for 'Bool'"):
            torch.dot(nothing, nothing)
