"""torch.webgpu and torch.accelerator: every function is there and does what it says."""

import time

import pytest
import torch

import webgpu_backend

D = "webgpu"
NAMES = """
    is_available device_count current_device set_device device get_device_name get_device_properties synchronize
    Stream Event current_stream manual_seed manual_seed_all seed initial_seed get_rng_state set_rng_state
    memory_allocated max_memory_allocated memory_reserved memory_stats memory_summary reset_peak_memory_stats
    empty_cache mem_get_info set_per_process_memory_fraction get_per_process_memory_fraction
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_the_module_has(name):
    assert callable(getattr(torch.webgpu, name))


def test_the_module_is_found():
    assert torch.get_device_module(D) is torch.webgpu is torch.get_device_module(torch.device(D, 0))
    assert torch.webgpu.is_available() and torch.webgpu.device_count() == 1 and torch.webgpu.current_device() == 0
    assert isinstance(torch.webgpu.get_device_name(), str) and torch.webgpu.get_device_name()
    properties = torch.webgpu.get_device_properties(0)
    assert properties.total_memory > 0 and properties.name == torch.webgpu.get_device_name()


def test_accelerator():
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.current_accelerator().type == D
    assert accelerator.device_count() == 1 and accelerator.current_device_index() == 0
    accelerator.set_device_index(0)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        accelerator.set_device_index(1)
    with accelerator.device_index(0):
        assert accelerator.current_device_index() == 0
    assert torch.float16 in accelerator.get_device_capability()["supported_dtypes"]
    assert accelerator.current_stream().device.type == D
    accelerator.set_stream(accelerator.current_stream())


def until(done):
    stop = time.monotonic() + 30
    while not done():
        assert time.monotonic() < stop


def test_query_does_not_wait():
    software = torch.webgpu.get_device_properties().adapter_type == "CPU"
    x = torch.rand(512 if software else 4096, 512 if software else 4096, device=D)
    x @ x
    torch.webgpu.synchronize()
    assert torch.webgpu.current_stream().query()
    for _ in range(1 if software else 4):  # a submit to a software adapter waits for the one before
        x @ x
    event = torch.Event(device=D)
    event.record()
    assert not torch.webgpu.current_stream().query() and not event.query()
    until(event.query)
    assert torch.webgpu.current_stream().query()


def test_synchronize_waits_for_recorded_work():
    for wait in (
        torch.accelerator.synchronize,
        torch.webgpu.synchronize,
        torch.accelerator.current_stream().synchronize,
        torch.Stream(device=D).synchronize,
        lambda: until(torch.webgpu.current_stream().query),
    ):
        torch.webgpu.synchronize()
        before = webgpu_backend.stats()["submits"]
        x = torch.ones(8, device=D)
        x = x + 1
        wait()
        submits = webgpu_backend.stats()["submits"]
        assert submits > before
        torch.webgpu.synchronize()
        assert webgpu_backend.stats()["submits"] == submits, "nothing was left"


def test_memory():
    accelerator = torch.accelerator
    accelerator.synchronize()
    before = accelerator.memory_allocated()
    x = torch.ones(1 << 18, device=D)
    assert accelerator.memory_allocated() == torch.webgpu.memory_allocated() == before + (1 << 20)
    assert accelerator.memory_reserved() >= accelerator.memory_allocated()
    del x
    assert accelerator.memory_allocated() == before
    assert accelerator.max_memory_allocated() >= before + (1 << 20)
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == before
    assert accelerator.memory_stats()["allocated_bytes.all.current"] == before
    free, total = accelerator.get_memory_info()
    assert 0 < free <= total
    accelerator.empty_cache()
    assert accelerator.memory_stats()["inactive_split_bytes.all.current"] == 0
    assert "allocated_bytes" in torch.webgpu.memory_summary()
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.memory_stats()["num_ooms"] == 0


def test_streams_and_events():
    stream = torch.Stream(device=D)
    assert isinstance(stream, torch.Stream) and isinstance(stream, torch.webgpu.Stream)
    assert stream.device == torch.device(D, 0) and stream == torch.accelerator.current_stream()
    with stream:
        x = torch.ones(3, device=D) + 1
    event = stream.record_event()
    stream.wait_event(event)
    stream.wait_stream(torch.Stream(device=D))
    event.synchronize()
    until(event.query)
    assert x.cpu().tolist() == [2.0] * 3 and event.query()
    with torch.webgpu.stream(stream):
        pass
    x.record_stream(stream)


def test_event_times():
    start, end = (torch.Event(device=D, enable_timing=True) for _ in range(2))
    assert isinstance(start, torch.Event)
    start.record()
    (torch.ones(1000, device=D) + 1).cpu()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    with pytest.raises(ValueError, match="enable_timing"):
        torch.Event(device=D).elapsed_time(end)
    with pytest.raises(ValueError, match="recorded"):
        torch.webgpu.Event(enable_timing=True).elapsed_time(end)


def test_the_profiler_sees_operators():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(2, device=D) + 1
    assert any("aten::add" in event.key for event in profile.key_averages())


@pytest.mark.parametrize(
    ("vendor", "backend", "device", "expected"),
    [
        (0x10DE, "Vulkan", "NVIDIA H200", 32),
        (0, "Metal", "Apple M3", 32),
        (0x10005, "Vulkan", "llvmpipe (LLVM 15.0.6, 256 bits)", 8),
        (0x10005, "Vulkan", "llvmpipe (LLVM 19.1.7, 128 bits)", 4),
        (0x13B5, "Vulkan", "Mali-G31", 0),
        (0x1414, "D3D12", "Microsoft Basic Render Driver", 0),
    ],
)
def test_lanes_of_subgroups(vendor, backend, device, expected):
    from webgpu_backend.runtime.adapters import _lanes

    assert _lanes({"vendor_id": vendor, "backend_type": backend, "device": device}) == expected
