"""scaled_dot_product_attention against CPU torch: masks, causal, shared heads, dtypes, gradients."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

import webgpu_backend
from tests import needs
from webgpu_backend.kernels.attention import halves as half
from webgpu_backend.kernels.attention import single
from webgpu_backend.ops.attention import sdpa as attention
from webgpu_backend.plan import cache

TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}


@pytest.fixture(params=["fused", "composed"])
def path(request, monkeypatch):
    """Few scores are composed of products on a software adapter; the fused kernels must be right there as well."""
    for mode in single.TILES:  # the smallest tile: software drivers take seconds over the text of the largest
        monkeypatch.setitem(single.TILES, mode, single.TILES[mode][-1:])
    monkeypatch.setattr(single, "SOFTWARE", single.TILES["keys"][-1])
    cache.clear()
    limit = 0 if request.param == "fused" else 1 << 40
    monkeypatch.setattr(attention, "SMALL_SCORES", {"gpu": limit, "cpu": limit})
    yield request.param
    cache.clear()


def strides(t: torch.Tensor) -> list[int]:
    return [0 if s == 1 else st for s, st in zip(t.shape, t.stride())]


def check(q_shape, k_shape, v_shape=None, dtype=torch.float32, mask=None, change=lambda x: x, grad=True, **options):
    tensors = [torch.randn(s).to(dtype) for s in (q_shape, k_shape, v_shape or k_shape)]
    results = []
    for device in ("cpu", "webgpu"):
        leaves = [t.to(device).requires_grad_(grad) for t in tensors]
        where = None if mask is None else mask.to(device)
        out = sdpa(*[change(x) for x in leaves], where, **options)
        got = [out]
        if grad:
            weights = torch.linspace(-1, 1, out.numel()).view(out.shape).to(dtype).to(device)
            got += torch.autograd.grad(out, leaves, weights)
        results.append(got)
    assert strides(results[1][0]) == strides(results[0][0])
    for wanted, got in zip(*results):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype and got.device.type == "webgpu"
        torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_plain_and_causal(path):
    check((2, 3, 37, 16), (2, 3, 37, 16))
    check((2, 3, 37, 16), (2, 3, 37, 16), is_causal=True)
    check((1, 2, 70, 32), (1, 2, 90, 32), (1, 2, 90, 20), scale=0.3)
    check((1, 2, 90, 32), (1, 2, 70, 32), is_causal=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_operands_anywhere_in_their_storage(path, dtype):
    """Contiguous, and not at a multiple of four elements: the kernels read groups of four."""

    def behind(n):
        return lambda x: torch.cat([x.new_full((n,), torch.nan), x.flatten()])[n:].view_as(x)

    for n in (1, 2, 3):
        check((1, 2, 9, 8), (1, 2, 13, 8), dtype=dtype, change=behind(n))


def test_masks(path):
    keep = torch.rand(2, 1, 9, 21) > 0.3
    check((2, 3, 9, 8), (2, 3, 21, 8), mask=keep)
    check((2, 3, 9, 8), (2, 3, 21, 8), mask=torch.randn(9, 21))
    check((2, 3, 9, 8), (2, 3, 21, 8), mask=torch.randn(3, 1, 21))
    nothing = torch.ones(9, 21, dtype=torch.bool)
    nothing[4] = False
    check((1, 2, 9, 8), (1, 2, 21, 8), mask=nothing)
    blocked = torch.zeros(9, 21)
    blocked[:, 5:9] = float("-inf")
    check((1, 2, 9, 8), (1, 2, 21, 8), mask=blocked)


def test_shared_heads(path):
    check((2, 6, 17, 8), (2, 2, 33, 8), enable_gqa=True)
    check((2, 6, 33, 8), (2, 2, 33, 8), enable_gqa=True, is_causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_dtypes(dtype, path):
    check((1, 2, 40, 16), (1, 2, 40, 16), dtype=dtype, is_causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_products_round_where_the_fused_kernels_of_the_cpu_do(dtype, monkeypatch):
    """Large queries make weights of nearly one, and gradients that are what rounding leaves of a difference."""
    monkeypatch.setattr(attention, "SMALL_SCORES", {"gpu": 1 << 40, "cpu": 1 << 40})
    monkeypatch.setitem(TOLERANCE, torch.bfloat16, 6e-2)
    torch.manual_seed(2)
    large = lambda x: x * 4  # noqa: E731
    for options in (
        {},
        {"is_causal": True},
        {"mask": torch.rand(3, 6) > 0.2},
        {"mask": torch.randn(4, 1, 3, 6).to(dtype)},
    ):
        for scale in (None, 0.5):
            check((4, 4, 3, 8), (4, 4, 6, 8), dtype=dtype, change=large, scale=scale, **options)
    check((2, 4, 3, 8), (2, 2, 6, 8), dtype=dtype, change=large, is_causal=True, enable_gqa=True)
    nothing = torch.ones(3, 6, dtype=torch.bool)
    nothing[1] = False
    check((4, 4, 3, 8), (4, 4, 6, 8), dtype=dtype, mask=nothing)


def test_layouts(path):
    check((2, 37, 3, 16), (2, 37, 3, 16), change=lambda x: x.transpose(1, 2))
    check((2, 3, 9, 8), (2, 3, 9, 8), change=lambda x: x[:, :, 1:, :])
    check((9, 2, 3, 8), (21, 2, 3, 8), change=lambda x: x.permute(1, 2, 0, 3))
    check((2, 9, 3, 3, 8), (2, 21, 3, 3, 8), change=lambda x: x[:, :, 1].transpose(1, 2), is_causal=True)
    check((2, 3, 8, 9), (2, 3, 8, 9), change=lambda x: x.mT)
    check((2, 9, 3, 6), (2, 9, 3, 6), change=lambda x: x.transpose(1, 2))
    check((3, 9, 8), (3, 9, 8))
    check((2, 2, 3, 9, 8), (2, 2, 3, 9, 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("length", [1, 3])
def test_few_queries_lie_as_they_were_given(length, dtype, adapter_class, monkeypatch):
    """Rows of several heads are one tile, and keys are divided among workgroups."""
    monkeypatch.setattr(attention, "SMALL_SCORES", {"gpu": 0, "cpu": 0})
    options = {"change": lambda x: x.transpose(1, 2), "dtype": dtype, "grad": False}
    check((2, length, 4, 8), (2, 150, 2, 8), enable_gqa=True, **options)
    check((2, length, 4, 8), (2, 150, 4, 8), mask=torch.rand(length, 150) > 0.3, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("heads, shared, keys, size, values", [
    (4, 2, 33, 64, 64), (3, 3, 1, 4, 8), (2, 1, 1024, 20, 36), (6, 2, 257, 128, 128), (2, 2, 600, 256, 256),
])  # fmt: skip
@pytest.mark.parametrize("adapter_class", ["gpu"], indirect=True)
def test_one_query_is_one_dispatch(heads, shared, keys, size, values, dtype, adapter_class):
    needs.feature("subgroups")  # else keys are divided, as of few queries
    q, k = torch.randn(2, heads, 1, size).to(dtype), torch.randn(2, shared, keys, size).to(dtype)
    v = torch.randn(2, shared, keys, values).to(dtype)
    nothing = torch.rand(2, heads, 1, keys) > 0.4
    nothing[1, 0] = False
    masks = (None, torch.rand(2, 1, 1, keys) > 0.3, nothing, torch.randn(1, heads, 1, keys).to(dtype))
    given = [t.to("webgpu") for t in (q, k, v)]
    for mask in masks:
        wide = mask.float() if mask is not None and mask.dtype == dtype else mask
        wanted = sdpa(q.float(), k.float(), v.float(), wide, enable_gqa=True)
        there = None if mask is None else mask.to("webgpu")
        sdpa(*given, there, enable_gqa=True)
        before = webgpu_backend.stats()["dispatches"]
        found = sdpa(*given, there, enable_gqa=True)
        assert webgpu_backend.stats()["dispatches"] - before == 1
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(found.cpu().float(), wanted, rtol=tolerance, atol=tolerance)
    if keys > 1:  # infinite values of the last key are no business of those that do not see it
        v[:, :, -1] = float("inf")
        found = sdpa(given[0], given[1][:, :, :-1], v.to("webgpu")[:, :, :-1], enable_gqa=True)
        wanted = sdpa(q.float(), k.float()[:, :, :-1], v.float()[:, :, :-1], enable_gqa=True)
        torch.testing.assert_close(found.cpu().float(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("limit", [0, 1 << 40])
@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_are_taken_apart_from_heads_without_a_copy(limit, dynamic, monkeypatch):
    """Models that end with a view, eager and compiled."""
    monkeypatch.setattr(attention, "SMALL_SCORES", {"gpu": limit, "cpu": limit})

    def model(x):
        q = x.unflatten(-1, (4, 8)).transpose(1, 2)
        return sdpa(q, q, q).transpose(1, 2).view(x.shape) + 1

    for size in (5, 7):
        x = torch.randn(2, size, 32)
        for function in (model, torch.compile(model, dynamic=dynamic)):
            torch.testing.assert_close(function(x.to("webgpu")).cpu(), model(x), rtol=1e-4, atol=1e-4)


def test_odd_heads_take_the_composite():
    check((1, 2, 9, 7), (1, 2, 9, 7), is_causal=True)
    check((2, 9, 8), (2, 9, 8))


def test_few_queries_divide_the_keys(path, monkeypatch):
    monkeypatch.setattr(single, "ENOUGH", {"gpu": 64, "cpu": 64})
    monkeypatch.setattr(single, "SPLIT_KEYS", {False: 64, True: 64})
    check((2, 4, 1, 16), (2, 2, 300, 16), enable_gqa=True, grad=False)
    check((1, 4, 3, 16), (1, 2, 300, 16), enable_gqa=True, mask=torch.rand(1, 4, 3, 300) > 0.4)
    check((1, 4, 3, 16), (1, 2, 300, 16), enable_gqa=True, is_causal=True, grad=False)
    nothing = torch.ones(40, 300, dtype=torch.bool)
    nothing[7], nothing[9, 128:] = False, False
    check((1, 1, 40, 16), (1, 1, 300, 16), mask=nothing)


def plain(q, k, v, kept=None, causal=True):
    """The formula itself, for leaves of float64."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))
    weights = torch.softmax(scores, -1)
    return (weights if kept is None else weights * kept) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("path", ["fused"], indirect=True)  # torch's composite draws elsewhere
def test_dropout(path, causal):
    """The weights that are left show through values of one, and every kernel must draw the same."""
    share, size = 0.3, 72
    q, k, grad = torch.randn(2, 4, size, 8), torch.randn(2, 2, size, 8), torch.randn(2, 4, size, 8)
    v = torch.randn(2, 2, size, 8)
    options = dict(dropout_p=share, is_causal=causal, enable_gqa=True)
    torch.webgpu.manual_seed(3)
    ones = torch.eye(size).expand(2, 2, size, size)
    kept = sdpa(q.to("webgpu"), k.to("webgpu"), ones.to("webgpu"), **options).cpu() != 0
    torch.webgpu.manual_seed(3)
    leaves = [x.to("webgpu").requires_grad_() for x in (q, k, v)]
    out = sdpa(*leaves, **options)
    got = [out, *torch.autograd.grad(out, leaves, grad.to("webgpu"))]
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    out = plain(*leaves, kept / (1 - share), causal)
    wanted = [out, *torch.autograd.grad(out, leaves, grad.double())]
    for a, b in zip(got, wanted):
        torch.testing.assert_close(a.detach().cpu(), b.detach().float(), rtol=1e-4, atol=1e-4)
    seen = kept.tril() if causal else kept
    possible = size * (size + 1) / 2 if causal else size * size
    assert abs(seen.sum().item() / (8 * possible) - (1 - share)) < 0.01
    again = sdpa(*[x.detach().float().to("webgpu") for x in leaves], **options)
    assert not torch.equal(again, got[0])


def test_everything_dropped(path):
    q = torch.randn(1, 1, 9, 8).to("webgpu")
    assert not sdpa(q, q, q, dropout_p=1.0).any()


@pytest.fixture
def halves(monkeypatch, adapter_of):
    """Sums in f16, with a tile that every adapter's workgroup memory has room for."""
    needs.feature("f16")
    adapter_of(kind="gpu")
    for mode in half.TILES:
        monkeypatch.setitem(half.TILES, mode, {32: single.Tile(32, 32 if mode == "keys" else 64, 4, 8, 32)})
    monkeypatch.setattr(half, "SCORES", 0)
    monkeypatch.setattr(half, "ENOUGH", 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sums_in_f16_are_harmless(halves, dtype):
    """Errors of a few units in the last place of the sums of absolute values, whatever the operands' sizes."""
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).tiny
    sizes = [(1, 1, 1, 1), (3, 3, 1, 1), (8, 8, 1, 1e-4), (40, 40, 1, 1), (1, 1, 1e3, 1e-3), (1e-3, 1e3, 1e-2, 1e3)]
    for factors in sizes if dtype == torch.float16 else [*sizes, (1e10, 1e-10, 1e15, 1e-20)]:
        q, k, v, g = ((torch.randn(1, 2, 100, 32) * size).to(dtype) for size in factors)
        leaves = [t.to("webgpu").requires_grad_() for t in (q, k, v)]
        out = sdpa(*leaves, is_causal=True)
        got = [out, *torch.autograd.grad(out, leaves, g.to("webgpu"), retain_graph=True)]
        torch.use_deterministic_algorithms(True)  # dq by a kernel of its own
        got += torch.autograd.grad(out, leaves[0], g.to("webgpu"))
        torch.use_deterministic_algorithms(False)
        q, k, v, g = (t.double() for t in (q, k, v, g))
        leaves = [t.requires_grad_() for t in (q, k, v)]
        out = plain(*leaves)
        wanted = [out, *torch.autograd.grad(out, leaves, g)]
        wanted.append(wanted[1])
        with torch.no_grad():
            weights = plain(q, k, torch.eye(100).expand(1, 2, 100, 100).double())
            terms = g.abs() @ v.abs().transpose(-1, -2)
            terms = weights * (terms + (weights * terms).sum(-1, keepdim=True)) / 32**0.5
            sums = [
                weights @ v.abs(),
                terms @ k.abs(),
                terms.transpose(-1, -2) @ q.abs(),
                weights.transpose(-1, -2) @ g.abs(),
            ]
            sums.append(sums[1])
            assert not got[1][:, :, 0].any() and not got[4][:, :, 0].any()  # one key: its weight does not change
            for name, a, b, size in zip(("out", "dq", "dk", "dv", "dq"), got, wanted, sums):
                allowed = 5 * eps * size + 2**-22 * size.max() + eps * tiny
                worst = ((a.cpu().double() - b).abs() / allowed).max().item()
                assert worst < 1, (name, factors, worst)


def test_sums_in_f16_on_the_diagonal_of_square_tiles(halves, monkeypatch):
    """Scores that are masked there are not computed at all; rows of four threads shuffle if eight lanes are known."""
    monkeypatch.setitem(half.TILES, "forward", {32: single.Tile(32, 32, 4, 8, 32)})
    check((1, 2, 100, 32), (1, 2, 100, 32), dtype=torch.float16, is_causal=True, grad=False)
    check((1, 2, 100, 32), (1, 2, 40, 32), dtype=torch.float16, is_causal=True, grad=False)
    check((1, 2, 40, 20), (1, 2, 100, 20), dtype=torch.bfloat16, is_causal=True, grad=False)


def test_sums_in_f16_with_masks_and_odd_sizes(halves):
    check((2, 2, 70, 20), (2, 2, 90, 20), mask=torch.rand(70, 90) > 0.3, dtype=torch.float16)
    check(
        (1, 2, 70, 32), (1, 2, 40, 32), (1, 2, 40, 12), mask=torch.randn(70, 40).half(), dtype=torch.float16, grad=False
    )
    nothing = torch.ones(70, 90, dtype=torch.bool)
    nothing[4] = False
    check((2, 2, 70, 20), (2, 2, 90, 20), mask=nothing, dtype=torch.float16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_one_kernel_finds_all_gradients(dtype, monkeypatch, adapter_of):
    """Unless the order of sums has to be the same each time."""
    needs.feature("f32_atomic")
    needs.limit("max_bindings", 10)
    needs.limit("workgroup_bytes", 32 << 10)
    if dtype == torch.float16:
        needs.feature("f16")
    adapter_of(kind="gpu")
    monkeypatch.setitem(single.TILES, "all", (single.Tile(64, 64, 4, 8, 32),))
    for mode in half.TILES:
        monkeypatch.setitem(half.TILES, mode, {32: single.Tile(32, 32, 4, 8, 32)})
    monkeypatch.setattr(half, "SCORES", 0)
    monkeypatch.setattr(half, "ENOUGH", 0)

    def names(*shapes, **options):
        with torch.webgpu.profiler.profile() as profile:
            check(*shapes, dtype=dtype, is_causal=True, **options)
        return {event.name.split("_")[-3] for event in profile if "_keys" in event.name or "_queries" in event.name}

    e = 32 if dtype == torch.float32 else 20
    shapes = (1, 2, 70, e), (1, 2, 50, e)
    assert names(*shapes) == {"keys"}
    assert names((2, 4, 50, e), (2, 2, 70, e), enable_gqa=True) == {"keys"}
    torch.use_deterministic_algorithms(True)
    try:
        assert names(*shapes) == {"keys", "queries"}
    finally:
        torch.use_deterministic_algorithms(False)


def test_large_head_and_inference(path):
    check((1, 1, 5, 256), (1, 1, 5, 256))
    q = torch.randn(1, 2, 9, 8)
    with torch.inference_mode():
        got = sdpa(*[q.to("webgpu")] * 3, is_causal=True)
    torch.testing.assert_close(got.cpu(), sdpa(q, q, q, is_causal=True), rtol=1e-4, atol=1e-4)


def test_double_backward(path):
    q = torch.randn(1, 2, 6, 8)
    results = []
    for device in ("cpu", "webgpu"):
        a = q.to(device).requires_grad_()
        with sdpa_kernel(SDPBackend.MATH):  # the CPU's fused kernel has no second derivative
            out = sdpa(a, a, a, is_causal=True)
        (g,) = torch.autograd.grad(out, a, torch.ones_like(out), create_graph=True)
        results.append(torch.autograd.grad(g, a, torch.linspace(-1, 1, g.numel()).view(g.shape).to(device))[0].cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_largest_tiles(kind, monkeypatch, adapter_of):
    adapter_of(kind=kind)
    monkeypatch.setattr(attention, "SMALL_SCORES", {"gpu": 0, "cpu": 0})
    check((1, 2, 70, 16), (1, 2, 90, 16), mask=torch.randn(70, 90), grad=kind == "gpu")


def test_memory_is_linear_and_dispatches_few(monkeypatch):
    monkeypatch.setattr(attention, "SMALL_SCORES", {"gpu": 0, "cpu": 0})
    q = torch.randn(1, 1, 1024, 8).to("webgpu")
    sdpa(q, q, q)
    torch.webgpu.reset_peak_memory_stats()
    before = webgpu_backend.stats()["dispatches"], torch.webgpu.memory_allocated()
    sdpa(q, q, q)
    assert webgpu_backend.stats()["dispatches"] - before[0] <= 2
    assert torch.webgpu.max_memory_allocated() - before[1] < 1024 * 1024


@pytest.mark.parametrize("how", ["plain", "causal", "bool", "float"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nan_stays(how, dtype, adapter_class):
    """In a query, and in a key that all of them see; 33 keys, for fewer of which the CPU's own kernel loses it."""
    torch.manual_seed(0)
    q, k = torch.randn(1, 2, 5, 8, dtype=dtype), torch.randn(1, 2, 33, 8, dtype=dtype)
    mask = {"bool": torch.ones(5, 33, dtype=torch.bool), "float": torch.zeros(5, 33, dtype=dtype)}.get(how)
    options = {"is_causal": how == "causal"}
    bad_query, bad_key = q.clone(), k.clone()
    bad_query[0, 0, 1], bad_query[0, 1, 3, 2] = float("nan"), float("nan")
    bad_key[0, 0, 0 if how == "causal" else 2, 3] = float("nan")
    for query, key in ((bad_query, k), (q, bad_key)):
        expected = sdpa(query, key, k, mask, **options)
        for graded in (False, True):
            given = [t.to("webgpu") for t in (query, key, k)]
            given[0].requires_grad_(graded)
            found = sdpa(*given, None if mask is None else mask.to("webgpu"), **options)
            assert torch.equal(found.detach().cpu().isnan(), expected.isnan())
