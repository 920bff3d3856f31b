"""torch.webgpu.profiler: GPU times by kernel."""

import json

import pytest
import torch


@pytest.fixture(autouse=True)
def timestamps():
    if not torch.webgpu.profiler.is_available():
        with pytest.raises(RuntimeError, match="timestamp-query"):
            torch.webgpu.profiler.profile().__enter__()
        pytest.skip("this device has no timestamps, and says so")


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
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(trace) == 4 and min(e["ts"] for e in trace) == 0


def test_more_kernels_than_one_query_set():
    x = torch.ones(4).to("webgpu")
    with torch.webgpu.profiler.profile() as prof:
        for _ in range(1100):
            x.add_(1)
    assert len(prof.events) == 1100 and x.cpu().tolist() == [1101.0] * 4


def test_one_at_a_time():
    with torch.webgpu.profiler.profile(), pytest.raises(RuntimeError, match="active already"):
        torch.webgpu.profiler.profile().__enter__()
