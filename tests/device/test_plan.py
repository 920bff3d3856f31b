"""Plans: what a call does is found out once for its metadata, and done over the buffers of every call."""

import threading
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from tests import needs
from tests.device._adapter import kernels_of, recorded
from webgpu_backend import tensor as T
from webgpu_backend.plan import cache, constant, planned
from webgpu_backend.plan.cache import Cache
from webgpu_backend.plan.graphs import planned_graph
from webgpu_backend.program import Plan
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"


def dispatches(f):
    before = webgpu_backend.stats()["dispatches"]
    result = f()
    return result, webgpu_backend.stats()["dispatches"] - before


@pytest.mark.parametrize("shape", [(4, 3, 5, 7), (2, 64, 9), (8, 6)])
def test_batch_norm_trains_alike_at_every_call(shape):
    torch.manual_seed(0)
    make = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d}[len(shape)]
    want, got = make(shape[1]), make(shape[1]).to("webgpu")
    counts = []
    for _ in range(4):  # other data each time, and gradients that depend on it
        x = torch.randn(shape)
        a, b = x.clone().requires_grad_(), x.to("webgpu").requires_grad_()
        y, count = dispatches(lambda b=b: got(b))
        counts.append(count)
        z = want(a)
        z.square().sum().backward()
        y.square().sum().backward()
        torch.testing.assert_close(y.cpu(), z, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(got.weight.grad.cpu(), want.weight.grad, rtol=1e-3, atol=1e-3)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(got, name).cpu(), getattr(want, name), rtol=1e-4, atol=1e-5)
    assert len(set(counts)) == 1, counts


def test_the_function_itself_runs_once():
    calls = []

    @planned
    def twice(x, factor):
        calls.append(factor)
        return (x * factor).relu(), x.sum(0), None

    for i in range(3):
        x = torch.randn(5, 3)
        y, total, nothing = twice(x.to("webgpu"), 2.0)
        torch.testing.assert_close(y.cpu(), (x * 2).relu())
        torch.testing.assert_close(total.cpu(), x.sum(0))
        assert nothing is None and len(calls) == 1, i
    twice(torch.randn(5, 3).to("webgpu"), 3.0)
    twice(torch.randn(5, 4).to("webgpu")[:, 1:], 3.0)
    assert calls == [2.0, 3.0, 3.0]


def test_a_plan_is_made_without_memory_and_dispatches():
    before, seen = [], []

    @planned
    def double(x):
        y = x * 2
        stats = webgpu_backend.stats()
        seen.append((T.block_of(x).handle, T.block_of(y).handle, y.shape, stats["dispatches"], stats["bytes_live"]))
        return y.relu()

    x = torch.randn(5, 300)
    moved = x.to("webgpu")
    for _ in range(3):
        before.append(webgpu_backend.stats())
        torch.testing.assert_close(double(moved).cpu(), (x * 2).relu())
    assert seen == [(None, None, x.shape, before[0]["dispatches"], before[0]["bytes_live"])]


def test_nothing_runs_of_a_function_that_raises():
    @planned(writes=True)
    def change(x, good):
        x.add_(1)
        if not good:
            raise ValueError("half way")
        return x

    x = torch.zeros(4).to("webgpu")
    for _ in range(2):
        before = webgpu_backend.stats()["dispatches"]
        with pytest.raises(ValueError, match="half way"):
            change(x, False)
        assert webgpu_backend.stats()["dispatches"] == before
        assert change(x, True) is x
    assert x.tolist() == [2.0] * 4


def test_every_run_draws_anew():
    def draw(x):
        return torch.rand_like(x) + F.dropout(x, 0.5)

    run, x = planned(draw), torch.ones(100).to("webgpu")
    torch.manual_seed(3)
    expected = [draw(x).cpu() for _ in range(3)]
    torch.manual_seed(3)
    for want in expected:
        assert torch.equal(run(x).cpu(), want)
    assert not torch.equal(expected[0], expected[1])


def test_plans_are_forgotten_when_the_cache_is_cleared():
    calls = []

    @planned
    def next_one(x):
        calls.append(None)
        return x + 1

    x = torch.ones(3).to("webgpu")
    for _ in range(2):
        next_one(x)
        next_one(x)
        assert len(cache) == sum(map(len, cache.tables)) > 0
        cache.clear()
        assert len(cache) == cache.size == 0
    assert len(calls) == 2


def test_each_world_has_plans_of_its_own(monkeypatch):
    """What no call shows and plans depend on: when it changes back, the plans of before are there again."""
    calls = []

    @planned
    def half(x):
        calls.append(None)
        return (x / 2).relu()

    x = torch.arange(6).to("webgpu")

    def both(expected):
        for _ in range(2):
            got = half(x)
            assert got.dtype is torch.get_default_dtype() and got.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
        assert len(calls) == expected

    def in_other_worlds(counts):
        own, counts = gpu().caps, iter(counts)
        with monkeypatch.context() as patch:
            patch.setattr(gpu(), "caps", replace(own, kind="cpu" if own.kind == "gpu" else "gpu"))
            both(next(counts))
        for change, there, back in (
            (torch.set_default_dtype, torch.float16, torch.float32),
            (torch.use_deterministic_algorithms, True, False),
        ):
            try:
                change(there)
                both(next(counts))
            finally:
                change(back)

    torch.use_deterministic_algorithms(False)  # a fact of the world from here on
    torch.set_default_dtype(torch.float32)
    both(1)
    in_other_worlds((2, 3, 4))
    both(4)
    in_other_worlds((4, 4, 4))


def test_the_oldest_plans_make_room():
    small = Cache()
    small.most = 6
    first, second = small.table("first"), small.table("second")
    short, long = Plan(()), Plan((None,) * 17)  # which counts for three
    for key in range(4):
        small.keep(first, (key,), short)
    small.keep(second, ("long",), long)
    assert [key for (key,) in first] == [1, 2, 3] and [key for (key,) in second] == ["long"]
    assert small.size == 6 and small.evicted == 1 and len(small) == 4
    small.change(kind="other")
    assert len(small) == small.size == 0
    small.keep(first, (9,), short)
    small.change(kind="a third")
    small.change(kind="other")
    assert [key for (key,) in first] == [9] and not second and small.size == 1


def test_an_output_in_a_block_of_something_larger():
    """The pool may give an output a block that is larger than it asks for; that of the next call's may not be."""
    torch.webgpu.empty_cache()

    @planned
    def spread(x):
        total = (x * 2).sum()
        return total.expand(270_000).clone()

    x = torch.ones(330_000)
    moved = x.to("webgpu")
    torch.empty(330_000, device="webgpu")  # its block is free again, and a little larger than what is asked for next
    first = spread(moved)
    larger = T.block_of(first).size
    assert larger > T.meta((270_000,), None, torch.float32).block_size, "the pool gave it no larger block"
    held = torch.empty(330_000, device="webgpu")  # what the product's block was
    exact = torch.empty(270_000, device="webgpu")
    assert T.block_of(exact).size < larger
    del held, exact  # the next output gets the latter
    for _ in range(3):
        got = []
        steps = recorded(lambda got=got: got.append(spread(moved)))
        assert steps[0].step.program.name.startswith("mul") and steps[0].buffers[-1].size >= x.numel() * 4
        torch.testing.assert_close(got[0].cpu(), torch.full((270_000,), 660_000.0))


def test_results_may_be_arguments_and_parts():
    calls = []

    @planned
    def f(x, n):
        calls.append(n)
        y = x + 1
        return x, x[1:], y[2:], y, n * 2

    for i in range(3):
        x = torch.full((4,), float(i)).to("webgpu")
        same, part, rest, y, twice = f(x, 5)
        assert same is x and twice == 10 and part.storage_offset() == 1 and rest.storage_offset() == 2
        part.zero_()
        rest.fill_(7)
        assert x.tolist() == [i, 0, 0, 0] and y.tolist() == [i + 1, i + 1, 7, 7]
    assert calls == [5]


def test_what_cannot_be_planned_runs_as_written():
    calls = []

    @planned
    def read(x):
        calls.append("read")
        try:
            return x + x.sum().item()
        except Exception:  # is not meant by what ends an attempt to plan
            return x * 0

    three = torch.full((4,), 3.0).to("webgpu")

    @planned
    def others(x):
        calls.append("others")
        return x * three

    a = torch.ones(4).to("webgpu")
    for _ in range(2):
        assert others(a).cpu().tolist() == [3.0] * 4
    for n in (1.0, 2.0):
        assert read(torch.full((2,), n).to("webgpu")).cpu().tolist() == [3 * n] * 2
    # An attempt that comes to nothing, once for the metadata, and the two calls.
    assert calls == ["others"] * 3 + ["read"] * 3


def test_arguments_that_share_a_buffer():
    calls = []

    @planned
    def difference(a, b):
        calls.append(None)
        return a.sub(b), b.neg()

    for _ in range(2):
        x = torch.randn(2, 6)
        y = x.to("webgpu")
        for a, b, c, d in ((x, x, y, y), (x, x.clone(), y, y.clone()), (x[0], x[1], y[0], y[1])):
            got = difference(c, d)
            torch.testing.assert_close(got[0].cpu(), a - b)
            torch.testing.assert_close(got[1].cpu(), -b)
    assert len(calls) == 2  # for the whole and for its rows: what is only read may share a buffer


def test_written_arguments_that_share_a_buffer():
    calls = []

    @planned(writes=True)
    def add(a, b):
        calls.append(None)
        a.add_(b)
        return a * 2, b + 1

    for _ in range(2):
        for pick in (lambda x: (x, x), lambda x: (x, x.clone()), lambda x: (x[0], x[1]), lambda x: (x[0], x[0])):
            x = torch.randn(2, 6)
            y = x.to("webgpu")
            a, b = pick(x)
            got = add(*pick(y))
            a.add_(b)
            torch.testing.assert_close(y.cpu(), x)
            torch.testing.assert_close(got[0].cpu(), a * 2)
            torch.testing.assert_close(got[1].cpu(), b + 1)
    assert len(calls) == 4


def test_constants_are_read_for_as_long_as_they_are_kept():
    calls, tables = [], {}

    @planned
    def scaled(x):
        calls.append(x.shape)
        if "three" not in tables:
            tables["three"] = constant(lambda: torch.full((4,), 3.0).to("webgpu"))  # uploaded while it is planned
        return x * tables["three"]

    for _ in range(4):
        assert scaled(torch.ones(4).to("webgpu")).cpu().tolist() == [3.0] * 4
    assert len(calls) == 1
    tables["three"] = constant(lambda: torch.full((4,), 5.0).to("webgpu"))
    for _ in range(4):
        assert scaled(torch.ones(4).to("webgpu")).cpu().tolist() == [5.0] * 4
    assert len(calls) == 3  # by the call that misses the constant for its own buffers, by the next for all


def test_making_a_constant_is_no_part_of_a_plan():
    tables = {}

    @planned
    def scaled(x):
        if "three" not in tables:
            tables["three"] = constant(lambda: torch.full((4,), 3.0, device="webgpu"))
        return x * tables["three"]

    x = torch.ones(4).to("webgpu")
    for made in (1, 0, 0):
        kernels = kernels_of(lambda: scaled(x))
        assert len(kernels) == 1 + made and kernels[-1].startswith("mul"), kernels
        assert scaled(x).cpu().tolist() == [3.0] * 4


def test_a_bad_index_is_reported_at_every_call():
    target, source = torch.zeros(8).to("webgpu"), torch.ones(4).to("webgpu")
    good, bad = (torch.tensor([1, 2, last, 1]).to("webgpu") for last in (3, 30))
    for index in (bad, good, bad, good):
        added = target.scatter_add(0, index, source)
        if index is bad:
            with pytest.raises(IndexError, match="index 30 is out of bounds for dimension 0 with size 8"):
                added.cpu()
        else:
            assert added.cpu().tolist() == [0, 2, 1, 1, 0, 0, 0, 0]


def test_empty_arguments():
    """A cache that starts empty: the first call joins nothing and something."""
    for shape in ((0,), (2, 0, 3)):
        for _ in range(3):
            x = torch.randn(2, 4, 3)
            empty = torch.empty(shape)
            got = torch.cat([empty.to("webgpu"), x.to("webgpu")], 1)
            torch.testing.assert_close(got.cpu(), torch.cat([empty, x], 1))
    norm = torch.nn.LayerNorm(5).to("webgpu")
    for _ in range(3):
        assert norm(torch.empty(0, 5).to("webgpu")).shape == (0, 5)


def test_memory_returns():
    x = torch.randn(64, 1000).to("webgpu")
    F.layer_norm(x, (1000,))
    before = webgpu_backend.stats()["bytes_live"]
    for _ in range(3):
        y = F.layer_norm(x, (1000,))
        assert webgpu_backend.stats()["bytes_live"] == before + y.numel() * 4
        del y
    assert webgpu_backend.stats()["bytes_live"] == before


def test_under_the_profiler():
    needs.timestamps()
    x = torch.randn(3, 11, 13)
    with torch.webgpu.profiler.profile() as first:
        y = F.layer_norm(x.to("webgpu"), (13,))
    F.layer_norm(x.to("webgpu"), (13,))
    with torch.webgpu.profiler.profile() as later:
        z = F.layer_norm(x.to("webgpu"), (13,))
    torch.testing.assert_close(y.cpu(), z.cpu(), rtol=0, atol=0)
    assert [e.name for e in first] == [e.name for e in later]


def test_threads_do_not_mix_their_dispatches():
    inputs = [torch.randn(7, 9 + i) for i in range(6)]
    found: dict = {}

    def work(i):
        x = inputs[i].to("webgpu")
        for _ in range(5):
            found[i] = F.layer_norm(x + 0, (x.shape[1],)).cpu()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, x in enumerate(inputs):
        torch.testing.assert_close(found[i], F.layer_norm(x, (x.shape[1],)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.int64], ids=str)
def test_what_lies_behind_a_written_argument_stays(dtype):
    """The plan was made with a tensor that ends where its storage does, and writes whole groups there."""
    change = planned_graph(lambda x: x.add_(1))
    for _ in range(3):
        change(torch.zeros(5, dtype=dtype, device=D))
    for _ in range(3):
        whole = torch.full((9,), 7, dtype=dtype, device=D)
        change(whole[:5])
        assert whole.tolist() == [8] * 5 + [7] * 4


def test_what_lies_behind_running_statistics_stays():
    x = torch.randn(4, 5, 3, device=D)
    for _ in range(3):
        torch.nn.functional.batch_norm(x, torch.zeros(5, device=D), torch.ones(5, device=D), training=True)
    mean, variance = torch.full((8,), 7.0, device=D), torch.full((8,), 7.0, device=D)
    torch.nn.functional.batch_norm(x, mean[:5], variance[:5], training=True)
    assert mean[5:].tolist() == variance[5:].tolist() == [7.0] * 3 and not (mean[:5] == 7).any()
