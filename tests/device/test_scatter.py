"""Writing through indices, with and without reductions."""

import dataclasses

import pytest
import torch

import webgpu_backend
from tests.device._compare import MOVED, gradients, same, values
from webgpu_backend.runtime.gpu import gpu

DEVICE = "webgpu"
REAL = [d for d in MOVED if not d.is_complex]


@pytest.fixture(autouse=True)
def seed():
    torch.default_generator.manual_seed(0)


def distinct(limit, shape, dim):
    """Indices that do not repeat along dim: what is written last is then no question."""
    order = torch.rand([limit if d == dim else s for d, s in enumerate(shape)]).argsort(dim)
    return order.narrow(dim, 0, shape[dim])


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_plain_writes(dtype):
    x, src = values((5, 7, 9), dtype), values((5, 5, 9), dtype)
    index = distinct(7, (4, 3, 9), 1)
    same(lambda x, i, s: x.scatter(1, i, s), x, index, src)
    same(lambda x, i, s: x.scatter(1, i.int() if x.device.type == "webgpu" else i, 3), x, index, src)
    same(lambda x, i, s: x.transpose(1, 2).scatter_(2, i.transpose(1, 2), s.transpose(1, 2)), x, index, src)
    same(lambda x, i, s: x[:, :, 1:].scatter_(1, i[..., 1:], s[..., 1:]), x, index, src)
    rows = torch.tensor([3, 1, 6, 0])
    same(lambda x, i, s: x.index_copy(1, i, s[:, :4]), x, rows, src)
    same(lambda x, i, s: x.index_copy(0, i, s), values((9, 8), dtype), rows, values((4, 8), dtype))
    same(lambda x, i: x.index_fill(1, i, 1), x, torch.tensor([3, 1, -2]))
    same(lambda x, i: x.index_fill(2, i, x[0, 0, 0]), x, torch.tensor([3, 1, -2]))
    same(lambda x, i, s: x.put(i, s.flatten()[:3]), x, torch.tensor([3, -1, 7]), src)
    same(lambda x, i, s: x.t().put_(i, s.flatten()[:3]), values((4, 5), dtype), torch.tensor([3, -1, 7]), src)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_setitem(dtype):
    def assign(place):
        def run(x, i, j, m, v):
            place(x, i, j, m, v)
            return x

        return run

    def first(x, i, j, m, v):
        x[i] = v

    def column(x, i, j, m, v):
        x[:, j, 1] = v[:, :3]

    def grid(x, i, j, m, v):
        x[i[:, None], j] = v[0]

    def number(x, i, j, m, v):
        x[m] = 1

    def element(x, i, j, m, v):
        x[m] = v[0, 0]

    def masked(x, i, j, m, v):
        x[m] = v[0].expand(m.nonzero().shape[0], 9)

    def partly(x, i, j, m, v):
        x[:, m[0]] = v[0]

    def own(x, i, j, m, v):
        x[i] = x[j[:2]]

    arguments = values((5, 7, 9), dtype), torch.tensor([3, -1]), torch.tensor([3, 1, -2]), torch.rand(5, 7) > 0.5
    for place in (first, column, grid, number, element, masked, partly, own):
        v = {first: (2, 7, 9), column: (5, 4), own: (1,)}.get(place, (1, 9))
        v = (1, 9) if place in (grid, masked, partly) else v
        v = (1, 1) if place is element else v
        same(assign(place), *arguments, values(v, dtype))


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_accumulate(dtype):
    x, src = values((5, 7, 9), dtype), values((5, 5, 9), dtype)
    index = torch.randint(0, 7, (4, 3, 9))
    same(lambda x, i, s: x.scatter_add(1, i, s), x, index, src, tolerance=None)
    same(lambda x, i, s: x.scatter(1, i, s, reduce="add"), x, index, src, tolerance=None)
    same(lambda x, i, s: x.scatter(1, i, s, reduce="multiply"), x, index, src, tolerance=None)
    same(lambda x, i, s: x.scatter(1, i, 2, reduce="add"), x, index, src, tolerance=None)
    rows = torch.tensor([3, 1, 3, 0])
    same(lambda x, i, s: x.index_add(1, i, s[:, :4]), x, rows, src, tolerance=None)
    same(lambda x, i, s: x.index_add(1, i, s[:, :4], alpha=2), x, rows, src, tolerance=None)
    same(lambda x, i, s: x.transpose(0, 2).index_add_(1, i, s[:, :4].transpose(0, 2)), x, rows, src, tolerance=None)
    same(lambda x, i, s: x.index_put((i, i[:, None]), s[0, :4], True), x[:, :, 0], rows, src[:, :, :4], tolerance=None)
    same(lambda x, i, s: x.put(i, s.flatten()[:4], accumulate=True), x, rows, src, tolerance=None)
    same(lambda x, m, s: x.index_put((m,), s[0, 0], accumulate=True), x, torch.rand(5, 7) > 0.5, src, tolerance=None)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("include_self", [True, False])
def test_reduce(dtype, include_self):
    x, src = values((5, 7, 9), dtype, 2), values((5, 5, 9), dtype, 2)
    index, rows = torch.randint(0, 7, (4, 3, 9)), torch.tensor([3, 1, 3, 0])
    for how in ("sum", "prod", "mean", "amax", "amin"):
        if dtype is torch.bool and how == "mean":
            continue
        same(lambda x, i, s: x.scatter_reduce(1, i, s, how, include_self=include_self), x, index, src, tolerance=None)
        if how != "sum" and dtype is not torch.bool:
            row = src[:, :4]
            same(lambda x, i, s: x.index_reduce(1, i, s, how, include_self=include_self), x, rows, row, tolerance=None)


def test_nan_wins():
    x, s = torch.tensor([1.0, float("nan"), 2.0]), torch.tensor([float("nan"), 5.0, float("inf")])
    for how in ("amax", "amin"):
        same(lambda x, s: x.scatter_reduce(0, torch.tensor([0, 1, 2], device=x.device), s, how), x, s)


def test_int64_is_exact():
    x = torch.tensor([2**40, -(2**62), 5])
    index = torch.randint(0, 3, (2000,))
    src = torch.randint(-(2**50), 2**50, (2000,))
    same(lambda x, i, s: x.scatter_add(0, i, s), x, index, src)
    same(lambda x, i, s: x.index_put((i,), s, accumulate=True), x, index, src)
    for how in ("amax", "amin", "prod"):
        same(lambda x, i, s: x.scatter_reduce(0, i, s, how), x, index, src)


def test_long_lists():
    """More values on one element than a software driver lets a loop run."""
    index, src = torch.zeros(70_000, dtype=torch.int64), torch.arange(70_000)
    same(lambda x, i, s: x.scatter_reduce(0, i, s, "amax"), torch.tensor([3, 4]), index, src)


def test_many_on_one_element():
    same(lambda x, i, s: x.scatter_add(0, i, s), torch.zeros(3), torch.randint(0, 3, (50_000,)), torch.ones(50_000))
    for dtype in (torch.int32, torch.int8):
        index, src = torch.randint(0, 3, (5_000,)), torch.ones(5_000, dtype=dtype)
        same(lambda x, i, s: x.scatter_add(0, i, s), torch.zeros(3, dtype=dtype), index, src)


def test_0_dim_and_empty():
    x, zero = torch.tensor(3.0), torch.tensor(0)
    same(lambda x, i: x.scatter(0, i, x + 1), x, zero)
    same(lambda x, i: x.scatter_add(0, i, x + 1), x, zero)
    same(lambda x, i: x.gather(0, i), x, zero)
    same(lambda x, i: x.index_add(0, i, x), x, zero)
    same(lambda x, i: x.index_copy(0, i, x + 1), x, zero)
    same(lambda x, i: x.index_fill(0, i, 7), x, zero)
    same(lambda x, i: x.index_select(0, i), x, zero)
    same(lambda x, i: x.scatter(0, i, x), torch.randn(4), torch.zeros(0, dtype=torch.int64))
    same(lambda x, i: x.index_add(0, i, x[:0]), torch.randn(4, 2), torch.zeros(0, dtype=torch.int64))


def test_gradients():
    x, src = values((5, 7), torch.float32), values((4, 3), torch.float32)
    index = distinct(7, (4, 3), 1)
    repeated = torch.randint(0, 7, (4, 3))
    gradients(lambda x, s, i: x.scatter(1, i, s), x, src, index)
    gradients(lambda x, s, i: x.scatter_add(1, i, s), x, src, repeated)
    for how in ("sum", "mean", "amax", "amin", "prod"):
        gradients(lambda x, s, i: x.scatter_reduce(1, i, s, how), x, src, repeated)
    rows = torch.tensor([3, 1, 0])
    gradients(lambda x, s, i: x.index_add(0, i, s), x, x[:3] * 2, rows)
    gradients(lambda x, s, i: x.index_copy(0, i, s), x, x[:3] * 2, rows)
    gradients(lambda x, s, i: x.index_put((i,), s, accumulate=True), x, x[:3] * 2, rows)
    gradients(lambda x, s, m: x.masked_scatter(m, s), x, values((40,), torch.float32), torch.rand(5, 7) > 0.5)


def test_masked_scatter_with_too_few_values():
    x = torch.zeros(4, device=DEVICE)
    y = x.masked_scatter(torch.tensor([True] * 4).to(DEVICE), torch.ones(3, device=DEVICE))
    with pytest.raises(RuntimeError, match="masked_scatter"):
        y.cpu()


def test_writing_to_an_expanded_tensor_is_refused():
    x = torch.zeros(1, device=DEVICE).expand(4)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.scatter_(0, torch.tensor([1]).to(DEVICE), 1.0)


def test_one_dispatch():
    x, i = torch.zeros(8, 8).to(DEVICE), torch.zeros(8, 8, dtype=torch.int64).to(DEVICE)
    x.scatter_add_(1, i, x + 1), x.index_fill_(0, i[0], 3)
    source = x + 1
    before = webgpu_backend.stats()
    x[:5].scatter_add_(1, i[:3], source)
    x.index_fill_(0, i[1], 4)
    after = webgpu_backend.stats()
    assert after["dispatches"] - before["dispatches"] == 2
    assert after["pipelines_compiled"] == before["pipelines_compiled"]


def test_index_fill_gradient_of_the_value():
    gradients(lambda x, v, i: x.index_fill(0, i, v), torch.randn(4, 3), torch.tensor(2.0), torch.tensor([1, 3, 1]))


@pytest.fixture
def small_bindings():
    """The binding limit of a far smaller device, so that a small tensor needs several windows."""
    torch.zeros(1, device=DEVICE)
    device, before = gpu(), gpu().caps
    device.caps = device.queue.caps = dataclasses.replace(before, max_binding=4096)
    yield
    device.caps = device.queue.caps = before


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("width", [8, 7])
def test_tables_larger_than_a_binding(dtype, width, small_bindings):
    rows = 20000 // (width * dtype.itemsize)
    table = values((rows, width), dtype)
    index = torch.randperm(rows)[:40]
    picked = torch.randint(0, width, (40, 3))
    same(lambda t, i, p: torch.nn.functional.embedding(i, t), table, index, picked)
    same(lambda t, i, p: t[i[:, None], p], table, index, picked)

    def copied(t, i, p):
        t.index_copy_(0, i[:20], t[i[20:]])
        t.index_add_(0, i[:5], t[i[20:25]])
        t[i[:3]] = 1
        return t[torch.cat([i, i[:9]])]

    same(copied, table, index, picked, tolerance=None)
    with pytest.raises(IndexError):
        table.to(DEVICE)[torch.tensor([rows]).to(DEVICE)].cpu()


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_sums_of_complex32():
    index = torch.tensor([1, 1, 4, 1])

    def sums(device):
        at = index.to(device)
        target = torch.arange(15.0).reshape(5, 3).to(torch.complex32).to(device)
        value = (torch.arange(12.0).reshape(4, 3) * (1 - 0.5j)).to(torch.complex32).to(device)
        results = target.index_add(0, at, value), target.index_put((at,), value, accumulate=True)
        return [torch.view_as_real(r.cpu()) for r in results]

    for expected, found in zip(sums("cpu"), sums(DEVICE)):
        assert torch.equal(expected, found)


def test_results_lie_as_the_cpu_s():
    """Also in dimensions of one element, whose strides nobody walks."""

    def strides(device):
        x = torch.tensor([1.0, 0.0, 2.0]).to(device).argwhere()
        at, whole = torch.zeros(1, dtype=torch.long, device=device), torch.zeros_like(x)
        made = [x.index_reduce(1, at, x, "amax"), x.index_add(1, at, x), x.index_copy(1, at, x), x.index_fill(1, at, 3),
                x.scatter_reduce(1, whole, x, "sum"), x.scatter_add(1, whole, x), x.scatter(1, whole, x),
                x.masked_scatter(x > 0, x), x.index_put((at,), x[:1]), x.put(at, at)]  # fmt: skip
        return [t.stride() for t in made]

    assert strides("webgpu") == strides("cpu")
