"""Scans against the CPU: every dtype, dimension and length class, NaN, and accuracy at ten million elements."""

import pytest
import torch

from tests import needs
from tests.device._compare import close, keeps_denormals
from webgpu_backend.runtime.gpu import gpu

SHAPES = [((5,), 0), ((3, 7), 1), ((3, 7), 0), ((2, 300, 5), 1), ((2, 3000), -1), ((70001,), 0), ((3, 5000, 2), 1)]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def sample(shape, dtype):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3
    return (x.abs() if dtype is torch.uint8 else x).to(dtype)


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_sums_and_products(shape, dim, adapter_class):
    x = sample(shape, torch.float32)
    g = x.to("webgpu")
    close(g.cumsum(dim), x.double().cumsum(dim).float(), 1e-3)
    close((1 + g * 0.01).cumprod(dim), (1 + x * 0.01).cumprod(dim), 1e-3)
    close(g.logcumsumexp(dim), x.logcumsumexp(dim))
    for dtype in INTEGERS:
        y = sample(shape, dtype)
        close(y.to("webgpu").cumsum(dim), y.cumsum(dim))
        close(y.to("webgpu").cumprod(dim), y.cumprod(dim))


@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("op", [torch.cummax, torch.cummin])
def test_extremes(op, shape, dim, adapter_class):
    for dtype in INTEGERS + FLOATS:
        x = sample(shape, dtype)
        if dtype.is_floating_point and x.numel() > 100:
            x.view(-1)[-50] = float("nan")
        close(op(x.to("webgpu"), dim), op(x, dim))


def test_int64_is_exact():
    x = torch.tensor([2**62, 2**61, 2**62, -(2**63), 7, -1])
    g = x.to("webgpu")
    close(g.cumsum(0), x.cumsum(0))
    close(g.cumprod(0), x.cumprod(0))
    close(g.cummax(0), x.cummax(0))


def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[-inf, 1.0, inf, 2.0], [nan, 1.0, inf, -inf], [-inf, -inf, -inf, 0.0]])
    g = x.to("webgpu")
    for op in (torch.cumsum, torch.cumprod, torch.logcumsumexp, torch.cummax, torch.cummin):
        close(op(g, 1), op(x, 1))
        close(op(g, 0), op(x, 0))


def test_low_precision_and_complex():
    for dtype in (torch.float16, torch.bfloat16):
        x = sample((4, 37), dtype)
        close(x.to("webgpu").cumsum(1), x.cumsum(1))
    c = torch.randn(3, 41, dtype=torch.complex64)
    close(c.to("webgpu").cumsum(1), c.cumsum(1))
    close(c.conj().to("webgpu").cumprod(0), c.conj().cumprod(0))
    close(c.to("webgpu").logcumsumexp(1), c.logcumsumexp(1))


def test_layouts_and_dtype_argument():
    x = sample((6, 9, 4), torch.float32)
    g = x.to("webgpu")
    close(g.transpose(0, 2)[1:, ::2].cumsum(1), x.transpose(0, 2)[1:, ::2].cumsum(1))
    close(g[:, :, 1].cummin(1), x[:, :, 1].cummin(1))
    close(g.int().cumsum(1, dtype=torch.int16), x.int().cumsum(1, dtype=torch.int16))
    close(g.cumsum(0, dtype=torch.int64), x.cumsum(0, dtype=torch.int64))
    close(g.half().cumsum(0, dtype=torch.float32), x.half().cumsum(0, dtype=torch.float32))
    close(torch.tensor(3.0, device="webgpu").cumsum(0), torch.tensor(3.0).cumsum(0))
    close(torch.empty(0, 3, device="webgpu").cummax(1), torch.empty(0, 3).cummax(1))
    out = torch.empty_like(g)
    assert torch.cumsum(g, 1, out=out) is out
    close(out, x.cumsum(1))
    with pytest.raises(IndexError, match="Dimension out of range"):
        g.cumsum(3)


def test_accurate_and_repeatable_at_ten_million(adapter_class):
    _at_ten_million(lambda t: t.cumsum(0))


def test_others_are_as_accurate():
    _at_ten_million(lambda t: t.logcumsumexp(0))
    if gpu().caps.f64:  # every factor adds a rounding
        _at_ten_million(lambda t: (1 + (t - 0.5) * 2**-10).cumprod(0))


def _at_ten_million(scan):
    x = (torch.rand(10_000_000, generator=torch.Generator().manual_seed(2)) * 1024).round() / 1024  # exact factors
    g = x.to("webgpu")
    found = scan(g).cpu()
    assert torch.equal(found, scan(g).cpu())
    del g
    torch.webgpu.empty_cache()  # a reference in float64 takes much memory, and so it is looked at in parts
    reference = scan(x.double())
    for got, exact in zip(found.split(1 << 20), reference.split(1 << 20)):
        assert ((got - exact) / exact.abs().clamp(min=1e-3)).abs().max() < 1e-5


@pytest.mark.parametrize("values", [[1e-40, 1e-40, float("inf")], [float("inf"), 1e-40, 2.0, 1e-40],
                                    [1e-20, 1e-20, 1e10, 1e30], [1e-40] * 3 + [1e38] * 3])  # fmt: skip
def test_products_that_leave_the_range_of_a_float_and_come_back(values):
    """The CPU multiplies in double precision."""
    if not gpu().caps.f64:
        needs.missing("float64 on this adapter")
    x = torch.tensor(values)
    wanted = x.cumprod(0)
    if not keeps_denormals() and (torch.cat([x, wanted]).abs() < torch.finfo(x.dtype).tiny).any():
        needs.missing("numbers below the normal ones on this adapter")
    torch.testing.assert_close(x.to("webgpu").cumprod(0).cpu(), wanted, rtol=1e-5, atol=0, equal_nan=True)
