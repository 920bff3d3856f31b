"""Operators that keep the dispatches of their first call: later calls do the same work on other buffers."""

import threading

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from webgpu_backend import tensor as T
from webgpu_backend.ops.remember import keep, remembered
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

    @remembered
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


def test_an_output_in_a_block_of_something_larger():
    """The pool may give the output the block of an intermediate that was larger; the next output's block may not be."""
    torch.webgpu.empty_cache()

    @remembered
    def spread(x):
        total = (x * 2).sum()  # the product's block is free again, and a little larger than what is asked for next
        return total.expand(270_000).clone()

    x = torch.ones(330_000)
    moved = x.to("webgpu")
    first = spread(moved)
    larger = T.block_of(first).size
    assert larger > T.meta((270_000,), None, torch.float32).block_size, "the pool gave it no larger block"
    exact = torch.empty(270_000, device="webgpu")
    assert T.block_of(exact).size < larger
    del exact  # the next output gets this one
    for _ in range(3):
        queue = gpu().queue
        with queue.lock:
            queue.recording = steps = []
            try:
                got = spread(moved)
            finally:
                queue.recording = None
        assert steps[0].program.name.startswith("mul") and steps[0].buffers[-1].size >= x.numel() * 4
        torch.testing.assert_close(got.cpu(), torch.full((270_000,), 660_000.0))


def test_results_may_be_arguments_and_parts():
    calls = []

    @remembered
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


def test_what_cannot_be_kept_runs_as_written():
    calls = []

    @remembered
    def read(x):
        calls.append("read")
        return x + x.sum().item()

    three = torch.full((4,), 3.0).to("webgpu")

    @remembered
    def constant(x):
        calls.append("constant")
        return x * three

    a = torch.ones(4).to("webgpu")
    for _ in range(2):
        assert constant(a).cpu().tolist() == [3.0] * 4
    for n in (1.0, 2.0):
        assert read(torch.full((2,), n).to("webgpu")).cpu().tolist() == [3 * n] * 2
    assert calls == ["constant"] * 2 + ["read"] * 2


def test_arguments_that_share_a_buffer():
    calls = []

    @remembered
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
    assert len(calls) == 3


def test_constants_are_read_for_as_long_as_they_are_kept():
    calls, tables = [], {}

    @remembered
    def scaled(x):
        calls.append(x.shape)
        if "three" not in tables:
            tables["three"] = keep(torch.full((4,), 3.0).to("webgpu"))  # uploaded by the first call
        return x * tables["three"]

    for _ in range(4):
        assert scaled(torch.ones(4).to("webgpu")).cpu().tolist() == [3.0] * 4
    assert len(calls) == 2
    tables["three"] = keep(torch.full((4,), 5.0).to("webgpu"))
    for _ in range(3):
        assert scaled(torch.ones(4).to("webgpu")).cpu().tolist() == [5.0] * 4
    assert len(calls) == 4


def test_making_a_constant_is_no_part_of_a_plan():
    tables = {}

    @remembered
    def scaled(x):
        if "three" not in tables:
            tables["three"] = keep(torch.full((4,), 3.0, device="webgpu"))
        return x * tables["three"]

    x = torch.ones(4).to("webgpu")
    for _ in range(3):
        before = webgpu_backend.stats()["dispatches"]
        assert scaled(x).cpu().tolist() == [3.0] * 4
    assert webgpu_backend.stats()["dispatches"] - before == 1


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
    if not torch.webgpu.profiler.is_available():
        pytest.skip("this device has no timestamps")
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
    change = remembered(lambda x: x.add_(1), graph=True)
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
