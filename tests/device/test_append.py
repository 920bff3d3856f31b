"""A token's key and value at the end of a cache of fixed size, which counts on the device: against the CPU."""

import pytest
import torch

from tests import needs
from tests.device._adapter import kernels_of

D = "webgpu"
SIZES = [(1, 2, 9, 64, 64), (3, 2, 5, 16, 24), (2, 3, 4, 5, 8), (2, 8, 70, 256, 512), (4, 16, 6, 1024, 8)]


def append(keys, values, count, key, value):
    torch.ops.webgpu_backend.append_token(keys, values, count, key, value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8], ids=str)
@pytest.mark.parametrize("batch, heads, size, e, v", SIZES)
def test_against_the_cpu(batch, heads, size, e, v, dtype):
    if dtype is torch.float64:
        needs.feature("f64")
    torch.manual_seed(0)
    keys, values = ((torch.randn(batch, heads, size, n) * 9).to(dtype) for n in (e, v))
    count = torch.tensor([7, 1])
    ours = [keys.to(D), values.to(D), count.to(D)[1]]
    for i in range(1, 4):
        key, value = ((torch.randn(batch, 1, heads, n) * 9).to(dtype) for n in (e, v))
        append(*ours, key.to(D).transpose(1, 2), value.transpose(1, 2).contiguous().to(D))
        keys[:, :, i], values[:, :, i] = key[:, 0], value[:, 0]
    assert torch.equal(ours[0].cpu(), keys) and torch.equal(ours[1].cpu(), values)
    assert ours[2].item() == 4


def test_views():
    """Of one tensor, and at odd offsets."""
    torch.manual_seed(0)
    both, fresh = torch.randn(2, 3, 6, 16), torch.randn(2, 3, 1, 17)
    ours, odd = both.to(D), fresh.to(D)[..., 1:]
    for i, key in ((2, odd), (3, odd.contiguous())):
        append(ours[..., :8], ours[..., 8:], torch.tensor(i, device=D), key[..., :8], key[..., 8:])
        both[:, :, i] = fresh[:, :, 0, 1:]
    assert torch.equal(ours.cpu(), both)


def test_one_dispatch():
    given = [torch.zeros(1, 2, 8, 16, device=D) for _ in range(2)] + [torch.tensor(0, device=D)]
    fresh = [torch.ones(1, 2, 1, 16, device=D) for _ in range(2)]
    assert len(kernels_of(lambda: append(*given, *fresh))) == 1


def test_a_full_cache_is_left_as_it_is():
    keys, values = torch.zeros(1, 2, 3, 8, device=D), torch.zeros(1, 2, 3, 8, device=D)
    fresh, count = torch.ones(1, 2, 1, 8, device=D), torch.tensor(3, device=D)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 2 with size 3 .*index_copy"):
        append(keys, values, count, fresh, fresh)
        keys.cpu()
    assert not keys.any() and not values.any()


def test_refused():
    keys, count = torch.zeros(1, 2, 3, 8, device=D), torch.tensor(0, device=D)
    with pytest.raises(RuntimeError, match="same slice shapes"):
        append(keys, keys.clone(), count, torch.ones(1, 2, 1, 4, device=D), torch.ones(1, 2, 1, 8, device=D))
    with pytest.raises(RuntimeError, match="same dtype"):
        append(keys, keys.clone(), count, torch.ones(1, 2, 1, 8, device=D).half(), torch.ones(1, 2, 1, 8, device=D))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        append(keys[:, :1].expand(1, 2, 3, 8), keys.clone(), count, *[torch.ones(1, 2, 1, 8, device=D)] * 2)
    with pytest.raises(RuntimeError, match="input tensor and the written-to tensor"):
        append(keys[:, :1, :1], keys[:, :1, :1].clone(), count, keys[:, :1, :1], torch.ones(1, 1, 1, 8, device=D))
    assert not keys.any() and not count.item()
