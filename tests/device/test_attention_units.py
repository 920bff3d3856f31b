"""Attention by matrix units: scores and sums in float32, weights in f16."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.kernels.attention import matrices, single
from webgpu_backend.plan import cache, caps
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
DTYPES = [torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def units(monkeypatch, adapter_of):
    needs.feature("matrix")
    adapter_of(kind="gpu")
    monkeypatch.setattr(matrices, "ENOUGH", 1)
    if gpu().adapter.info["adapter_type"] == "CPU":  # which takes long to compile the larger ones
        small = matrices.Tile(2 * caps().matrix, 2 * caps().matrix, 1)
        monkeypatch.setattr(matrices, "TILES", {128: (small,)})
    for mode in single.TILES:  # of the backward pass: software drivers take seconds over the text of the largest
        monkeypatch.setitem(single.TILES, mode, single.TILES[mode][-1:])
    torch.manual_seed(0)


def reference(q, k, v, mask=None, is_causal=False, scale=None):
    """In float64: the result, and the sums of absolute values, to which errors are relative."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.double()
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return weights @ v, weights @ v.abs(), (scores.abs().nan_to_num(0, 0, 0).amax(-1, True))


def check(q, k, v, mask=None, **options):
    given = [t.to(D) for t in (q, k, v)]
    made = []
    there = None if mask is None else mask.to(D)
    grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    names = kernels_of(lambda: made.append(sdpa(*given, there, **options, **grouped)))
    assert any(name.startswith("attention_units") for name in names), names
    wanted, size, scores = reference(q, k, v, mask, **options)
    eps, tiny = torch.finfo(q.dtype).eps, torch.finfo(q.dtype).tiny
    # Weights are halves, and scores float32: an error of those is relative to their largest.
    allowed = (2.0**-11 + 2.0**-22 * scores) * size + eps * wanted.abs() + 2.0**-24 * size.amax() + eps * tiny
    error = (made[0].cpu().double() - wanted).abs()
    assert (error <= allowed).all(), (error / allowed).max()


def drawn(shapes, dtype, factor=1.0):
    return [(torch.randn(shape) * factor).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "q, k, v",
    [
        ((1, 2, 64, 64), (1, 2, 64, 64), (1, 2, 64, 64)),
        ((2, 3, 100, 32), (2, 3, 150, 32), (2, 3, 150, 32)),
        ((2, 4, 70, 36), (2, 2, 90, 36), (2, 2, 90, 20)),
        ((1, 2, 130, 72), (1, 1, 70, 72), (1, 1, 70, 40)),
        ((1, 2, 40, 4), (1, 2, 1, 4), (1, 2, 1, 4)),
    ],
)
def test_shapes(q, k, v, causal, dtype):
    check(*drawn((q, k, v), dtype), is_causal=causal)


@pytest.mark.parametrize("size", [64, 128])
def test_tiles(size, monkeypatch):
    """Those of the table that there is room for."""
    monkeypatch.undo()
    monkeypatch.setattr(matrices, "ENOUGH", 1)
    for tile in matrices.TILES[size]:
        if matrices._has_room(tile, single.Shape(1, 2, 2, 70, 90, size, size), caps()):
            monkeypatch.setitem(matrices.TILES, size, (tile,))
            cache.clear()
            check(*drawn([(1, 2, 70, size), (1, 2, 90, size), (1, 2, 90, size)], torch.float16))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masks(dtype):
    given = drawn([(2, 2, 70, 20), (2, 2, 90, 20), (2, 2, 90, 20)], dtype)
    check(*given, mask=torch.rand(70, 90) > 0.3)
    nothing = torch.rand(2, 2, 70, 90) > 0.5
    nothing[:, :, 4], nothing[1, 0, 9, :80], nothing[0, 1, 20, 32:] = False, False, False
    check(*given, mask=nothing)
    check(*given, mask=(torch.randn(2, 1, 70, 90) * 5).to(dtype))
    blocked = torch.zeros(70, 90, dtype=dtype)
    blocked[:, 5:60] = -torch.inf
    check(*given, mask=blocked)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scores_that_grow_along_the_keys(dtype):
    """Sums are brought out of the units, faded, and put back."""
    q, k, v = drawn([(1, 2, 66, 32), (1, 2, 200, 32), (1, 2, 200, 32)], dtype)
    steps = torch.linspace(0, 6, 200)[:, None].to(dtype)
    check(q.abs(), k.abs() * steps, v)
    check(q.abs(), k.abs() * steps.flip(0), v)
    some = q.abs()
    some[:, :, ::3] *= -1  # of some rows only
    check(some, k.abs() * steps, v)
    mask = torch.ones(66, 200, dtype=torch.bool)
    mask[::2, :100] = False
    check(some, k.abs() * steps, v, mask=mask)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sizes_of_operands(dtype):
    sizes = [(1, 1, 1), (3, 3, 1), (8, 8, 1), (1, 1, 1e3), (1e-3, 1e3, 1e-2), (1, 1, 1e-4)]
    for factors in sizes if dtype == torch.float16 else [*sizes, (1e10, 1e-10, 1e15), (1e-20, 1e19, 1e-25)]:
        q, k, v = ((torch.randn(1, 2, 100, 32) * size).to(dtype) for size in factors)
        check(q, k, v, is_causal=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(dtype):
    q, k, v = (t.transpose(1, 2) for t in drawn([(2, 70, 3, 16), (2, 90, 3, 16), (2, 90, 3, 16)], dtype))
    check(q, k, v)
    q, k, v = (t[:, :, 4:] for t in drawn([(2, 3, 70, 16)] * 3, dtype))
    check(q, k, v, is_causal=True, scale=0.7)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=["plain", "causal"])
def test_gradients(dtype, options):
    """By kernels that compute the weights again, from the rows' log-sum-exps."""
    q, k, v = drawn([(1, 2, 70, 32), (1, 2, 70, 32), (1, 2, 70, 32)], dtype)
    grad = torch.linspace(-1, 1, q.numel()).view(q.shape).to(dtype)
    results = []
    for device, wide in ((D, dtype), ("cpu", torch.float64)):
        leaves = [t.to(device, wide).requires_grad_() for t in (q, k, v)]
        results.append(torch.autograd.grad(sdpa(*leaves, **options), leaves, grad.to(device, wide)))
    tolerance = 4e-3 if dtype == torch.float16 else 3e-2
    for found, wanted in zip(*results):
        torch.testing.assert_close(found.cpu().double(), wanted, rtol=tolerance, atol=tolerance)


def test_nan_and_infinities():
    q, k, v = drawn([(1, 1, 40, 16), (1, 1, 80, 16), (1, 1, 80, 16)], torch.float16)
    q[0, 0, 3, 2], k[0, 0, 70, 1], v[0, 0, 75, 5] = torch.nan, torch.nan, torch.inf
    mask = torch.ones(40, 80, dtype=torch.bool)
    mask[:, 70], mask[20, 70] = False, True
    found = sdpa(*[t.to(D) for t in (q, k, v)], mask.to(D)).cpu()
    nan, inf = torch.zeros_like(found, dtype=torch.bool), torch.zeros_like(found, dtype=torch.bool)
    nan[0, 0, 3], nan[0, 0, 20] = True, True  # the query, and the one that sees the key
    inf[0, 0, :, 5] = ~nan[0, 0, :, 5]
    assert torch.equal(found.isnan(), nan) and torch.equal(found.isinf(), inf)


def test_rows_past_the_last_key_are_no_infinities():
    """Values behind the keys, in the memory of the same tensor."""
    q, k, v = drawn([(1, 2, 40, 16), (1, 2, 80, 16), (1, 2, 80, 16)], torch.float16)
    k[:, :, 70:], v[:, :, 70:] = torch.nan, torch.inf
    check(q, k[:, :, :70], v[:, :, :70])


def test_a_gate_behind_it(compiled_by_inductor):
    q, k, v, g = drawn([(1, 2, 70, 32)] * 4, torch.float16)

    def f(q, k, v, g):
        return sdpa(q, k, v, is_causal=True) * torch.sigmoid(g)

    given = [t.to(D) for t in (q, k, v, g)]
    compiled = torch.compile(f)
    compiled(*given)
    made = []
    names = kernels_of(lambda: made.append(compiled(*given)))
    assert len(names) == 1 and names[0].startswith("attention_units"), names
    wanted = f(*[t.float() for t in (q, k, v, g)])
    torch.testing.assert_close(made[0].cpu().float(), wanted, rtol=4e-3, atol=4e-3)
