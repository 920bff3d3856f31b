"""A token's attention over a cache of fixed size, with its key and value put there in one dispatch: against the CPU."""

import pytest
import torch
import torch.nn.functional as F

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.frontend.graphs.inductor import compiling  # noqa: F401  defines the operator
from webgpu_backend.kernels.attention import one_query

D = "webgpu"
ROUGH = {torch.float32: 1e-4, torch.float16: 0.01, torch.bfloat16: 0.06}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def of_a_gpu(adapter_of):
    """Kernels of a GPU, where this one is among them."""
    needs.feature("subgroups")
    needs.limit("max_bindings", one_query.CACHED_BINDINGS)
    adapter_of(kind="gpu")


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def attended(fresh, keys, values, place, cos, sin, mask, heads: int, starts: tuple[int, int, int]):
    """What a model of transformers does, keys and values changed in place."""
    batch, shared, _, size = keys.shape
    counts, sizes = (heads, shared, shared), (size, size, values.shape[-1])
    q, k, v = (
        fresh[..., a : a + n * e].reshape(batch, 1, n, e).transpose(1, 2) for a, n, e in zip(starts, counts, sizes)
    )
    keys.index_copy_(2, place, turned(k, cos, sin))
    values.index_copy_(2, place, v)
    q = turned(q, cos, sin)
    if fresh.device.type == "cpu" and fresh.dtype is not torch.float32:
        wide = (t.float() for t in (q, keys, values))
        mask = mask.float() if mask is not None and mask.is_floating_point() else mask
        return F.scaled_dot_product_attention(*wide, attn_mask=mask, enable_gqa=True).to(fresh.dtype)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)


def drawn(batch, heads, shared, length, size, wide, dtype, gap: int = 0):
    """Arguments, with `gap` columns before, between and after queries, keys and values."""
    starts = gap, 2 * gap + heads * size, 3 * gap + (heads + shared) * size
    fresh = torch.randn(batch, 1, starts[2] + shared * wide + gap).to(dtype)
    keys, values = (
        torch.randn(batch, shared, length, size).to(dtype),
        torch.randn(batch, shared, length, wide).to(dtype),
    )
    angles = torch.randn(1, 1, 1, size // 2).repeat(1, 1, 1, 2)
    return fresh, keys, values, angles.cos().to(dtype), angles.sin().to(dtype), starts


def compared(fresh, keys, values, place, cos, sin, mask, heads, starts, dtype):
    own = keys.clone(), values.clone()
    expected = attended(fresh, *own, place, cos, sin, mask, heads, starts)
    there = [None if t is None else t.to(D) for t in (fresh, keys, values, place, cos, sin, mask)]
    op, scale = torch.ops.webgpu_backend.cached_attention, keys.shape[-1] ** -0.5
    for order in ([0, 1, 2, 3], [0, 2, 1, 3]):
        there[1:3] = keys.to(D), values.to(D)
        found = op(*there, scale, heads, list(starts), order)
        assert found.permute(order).is_contiguous()
        torch.testing.assert_close(found.cpu(), expected, rtol=ROUGH[dtype], atol=ROUGH[dtype], equal_nan=True)
        for one, other in zip(there[1:3], own):
            torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-6 if dtype is torch.float32 else 0)


@pytest.mark.parametrize("dtype", ROUGH, ids=str)
@pytest.mark.parametrize("batch, heads, shared, length, size, wide, gap", [
    (1, 4, 2, 33, 64, 64, 0), (2, 3, 3, 1, 8, 12, 4), (1, 2, 1, 1024, 24, 36, 8), (3, 6, 2, 257, 128, 128, 0),
    (1, 2, 2, 600, 256, 256, 4),
])  # fmt: skip
def test_kernel(of_a_gpu, batch, heads, shared, length, size, wide, gap, dtype):
    torch.manual_seed(0)
    fresh, keys, values, cos, sin, starts = drawn(batch, heads, shared, length, size, wide, dtype, gap)
    seen = torch.arange(length).reshape(1, 1, 1, -1) <= length // 2
    for place, mask in [(0, None), (length - 1, None), (length // 2, seen), (-1, torch.randn(1, length).to(dtype))]:
        compared(fresh, keys, values, torch.tensor([place % length]), cos, sin, mask, heads, starts, dtype)
        if place < 0:  # counts from the end, as in index_put
            there = [t.to(D) for t in (fresh, keys, values, torch.tensor([place]), cos, sin)]
            torch.ops.webgpu_backend.cached_attention(*there, None, 1.0, heads, list(starts), [0, 1, 2, 3])
            value = fresh[:, 0, starts[2] :][:, : shared * wide].unflatten(1, (shared, wide))
            torch.testing.assert_close(there[2][:, :, -1].cpu(), value)


def test_what_the_place_held_is_not_seen(of_a_gpu):
    torch.manual_seed(0)
    fresh, keys, values, cos, sin, starts = drawn(1, 4, 2, 40, 16, 16, torch.float32)
    keys[:, :, 7], values[:, :, 7] = float("nan"), float("inf")
    compared(fresh, keys, values, torch.tensor([7]), cos, sin, None, 4, starts, torch.float32)
    fresh[..., -16:] = float("inf")  # a value that is infinite, and one key that is not seen
    mask = torch.ones(1, 1, 1, 40, dtype=torch.bool)
    mask[..., 3] = False
    compared(fresh, keys, values, torch.tensor([7]), cos, sin, mask, 4, starts, torch.float32)
    fresh[..., 0] = float("nan")
    compared(fresh, keys, values, torch.tensor([7]), cos, sin, mask, 4, starts, torch.float32)


def test_angles_of_each_row(of_a_gpu):
    torch.manual_seed(0)
    fresh, keys, values, _, _, starts = drawn(3, 4, 2, 40, 16, 16, torch.float32)
    angles = torch.randn(3, 1, 1, 16)
    mask = torch.rand(3, 1, 1, 40) > 0.3
    compared(fresh, keys, values, torch.tensor([5]), angles.cos(), angles.sin(), mask, 4, starts, torch.float32)


def test_a_place_outside_is_reported(of_a_gpu):
    fresh, keys, values, cos, sin, starts = drawn(1, 2, 1, 10, 16, 16, torch.float32)
    there = [t.to(D) for t in (fresh, keys, values, torch.tensor([10]), cos, sin)]
    found = torch.ops.webgpu_backend.cached_attention(*there, None, 1.0, 2, list(starts), [0, 1, 2, 3])
    with pytest.raises(IndexError, match="index 10 is out of bounds for dimension 2 with size 10"):
        found.cpu()
    for one, other in zip(there[1:3], (keys, values)):  # nothing is written in its place
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=0)


@pytest.mark.usefixtures("compiled_by_inductor")
@pytest.mark.parametrize("dtype", ROUGH, ids=str)
def test_a_graph_becomes_one_dispatch(of_a_gpu, dtype):
    fresh, keys, values, cos, sin, starts = drawn(2, 4, 2, 50, 16, 16, dtype)
    mask = torch.rand(2, 1, 1, 50) > 0.3
    mask[..., 0] = True
    step = torch.compile(attended, fullgraph=True)
    own, there = (keys.clone(), values.clone()), (keys.to(D), values.to(D))
    rest = (cos, sin, mask)
    for place in (4, 5, 49):
        at = torch.tensor([place])
        expected = attended(fresh, *own, at, *rest, 4, starts)
        given = fresh.to(D), *there, at.to(D), *[t.to(D) for t in rest]
        found = step(*given, 4, starts)
        torch.testing.assert_close(found.cpu(), expected, rtol=ROUGH[dtype], atol=ROUGH[dtype])
        for one, other in zip(there, own):
            torch.testing.assert_close(one.cpu(), other, rtol=ROUGH[dtype] / 4, atol=ROUGH[dtype] / 4)
        fresh = -fresh
    names = kernels_of(lambda: step(*given, 4, starts))
    assert [name.partition("_f")[0].partition("_b")[0] for name in names] == ["attention_cached"], names


@pytest.mark.usefixtures("compiled_by_inductor")
def test_other_graphs_are_left(of_a_gpu):
    """Angles or a way of turning of a key's own, values at another place, caches that are seen before."""
    torch.manual_seed(0)
    fresh, keys, values, cos, sin, starts = drawn(1, 4, 2, 30, 16, 16, torch.float32)

    def wrong_way(x, cos, sin):
        return x * cos + torch.cat([x[..., 8:], -x[..., :8]], -1) * sin

    def step(fresh, keys, values, place, other, cos, sin, case):
        parts = fresh[..., :64], fresh[..., 64:96], fresh[..., 96:]
        q, k, v = (t.reshape(1, 1, -1, 16).transpose(1, 2) for t in parts)
        turn = wrong_way if case == "way" else turned
        keys.index_copy_(2, place, turn(k, sin, cos) if case == "angles" else turn(k, cos, sin))
        values.index_copy_(2, other if case == "place" else place, v)
        factor = keys.amax() if case == "seen" else 2
        return F.scaled_dot_product_attention(turned(q, cos, sin), keys, values, enable_gqa=True) * factor

    for case in ("angles", "way", "place", "seen", "one memory"):
        own, there = (keys.clone(), values.clone()), (keys.to(D), values.to(D))
        if case == "one memory":
            there = tuple(torch.stack([keys, values]).to(D))
        rest = torch.tensor([3]), torch.tensor([4]), cos, sin
        expected = step(fresh, *own, *rest, case)
        found = torch.compile(step)(fresh.to(D), *there, *[t.to(D) for t in rest], case)
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-4, msg=lambda m: f"{case}: {m}")
        for one, other in zip(own, there):
            torch.testing.assert_close(other.cpu(), one, rtol=1e-5, atol=1e-5)
