"""Memory as it is counted, kept and refused."""

import gc

import pytest
import torch
from torch import nn

from tests import needs
from webgpu_backend.runtime import vulkan
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
M = 1 << 20
web = torch.webgpu


@pytest.fixture
def clean():
    gc.collect()
    web.synchronize()
    web.empty_cache()
    web.reset_peak_memory_stats()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8, torch.complex64]
)
def test_allocated_bytes_are_those_of_the_tensors(clean, dtype):
    before = web.memory_allocated()
    sizes = [(1,), (3, 5), (1000,), (257, 1023), (0,), ()]
    tensors = [torch.empty(s, dtype=dtype, device=D) for s in sizes]
    expected = sum(t.numel() * t.element_size() for t in tensors)
    assert web.memory_allocated() == before + expected
    views = [tensors[3][5:], tensors[3].t(), tensors[1].view(-1)]  # nothing of their own
    assert web.memory_allocated() == before + expected
    del tensors, views
    assert web.memory_allocated() == before


def test_a_view_keeps_its_storage(clean):
    before = web.memory_allocated()
    part = torch.empty(1000, device=D)[3:5]
    assert web.memory_allocated() == before + 4000
    del part
    assert web.memory_allocated() == before


def test_peak(clean):
    before = web.memory_allocated()
    x = torch.ones(M, device=D)
    y = x * 2  # eight MiB at once
    del x
    z = y + 1
    assert web.max_memory_allocated() == before + 8 * M
    del y, z
    assert web.memory_allocated() == before and web.max_memory_allocated() == before + 8 * M
    web.reset_peak_memory_stats()
    assert web.max_memory_allocated() == before
    stats = web.memory_stats()
    assert stats["allocated_bytes.all.current"] == before and stats["allocated_bytes.all.peak"] == before
    assert stats["reserved_bytes.all.current"] == web.memory_reserved() >= 8 * M
    assert stats["reserved_bytes.all.current"] == before_blocks() + stats["inactive_split_bytes.all.current"]


def before_blocks() -> int:
    """Bytes of the blocks that are in use."""
    pool = gpu().pool
    free = {uid for heap in pool.free.values() for uid in heap}
    blocks = [block for block in pool.blocks if block is not None and block.handle is not None]
    return sum(block.size for block in blocks if block.uid not in free)


def test_the_pool_goes_back_to_the_driver(clean):
    reserved = web.memory_reserved()
    x = torch.empty(5 * M, dtype=torch.uint8, device=D)
    assert web.memory_reserved() == reserved + 5 * M
    del x
    assert web.memory_reserved() == reserved + 5 * M
    again = torch.empty(5 * M - 100, dtype=torch.uint8, device=D)  # the same class
    assert web.memory_reserved() == reserved + 5 * M
    del again
    web.empty_cache()
    assert web.memory_reserved() == reserved


def test_a_block_a_little_too_large_serves(clean):
    reserved = web.memory_reserved()
    x = torch.empty(12 * M, dtype=torch.uint8, device=D)
    del x
    small = torch.empty(9 * M, dtype=torch.uint8, device=D)
    assert web.memory_reserved() == reserved + 12 * M
    other = torch.empty(8 * M, dtype=torch.uint8, device=D)  # nothing free is near enough
    assert web.memory_reserved() == reserved + 20 * M
    small.fill_(3)
    other.fill_(4)
    assert small[-1].item() == 3 and other[-1].item() == 4
    del small
    large = torch.empty(12 * M, dtype=torch.uint8, device=D)
    assert web.memory_reserved() < reserved + 21 * M
    del other, large


def test_a_training_loop_holds_no_more_after_many_steps(clean):
    model = nn.Sequential(nn.Linear(30, 40), nn.LayerNorm(40), nn.GELU(), nn.Linear(40, 5)).to(D)
    optimizer = torch.optim.AdamW(model.parameters())
    seen = set()
    for step in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 30, device=D)).square().mean().backward()
        optimizer.step()
        if step > 1:
            seen.add((web.memory_allocated(), web.max_memory_allocated(), web.memory_reserved()))
    assert len(seen) == 1


def test_free_and_total(clean):
    free, total = web.mem_get_info()
    assert 0 < free <= total == web.get_device_properties().total_memory
    assert total >= gpu().caps.max_buffer or gpu().caps.kind == "cpu"
    held = torch.empty(64 * M, dtype=torch.uint8, device=D)
    assert web.mem_get_info() == (free - 64 * M, total)
    del held


def test_a_vulkan_driver_tells_its_memory():
    info = gpu().adapter.info
    if info["backend_type"] != "Vulkan":
        needs.missing(f"{gpu().name} is reached through {info['backend_type']}, not Vulkan, whose driver is asked")
    found = vulkan.device_memory(info["vendor_id"], info["device_id"])
    assert found is not None and found >= 256 * M
    assert vulkan.device_memory(1, 2) is None


# -- out of memory


@pytest.fixture
def limited(clean):
    """A driver that has 32 MiB more to give."""
    pool = gpu().pool
    own, pool.limit = pool.limit, pool.bytes_reserved + 32 * M
    yield
    pool.limit = own


def test_a_model_larger_than_the_memory(limited):
    kept = torch.arange(1000.0, device=D)
    before, layers = web.memory_allocated(), []
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 4.00 MiB"):
        for _ in range(100):
            layers.append(nn.Linear(1024, 1024, bias=False, device=D))
    assert 6 <= len(layers) <= 8
    assert kept.sum().item() == 499500
    assert layers[0](torch.zeros(2, 1024, device=D)).abs().sum().item() == 0
    del layers
    assert web.memory_allocated() == before
    model = nn.Linear(1024, 1024, device=D)
    model(torch.ones(2, 1024, device=D)).sum().backward()
    assert model.bias.grad.cpu().eq(2).all()


def test_moving_a_model_that_is_too_large(limited):
    model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(64)])  # 64 MiB in small parts
    expected = model[0].weight.detach().clone()
    with pytest.raises(torch.OutOfMemoryError):
        model.to(D)
    assert torch.equal(model[0].weight.cpu(), expected)
    model.to("cpu")
    small = nn.Sequential(*model[:4]).to(D)
    x = torch.randn(3, 512)
    torch.testing.assert_close(small(x.to(D)).cpu(), small.cpu()(x), rtol=1e-4, atol=1e-4)


def test_backward_that_runs_out(limited):
    """The error comes out of backward on autograd's thread; what it held is given back, and a smaller batch fits."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(4)]).to(D)
    before = web.memory_allocated()

    def step(rows):
        model.zero_grad()
        model(torch.ones(rows, 256, device=D)).sum().backward()

    with pytest.raises(torch.OutOfMemoryError):
        step(8192)
    model.zero_grad()
    gc.collect()
    assert web.memory_allocated() == before
    step(64)
    assert model[0][0].weight.grad.abs().sum().item() > 0


def test_a_fraction_of_the_memory(limited):
    """Of what the device has; `limited` puts the limit back."""
    total = torch.webgpu.get_device_properties().total_memory
    torch.webgpu.set_per_process_memory_fraction(1.0)
    assert torch.webgpu.get_per_process_memory_fraction() <= 1.0
    torch.webgpu.set_per_process_memory_fraction((web.memory_reserved() + 8 * M) / total)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 16.00 MiB"):
        torch.empty(16 * M, dtype=torch.uint8, device=D)
    assert torch.empty(4 * M, dtype=torch.uint8, device=D).fill_(3)[-1].item() == 3
    assert torch.webgpu.get_per_process_memory_fraction() < 0.9
    with pytest.raises(TypeError, match="must be `float`"):
        torch.webgpu.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match="Invalid fraction value: 1.5. Allowed range: 0~1"):
        torch.webgpu.set_per_process_memory_fraction(1.5)
