"""Making tensors on the device."""

import pytest
import torch
from torch import nn

from tests.device._compare import D, both

FACTORIES = {
    "zeros": lambda d: torch.zeros(2, 3, device=d),
    "ones": lambda d: torch.ones(2, 3, device=d, dtype=torch.int16),
    "full": lambda d: torch.full((2,), 3.5, device=d),
    "full_bool": lambda d: torch.full((3,), True, device=d),
    "arange": lambda d: torch.arange(7, device=d),
    "arange_step": lambda d: torch.arange(1.0, 3.0, 0.25, device=d),
    "arange_down": lambda d: torch.arange(5, -5, -3, device=d),
    "linspace": lambda d: torch.linspace(-1, 1, 9, device=d),
    "logspace": lambda d: torch.logspace(0, 2, 5, device=d),
    "eye": lambda d: torch.eye(3, 4, device=d),
    "tensor": lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
    "tensor_float": lambda d: torch.tensor([1.5, float("nan"), float("inf")], device=d),
    "scalar_tensor": lambda d: torch.tensor(3, device=d),
    "as_tensor": lambda d: torch.as_tensor([1.0, 2.0], device=d),
    "zeros_like": lambda d: torch.zeros_like(torch.ones(2, 2, device=d)),
    "ones_like": lambda d: torch.ones_like(torch.ones(2, 2, device=d), dtype=torch.uint8),
    "full_like": lambda d: torch.full_like(torch.ones(2, 2, device=d), 7),
    "new_zeros": lambda d: torch.ones(2, device=d).new_zeros(3),
    "new_full": lambda d: torch.ones(2, device=d).new_full((2,), 5),
    "new_tensor": lambda d: torch.ones(2, device=d).new_tensor([1, 2]),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "complex": lambda d: torch.complex(torch.ones(2, device=d), torch.zeros(2, device=d)),
    "meshgrid": lambda d: torch.meshgrid(torch.arange(2, device=d), torch.arange(3, device=d), indexing="ij"),
    "hann": lambda d: torch.hann_window(8, device=d),
    "one_hot": lambda d: nn.functional.one_hot(torch.tensor([0, 2], device=d), 4),
    "empty_0": lambda d: torch.zeros(0, 3, device=d),
    "vander": lambda d: torch.vander(torch.tensor([1.0, 2.0, 3.0], device=d)),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_as_on_the_cpu(name):
    expected = torch.utils._pytree.tree_leaves(FACTORIES[name]("cpu"))
    got = both(FACTORIES[name])
    assert [(t.dtype, t.shape, t.stride()) for t in got] == [(t.dtype, t.shape, t.stride()) for t in expected]


def test_empty_and_strided():
    assert torch.empty(2, 3, device=D).shape == (2, 3)
    assert torch.empty_strided((2, 3), (1, 2), device=D).stride() == (1, 2)
    assert torch.empty_like(torch.ones(3, 4, device=D).t()).stride() == (1, 4)
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device=D)


def test_numbers_out():
    one = torch.ones((), device=D)
    assert one.item() == 1.0 and int(one) == 1 and float(one) == 1.0 and bool(one)
    assert torch.ones(2, 2, device=D).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert len(list(torch.ones(2, device=D))) == 2
    assert [1, 2, 3][torch.tensor(1, device=D)] == 2
    assert torch.tensor(2**62 + 1, device=D).item() == 2**62 + 1
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        torch.ones(2, device=D).item()


def test_printing():
    assert repr(torch.ones(2, device=D)) == "tensor([1., 1.], device='webgpu:0')"
    assert f"{torch.ones((), device=D):.2f}" == "1.00"
    assert "dtype=torch.float16" in str(torch.ones(2, 2, device=D).half())
    assert "requires_grad=True" in repr(torch.ones(2, device=D, requires_grad=True))
    assert "nan" in repr(torch.tensor([float("nan"), 1e9], device=D))
    assert "..." in repr(torch.ones(5000, device=D))


def test_conversions():
    x = torch.ones(2, device=D)
    assert x.to(torch.int64).dtype == torch.int64
    assert torch.ones(2).to(D, non_blocking=True).device.type == D
    assert x.half().float().cpu().tolist() == [1.0, 1.0]
    assert x.to("cpu", torch.float64).dtype == torch.float64
    assert x.type() == "torch.webgpu.FloatTensor"
    assert x.to(torch.ones(1, dtype=torch.int8)).device.type == "cpu"
    assert x.type_as(torch.ones(1, dtype=torch.int8, device=D)).dtype == torch.int8


def test_meta_to_device():
    layer = nn.Linear(2, 2, device="meta").to_empty(device=D)
    assert layer.weight.device == torch.device(D, 0)
    assert nn.Linear(2, 2, device=D).weight.device.type == D


@pytest.mark.parametrize("length", [0, 1, 2, 8, 101])
def test_kaiser_window(length):
    for arguments in ((), (False,), (True, 5.0), (False, 0.0)):
        for dtype in (torch.float32, torch.float16):
            expected = torch.kaiser_window(length, *arguments, dtype=dtype)
            found = torch.kaiser_window(length, *arguments, dtype=dtype, device="webgpu")
            assert found.dtype == dtype
            torch.testing.assert_close(found.cpu(), expected, rtol=2e-6 if dtype is torch.float32 else 1e-3, atol=1e-7)
    with pytest.raises(RuntimeError, match="kaiser_window requires non-negative window_length"):
        torch.kaiser_window(-1, device="webgpu")
    with pytest.raises(RuntimeError, match="kaiser_window expects floating point dtypes"):
        torch.kaiser_window(3, dtype=torch.int64, device="webgpu")
