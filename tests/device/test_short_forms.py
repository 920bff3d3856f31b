"""Calls by short forms: what was planned for one call must not be taken for another that only looks alike."""

import math

import pytest
import torch

from tests.device._adapter import recorded
from webgpu_backend.kernels.pointwise import elementwise

D = "webgpu"


def twice(f):
    f()
    return f()


@pytest.mark.parametrize("op", [torch.add, torch.mul, torch.sub, torch.maximum, torch.pow])
def test_a_number_on_the_cpu_joins_after_one_on_the_device(op):
    a, b = torch.rand(()), torch.rand(())
    x, y = a.to(D), b.to(D)
    expected = op(a, b)
    for left, right in ((x, y), (x, b), (a, y), (x, y)):
        torch.testing.assert_close(op(left, right).cpu(), expected)


@pytest.mark.parametrize("op", [torch.add, torch.Tensor.add_, torch.mm, torch.nn.functional.linear, torch.cat])
def test_two_devices_are_refused_after_a_call_that_looks_alike(op):
    a, x, y = torch.rand(4, 4), torch.rand(4, 4).to(D), torch.rand(4, 4).to(D)
    call = (lambda *both: torch.cat(both)) if op is torch.cat else op
    call(x, y)
    with pytest.raises(RuntimeError, match="same device"):
        call(x, a)
    call(x, y)


@pytest.mark.parametrize("value", [0.0, -0.0, 2.5, math.inf, math.nan])
def test_numbers_that_are_equal_but_not_the_same(value):
    a = torch.tensor([1.0, -1.0, 0.0])
    x = a.to(D)
    for number in (0.0, -0.0, value, 1, True, 1.0):
        got, expected = twice(lambda n=number: x * n).cpu(), a * number
        torch.testing.assert_close(got, expected, equal_nan=True)
        assert torch.equal(torch.signbit(got[~got.isnan()]), torch.signbit(expected[~expected.isnan()]))
        assert got.dtype == expected.dtype


def test_numbers_in_place():
    x = torch.ones(5, device=D)
    for i in range(1, 100):  # more numbers than are kept
        x.mul_(-0.0 if i % 3 == 0 else 1.0 + i)
        x.add_(float(i))
    y = torch.ones(5)
    for i in range(1, 100):
        y.mul_(-0.0 if i % 3 == 0 else 1.0 + i)
        y.add_(float(i))
    torch.testing.assert_close(x.cpu(), y)


def test_in_place_at_the_end_of_a_storage_and_before_it():
    """The last word of a tensor that ends its storage may be written whole, that of another may not."""
    base = torch.arange(8, dtype=torch.uint8)
    whole, part = base.to(D)[:6].clone(), base.to(D)[:6]
    for x in (whole, part, whole, part):
        x.add_(1)
    assert torch.equal(whole.cpu(), base[:6] + 2)
    full = torch.arange(8, dtype=torch.uint8).to(D)
    full[:6].add_(1)
    assert full.cpu()[6:].tolist() == [6, 7]


def test_empty_tensors():
    x, y = torch.rand(0, 3).to(D), torch.rand(0, 3).to(D)
    for _ in range(2):
        assert (x + y).shape == (x.relu()).shape == (x * 2).shape == torch.cat([x, y]).shape == (0, 3)
        assert x.add_(y) is x and torch.addcmul(x, x, y).shape == (0, 3)
        assert (x + torch.rand(1, 3).to(D)).shape == (0, 3)


def test_a_resized_storage_keeps_its_tensors():
    x = torch.arange(4.0).to(D)
    view = x[1:3]
    x.resize_(1000)
    other = torch.full((4,), 9.0, device=D)  # takes the block that was given back
    assert view.cpu().tolist() == [1.0, 2.0] and x[:4].cpu().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (view + 1).cpu().tolist() == [2.0, 3.0] and other.cpu().tolist() == [9.0] * 4


def test_released_blocks_come_back_with_their_descriptions():
    for _ in range(3):
        kept = torch.arange(64.0).to(D)
        made = [torch.full((n,), float(n), device=D) for n in (1, 500, 70000)]
        kept.resize_(5000)
        del made
        torch.webgpu.empty_cache()
    assert kept[:64].cpu().tolist() == list(range(64))


VIEWS = [
    lambda x: x[1:3],
    lambda x: x[:, ::2],
    lambda x: x[-1],
    lambda x: x[2:1],
    lambda x: x.t(),
    lambda x: x.transpose(-1, 0),
    lambda x: x.unsqueeze(-1),
    lambda x: x.unsqueeze(1).squeeze(1).squeeze(),
    lambda x: x.view(-1),
    lambda x: x.view(2, 2, 6),
    lambda x: x.expand(3, 4, 6),
    lambda x: x.unsqueeze(0).expand(-1, -1, 6).permute(2, 0, 1),
    lambda x: x[1:][1:].t()[1],
]


@pytest.mark.parametrize("view", VIEWS)
def test_views_repeat(view):
    a = torch.arange(24.0).view(4, 6)
    x = a.to(D)
    expected = view(a)
    for source in (x, x, x[:], x.clone()):
        got = view(source)
        assert got.shape == expected.shape and got.stride() == expected.stride()
        assert got.storage_offset() == expected.storage_offset()
        assert torch.equal(got.cpu(), expected) and got._base is not None
    with torch.inference_mode():
        got = twice(lambda: view(x))
        assert torch.equal(got.cpu(), expected) and got.is_inference() == view(a).is_inference()
        assert twice(lambda: view(x * 1)).is_inference()
    leaf = a.to(D).requires_grad_()
    twice(lambda: view(leaf)).sum().backward()
    on_cpu = a.clone().requires_grad_()
    view(on_cpu).sum().backward()
    assert torch.equal(leaf.grad.cpu(), on_cpu.grad)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.select(0, 9),
        lambda x: x.transpose(0, 5),
        lambda x: x.view(5, 5),
        lambda x: x.t().view(-1),
        lambda x: x.expand(7, 6),
        lambda x: x.permute(0, 0),
        lambda x: x.unsqueeze(7),
        lambda x: x.unsqueeze(0).t(),
        lambda x: torch.ops.aten.slice.Tensor(x, 0, 0, 2, 0),
    ],
)
def test_wrong_views_raise_as_on_the_cpu(view):
    a = torch.rand(4, 6)
    with pytest.raises((RuntimeError, IndexError)) as on_cpu:
        view(a)
    for _ in range(2):
        with pytest.raises(type(on_cpu.value)) as here:
            view(a.to(D))
        assert str(here.value).split("\n")[0] == str(on_cpu.value).split("\n")[0]


WALKED = {
    "add": lambda a, b: a + b,
    "add a number": lambda a, b: a + 2,
    "multiply in place": lambda a, b: a.clone().mul_(b),
    "compare": lambda a, b: a < b,
    "cast": lambda a, b: a.to(torch.float32) + b,
    "fill": lambda a, b: a.clone().fill_(1),
    "zero": lambda a, b: a.clone().zero_(),
    "one value": lambda a, b: torch.where(b > a, b, a[0]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
@pytest.mark.parametrize("name", WALKED)
def test_much_memory_is_walked_both_ways(monkeypatch, adapter_of, name, dtype):
    """As a GPU does from TURNED bytes on; every element is met in either direction."""
    adapter_of(kind="gpu")
    monkeypatch.setattr(elementwise, "TURNED", 1)
    f = WALKED[name]
    for n in (1, 2051, 9001, 70_003):  # with every dtype some last group is short
        a, b = torch.randint(-9, 9, (n,)).to(dtype), torch.randint(-9, 9, (n,)).to(dtype)
        x, y, want = a.to(D), b.to(D), f(a, b)
        ways = set()
        for _ in range(3):
            made = []
            steps = recorded(lambda x=x, y=y, made=made: made.append(f(x, y)))
            ways.add(tuple([s.params for s in steps]))
            (got,) = made
            assert got.dtype == want.dtype and torch.equal(got.cpu(), want), n
        assert len(ways) == 2 or n == 1 or len(steps) % 2 == 0, n
