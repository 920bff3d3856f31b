"""Dispatches that are encoded again as they are: as right as when they were recorded one by one."""

import platform
import signal
import sys
import time

import pytest
import torch

import webgpu_backend
from tests import needs
from webgpu_backend.plan import launch, run
from webgpu_backend.program import Program, Step
from webgpu_backend.runtime import loop, tape
from webgpu_backend.runtime import spares as module
from webgpu_backend.runtime.errors import DeviceError
from webgpu_backend.runtime.gpu import gpu
from webgpu_backend.runtime.native import ffi

D = "webgpu"
STEPS = 24
FILL = """
    @group(0) @binding(0) var<storage, read_write> o: array<f32>;
    @compute @workgroup_size(1)
    fn main() { o[0] = 1.0; }
"""


def _no_machine_code():
    assert not (sys.platform == "linux" and platform.machine() == "x86_64")
    needs.missing("no machine code is known for this system")


@pytest.fixture(params=["machine code", "Python"])
def way(request, monkeypatch):
    """Both ways to make the calls."""
    if request.param == "Python":
        torch.webgpu.synchronize()
        monkeypatch.setattr(loop, "_loop", None)
        monkeypatch.setattr(loop, "_ask", None)
        monkeypatch.setattr(gpu().queue, "packs", False)
    elif loop._loop is None:
        _no_machine_code()
    return request.param


@pytest.fixture
def replays(monkeypatch):
    """Counts tapes that were encoded; where parameters lie in a ring, none are."""
    needs.limit("immediate_bytes", 128)
    found = []

    def counted(tape_):
        found.append(tape.replay(gpu().queue, tape_))
        return found[-1]

    monkeypatch.setattr(gpu().queue, "replay", counted)
    return found


def region(x, y):
    """As many dispatches as there are steps; x becomes x + y + 1 so many times."""
    for _ in range(STEPS // 2):
        x.add_(y)
        x.add_(1)


def captured(f):
    graph = torch.webgpu.WebGPUGraph()
    with torch.webgpu.graph(graph):
        f()
    return graph


def test_a_region_is_encoded_from_the_third_time_on(way, replays):
    x, y = torch.zeros(37, device=D), torch.arange(37.0).to(D)
    graph = captured(lambda: region(x, y))
    before = webgpu_backend.stats()["dispatches"]
    for _ in range(6):
        graph.replay()
    assert replays == [True] * 4
    assert webgpu_backend.stats()["dispatches"] - before == 6 * STEPS
    assert x.tolist() == [(i + 1) * 6 * STEPS / 2 for i in range(37)]
    y.fill_(2)
    graph.replay()
    assert x.tolist() == [(i + 1) * 6 * STEPS / 2 + 3 * STEPS / 2 for i in range(37)]


def test_more_dispatches_than_a_batch_has(way, replays):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: [region(x, y) for _ in range(20)])
    for _ in range(4):
        graph.replay()
    assert replays == [True] * 2
    assert x.tolist() == [4.0 * 20 * STEPS] * 5


def test_calls_before_and_after_have_their_own_parameters(way, replays):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))
    for i in range(5):
        x.add_(i)
        graph.replay()
        x.add_(10 * i)
    assert len(replays) == 3 and x.tolist() == [110.0 + 5 * STEPS] * 5


def test_a_graph_is_encoded_over_the_buffers_it_has(replays):
    f = torch.compile(lambda x, w: torch.softmax(x @ w, -1).cumsum(-1) @ w.t(), dynamic=False)
    w = torch.randn(33, 65)
    for _ in range(8):
        x = torch.randn(9, 33)
        inputs = [t.to(D) for t in (x, w)]
        torch.testing.assert_close(f(*inputs).cpu(), torch.softmax(x @ w, -1).cumsum(-1) @ w.t())
    assert any(replays)


def test_a_tape_ends_with_its_bind_groups(replays):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))
    for _ in range(3):
        graph.replay()
    gpu().queue._drop_groups(lambda key: True)
    for _ in range(3):
        graph.replay()
    assert replays == [True, False, True, True]
    assert x.tolist() == [6.0 * STEPS] * 5


def test_pipelines_that_were_released_are_compiled_again(replays):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))
    for _ in range(3):
        graph.replay()
    pipelines = gpu().queue.pipelines
    pipelines._release_earlier()
    pipelines._release_earlier()
    for _ in range(3):
        graph.replay()
    assert replays == [True, False, True, True]
    assert x.tolist() == [6.0 * STEPS] * 5


def test_who_watches_the_queue_sees_each_dispatch(monkeypatch, replays):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))
    for _ in range(3):
        graph.replay()
    monkeypatch.setattr(gpu().queue, "recording", [])
    graph.replay()
    assert len(gpu().queue.recording) == STEPS and replays == [True, False]


def test_a_bad_index_is_told_of_every_time(replays):
    x, index = torch.arange(6.0).to(D), torch.tensor([0, 5], device=D)
    out = torch.zeros(2, device=D)
    graph = captured(lambda: [out.copy_(x[index]) for _ in range(4)])
    for _ in range(4):
        graph.replay()
    torch.webgpu.synchronize()
    index.fill_(6)
    for _ in range(2):
        graph.replay()
        with pytest.raises(IndexError, match="index 6 is out of bounds"):
            torch.webgpu.synchronize()
    index.fill_(2)
    graph.replay()
    assert all(replays) and out.tolist() == [2.0, 2.0]


def test_an_interrupted_replay_loses_nothing(replays):
    """What is counted is computed, once."""
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))
    counted = webgpu_backend.stats()["dispatches"]

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for turn in range(120):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + turn * 5e-6)
                for _ in range(50):
                    graph.replay()
                torch.webgpu.synchronize()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except TimeoutError:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    counted = webgpu_backend.stats()["dispatches"] - counted
    assert x.tolist() == [counted] * 5 and counted > STEPS and any(replays)


def test_the_loop_makes_the_calls_of_python(monkeypatch):
    """With functions that write down how they are called."""
    if loop._loop is None:
        _no_machine_code()
    told: list = []

    def number(value):
        return int(ffi.cast("uintptr_t", value))

    kinds = (
        ("void(void *, void *)", lambda e, p: told.append(("pipeline", number(e), number(p)))),
        (
            "void(void *, uint32_t, void *, size_t, uint32_t *)",
            lambda e, i, g, n, o: told.append(("group", number(e), i, number(g), n, number(o))),
        ),
        (
            "void(void *, uint32_t, void *, size_t)",
            lambda e, at, p, n: told.append(("immediates", number(e), at, bytes(ffi.buffer(p, n)))),
        ),
        (
            "void(void *, uint32_t, uint32_t, uint32_t)",
            lambda e, x, y, z: told.append(("dispatch", number(e), x, y, z)),
        ),
    )
    calls = [ffi.callback(kind, function) for kind, function in kinds]
    monkeypatch.setattr(loop, "_CALLS", calls)
    monkeypatch.setattr(loop, "_calls", ffi.new("void *[]", [ffi.cast("void *", c) for c in calls]))
    encoder = ffi.cast("void *", 0x7FFF_1234_5678)
    dispatches = [
        (ffi.cast("void *", (1 << 47) + i), (1 << 46) + i, b"abcdefgh" * i, (i, 65535, 2**32 - 1)) for i in range(5)
    ]
    entries = loop.Entries(dispatches)
    entries.encode(encoder, 0, 5)
    entries.encode(encoder, 3, 0)
    entries.encode(encoder, 3, 1)
    by_machine, told[:] = list(told), []
    entries.memory = None
    entries.encode(encoder, 0, 5)
    entries.encode(encoder, 3, 0)
    entries.encode(encoder, 3, 1)
    assert by_machine == told and len(told) == 5 * 4 - 1 + 4


@pytest.mark.parametrize("busy", [0, 1, 3, 4, 100])
def test_the_loop_asks_until_the_device_is_idle(monkeypatch, busy):
    if loop._ask is None:
        _no_machine_code()
    asked = []

    def poll(device, wait, index):
        asked.append((int(ffi.cast("uintptr_t", device)), wait, index == ffi.NULL))
        return 0xABCDEF00 + (len(asked) > busy)  # the answer is in the lowest byte alone

    function = ffi.callback("uint32_t(void *, uint32_t, void *)", poll)
    monkeypatch.setattr(loop, "_poll_address", ffi.cast("void *", function))
    assert loop.is_idle(ffi.cast("void *", 0x7FFF_1234_5678), 4) == (busy < 4)
    assert asked == [(0x7FFF_1234_5678, 0, True)] * min(busy + 1, 4)


def test_what_is_packed_is_encoded_before_its_bind_groups_go(way):
    """Between two dispatches of a batch, and with parameters that nobody else holds."""
    x = torch.zeros(7, device=D)
    torch.webgpu.synchronize()
    queue = gpu().queue
    for i in range(40):
        x.add_(i + 0.5)
        if i % 7 == 3:
            with queue.lock:
                queue._drop_groups(lambda key: True)
    assert x.tolist() == [sum(i + 0.5 for i in range(40))] * 7


def test_tapes_are_few(monkeypatch):
    tapes = run.Tapes(run.Plan(()), 0)
    for i in range(100):
        tapes.run(run.Plan(()), [i])
    assert len(tapes.found) <= tapes.MOST


# -- commands that are ended before they are asked for


@pytest.fixture
def spares(monkeypatch):
    """Counts replays whose commands were ready; batches are handed over, as for a GPU."""
    needs.limit("immediate_bytes", 128)
    settle()
    queue = gpu().queue
    queue.spares.clear()  # those of other tests
    monkeypatch.setattr(queue, "hands_over", True)
    monkeypatch.setattr(module, "LEAST", STEPS)
    found, submit = [], queue.spares.submit

    def counted(tape_):
        found.append(tape_ in queue.spares.ready)
        return submit(tape_)

    monkeypatch.setattr(queue.spares, "submit", counted)
    yield found
    settle()
    queue.spares.clear()


def settle():
    """Waits, and until the thread has done all that is wanted."""
    torch.webgpu.synchronize()
    deadline = time.monotonic() + 60
    while gpu().queue.spares.due:
        assert time.monotonic() < deadline
        time.sleep(1e-3)


def test_commands_are_ended_before_they_are_asked_for(spares):
    x, y = torch.zeros(37, device=D), torch.arange(37.0).to(D)
    graph = captured(lambda: region(x, y))
    before = webgpu_backend.stats()["dispatches"]
    for i in range(8):
        x.add_(i)
        graph.replay()
        settle()
    x.add_(1)
    assert spares == [False, False] + [True] * 4
    assert webgpu_backend.stats()["dispatches"] - before == 8 * STEPS + 9
    assert x.tolist() == [(i + 1) * 8 * STEPS / 2 + 29 for i in range(37)]


def test_tapes_in_turns_with_uploads_and_reads(spares):
    tensors, y = [torch.zeros(5, device=D) for _ in range(12)], torch.ones(5, device=D)
    graphs = [captured(lambda x=x: region(x, y)) for x in tensors]  # more than may have some ready
    expected = [0.0] * len(tensors)
    for i in range(120):
        k = i * 5 % 12 if i < 90 else 3
        graphs[k].replay()
        expected[k] += STEPS
        if i % 7 == 0:
            assert tensors[k].tolist() == [expected[k]] * 5
        elif i % 7 == 3:
            tensors[k].copy_(torch.full((5,), float(i)))
            expected[k] = float(i)
    settle()
    assert any(spares) and len(gpu().queue.spares.ready) <= module.MOST
    assert [t.tolist() for t in tensors] == [[e] * 5 for e in expected]


def test_they_go_with_their_bind_groups(spares):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))
    for _ in range(6):
        graph.replay()
        settle()
    queue = gpu().queue
    assert queue.spares.ready
    queue._drop_groups(lambda key: True)
    assert not queue.spares.ready
    for _ in range(6):
        graph.replay()
        settle()
    assert queue.spares.ready
    queue.pipelines._release_earlier()
    queue.pipelines._release_earlier()
    assert not queue.spares.ready
    graph.replay()
    assert x.tolist() == [13.0 * STEPS] * 5


def test_what_is_open_before_them_may_be_refused(spares):
    x, y, spoiled = torch.zeros(5, device=D), torch.ones(5, device=D), torch.zeros(5, device=D)
    graph = captured(lambda: region(x, y))
    for _ in range(6):
        graph.replay()
        settle()
    torch.webgpu.synchronize()
    x.add_(1)
    launch(Step(Program("too_many", FILL, "w", 0), b"", (gpu().caps.max_groups + 1, 1, 1)), spoiled)
    graph.replay()
    with pytest.raises(DeviceError, match="too_many"):
        torch.webgpu.synchronize()
    assert spares[-1] and x.tolist() == [7.0 * STEPS + 1] * 5


def test_interrupts_lose_none_of_them(spares):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))
    for _ in range(4):
        graph.replay()
    settle()
    assert x.tolist() == [4.0 * STEPS] * 5

    def stop(*_):
        raise TimeoutError

    done, before, first = 0, signal.signal(signal.SIGALRM, stop), gpu().queue.dispatches
    try:
        for turn in range(60):
            settle()
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + turn * 2e-5)
                for _ in range(20):
                    graph.replay()
                torch.webgpu.synchronize()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except TimeoutError:
                done += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    count = gpu().queue.dispatches - first
    assert done and any(spares) and x.tolist() == [4.0 * STEPS + count] * 5


def test_what_goes_wrong_on_the_thread_is_told(spares, monkeypatch):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))

    def fails():
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(gpu().queue.spares, "make", fails)
        for _ in range(4):
            graph.replay()
        with pytest.raises(DeviceError, match="no more"):  # by the first wait, if the thread was that quick
            settle()
            torch.webgpu.synchronize()
    settle()
    assert x.tolist() == [4.0 * STEPS] * 5


def test_short_tapes_and_those_nobody_waits_for_have_none(spares, monkeypatch):
    x, y = torch.zeros(5, device=D), torch.ones(5, device=D)
    graph = captured(lambda: region(x, y))
    for _ in range(20):
        graph.replay()
    assert not gpu().queue.spares.ready and list(gpu().queue.spares.wanted)
    monkeypatch.setattr(module, "LEAST", STEPS + 1)
    short = captured(lambda: region(y, y))
    for _ in range(6):
        short.replay()
        settle()
    assert len(gpu().queue.spares.ready) == 1 and not any(spares)
