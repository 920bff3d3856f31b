"""Floats of one byte: storage, casts, products with scales, as the CPU has them."""

import pytest
import torch
from torch.nn import functional as F

D = "webgpu"
KINDS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def same_bits(ours, theirs):
    assert ours.device.type == D and ours.dtype == theirs.dtype
    nan = theirs.float().isnan()
    assert torch.equal(ours.cpu().float().isnan(), nan)
    assert torch.equal(ours.cpu().view(torch.uint8)[~nan], theirs.view(torch.uint8)[~nan])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_code(kind):
    codes = torch.arange(256, dtype=torch.uint8).view(kind)
    for wide in (torch.float32, torch.float16, torch.bfloat16, torch.bool):
        got, wanted = codes.to(D).to(wide).cpu(), codes.to(wide)
        assert torch.equal(got.isnan() if wide != torch.bool else got, wanted.isnan() if wide != torch.bool else wanted)
        known = ~wanted.isnan() if wide != torch.bool else wanted
        assert torch.equal(got[known], wanted[known]) and torch.equal(got[known].signbit(), wanted[known].signbit())
    finite = codes[codes.float().isfinite()]
    assert torch.equal(finite.to(D).to(torch.int64).cpu(), finite.to(torch.int64))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rounding(kind):
    """To nearest even, with halves between all neighbours, least numbers, and what is too large."""
    codes = torch.arange(256, dtype=torch.uint8).view(kind).float()
    known = codes[codes.isfinite()].unique()
    halves = (known[1:] + known[:-1]) / 2
    close = torch.cat([halves.nextafter(torch.tensor(9e9)), halves.nextafter(torch.tensor(-9e9))])
    edge = torch.tensor([0.0, -0.0, 448, 449, 464, 465, 480, 57344, 61439, 61440, 65536, 240, 247, 248, 256, 1e9, 3e38,
                         float("inf"), float("nan"), 1e-8, 2.0**-18, 2.0**-17 * 1.01])  # fmt: skip
    x = torch.cat([known, halves, close, edge, -edge, torch.randn(999) * 30])
    same_bits(x.to(D).to(kind), x.to(kind))
    for narrow in (torch.float16, torch.bfloat16):
        same_bits(x.to(narrow).to(D).to(kind), x.to(narrow).to(kind))
    whole = torch.arange(-600, 600)
    same_bits(whole.to(D).to(kind), whole.to(kind))
    for other in KINDS:
        same_bits(x.to(kind).to(D).to(other), x.to(kind).to(other))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_storage(kind):
    x = torch.randn(7, 5).to(kind)
    y = x.to(D)
    same_bits(y.t().contiguous(), x.t().contiguous())
    same_bits(y[1:, ::2].clone(), x[1:, ::2].clone())
    same_bits(torch.cat([y, y[:3]]), torch.cat([x, x[:3]]))
    same_bits(y[torch.tensor([2, 0, 2], device=D)], x[[2, 0, 2]])
    same_bits(torch.full((3,), 2.7, dtype=kind, device=D), torch.full((3,), 2.7, dtype=kind))
    same_bits(torch.zeros(5, dtype=kind, device=D), torch.zeros(5, dtype=kind))
    z = torch.empty(7, 5, dtype=kind, device=D)
    same_bits(z.copy_(torch.randn(5).to(D).expand(7, 5) * 0 + 1), torch.ones(7, 5).to(kind))
    assert y[0, 0].item() == x[0, 0].item()


def test_nothing_is_computed_in_them():
    x = torch.randn(4).to(torch.float8_e4m3fn)
    for device in ("cpu", D):
        with pytest.raises(NotImplementedError):
            x.to(device) + x.to(device)
        with pytest.raises(NotImplementedError):
            x.to(device).sum()


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
@pytest.mark.parametrize("m, k, n", [(16, 32, 16), (1, 256, 48), (3, 7, 5), (40, 64, 33)])
def test_scaled_mm(kind, m, k, n, adapter_class):
    a, b = torch.randn(m, k).to(kind), torch.randn(n, k).to(torch.float8_e4m3fn).t()
    bias = torch.randn(n).to(torch.bfloat16)
    one, some = (torch.tensor(0.5), torch.tensor(3.0)), (torch.rand(m, 1), torch.rand(1, n))
    for scales, rest in ((one, {}), (some, {}), (some, {"bias": bias})):
        for dtype in (torch.float32, torch.bfloat16):
            wanted = (a.double() @ b.double()) * scales[0].double() * scales[1].double()
            wanted = wanted + rest["bias"].double() if rest else wanted
            moved = {name: t.to(D) for name, t in rest.items()}
            got = torch._scaled_mm(a.to(D), b.to(D), *[s.to(D) for s in scales], out_dtype=dtype, **moved)
            assert got.dtype == dtype
            torch.testing.assert_close(got.cpu().double(), wanted, rtol=2.0**-8, atol=1e-2)
            recipe = F.ScalingType.TensorWise if scales is one else F.ScalingType.RowWise
            scale_a, scale_b = (s.to(D) for s in scales)
            same = F.scaled_mm(a.to(D), b.to(D), scale_a, recipe, scale_b, recipe, output_dtype=dtype, **moved)
            assert torch.equal(same, got)
    got = torch._scaled_mm(a.to(D), b.to(D), *[s.to(D) for s in one])
    assert got.dtype == kind
    with pytest.raises(RuntimeError, match="scal"):
        torch._scaled_mm(a.to(D), b.to(D), torch.rand(m + 1, device=D), torch.rand(n, device=D))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_code_is_compared_with_every_other(kind):
    codes = torch.arange(256, dtype=torch.uint8).view(kind)
    x, y = codes[:, None].expand(256, 256).contiguous(), codes.expand(256, 256)
    for compare in (torch.eq, torch.ne):
        got = compare(x.to(D), y.contiguous().to(D))
        assert got.device.type == D and torch.equal(got.cpu(), compare(x, y))
    torch.testing.assert_close(codes[:100].to(D), codes[:100].to(D), rtol=0, atol=0)
    with pytest.raises(NotImplementedError):
        torch.lt(codes.to(D), codes.to(D))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_compiled_casts(kind, compiled_by_inductor):
    """Read, rounded within a kernel, and written; bits as bytes and back."""
    x = torch.cat([torch.randn(300) * 100, torch.tensor([0.0, -0.0, 1e9, -1e9, torch.inf, torch.nan, 2.0**-18, 465])])

    def f(x, codes, scale):
        there = (x * scale).to(kind)
        return there, there.float() - x, codes.to(torch.float16) * scale.half(), codes.view(torch.uint8) + 1, there.t()

    compiled = torch.compile(f)
    for shape in ((4, 77), (28, 11)):
        y, codes, scale = x.view(shape), torch.arange(shape[1], dtype=torch.uint8).view(kind), torch.rand(shape[1])
        wanted, got = f(y, codes, scale), compiled(y.to(D), codes.to(D), scale.to(D))
        same_bits(got[0], wanted[0])
        same_bits(got[4], wanted[4])
        for ours, theirs in zip(got[1:4], wanted[1:4]):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=0, atol=0, equal_nan=True)


def test_compiled_products_with_weights_of_a_byte(compiled_by_inductor):
    w, s, x = torch.randn(24, 32).to(KINDS[0]), torch.rand(24, 1).half(), torch.randn(5, 32).half()

    def f(w, s, x):
        return x @ (w.to(torch.float16) * s).t()

    got = torch.compile(f)(w.to(D), s.to(D), x.to(D))
    torch.testing.assert_close(got.cpu(), f(w, s, x), rtol=2e-3, atol=2e-2)
