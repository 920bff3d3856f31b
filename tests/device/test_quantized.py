"""Weights of few bits: PyTorch's operators and GGUF's formats, against the product of the weights as numbers."""

import dataclasses
from functools import cache as cache_of_a_call
from itertools import product

import pytest
import torch

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.kernels.matmul import digits, tiles
from webgpu_backend.ops.quantized import codecs
from webgpu_backend.plan import cache
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
EXACT = {torch.float32: 2.0**-20, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# rows, k, columns: one row, the most that decode takes, tiles; columns that end within a tile; k of one piece
SHAPES = [(1, 256, 40), (5, 96, 24), (8, 1024, 8), (70, 160, 72), (0, 64, 8), (3, 32, 16)]
ours = torch.ops.webgpu_backend


@pytest.fixture(params=["own", "gpu", "memory"])
def adapter(request, adapter_of):
    """The adapter's own kernels, those of a GPU, and those without subgroups."""
    if request.param == "gpu":
        needs.feature("subgroups")
    if request.param != "own":
        adapter_of(kind="gpu", subgroups=request.param == "gpu")
    torch.manual_seed(0)
    return request.param


def near(got, x, weight, bias=None):
    """Sums are in f32: within a rounding of the result, and f32's of the sum of magnitudes. Few rows of two bytes may
    be rounded to 15 bits before, relative to the largest of 32, and weights to f16 where matrix units multiply."""
    x, weight = x.double(), weight.double()
    added = 0 if bias is None else bias.double()
    wanted, size = x @ weight.t() + added, x.abs() @ weight.abs().t()
    allowed = EXACT[got.dtype] * wanted.abs() + 2e-6 * size
    if got.dtype is not torch.float32 and x.shape[-1] % 32 == 0:
        most = x.abs().unflatten(-1, (-1, 32)).amax(-1, keepdim=True).expand(*x.shape[:-1], -1, 32).flatten(-2)
        allowed += most @ weight.abs().t() / (2 * 127 * 257)
    if got.dtype is not torch.float32 and gpu().caps.matrix:
        allowed += 2.0**-12 * size
    assert got.shape == wanted.shape and got.device.type == D
    assert ((got.cpu().double() - wanted).abs() <= allowed).all()


def int8(n, k, dtype):
    return torch.randint(-128, 128, (n, k), dtype=torch.int8), torch.rand(n).to(dtype) - 0.5


def int4(n, k, group, dtype):
    """Codes, the bytes they are given in, scales and zeros, the weights."""
    codes = torch.randint(0, 16, (n, k), dtype=torch.int32)
    pairs = torch.randn(k // group, n, 2).to(dtype)
    scale, zero = (pairs[..., i].t()[..., None].double() for i in (0, 1))
    weight = ((codes.double() - 8).view(n, -1, group) * scale + zero).view(n, k)
    return (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8), pairs, weight


@pytest.mark.parametrize("dtype, shape", [*product(FLOATS[:1], SHAPES), *product(FLOATS[1:], SHAPES[1:4:2])], ids=str)
def test_int8_by_rows(adapter, dtype, shape):
    m, k, n = shape
    x = torch.randn(m, k).to(dtype)
    codes, scales = int8(n, k, dtype)
    got = torch._weight_int8pack_mm(x.to(D), codes.to(D), scales.to(D))
    near(got, x, codes.double() * scales.double()[:, None])


@pytest.mark.parametrize("m, k, n", [(3, 63, 7), (1, 1, 1), (9, 100, 33), (2, 0, 5)])
def test_int8_of_odd_sizes(m, k, n):
    x = torch.randn(m, k)
    codes, scales = int8(n, k, torch.float32)
    near(torch._weight_int8pack_mm(x.to(D), codes.to(D), scales.to(D)), x, codes.double() * scales.double()[:, None])


@pytest.mark.parametrize(
    "dtype, group", [*product(FLOATS[:1], (32, 64, 128, 256)), (FLOATS[1], 32), (FLOATS[2], 128)], ids=str
)
def test_int4_by_groups(adapter, dtype, group):
    for m, n in ((1, 40), (7, 8), (33, 72))[group % 64 // 32 :]:
        x = torch.randn(m, 512).to(dtype)
        given, pairs, weight = int4(n, 512, group, dtype)
        packed = torch._convert_weight_to_int4pack(given.to(D), 4)
        assert packed.shape == (n // 8, 512 // 64, 32, 2) and packed.dtype == torch.int32
        near(torch._weight_int4pack_mm(x.to(D), packed, group, pairs.to(D)), x, weight)


def test_int4_has_the_shapes_of_every_inner_tiling():
    given, pairs, weight = int4(16, 256, 32, torch.float32)
    x = torch.randn(2, 256)
    for tiles_of_k in (2, 4, 8):
        packed = torch._convert_weight_to_int4pack(given.to(D), tiles_of_k)
        assert packed.shape == (2, 256 // (16 * tiles_of_k), 32, tiles_of_k // 2)
        near(torch._weight_int4pack_mm(x.to(D), packed, 32, pairs.to(D)), x, weight)


def test_operands_as_they_lie():
    """Rows apart, operands that start anywhere in their storage, activations turned."""
    codes, scales = int8(24, 64, torch.float32)
    store = torch.zeros(3 + 24 * 64, dtype=torch.int8, device=D)
    moved = store[3:].view(24, 64).copy_(codes)
    x = torch.randn(5, 130)
    weight = codes.double() * scales.double()[:, None]
    near(torch._weight_int8pack_mm(x.to(D)[:, 66:], moved, scales.to(D)), x[:, 66:], weight)
    near(torch._weight_int8pack_mm(x.to(D)[1:, 1:65], moved, scales.to(D).repeat(2)[24:]), x[1:, 1:65], weight)
    given, pairs, weight = int4(24, 64, 32, torch.float32)
    packed = torch._convert_weight_to_int4pack(given.to(D), 2)
    turned = pairs.permute(2, 1, 0).contiguous().to(D).permute(2, 1, 0)
    near(torch._weight_int4pack_mm(x.to(D)[:, :64].t().contiguous().t(), packed, 32, turned), x[:, :64], weight)


@pytest.mark.parametrize("bad, said", [
    (lambda x, w, s: torch._weight_int8pack_mm(x, w.float(), s), "expect B to be int8"),
    (lambda x, w, s: torch._weight_int8pack_mm(x, w, s[:3]), "expect scales to be 1d tensor with size 8"),
    (lambda x, w, s: torch._weight_int8pack_mm(x[:, :32], w, s), "expect B.size"),
    (lambda x, w, s: torch._weight_int8pack_mm(x.int(), w, s), "expect A to be either"),
    (lambda x, w, s: torch._convert_weight_to_int4pack(w.view(torch.uint8)[:7], 2), "expect N to be dividable by 8"),
    (lambda x, w, s: torch._convert_weight_to_int4pack(w.view(torch.uint8), 3), "innerKTiles need to be 2, 4, or 8"),
    (lambda x, w, s: torch._weight_int4pack_mm(x, w.view(torch.int32).view(1, 2, 32, 2), 48, s), "32, 64, 128 or 256"),
    (lambda x, w, s: torch._weight_int4pack_mm(x, w.view(torch.int32).view(1, 4, 32, 1), 32, s), "expect A.size"),
    (lambda x, w, s: torch._int_mm(w, w), "needs to match"),
    (lambda x, w, s: torch._int_mm(x, w.t()), "to be int8 or uint8"),
])  # fmt: skip
def test_errors(bad, said):
    x, (codes, scales) = torch.randn(2, 64), int8(8, 64, torch.float32)
    with pytest.raises(RuntimeError, match=said):
        bad(x.to(D), codes.to(D), scales.to(D))


@pytest.mark.parametrize("m, k, n", [(17, 24, 9), (3, 7, 5), (1, 4096, 3), (40, 130, 70), (4, 0, 3), (0, 4, 4)])
def test_int_mm(adapter, m, k, n):
    a, b = torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (k, n), dtype=torch.int8)
    wanted = torch._int_mm(a, b)
    for left, right in ((a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t())):
        got = torch._int_mm(left.to(D), right.to(D))
        assert got.dtype == torch.int32 and torch.equal(got.cpu(), wanted)
    unsigned = a.view(torch.uint8)
    assert torch.equal(torch._int_mm(unsigned.to(D), b.to(D)).cpu(), unsigned.int() @ b.int())


# -- GGUF's formats


def random_blocks(format: str, n: int, blocks: int) -> torch.Tensor:
    """Rows of a file's bytes: anything but the halves, which are finite."""
    raw = torch.randint(0, 256, (n, blocks, codecs.BYTES[format]), dtype=torch.uint8)
    for place in {"q8_0": [0], "q4_0": [0], "q4_k": [0, 2], "q6_k": [208]}[format]:
        raw[..., place : place + 2] = torch.randn(n, blocks).to(torch.float16).view(n, blocks, 1).view(torch.uint8)
    return raw.view(n, -1)


def reference(raw: torch.Tensor, format: str) -> torch.Tensor:
    """What the package of the format's authors makes of a file's bytes."""
    gguf = needs.package("gguf")
    return torch.from_numpy(gguf.quants.dequantize(raw.numpy(), gguf.GGMLQuantizationType[format.upper()]))


@pytest.mark.parametrize("format", codecs.BYTES)
def test_blocks_are_those_of_the_published_layouts(format):
    raw = random_blocks(format, 7, 4)
    codes, scales = codecs.from_blocks(raw, format)
    wanted = reference(raw, format)
    assert torch.equal(codecs.dequantised(codes, scales, format), wanted)
    got = ours.weights_of_blocks(codes.to(D), scales.to(D), format, torch.float32)
    assert torch.equal(got.cpu(), wanted)
    here = codecs.from_blocks(raw.to(D), format)  # taken apart on the device
    assert all(torch.equal(a.cpu(), b) for a, b in zip(here, (codes, scales)))


@cache_of_a_call
def some_weights(format: str):
    """Codes, scales and the weights that they are, [70, 512] or [70, 192]."""
    torch.manual_seed(1)
    made = codecs.quantised(torch.randn(70, 512 if "k" in format else 192), format)
    return *made, codecs.dequantised(*made, format)


NARROW = {"q8_0": torch.bfloat16, "q4_0": torch.float16, "q4_k": torch.float16, "q6_k": torch.bfloat16}


@pytest.mark.parametrize("format, dtype", [*product(codecs.BYTES, FLOATS[:1]), *NARROW.items()], ids=str)
def test_products_with_blocks(adapter, format, dtype):
    for m, n in ((1, 37), (8, 5), (50, 70)):
        codes, scales, weight = (t[:n] for t in some_weights(format))
        k = weight.shape[1]
        x, bias = torch.randn(2, m, k).to(dtype), torch.randn(n).to(dtype)
        moved = codes.to(D), scales.to(D)
        near(ours.linear_blocks(x.to(D), *moved, bias.to(D), format), x, weight, bias)
        near(ours.linear_blocks(x[0].to(D), *moved, None, format), x[0], weight)


def test_kernels_of_decode_and_prefill(adapter_of):
    adapter_of(kind="gpu")
    codes, scales = (t.to(D) for t in some_weights("q4_k")[:2])
    for m, named in ((1, "_v1_"), (8, "_v8_"), (100, "x")):
        x = torch.randn(m, 512, device=D)
        found = kernels_of(lambda: ours.linear_blocks(x, codes, scales, None, "q4_k"))
        assert found[0].startswith("matmul_q4_k") and named in found[0], found


@pytest.fixture
def in_digits(adapter_of):
    """Kernels of a GPU that multiplies bytes by fours."""
    needs.feature("subgroups")
    adapter_of(kind="gpu", dots=True, matrix=0)
    torch.manual_seed(2)


def test_who_takes_digits(in_digits, adapter_of):
    """Activations of two bytes and codes that are whole numbers; not float32, which has more bits."""

    def kernel(dtype, format, **changes):
        adapter_of(**changes)
        codes, scales, weight = some_weights(format)
        x = torch.randn(1, weight.shape[1], device=D).to(dtype)
        return kernels_of(lambda: ours.linear_blocks(x, codes.to(D), scales.to(D), None, format))[-1]

    assert all("i32d" in kernel(dtype, "q4_k") for dtype in FLOATS[1:])
    assert "i32q" in kernel(torch.float32, "q4_k")
    assert "i32q" in kernel(torch.float16, "q4_k", dots=False)


@pytest.mark.parametrize("format, m, k, n, units, held", [
    ("q4_k", 1, 512, 333, 2, 40), ("q8_0", 3, 192, 300, 1, 40), ("q6_k", 5, 1024, 40, 132, 8),
    ("q4_0", 2, 16416, 5, 132, 8), ("q8_0", 7, 96, 260, 1, 8),
], ids=str)  # fmt: skip
def test_digits_of_many_tiles_and_long_rows(in_digits, monkeypatch, format, m, k, n, units, held):
    """A workgroup takes several tiles, the last of them short; rows longer than workgroup memory holds; parts of k."""
    monkeypatch.setattr(digits, "UNITS", units)
    monkeypatch.setattr(digits, "HELD", held << 10)
    made = codecs.quantised(torch.randn(n, k), format)
    x, bias = torch.randn(m, k).half() * torch.rand(k).half(), torch.randn(n).half()
    got = ours.linear_blocks(x.to(D), *(t.to(D) for t in made), bias.to(D), format)
    near(got, x, codecs.dequantised(*made, format), bias)


@pytest.mark.parametrize("format", ["q4_k", "q8_0"])
@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
def test_digits_of_odd_values(in_digits, format, dtype):
    """Infinities and NaN come out where they should, rows without them are what they are, and neither very small nor
    very large activations vanish."""
    codes, scales, weight = some_weights(format)
    x = torch.randn(6, weight.shape[1]).to(dtype)
    x[0, 40], x[1, 3], x[2, 70], x[2, 71] = torch.inf, -torch.inf, torch.inf, torch.nan
    x[3] *= torch.finfo(dtype).smallest_normal if dtype is torch.float16 else 1e-27
    x[3, :32] = 0
    x[4] = torch.where(x[4] > 0, 6e4 if dtype is torch.float16 else 1e30, x[4])
    got = ours.linear_blocks(x.to(D), codes.to(D), scales.to(D), None, format).cpu()
    for row, place in ((0, 40), (1, 3)):
        wanted = x[row, place].double() * weight[:, place].double()
        assert (wanted[weight[:, place] != 0] == got[row, weight[:, place] != 0].double()).all()
        assert not got[row].isfinite().any()
    assert got[2].isnan().all()
    for row in (3, 5):
        near(ours.linear_blocks(x[row:].to(D), codes.to(D), scales.to(D), None, format)[:1], x[row : row + 1], weight)
    large = x[4].double() @ weight.double().t()
    most = torch.finfo(dtype).max
    assert got[4, large.abs() > 1.01 * most].isinf().all()
    finite = large.abs() < 0.99 * most
    assert (got[4].double() - large)[finite].abs().max() <= 0.01 * large.abs().max()


@pytest.mark.parametrize("tile", tiles.GPU.tiles[1::2], ids=lambda t: f"{t.bm}x{t.bn}x{t.slices}")
def test_tiles_of_several_kinds(adapter_of, tile):
    adapter_of(kind="gpu", workgroup_bytes=48 << 10, workgroup_size=1024)
    if not tiles.fits(tile, gpu().caps):
        needs.missing("a tile of more workgroup memory than this adapter has")
    tiles.use(dataclasses.replace(tiles.GPU, tiles=(tile,)))
    try:
        codes, scales, weight = some_weights("q4_k")
        x = torch.randn(40, 512)
        near(ours.linear_blocks(x.to(D), codes.to(D), scales.to(D), None, "q4_k"), x, weight)
    finally:
        tiles.use(None)


# The relative error of a format, of weights that are normally distributed: not much above what the format allows.
ERRORS = {"q8_0": 0.006, "q4_0": 0.09, "q4_k": 0.075, "q6_k": 0.019}


@pytest.mark.parametrize("format", codecs.BYTES)
def test_quantising(format):
    weight = torch.randn(12, 512) * torch.rand(12, 1)
    made = codecs.quantised(weight, format)
    error = (codecs.dequantised(*made, format) - weight).square().mean() / weight.square().mean()
    assert error.sqrt() < ERRORS[format]
    here = codecs.dequantised(*[t.cpu() for t in codecs.quantised(weight.to(D), format)], format)
    assert (here - weight).square().mean().sqrt() < ERRORS[format] * weight.square().mean().sqrt()
    for even in (0.0, 1.0, -3.0):  # rows without a span, or of one sign
        flat = codecs.dequantised(*codecs.quantised(torch.full((2, 256), even), format), format)
        torch.testing.assert_close(flat, torch.full((2, 256), even), rtol=0.02, atol=0)


def test_blocks_on_the_cpu_and_their_gradients():
    codes, scales = codecs.quantised(torch.randn(9, 256), "q6_k")
    x, bias, grad = torch.randn(2, 3, 256), torch.randn(9), torch.randn(2, 3, 9)
    results = []
    for device in ("cpu", D):
        given = [t.clone().to(device).requires_grad_() for t in (x, bias)]
        out = ours.linear_blocks(given[0], codes.to(device), scales.to(device), given[1], "q6_k")
        out.backward(grad.to(device))
        results.append([out.detach().cpu(), *[t.grad.cpu() for t in given]])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("format", codecs.BYTES)
def test_rows_of_a_table(format, monkeypatch):
    torch.manual_seed(0)
    codes, scales = codecs.quantised(torch.randn(37, 256), format)
    there = codes.to(D), scales.to(D)
    whole = ours.weights_of_blocks(codes, scales, format, torch.float32)
    for dtype, index in product(FLOATS, (torch.tensor([36, 0, 5, 5]), torch.arange(30, dtype=torch.int32)[1::3])):
        wanted = whole[index.long()].to(dtype)
        given = index.to(D) if index.is_contiguous() else torch.arange(30, dtype=torch.int32, device=D)[1::3]
        for found in (
            ours.rows_of_blocks(given, *there, format, dtype),
            ours.rows_of_blocks(index, codes, scales, format, dtype),
        ):
            torch.testing.assert_close(found.cpu(), wanted, rtol=2 * EXACT[dtype], atol=1e-6)
    assert kernels_of(lambda: ours.rows_of_blocks(given, *there, format, torch.float16))[-1].startswith(
        "dequantise_rows"
    )
    nothing = ours.rows_of_blocks(torch.empty(0, dtype=torch.int64, device=D), *there, format, torch.float32)
    assert nothing.shape == (0, 256)
    monkeypatch.setattr(gpu(), "caps", dataclasses.replace(gpu().caps, max_binding=codes.nbytes // 2 // 256 * 256))
    cache.clear()
    found = ours.rows_of_blocks(torch.tensor([36, 0], device=D), *there, format, torch.float32)
    torch.testing.assert_close(found.cpu(), whole[[36, 0]], rtol=1e-5, atol=1e-6)


def test_bad_rows_of_a_table():
    codes, scales = codecs.quantised(torch.randn(8, 32), "q4_0")
    for bad in (torch.tensor([8]), torch.tensor([-1], dtype=torch.int32)):
        with pytest.raises(IndexError, match=f"index {int(bad)} is out of bounds for dimension 0 with size 8"):
            ours.rows_of_blocks(bad.to(D), codes.to(D), scales.to(D), "q4_0", torch.float32).cpu()
    with pytest.raises(RuntimeError, match="expected one dimension of Long or Int"):
        ours.rows_of_blocks(
            torch.tensor([1], dtype=torch.int16).to(D), codes.to(D), scales.to(D), "q4_0", torch.float32
        )


@pytest.mark.parametrize("format", ["q4_k", "q6_k", "q8_0", "int8", "int4"])
def test_weights_larger_than_a_binding(monkeypatch, format):
    n, k = 264, 512
    x = torch.randn(3, k)
    if format == "int8":
        codes, scales = int8(n, k, torch.float32)
        call = lambda x, c, s: torch._weight_int8pack_mm(x, c, s)  # noqa: E731
        weight = codes.double() * scales.double()[:, None]
    elif format == "int4":
        codes, scales, weight = int4(n, k, 64, torch.float32)
        call = lambda x, c, s: torch._weight_int4pack_mm(x, torch._convert_weight_to_int4pack(c, 4), 64, s)  # noqa: E731
    else:
        codes, scales = codecs.quantised(torch.randn(24, k), format)
        codes, scales = codes.repeat(11, 1), scales.repeat(11, 1)
        call = lambda x, c, s: ours.linear_blocks(x, c, s, None, format)  # noqa: E731
        weight = codecs.dequantised(codes, scales, format)
    own = gpu().caps
    limited = dataclasses.replace(own, max_binding=1 << 15)
    moved = x.to(D), codes.to(D), scales.to(D)
    for owner in (gpu(), gpu().queue):
        monkeypatch.setattr(owner, "caps", limited)
    cache.clear()
    try:
        near(call(*moved), x, weight)
    finally:
        cache.clear()


# rows, k, columns, block
DYNAMIC = [
    (1, 32, 8, 32),
    (5, 96, 7, 96),
    (3, 128, 16, 32),
    (9, 192, 5, 96),
    (70, 256, 24, 64),
    (0, 64, 8, 64),
    (2, 34, 3, 34),
]


@pytest.mark.parametrize("shape", DYNAMIC, ids=str)
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
def test_dynamic_activations(adapter, shape, biased):
    m, k, n, block = shape
    scales = torch.rand(n, k // block) if block == k else torch.rand(n, k // block, dtype=torch.bfloat16)
    given = (
        torch.randint(0, 256, (n, k // 2), dtype=torch.uint8), scales, torch.randn(n) if biased else None, block, k, n
    )  # fmt: skip
    packed = torch.ops.aten._dyn_quant_pack_4bit_weight(*given)
    ours = torch.ops.aten._dyn_quant_pack_4bit_weight(*[t.to(D) if isinstance(t, torch.Tensor) else t for t in given])
    assert torch.equal(ours.cpu(), packed)
    x = torch.randn(m, k) * 3 + 0.5
    if m > 2:
        x[1], x[2] = 0, x[2].abs()
    for dtype in [torch.float32, *([torch.bfloat16] if block == k else [])]:
        wanted = torch.ops.aten._dyn_quant_matmul_4bit(x.to(dtype), packed, block, k, n)
        got = torch.ops.aten._dyn_quant_matmul_4bit(x.to(dtype).to(D), ours, block, k, n)
        assert got.dtype is dtype
        size = wanted.abs().max().item() if m else 0.0
        torch.testing.assert_close(got.cpu(), wanted, rtol=0, atol=size * (2e-6 if dtype is torch.float32 else 1e-2))
    with pytest.raises(RuntimeError, match="float32 or bfloat16"):
        torch.ops.aten._dyn_quant_matmul_4bit(x.half().to(D), ours, block, k, n)
