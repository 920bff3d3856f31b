"""Real storages: sharing, resizing, life and death, and the ways out that are closed."""

import gc
import warnings

import pytest
import torch
from torch import nn

import webgpu_backend

D = "webgpu"


def test_resize_grows_a_shared_storage_in_place():
    t = torch.arange(6.0, device=D)
    v = t[2:4]
    t.resize_(10)
    assert v.cpu().tolist() == [2.0, 3.0]
    assert t.untyped_storage().nbytes() == 40
    assert v.untyped_storage()._cdata == t.untyped_storage()._cdata
    assert t[:6].cpu().tolist() == [0, 1, 2, 3, 4, 5]
    t[2] = 9
    assert v.cpu().tolist() == [9.0, 3.0]
    t.resize_(2, 2)
    assert t.cpu().tolist() == [[0.0, 1.0], [9.0, 3.0]]


def test_resize_to_its_own_size_leaves_a_view_where_it_is():
    for device in ("cpu", D):
        whole = torch.zeros(10, device=device)
        view = whole[1::2]
        assert view.resize_(5).stride() == (2,) and view.resize_as_(torch.ones(5, device=device)).stride() == (2,)
        torch.full((5,), 7.0, out=view)  # which resizes
        assert whole.tolist() == [0.0, 7.0] * 5, "the elements between stay as they are"
        image = torch.zeros(2, 3, 4, 5, device=device).to(memory_format=torch.channels_last)
        assert image.resize_(2, 3, 4, 5).stride() == (60, 1, 15, 3)
        assert image.resize_(2, 3, 4, 5, memory_format=torch.contiguous_format).stride() == (60, 20, 5, 1)


def test_storage_resize_to_nothing_and_back():
    t = torch.ones(6, device=D)
    assert t.untyped_storage().resize_(0).nbytes() == 0
    assert t.untyped_storage().resize_(24).nbytes() == 24
    t.fill_(2.0)
    assert t.cpu().tolist() == [2.0] * 6


def test_resize_as_memory_returns():
    """What FSDP does: free a parameter's memory and take it again."""
    torch.webgpu.synchronize()
    t = torch.ones(1000, device=D)
    before = torch.webgpu.memory_allocated()
    t.untyped_storage().resize_(0)
    assert torch.webgpu.memory_allocated() == before - 4000
    t.untyped_storage().resize_(4000)
    assert torch.webgpu.memory_allocated() == before


def test_set():
    source = torch.arange(4.0, device=D)
    assert torch.empty(0, device=D).set_(source).cpu().tolist() == [0, 1, 2, 3]
    part = torch.empty(0, device=D).set_(source.untyped_storage(), 1, (2,), (1,))
    assert part.cpu().tolist() == [1, 2] and part.is_set_to(source[1:3])
    part.add_(10)
    assert source.cpu().tolist() == [0, 11, 12, 3]
    assert torch.ones(3, device=D).set_().shape == (0,)


def test_data_and_detach_share():
    p, q = nn.Parameter(torch.ones(3, device=D)), torch.zeros(3, device=D)
    p.data = q
    assert p.data_ptr() == q.data_ptr()
    q.add_(2)
    assert p.detach().cpu().tolist() == [2.0] * 3
    assert p.detach().data_ptr() == p.data_ptr()


def test_storages_by_themselves():
    storage = torch.tensor([1, 2], dtype=torch.uint8, device=D).untyped_storage()
    assert list(storage.cpu()) == [1, 2]
    assert torch.UntypedStorage(16, device=D).device == torch.device(D, 0)
    assert torch.UntypedStorage(16, device=D).nbytes() == 16
    clone = torch.ones(3, device=D).untyped_storage().clone()
    assert clone.device.type == D and clone.nbytes() == 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typed = torch.ones(3, device=D).storage()
        assert typed.device.type == D and typed.tolist() == [1.0] * 3
    target = torch.zeros(3, device=D).untyped_storage()
    target.copy_(clone)
    assert torch.empty(0, device=D).set_(target, 0, (3,), (1,)).cpu().tolist() == [1.0] * 3


def test_a_buffer_lives_exactly_as_long_as_its_last_view():
    gc.collect()
    live = webgpu_backend.stats()["buffers_live"]
    t = torch.ones(1000, device=D)
    v = t[3:]
    assert webgpu_backend.stats()["buffers_live"] == live + 1
    del t
    gc.collect()
    assert webgpu_backend.stats()["buffers_live"] == live + 1
    assert v[0].item() == 1.0
    del v
    gc.collect()
    assert webgpu_backend.stats()["buffers_live"] == live


def test_use_count_and_addresses():
    t = torch.ones(8, device=D)
    assert torch._C._storage_Use_Count(t.untyped_storage()._cdata) >= 1
    assert t[2:].data_ptr() - t.data_ptr() == 8
    assert torch.ones(8, device=D).data_ptr() != t.data_ptr()


def test_x_equals_y_after_copies_between_devices():
    x = torch.randn(5, 7)
    there = x.to(D)
    assert torch.equal(there.cpu(), x)
    assert torch.equal(there.to("cpu", non_blocking=True), x)
    assert there.to(D) is there
    assert torch.equal(x.webgpu().cpu(), x) and there.is_webgpu and not x.is_webgpu
    assert there.get_device() == 0


def test_no_way_to_numpy_or_dlpack():
    t = torch.ones(3, device=D)
    with pytest.raises(TypeError, match="can't convert webgpu:0 device type tensor to numpy. Use Tensor.cpu()"):
        t.numpy()
    for export in (t.__dlpack__, lambda: torch.utils.dlpack.to_dlpack(t), lambda: torch.from_dlpack(t)):
        with pytest.raises(BufferError, match=r"tensor\.cpu\(\)"):
            export()
    assert torch.from_dlpack(torch.ones(2)).tolist() == [1.0, 1.0], "the CPU's way stays open"


def test_pinning_is_a_copy():
    x = torch.arange(4.0)
    assert torch.equal(x.pin_memory(), x)
    data = torch.utils.data.TensorDataset(torch.arange(8.0).view(4, 2))
    for options in ({"pin_memory": True}, {"num_workers": 1}):
        batches = [b[0].to(D) for b in torch.utils.data.DataLoader(data, batch_size=2, **options)]
        assert torch.equal(torch.stack([b.cpu() for b in batches]).view(4, 2), torch.arange(8.0).view(4, 2))


def test_out_of_range_views_are_refused():
    t = torch.ones(4, device=D)
    with pytest.raises(RuntimeError, match="out of bounds"):
        t.as_strided((3, 3), (2, 1))
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device="webgpu:1")


def test_parts_of_a_storage():
    host = torch.arange(11, dtype=torch.uint8)
    ours, theirs = host.to("webgpu").untyped_storage(), host.untyped_storage()
    for part in (slice(2, 4), slice(None), slice(-3, None), slice(0, 20), slice(3, 3), slice(5, 2)):
        assert list(ours[part]) == list(theirs[part]), part
    with pytest.raises(RuntimeError, match="only a step of 1 is supported"):
        ours[::2]
    ours[2:4] = 9  # through the storage itself
    assert list(ours) == [0, 1, 9, 9, *range(4, 11)]


def test_a_lazy_clone_is_a_clone():
    x = torch.arange(6.0, device="webgpu").view(2, 3).t()
    y = torch._lazy_clone(x)
    y.add_(1)
    assert (
        y.stride() == x.stride() and x.tolist() == [[0, 3], [1, 4], [2, 5]] and y.tolist() == [[1, 4], [2, 5], [3, 6]]
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16, torch.uint8, torch.bool], ids=str)
def test_a_few_bytes_for_a_gpu_are_a_dispatch_in_order(dtype, adapter_of):
    """They overtake nothing that is recorded before them, and touch nothing beside them."""
    adapter_of(kind="gpu")
    for count in (1, 2, 3, 5, 8, 15):
        values = (torch.arange(count) % 3 - 1).to(dtype)
        x, expected = torch.zeros(40, device=D).to(dtype), torch.zeros(40).to(dtype)
        for at in (0, 8, 24):
            x[at : at + count].copy_(values)
            expected[at : at + count].copy_(values)
            x, expected = x.clone(), expected.clone()
        assert torch.equal(x.cpu(), expected)
        assert torch.equal(values.to(D).cpu(), values)
