"""Few rows times quantised weights by matrix units: weights are rounded to f16, and sums are float32's."""

import pytest
import torch

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.kernels.matmul import few_units
from webgpu_backend.kernels.matmul.few_units import Lay
from webgpu_backend.ops.quantized import codecs
from webgpu_backend.plan import cache, caps

D = "webgpu"
DTYPES = [torch.float16, torch.bfloat16]
EXACT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
linear = torch.ops.webgpu_backend.linear_blocks


@pytest.fixture(autouse=True)
def few_rows_by_units(adapter_of, monkeypatch):
    needs.feature("matrix")
    adapter_of(kind="gpu")
    monkeypatch.setattr(few_units, "LEAST", dict.fromkeys(few_units.LEAST, 2))
    torch.manual_seed(0)


def by_units(call) -> torch.Tensor:
    made = []
    kernels = kernels_of(lambda: made.append(call()))
    assert "_units_v" in kernels[-1], kernels
    return made[0]


def near(got, x, weight, bias=None):
    """Within a rounding of the result and float32's of the sum; one weight may lie between two numbers of f16."""
    x, weight = x.double(), weight.half().double()
    wanted, size = x @ weight.t(), x.abs() @ weight.abs().t()
    if bias is not None:
        wanted += bias.double()
    allowed = EXACT[got.dtype] * wanted.abs() + 4e-6 * size + 2.0**-11 * weight.abs().amax() * x.abs().amax(-1, True)
    assert got.shape == wanted.shape and got.device.type == D
    assert ((got.cpu().double() - wanted).abs() <= allowed).all()


def blocks(format: str, n: int, k: int):
    made = codecs.quantised(torch.randn(n, k), format)
    return *(t.to(D) for t in made), codecs.dequantised(*made, format)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", codecs.BYTES)
def test_formats(format, dtype):
    """Rows that are no power of two, columns that end within a tile, k that ends within a step."""
    for m, n, k in ((2, 40, 256), (5, 7, 512), (8, 130, 2304), (3, 24, 768)):
        codes, scales, weight = blocks(format, n, k)
        x, bias = torch.randn(m, k).to(dtype), torch.randn(n).to(dtype)
        near(by_units(lambda: linear(x.to(D), codes, scales, bias.to(D), format)), x, weight, bias)
        near(by_units(lambda: linear(x[:2].to(D), codes, scales, None, format)), x[:2], weight)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_one_scale_and_groups_with_zeros(dtype):
    for m, n, k in ((2, 24, 32), (7, 40, 96), (8, 9, 1056)):
        codes, scales = torch.randint(-128, 128, (n, k), dtype=torch.int8), torch.rand(n).to(dtype) - 0.5
        x = torch.randn(m, k).to(dtype)
        weight = codes.double() * scales.double()[:, None]
        near(by_units(lambda: torch._weight_int8pack_mm(x.to(D), codes.to(D), scales.to(D))), x, weight)
    for m, n, group in ((3, 40, 32), (8, 16, 128)):
        codes, pairs = torch.randint(0, 16, (n, 512), dtype=torch.int32), torch.randn(512 // group, n, 2).to(dtype)
        scale, zero = (pairs[..., i].t()[..., None].double() for i in (0, 1))
        weight = ((codes.double() - 8).view(n, -1, group) * scale + zero).view(n, 512)
        packed = torch._convert_weight_to_int4pack((codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8).to(D), 2)
        x = torch.randn(m, 512).to(dtype)
        near(by_units(lambda: torch._weight_int4pack_mm(x.to(D), packed, group, pairs.to(D))), x, weight)


LAYS = [Lay(*x) for x in ((1, 1, 1), (1, 2, 4), (3, 1, 2), (2, 4, 1), (3, 4, 4))]


@pytest.mark.parametrize("lay", LAYS, ids=lambda x: "x".join(map(str, x)))
def test_lays(lay, monkeypatch):
    monkeypatch.setattr(few_units, "LAYS", (lay,))
    cache.clear()
    if not few_units.fits(lay, 8, caps()):
        needs.missing("this adapter has no room for so many subgroups")
    for format, m, n, k in (("q6_k", 6, 70, 1280), ("q8_0", 2, 19, 416), ("q4_0", 8, 33, 32)):
        codes, scales, weight = blocks(format, n, k)
        x = torch.randn(m, k).half()
        near(by_units(lambda: linear(x.to(D), codes, scales, None, format)), x, weight)


def test_who_is_served():
    codes, scales, _ = blocks("q4_k", 40, 256)
    for dtype, m in ((torch.float16, 1), (torch.float16, 9), (torch.float32, 4), (torch.float16, 4)):
        x = torch.randn(m, 256, device=D).to(dtype)
        served = "_units_v" in kernels_of(lambda: linear(x, codes, scales, None, "q4_k"))[-1]
        assert served == (m == 4 and dtype is torch.float16)


def test_rows_apart_and_weights_within_others():
    codes, scales, weight = blocks("q8_0", 60, 256)
    x = torch.randn(9, 520).half()
    there = x.to(D)
    for row, col, first, last in ((slice(1, None, 2), 4, 7, 44), (slice(3), 5, 3, 60)):
        taken, some, steps = (row, slice(col, col + 256)), codes[first:last], scales[first:last]
        near(by_units(lambda: linear(there[taken], some, steps, None, "q8_0")), x[taken], weight[first:last])


@pytest.mark.parametrize("format", ["q4_k", "q8_0"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_odd_values(format, dtype):
    """Infinities and NaN come out where they should; rows of very small and very large numbers keep theirs."""
    codes, scales, weight = blocks(format, 70, 512)
    x = torch.randn(8, 512).to(dtype)
    x[0, 40], x[1, 3], x[2, 70], x[2, 71] = torch.inf, -torch.inf, torch.inf, torch.nan
    x[3] *= 2.0**-14 if dtype is torch.float16 else 2.0**-90
    x[4] = torch.where(x[4] > 0, 6e4 if dtype is torch.float16 else 1e30, x[4])
    x[5] = 0
    got = by_units(lambda: linear(x.to(D), codes, scales, None, format))
    for row, place in ((0, 40), (1, 3)):
        wanted = x[row, place].double() * weight[:, place].double()
        there = weight[:, place] != 0
        assert (wanted[there] == got.cpu()[row, there].double()).all()
        assert got.cpu()[row, ~there].isnan().all()
    assert got[2].isnan().all() and not got[5].any()
    near(got[[3, 5, 6, 7]], x[[3, 5, 6, 7]], weight)
    large, most = x[4].double() @ weight.double().t(), torch.finfo(dtype).max
    assert got.cpu()[4, large.abs() > 1.01 * most].isinf().all()
    finite = large.abs() < 0.99 * most
    assert (got.cpu()[4].double() - large)[finite].abs().max() <= 0.01 * large.abs().max()


def test_results_repeat():
    codes, scales, _ = blocks("q4_k", 300, 2048)
    x = torch.randn(8, 2048, device=D).half()
    first = linear(x, codes, scales, None, "q4_k")
    assert all(torch.equal(first, linear(x, codes, scales, None, "q4_k")) for _ in range(3))
    assert torch.equal(first[:5], linear(x[:5], codes, scales, None, "q4_k"))  # nor does a row depend on the others
