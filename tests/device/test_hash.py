"""hash_tensor against the CPU, bit for bit."""

import pytest
import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
          torch.bool]  # fmt: skip


def _same(x, **rest):
    want, got = torch.hash_tensor(x, **rest), torch.hash_tensor(x.to("webgpu"), **rest)
    assert got.device.type == "webgpu" and got.dtype == want.dtype
    assert got.cpu().tolist() == want.tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dims(dtype):
    torch.manual_seed(0)
    x = (torch.randn(5, 7, 130) * 50).to(dtype)
    for rest in ({}, {"dim": 1}, {"dim": (0, -1), "keepdim": True}):
        _same(x, **rest)
        _same(x.transpose(0, 2)[::3], **rest)
    _same(x[0, 0, 0])


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-40, -3e-45, 1.1754942e-38, float("inf"), float("-inf"), float("nan")])
def test_values(value):
    _same(torch.tensor([value]))


def test_large_integers():
    _same(torch.tensor([2**62 + 3, -(2**63), -1]))


def test_errors():
    for x, rest in ((torch.zeros(0, 2), {}), (torch.zeros(0, 2), {"dim": 0}), (torch.zeros(2), {"mode": 1})):
        with pytest.raises((RuntimeError, IndexError)) as expected:
            torch.hash_tensor(x, **rest)
        with pytest.raises(expected.type) as got:
            torch.hash_tensor(x.to("webgpu"), **rest)
        assert str(got.value) == str(expected.value)
