"""Random numbers inside compiled kernels are those that eager operators draw, bit by bit."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.device._adapter import kernels_of

D = "webgpu"
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
pytestmark = [
    pytest.mark.usefixtures("compiled_by_inductor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def check(f, *args, kernels=None):
    """Two calls after a seed, compiled and eager; they differ from one another."""
    compiled, runs = torch.compile(f), {}
    given = [a.to(D) for a in args]
    with torch.no_grad():
        for name, call in (("compiled", compiled), ("again", compiled), ("eager", f)):
            torch.manual_seed(7)
            runs[name] = [[t.cpu() for t in call(*given)] for _ in range(2)]
            runs[name].append([torch.rand(3, device=D).cpu()])  # and the stream is at the same place after them
        if kernels is not None:
            names = kernels_of(lambda: compiled(*given))
            assert len(names) == kernels, names
    for a, b, c in zip(*[[t for run in runs[n] for t in run] for n in runs], strict=True):
        assert a.dtype == c.dtype and torch.equal(a, c) and torch.equal(b, c)
    assert not all([torch.equal(a, b) for a, b in zip(*runs["compiled"][:2])])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(33,), (5, 8), (3, 7), (2, 3, 130), (1, 1)], ids=str)
def test_dropout(adapter_class, shape, dtype):
    if shape == (1, 1):
        shape = (50, 1)  # one element may well be the same twice
    torch.manual_seed(0)
    x, y = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    check(lambda x, y: (F.dropout(x, 0.3), torch.native_dropout(y, 0.75, True)[1]), x, y, kernels=2)


def test_infinities_stay_nan():
    x = torch.full((64,), float("inf"))
    with torch.no_grad():
        found = torch.compile(lambda x: F.dropout(x, 0.5))(x.to(D)).cpu()
    assert found.isnan().any() and found.isinf().any() and (found.isnan() | found.isinf()).all()


def test_around_it(adapter_class):
    x, y = torch.randn(6, 9), torch.randn(6, 9)

    def f(x, y):
        kept = F.dropout(x * 2 + y, 0.4)
        return kept + y, kept.amax(-1), F.dropout(x.t().contiguous(), 0.1)

    check(f, x, y, kernels=2)


def test_transposed_and_repeated():
    """The kernel that reads it walks in another order than the stream."""
    x = torch.randn(8, 12)
    check(lambda x: (F.dropout(x, 0.5).t().contiguous(), F.dropout(x, 0.2)[1:, ::3].flip(0).clone()), x)


def test_other_distributions():
    x = torch.randn(5, 7)

    def f(x):
        return torch.rand_like(x) - 1, torch.randn(3, 11, device=x.device) * x[0, 0], torch.bernoulli(x, 0.25) * 3

    check(f, x, kernels=2)


def test_an_operator_that_is_none_of_them_keeps_the_order():
    x = torch.rand(5, 7) + 0.5

    def f(x):
        return (
            F.dropout(x, 0.5),
            torch.empty_like(x).exponential_(),
            torch.bernoulli(x * 0.5),
            F.dropout(x, 0.2),
            torch.randint(0, 9, (6,), device=D),
        )

    check(f, x)


def test_layouts_and_sizes_that_are_left_alone():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    check(lambda x: (F.dropout(x, 0.5), F.dropout(x + 1, 0.25)), x)
    compiled = torch.compile(lambda x: F.dropout(x, 0.5) * 2, dynamic=True)
    for n in (5, 9, 130):
        x = torch.randn(n, 3, device=D)
        with torch.no_grad():
            torch.manual_seed(n)
            found = compiled(x)
            torch.manual_seed(n)
            assert torch.equal(found.cpu(), (F.dropout(x, 0.5) * 2).cpu())


def test_training():
    """The same masks forwards and backwards, with and without dropout of attention's weights."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Dropout(0.25), nn.Linear(16, 16), nn.Dropout(0.5)).to(D)
    compiled, x = torch.compile(net), torch.randn(9, 12, device=D)
    found = {}
    for name, call in (("eager", net), ("compiled", compiled)):
        torch.manual_seed(3)
        net.zero_grad()
        out = call(x)
        out.square().sum().backward()
        found[name] = [out.detach().cpu(), *[p.grad.cpu() for p in net.parameters()]]
    for a, b in zip(*found.values()):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert found["eager"][0].eq(0).equal(found["compiled"][0].eq(0))
