"""Products of float16 and bfloat16 by matrix units: the sums are float32's."""

from contextlib import nullcontext

import pytest
import torch

from tests import needs
from tests.device._adapter import kernels_of
from tests.device._compare import both, close, keeps_denormals
from webgpu_backend import env
from webgpu_backend.kernels.matmul import tiles, units
from webgpu_backend.plan import caps
from webgpu_backend.runtime import adapters
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
DTYPES = [torch.float16, torch.bfloat16]
UNIT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
CANDIDATES = list(dict.fromkeys(map(tiles.shape, (*tiles.GPU.matrices, *tiles.MATRICES))))


def small(stages: int = 2) -> tiles.UnitTile:
    """Four matrices, which a software driver compiles in little time."""
    n = caps().matrix
    return tiles.UnitTile(2 * n, 2 * n, 2 * n, n, n, stages)


def use(tile: tiles.UnitTile, monkeypatch) -> None:
    """The tile, always preferred."""
    others = (tiles.Tile(32, 32, 16, 4, 4),)
    monkeypatch.setattr(tiles, "_used", tiles.Tuning(8, others, (), 0.0, 1e30, (tile._replace(rate=1e6),)))


@pytest.fixture(autouse=True)
def by_units(monkeypatch, adapter_of):
    needs.feature("matrix")
    adapter_of(kind="gpu")
    use(small(), monkeypatch)
    torch.manual_seed(0)


def product(a, b):
    """The product on the device, by units."""
    x, y, made = a.to(D), b.to(D), []
    kernels = kernels_of(lambda: made.append(x @ y))
    assert any(name.startswith("matmul_units") for name in kernels), kernels
    return made[0].cpu()


def check(a, b):
    """Within the rounding of the result, of sums in float32, and what few elements of bfloat16 lose by f16's range."""
    got, x, y = product(a, b).double(), a.double(), b.double()
    wanted, size = x @ y, x.abs() @ y.abs()
    far = 2.0**-39 if a.dtype is torch.bfloat16 else 0.0
    lost = far * (x.abs().amax(-1, True) * y.abs().sum(-2, True) + x.abs().sum(-1, True) * y.abs().amax(-2, True))
    info = torch.finfo(a.dtype)
    limit = a.shape[-1] * 2.0**-23 * size + lost + UNIT[a.dtype] * wanted.abs() + info.tiny * info.eps
    inside = wanted.abs() < info.max
    error = (got - wanted).abs()
    assert torch.equal(got.isinf(), ~inside), "overflow in other places"
    assert (error <= limit)[inside].all(), (error / limit)[inside].max()


def laid_out(shape, dtype):
    """A matrix as rows, turned, with gaps between its elements, and beginning at an odd place."""
    m, n = shape
    yield torch.randn(m, n).to(dtype)
    yield torch.randn(n, m).to(dtype).t()
    yield torch.randn(m, 2 * n).to(dtype)[:, ::2]
    yield torch.randn(m + 1, n + 3).to(dtype)[1:, 3:]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(16, 16, 1), (32, 64, 32), (70, 66, 131), (33, 100, 300), (64, 17, 1100)], ids=str)
def test_layouts(dtype, shape):
    m, n, k = shape
    rights = list(laid_out((k, n), dtype))
    for i, a in enumerate(laid_out((m, k), dtype)):
        check(a, rights[i])
        check(a, rights[(i + 1) % 4])


@pytest.mark.parametrize("tile", CANDIDATES, ids=lambda t: "x".join(map(str, t[:6])))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tiles(tile, dtype, monkeypatch):
    if not units.fits(tile, caps()):
        needs.missing(f"{gpu().name} has no room for this tile")
    matrices = tile.wm * tile.wn * tile.bk // caps().matrix ** 3
    if gpu().adapter.info["adapter_type"] == "CPU" and matrices > 16:
        needs.missing("a software adapter takes minutes to compile so many products of matrices")
    use(tile, monkeypatch)
    tile_sizes(tile, dtype)


def tile_sizes(tile: tiles.UnitTile, dtype: torch.dtype) -> None:
    m, n = tile.bm + 3, tile.bn + 5
    check(torch.randn(m, 300).to(dtype), torch.randn(300, n).to(dtype))
    check(torch.randn(2 * tile.bk, m + 1).to(dtype).t(), torch.randn(n + 3, 2 * tile.bk).to(dtype).t())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("wide", [(4, 2, 1, 2, 2), (2, 4, 2, 2, 1), (3, 6, 4, 1, 3)], ids=str)
def test_shares_of_a_tile(wide, stages, dtype, monkeypatch):
    """Tiles of other shapes, in matrices."""
    tile = tiles.UnitTile(*[caps().matrix * n for n in wide], stages)
    assert units.fits(tile, caps())
    use(tile, monkeypatch)
    tile_sizes(tile, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cut_sums(dtype, monkeypatch):
    """Few tiles and a long k: parts of it, that are added up by a second dispatch."""
    monkeypatch.setattr(tiles, "_used", tiles.tuning().__class__(64, tiles.tuning().tiles, (), 0.0, 1e30, (small(),)))
    a, b = torch.randn(40, 3000).to(dtype), torch.randn(3000, 36).to(dtype)
    assert any("finish" in name for name in kernels_of(lambda: a.to(D) @ b.to(D)))
    check(a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wide_ranges(dtype):
    """Rows of very different sizes, and elements of very different sizes within a row."""
    a, b = torch.randn(64, 160), torch.randn(160, 64)
    rows, columns = 2.0 ** torch.linspace(-14, 9, 64), 2.0 ** torch.linspace(4, -10, 64)
    check((a * rows[:, None]).to(dtype), (b * columns).to(dtype))
    along = 2.0 ** torch.linspace(-12, 6, 160)
    check((a * along).to(dtype), (b * along.flip(0)[:, None]).to(dtype))
    check((a * along).to(dtype), (b * along[:, None]).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tiny_gradients_and_large_values(dtype):
    a, b = torch.randn(64, 160), torch.randn(160, 64)
    check((a * 1e-7).to(dtype), b.to(dtype))
    check((a * 1e-7).to(dtype), (b * 1e4).to(dtype))
    large = torch.full((64, 160), 6e4).to(dtype)
    check(large, (b * 1e-3).to(dtype))
    check(large, (b * 1e2).to(dtype))  # some results overflow, and only those


def test_range_of_bfloat16():
    a, b = torch.randn(64, 160).bfloat16(), torch.randn(160, 64).bfloat16()
    check(a * 2.0**120, b * 2.0 ** (-120 if keeps_denormals() else -105))
    check(a * 2.0**-105, b * 2.0**100)
    check(a * 2.0**-100, b)
    check(a * 2.0 ** torch.arange(-105, 116, 3.5).round()[:, None].bfloat16(), b)
    zeros = a.clone()
    zeros[3], zeros[:, 7] = 0, 0
    check(zeros, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_of_one_sign_and_cancelling_ones(dtype):
    check(torch.full((64, 2000), 1.1).to(dtype), torch.full((2000, 64), 0.7).to(dtype))
    a, b = torch.randn(64, 80).to(dtype), torch.randn(80, 64).to(dtype)
    check(torch.cat([a, a], 1), torch.cat([b, -b], 0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_and_inf_stay_in_their_rows(dtype):
    a, b = torch.randn(65, 140).to(dtype), torch.randn(140, 70).to(dtype)
    a[36, 3], a[0, 0], b[19, 21], a[5, 7] = float("nan"), float("inf"), float("-inf"), float("-inf")
    b[7, 3] = 0  # meets an infinity: NaN
    b[0, 9], b[1, 9] = 6e-8, 1.5e4  # of bfloat16 next to nothing beside its neighbour, yet not a zero
    a[10], b[:, 10] = 0, 0
    a[19], b[3, 10] = 0, 1
    got, wanted = product(a, b), a.double() @ b.double()
    assert torch.equal(got.isnan(), wanted.isnan()) and torch.equal(got.isinf(), wanted.isinf())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batches(dtype):
    a, b = torch.randn(2, 3, 20, 50).to(dtype), torch.randn(2, 3, 50, 18).to(dtype)
    check(a, b)
    check(a.transpose(0, 1), b.transpose(0, 1))
    check(a, b[:1, :1].expand(2, 3, 50, 18))
    check(a[:, :1].expand(2, 3, 20, 50), b)
    check(a.transpose(-1, -2)[..., :18].contiguous().transpose(-1, -2), b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_follows_a_product(dtype):
    """Bias, factors, activation; results in float32."""
    x, w, c = (torch.randn(s).to(dtype) for s in ((3, 24, 40), (36, 40), (36,)))
    tolerance = (4 * UNIT[dtype], 1e-2)

    def call(device):
        X, W, C = x.to(device), w.to(device), c.to(device)
        yield torch.nn.functional.linear(X, W, C)
        yield torch.addmm(C, X[0], W.t(), beta=0.5, alpha=-2)
        yield torch.baddbmm(X[:, :, :36], X, W.t().expand(3, 40, 36))
        yield torch.ops.aten._addmm_activation(C, X[1], W.t())

    for ours, theirs in zip(call(D), call("cpu")):
        close(ours, theirs, tolerance)
    wide = torch.mm(x[0].to(D), w.t().to(D), out_dtype=torch.float32)
    torch.testing.assert_close(wide.cpu(), x[0].float() @ w.t().float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(dtype):
    def call(device):
        x = torch.randn(50, 40).to(dtype).to(device).requires_grad_()
        w = torch.randn(36, 40).to(dtype).to(device).requires_grad_()
        y = torch.nn.functional.linear(x, w)
        return y.detach(), *torch.autograd.grad(y, (x, w), torch.linspace(-1, 1.5, 1800).view(50, 36).to(device, dtype))

    both(call, (4 * UNIT[dtype], 1e-1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("form", ["q8_0", "q4_0", "q4_k", "q6_k"])
def test_quantised_weights(form, dtype):
    import webgpu_backend

    layer = torch.nn.Linear(512, 40).to(dtype)
    model = webgpu_backend.quantize_(torch.nn.Sequential(layer), form)
    x = torch.randn(33, 512).to(dtype)
    expected = model(x)
    model, made = model.to(D), []
    kernels = kernels_of(lambda: made.append(model(x.to(D))))
    assert any(form in name and "units" in name for name in kernels), kernels
    close(made[0], expected, (8 * UNIT[dtype], 2e-2))


def test_compiled_epilogues(compiled_by_inductor):
    x, w, v = torch.randn(40, 64).half(), torch.randn(96, 64).half() / 8, torch.randn(64, 96).half() / 8

    def f(x, w, v):
        return torch.nn.functional.linear(torch.nn.functional.gelu(torch.nn.functional.linear(x, w)), v) + x

    expected = f(x.float(), w.float(), v.float()).half()
    given = [t.to(D) for t in (x, w, v)]
    compiled = torch.compile(f)
    compiled(*given)
    made = []
    kernels = kernels_of(lambda: made.append(compiled(*given)))
    assert len(kernels) == 2 and all("units" in name for name in kernels), kernels
    close(made[0], expected, 4e-3)


def test_a_device_that_is_refused(monkeypatch):
    """wgpu gives none to who says nothing of experimental features; the adapter is used without units then."""
    monkeypatch.setattr(env, "MATRIX_UNITS", True)
    monkeypatch.setattr(adapters.experimental, "allowed", nullcontext)
    with pytest.warns(UserWarning, match="opens no device with matrix units"):
        device, found = adapters.create_device(gpu().adapter)
    assert found.matrix == 0 and "cooperative-matrix" not in device.features
