"""Choosing the device: contexts, defaults, nesting, threads."""

import threading

import pytest
import torch
from torch import nn

D = "webgpu"


def test_with_device():
    with torch.device(D):
        assert torch.ones(2).device == torch.device(D, 0)
        assert nn.Linear(2, 2).weight.device.type == D
        assert torch.tensor([1, 2]).device.type == D
        assert torch.ones(2, device="cpu").device.type == "cpu", "a named device wins"
    assert torch.ones(2).device.type == "cpu"


def test_nested():
    with torch.device(D):
        with torch.device("cpu"):
            assert torch.ones(1).device.type == "cpu"
            with torch.device(D):
                assert torch.ones(1).device.type == D
        assert torch.ones(1).device.type == D


def test_it_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError), torch.device(D):
        1 / 0  # noqa: B018
    assert torch.ones(1).device.type == "cpu"


def test_set_default_device():
    torch.set_default_device(D)
    try:
        assert torch.ones(2).device.type == D and torch.get_default_device().type == D
    finally:
        torch.set_default_device(None)
    assert torch.ones(2).device.type == "cpu"


def test_module_guard():
    with torch.webgpu.device(0):
        assert torch.webgpu.current_device() == 0
        with torch.webgpu.device(torch.device(D)), torch.webgpu.device_of(torch.ones(1, device=D)):
            assert (torch.ones(2, device=D) * 2).cpu().tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="invalid device ordinal 1"):
        torch.webgpu.device(1)
    with pytest.raises(ValueError, match="Expected a webgpu device"):
        torch.webgpu.device("cpu")
    torch.webgpu.set_device(0)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.webgpu.set_device(3)


def test_in_threads():
    """A context belongs to its thread."""
    inside, results = threading.Barrier(3, timeout=30), {}

    def work(name, place):
        if place == D:
            with torch.device(D), torch.webgpu.device(0):
                inside.wait()
                results[name] = torch.ones(2).add(1)
        else:
            inside.wait()
            results[name] = torch.ones(2).add(1)

    threads = [threading.Thread(target=work, args=item) for item in (("a", D), ("b", "cpu"))]
    for t in threads:
        t.start()
    inside.wait()
    for t in threads:
        t.join()
    assert results["a"].device.type == D and results["b"].device.type == "cpu"
    assert results["a"].cpu().tolist() == [2.0, 2.0]
