"""Saving, loading, pickling."""

import io
import pickle
import warnings

import pytest
import torch
from torch import nn

D = "webgpu"


def saved(thing, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(thing, buffer, **options)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize(
    "location, device",
    [
        (None, D),
        ("cpu", "cpu"),
        (D, D),
        (D + ":0", D),
        (torch.device(D), D),
        ({"webgpu:0": "cpu"}, "cpu"),
        (lambda storage, where: storage, "cpu"),
    ],
    ids=["none", "cpu", "webgpu", "webgpu-0", "device", "mapping", "function"],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_map_location(location, device, zipped):
    source = {"w": torch.randn(3, 4).to(D), "i": torch.arange(5, device=D), "h": torch.ones(3, device=D).half()}
    loaded = torch.load(saved(source, _use_new_zipfile_serialization=zipped), map_location=location)
    for name, tensor in source.items():
        assert loaded[name].device.type == device
        assert torch.equal(loaded[name].cpu(), tensor.cpu())


def test_a_cpu_checkpoint_onto_the_device():
    source = nn.Linear(3, 2).state_dict()
    loaded = torch.load(saved(source), map_location=D)
    assert loaded["weight"].device == torch.device(D, 0)
    assert torch.equal(loaded["weight"].cpu(), source["weight"])


def test_views_share_after_loading():
    t = torch.arange(6.0, device=D)
    a, b = torch.load(saved([t, t[2:]]))
    assert a.untyped_storage()._cdata == b.untyped_storage()._cdata
    b.zero_()
    assert a.cpu().tolist() == [0, 1, 0, 0, 0, 0]


def test_strided_views_and_parameters():
    x = torch.arange(12.0, device=D).view(3, 4).t()[1:]
    back = torch.load(saved(x))
    assert back.stride() == x.stride() and torch.equal(back.cpu(), x.cpu())
    parameter = torch.load(saved(nn.Parameter(torch.ones(2, device=D))), weights_only=False)
    assert isinstance(parameter, nn.Parameter) and parameter.device.type == D


def test_whole_modules_and_optimizers():
    net = nn.Linear(3, 2).to(D)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3, device=D)).sum().backward()
    optimizer.step()
    other = torch.load(saved(net), weights_only=False)
    assert other.weight.device.type == D and torch.equal(other.weight.cpu(), net.weight.cpu())
    state = torch.load(saved(optimizer.state_dict()))
    assert state["state"][0]["exp_avg"].device.type == D


def test_pickle():
    x = torch.arange(4.0, device=D)
    back = pickle.loads(pickle.dumps(x))
    assert back.device == x.device and torch.equal(back.cpu(), x.cpu())
    assert back.data_ptr() != x.data_ptr()


def test_storages():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typed = torch.arange(4.0, device=D).storage()
        back = torch.load(saved(typed), weights_only=False)
        assert back.device.type == D and back.tolist() == [0, 1, 2, 3]


def test_a_loaded_storage_can_be_resized():
    x = torch.load(saved(torch.arange(4.0, device=D)))
    x.resize_(8)
    assert x[:4].cpu().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bfloat16, torch.complex64],
)
def test_every_dtype(dtype):
    x = torch.arange(7).to(dtype).to(D)
    assert torch.equal(torch.load(saved(x)).cpu(), x.cpu())


def test_memory_mapped_files(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"w": torch.arange(5.0)}, path)
    loaded = torch.load(path, mmap=True, map_location="cpu")["w"].to(D)
    assert loaded.cpu().tolist() == [0, 1, 2, 3, 4]


def test_empty_tensors():
    assert torch.load(saved(torch.empty(0, 3, device=D))).shape == (0, 3)
