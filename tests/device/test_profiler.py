"""torch.webgpu.profiler: GPU times by kernel."""

import json

import pytest
import torch

from tests import needs


@pytest.fixture(autouse=True)
def timestamps():
    if not torch.webgpu.profiler.is_available():
        with pytest.raises(RuntimeError, match="timestamp-query"):
            torch.webgpu.profiler.profile().__enter__()
        needs.timestamps()


def test_counts_and_times(tmp_path):
    a = torch.rand(1 << 16).to("webgpu")
    with torch.webgpu.profiler.profile() as prof:
        for _ in range(3):
            b = a + a
        c = b.relu()
    assert torch.equal(c.cpu(), (a.cpu() * 2).relu())
    rows = {row.name.split("_")[0]: row for row in prof.key_averages()}
    assert rows["add"].count == 3 and rows["relu"].count == 1
    assert all(e.end >= e.start for e in prof) and rows["add"].total_us > 0
    assert "add_f32" in prof.table()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [e for e in events if e["ph"] == "X"]
    assert len(kernels) == 4 and min(e["ts"] for e in kernels) == 0
    assert all(e["args"]["bytes"] > 0 and e["dur"] >= 0 for e in kernels)


def test_bytes_are_those_of_the_buffers():
    a = torch.rand(1 << 16).to("webgpu")
    a + a
    with torch.webgpu.profiler.profile() as prof:
        b = a + a.clone()
    clone, add = prof
    assert (clone.bytes, add.bytes) == (2 << 18, 3 << 18)  # blocks of 256 KiB: two and three tensors
    assert prof.key_averages()[0].bytes in (2 << 18, 3 << 18)
    assert torch.equal(b.cpu(), a.cpu() * 2)


def test_with_the_operators_of_torch_profiler(tmp_path):
    """One trace: aten operators on the host, kernels on the GPU, an arrow from each launch."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    x = torch.rand(64, 64).to("webgpu")
    weight = torch.rand(64, 64).to("webgpu").requires_grad_()
    (x @ weight).relu().sum().backward()
    with torch.profiler.profile(activities=activities) as operators, torch.webgpu.profiler.profile() as kernels:
        with torch.profiler.record_function("a step"):
            (x @ weight).relu().sum().backward()
        torch.webgpu.synchronize()
    names = {row.key for row in operators.key_averages()}
    assert {"aten::mm", "aten::relu", "aten::threshold_backward", "a step"} <= names
    path = tmp_path / "both.json"
    kernels.export_chrome_trace(str(path), operators)
    trace = json.loads(path.read_text())["traceEvents"]
    ran = [e for e in trace if e.get("cat") == "kernel"]
    assert len(ran) == len(kernels.events) > 4
    step = next(e for e in trace if e.get("name") == "a step" and e["ph"] == "X")
    starts = {e["id"]: e for e in trace if e.get("cat") == "launch" and e["ph"] == "s"}
    ends = {e["id"]: e for e in trace if e.get("cat") == "launch" and e["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) == len(ran)
    slack = 2e4  # microseconds between two clocks that were set against each other
    for i, launch in starts.items():
        assert step["ts"] <= launch["ts"] <= step["ts"] + step["dur"]
        assert launch["ts"] - slack <= ends[i]["ts"] <= step["ts"] + step["dur"] + slack + 1e6
    relu = next(e for e in trace if e.get("name") == "aten::relu")
    within = [e for e in starts.values() if relu["ts"] <= e["ts"] <= relu["ts"] + relu["dur"]]
    assert len(within) == 1 and within[0]["tid"] == relu["tid"]


def test_more_kernels_than_one_query_set():
    x = torch.ones(4).to("webgpu")
    with torch.webgpu.profiler.profile() as prof:
        for _ in range(1100):
            x.add_(1)
    assert len(prof.events) == 1100 and x.cpu().tolist() == [1101.0] * 4


def test_one_at_a_time():
    with torch.webgpu.profiler.profile(), pytest.raises(RuntimeError, match="active already"):
        torch.webgpu.profiler.profile().__enter__()


def test_kernel_times_in_the_table_of_torch_profiler():
    x = torch.rand(64, 64).to("webgpu")
    weight = torch.rand(64, 64).to("webgpu").requires_grad_()
    (x @ weight).relu().sum().backward()
    with torch.profiler.profile() as operators, torch.webgpu.profiler.profile() as kernels:
        with torch.profiler.record_function("a step"):
            (x @ weight).relu().sum().backward()
        torch.webgpu.synchronize()
    kernels.add_to(operators)
    rows = {row.key: row for row in operators.key_averages()}
    names = {e.name for e in kernels}
    by_kernel = sum(e.duration for e in kernels) / 1e3
    for which in (True, False):  # once by kernel, once by operator
        found = sum(row.self_device_time_total for row in rows.values() if (row.key in names) is which)
        assert found == pytest.approx(by_kernel, rel=1e-6)
    relu = sum(e.duration for e in kernels if e.name.startswith("relu")) / 1e3
    assert rows["aten::relu"].self_device_time_total == pytest.approx(relu) and relu > 0
    assert rows["aten::threshold_backward"].self_device_time_total > 0
    assert rows["a step"].device_time_total >= rows["aten::relu"].device_time_total
    assert "Self WEBGPU" in operators.key_averages().table(sort_by="self_device_time_total")
