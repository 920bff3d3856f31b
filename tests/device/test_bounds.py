"""What the runtime holds is bounded: pipelines, bind groups and free memory. Less room changes no result."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import webgpu_backend
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
N = 70


def text(k: int) -> str:
    return f"""
        @group(0) @binding(0) var<storage, read_write> y: array<f32>;
        struct P {{ n: u32, s: f32 }}
        @compute @workgroup_size(64)
        fn f(@builtin(global_invocation_id) id: vec3<u32>) {{
            if (id.x < p.n) {{ y[id.x] = y[id.x] * p.s + {k}.0; }}
        }}"""


def counts(*names) -> list[int]:
    found = webgpu_backend.stats()
    return [found[name] for name in names]


@pytest.fixture
def room(monkeypatch):
    """A function that says how many pipelines may be kept, and bytes of text."""

    def change(pipelines: int, nbytes: int = 1 << 20):
        monkeypatch.setattr(gpu().pipelines, "most", pipelines)
        monkeypatch.setattr(gpu().pipelines, "most_bytes", nbytes)
        for _ in range(2):  # what other tests left behind, in both generations
            gpu().pipelines._release_earlier()

    torch.ones(1, device=D)  # opens the device
    return change


def test_more_programs_than_pipelines_may_be_kept(room):
    room(8)
    kernels = [torch.webgpu.compile_shader(text(k)).f for k in range(100, 140)]
    for _ in range(2):
        for k, kernel in enumerate(kernels, 100):
            y = torch.ones(N, device=D)
            kernel(y, N, 3.0)
            assert y.tolist() == [3.0 + k] * N
            assert counts("pipelines_live")[0] <= 8
    assert len(gpu().queue.compiled) <= 8


def test_more_programs_in_one_batch_than_pipelines_may_be_kept(room):
    """Nothing waits between the calls, so what is released was recorded a moment ago."""
    room(4)
    kernels = [torch.webgpu.compile_shader(text(k)).f for k in range(200, 212)]
    results = [torch.ones(N, device=D) for _ in kernels]
    for _ in range(3):
        for y, kernel in zip(results, kernels):
            kernel(y, N, 2.0)
    for k, y in enumerate(results, 200):
        assert y.tolist() == [((2.0 + k) * 2 + k) * 2 + k] * N
    assert counts("pipelines_live")[0] <= 4


def test_the_bytes_of_all_texts_are_bounded(room):
    most = 12 * len(text(300))
    room(1000, nbytes=most)
    for k in range(300, 330):
        y = torch.ones(N, device=D)
        torch.webgpu.compile_shader(text(k)).f(y, N, 1.0)
        assert y.tolist() == [1.0 + k] * N
        assert counts("pipelines_text_bytes")[0] <= most
    room(1000, nbytes=100)  # a text that is longer than all may be is compiled nevertheless
    y = torch.ones(N, device=D)
    torch.webgpu.compile_shader(text(331)).f(y, N, 1.0)
    assert y.tolist() == [332.0] * N


def test_operators_with_little_room(room):
    x = torch.randn(40, 30)
    before = x.to(D)
    room(4)
    for _ in range(2):
        for name in ("exp", "sin", "tanh", "relu", "neg", "abs", "sqrt", "cos", "sigmoid", "floor"):
            got = getattr(torch, name)(before).sum(1).cpu()
            torch.testing.assert_close(got, getattr(torch, name)(x).sum(1), rtol=1e-5, atol=1e-5, equal_nan=True)
    assert counts("pipelines_live")[0] <= 4


def test_what_is_used_stays(room):
    """Pipelines in use are not compiled again, however many others come and go."""
    room(16)
    often = torch.webgpu.compile_shader(text(400)).f
    y = torch.ones(N, device=D)
    compiled = counts("pipelines_compiled")[0]
    for k in range(401, 441):
        torch.webgpu.compile_shader(text(k)).f(y, N, 0.0)
        often(y, N, 1.0)
    assert y.tolist() == [440.0 + 400] * N
    assert counts("pipelines_compiled")[0] - compiled == 40


def test_threads_with_little_room(room):
    room(6)

    def work(first: int) -> list:
        found = []
        for k in range(first, first + 15):
            y = torch.ones(N, device=D)
            torch.webgpu.compile_shader(text(k)).f(y, N, 5.0)
            found.append((k, y.tolist()))
        return found

    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(work, (500, 520, 507)):
            assert all(values == [5.0 + k] * N for k, values in found)


def test_programs_of_one_text_share_a_pipeline(room):
    room(8)
    torch.webgpu.compile_shader(text(600)).f(torch.ones(N, device=D), N, 1.0)
    before = counts("pipelines_compiled", "pipelines_live")
    for _ in range(30):
        y = torch.ones(N, device=D)
        torch.webgpu.compile_shader(text(600)).f(y, N, 2.0)
        assert y.tolist() == [602.0] * N
    assert counts("pipelines_compiled", "pipelines_live") == before
    assert len(gpu().queue.compiled) <= 8
    torch.webgpu.compile_shader(text(600), trusted=True)  # without the driver's checks it is another
    assert counts("pipelines_compiled")[0] == before[0] + 1


def test_two_entries_of_one_text_are_two_pipelines():
    more = text(601) + text(602).replace("fn f(", "fn g(").split("struct P { n: u32, s: f32 }")[1]
    library = torch.webgpu.compile_shader(more)
    y = torch.ones(N, device=D)
    library.f(y, N, 1.0)
    assert y.tolist() == [602.0] * N
    library.g(y, N, 0.0)
    assert y.tolist() == [602.0] * N
    before = counts("pipelines_compiled")
    torch.webgpu.compile_shader(more)
    assert counts("pipelines_compiled") == before


def test_bind_groups(monkeypatch):
    tensors = [torch.full((N,), float(k), device=D) for k in range(12)]
    monkeypatch.setattr(gpu().queue, "most_groups", 20)
    for i, a in enumerate(tensors):
        for j, b in enumerate(tensors):
            assert (a + b).tolist() == [float(i + j)] * N
    assert counts("bind_groups_live")[0] <= 20
    groups = sum(len(layout.groups) for layout in gpu().pipelines.layouts.values())
    assert counts("bind_groups_live") == [groups]


def test_free_memory(monkeypatch):
    torch.webgpu.synchronize()
    torch.webgpu.empty_cache()
    monkeypatch.setattr(gpu().pool, "most_pooled", 8 << 20)
    for k in range(1, 40):
        x = torch.full((k << 17,), float(k), device=D)  # sizes that no free block serves
        assert x[-1].item() == k and x.sum().item() == k * (k << 17)
        del x
    most = max(40 << 19, 8 << 20)  # what the last one left, beside what may be free
    assert counts("bytes_pooled")[0] <= most + (8 << 20)
    torch.webgpu.empty_cache()
    assert counts("bytes_pooled") == [0]


def test_stats_tell_what_is_there():
    assert (torch.ones(3, device=D) + 1).tolist() == [2.0] * 3
    found = webgpu_backend.stats()
    assert found["pipelines_live"] == found["pipelines_compiled"] - found["pipelines_released"] > 0
    assert found["pipelines_live"] <= gpu().pipelines.most
    assert 0 < found["pipelines_text_bytes"] <= gpu().pipelines.most_bytes
    assert found["plans_live"] > 0 and found["bind_groups_live"] >= 0
    assert 0 < found["cache_bytes"] <= found["cache_limit"]


SMALL = """
    import torch
    import webgpu_backend
    from webgpu_backend.runtime.gpu import gpu

    D, stats = "webgpu", webgpu_backend.stats
    dtypes = (torch.int32, torch.bool, torch.uint8, torch.int16, torch.int8, torch.float16, torch.bfloat16)
    most = 0
    for k in range(1, 700):
        x = torch.arange(float(k), dtype=torch.float32, device=D)
        y = (x * 2)[: k - 1].sum() + x.max()
        if k % 50 == 0:
            assert y.item() == k * (k - 1) - 2 * (k - 1) + k - 1, k
        if k % 10 == 0:  # kernels of their own
            torch.set_default_dtype(torch.float16 if k % 20 else torch.float32)
            torch.eye(k, device=D).to(dtypes[k // 10 % 7]).cumsum(k // 10 % 2).flip(0)
            torch.var(x.view(1, -1), k // 10 % 2, correction=0)
            most = max(most, stats()["cache_bytes"])
    found = stats()
    released = found["pipelines_released"] > 0 or gpu().caps.kind == "gpu"  # whose pipelines take less, and fit
    print(most <= found["cache_limit"] == 24 << 20, found["plans_live"] > 500, released)
"""


def test_all_caches_have_one_budget():
    env = {**os.environ, "WEBGPU_CACHE_LIMIT": "24M"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SMALL)], capture_output=True, text=True, timeout=300, env=env
    )
    assert done.stdout == "True True True\n", done.stdout + done.stderr[-2000:]
