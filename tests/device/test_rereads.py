"""Elements that are read one by one: as the CPU has them, whatever was written in between, and with few waits."""

import random

import pytest
import torch

import webgpu_backend
from tests import needs

D = "webgpu"
DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn,
]  # fmt: skip


def submits() -> int:
    return webgpu_backend.stats()["submits"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_element(dtype):
    if dtype in (torch.float64, torch.complex128):
        needs.feature("f64")
    x = (torch.arange(77) - 20).to(torch.float32)
    x = (x * (1 - 2j)).to(dtype) if dtype.is_complex else x.clamp(min=0).to(dtype)
    ours = x.to(D)
    for made in (lambda t: t, lambda t: t[1:], lambda t: t[3::5], lambda t: t.view(7, 11).t()[4]):
        assert [v.item() for v in made(ours).unbind()] == [v.item() for v in made(x).unbind()]


def test_conjugated_and_negated_views():
    x = torch.randn(9, dtype=torch.complex64)
    for made in (lambda t: t.conj(), lambda t: t.conj().imag, lambda t: torch._neg_view(t), lambda t: t.real[1:]):
        assert [v.item() for v in made(x.to(D))] == [v.item() for v in made(x)]


def test_many_elements_take_few_waits():
    x = torch.arange(5000, device=D) * 3
    before = submits()
    assert [int(v) for v in x] == list(range(0, 15000, 3))
    assert submits() - before <= 3
    far = torch.arange(40000, dtype=torch.float32, device=D)  # more than is brought along
    before = submits()
    assert all(far[i].item() == i for i in range(0, 40000, 7))
    assert submits() - before <= 6


WRITES = {
    "kernel": lambda t: t.add_(1),
    "fill": lambda t: t.fill_(7),
    "zeros": lambda t: t.zero_(),
    "element": lambda t: t.__setitem__(3, 9),
    "view": lambda t: t[2:5].mul_(-2),
    "upload": lambda t: t.copy_(torch.arange(40).to(t.dtype)),
    "large": lambda t: t.copy_(torch.arange(t.numel(), 2 * t.numel()).to(t.dtype).to(t.device)),
    "other": lambda t: torch.ones(3, device=t.device),
    "none": lambda t: None,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8], ids=str)
def test_what_was_written_in_between_is_seen(dtype):
    chance = random.Random(str(dtype))
    ours, theirs = (torch.zeros(40, dtype=dtype, device=d) for d in (D, "cpu"))
    for _ in range(150):
        name = chance.choice(list(WRITES))
        WRITES[name](ours)
        WRITES[name](theirs)
        for _ in range(chance.randrange(4)):
            i = chance.randrange(40)
            assert ours[i].item() == theirs[i].item(), name


def test_uploads_that_open_no_batch_are_seen():
    x = torch.arange(300, dtype=torch.float32, device=D)
    for _ in range(3):
        assert [v.item() for v in x[:4]] == [0, 1, 2, 3]
        x.copy_(torch.arange(300, dtype=torch.float32) + 5)
        assert [v.item() for v in x[:4]] == [5, 6, 7, 8]
        x.copy_(torch.arange(300, dtype=torch.float32))


def test_memory_of_another_tensor():
    for k in range(20):
        x = torch.full((100,), float(k), device=D)
        assert [x[i].item() for i in range(3)] == [k] * 3
        del x
        if k % 5 == 4:
            torch.webgpu.empty_cache()


def test_errors_are_told_by_the_next_read():
    x, table = torch.arange(10, device=D), torch.arange(4, device=D)
    assert [x[i].item() for i in range(3)] == [0, 1, 2]
    table[torch.tensor([1, 9], device=D)]
    with pytest.raises(IndexError, match="out of bounds"):
        x[1].item()
    assert x[1].item() == 1


def test_a_lost_device_gives_nothing(monkeypatch):
    x = torch.arange(10, device=D)
    assert [x[i].item() for i in range(3)] == [0, 1, 2]
    from webgpu_backend.runtime.gpu import gpu

    monkeypatch.setattr(gpu().queue, "dead", "unplugged")
    with pytest.raises(RuntimeError, match="unplugged"):
        x[1].item()
