"""Compiled kernels that do not wait for one another are one dispatch, and products of one row take their norm in."""

import pytest
import torch
import torch.nn.functional as F

from tests.device._adapter import kernels_of, recorded

D = "webgpu"
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
ROUGH = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}
pytestmark = [
    pytest.mark.usefixtures("compiled_by_inductor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def check(f, *args, kernels: int | None = None, rough: float = 1e-5, written=()):
    """The compiled function, twice, against the plain one on the CPU, with what it writes to, and its dispatches."""
    compiled = torch.compile(f)
    for _ in range(2):
        own, moved = [a.clone() for a in args], [a.to(D) for a in args]
        with torch.no_grad():
            expected, found = f(*own), compiled(*moved)
        for a, b in [*zip(found, expected, strict=True), *[(moved[i], own[i]) for i in written]]:
            torch.testing.assert_close(a.cpu(), b, rtol=rough, atol=rough)
    if kernels is not None:
        with torch.no_grad():
            names = kernels_of(lambda: compiled(*moved))
        assert len(names) == kernels, names


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool], ids=str)
def test_kernels_of_other_sizes(adapter_class, dtype):
    x, y, z = (torch.randint(0, 3, s).to(dtype) for s in ((3, 5), (7, 130), (2,)))
    check(lambda x, y, z: (x.logical_not(), y.flip(0), z.sum(0, keepdim=True), y.amax(1)), x, y, z, kernels=1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sizes_that_change(adapter_class, dtype):
    """One text, and one dispatch, for all sizes, in which parts may be empty or begin anywhere."""

    def f(x, y, z):
        return (x + 1).relu(), y.sum(1), z.flip(0) * 2, y.amax(0)

    compiled, texts = torch.compile(f, dynamic=True), []
    for n, m, k in ((5, 6, 7), (300, 9, 2), (4, 65, 1030), (3, 8, 6)):
        args = [torch.randn(s).to(dtype) for s in ((n,), (m, 6), (k + 1,))]
        args[2] = args[2][1:]
        storages = [args[0].to(D), args[1].to(D), torch.cat([torch.zeros(1, dtype=dtype), args[2]]).to(D)]
        moved = [*storages[:2], storages[2][1:]]
        for _ in range(2):
            for a, b in zip(compiled(*moved), f(*args), strict=True):
                torch.testing.assert_close(a.cpu(), b, rtol=ROUGH[dtype], atol=ROUGH[dtype])
        found = recorded(lambda: compiled(*moved))
        assert len(found) == 1, [d.step.program.name for d in found]
        texts.append(found[0].step.program)
    assert texts[0] is texts[3]
    nothing = [torch.randn(0).to(dtype), torch.randn(4, 6).to(dtype), torch.randn(0).to(dtype)]
    for a, b in zip(compiled(*[a.to(D) for a in nothing]), f(*nothing), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=ROUGH[dtype], atol=ROUGH[dtype])


def test_parts_of_storages():
    """Offsets and numbers are each part's own."""
    storage = torch.randn(100)
    x, y = storage[3:16], storage[17:90].view(-1)
    check(lambda x, y: (x * 2, y.exp() + 1, x.sum(), y.softmax(0)), x, y, kernels=1, rough=1e-5)


def test_one_waits_for_the_other():
    def f(x, y):
        a = x.sum(1)
        b = y * a.max()
        return a, b, b.mean(0), y.exp()

    check(f, torch.randn(6, 9), torch.randn(4, 7), kernels=None, rough=1e-5)


def test_memory_is_read_before_it_is_written():
    """What is written later may not be put beside who reads it now."""

    def f(x, y, z):
        first = x.sum(1)
        x.mul_(2)
        y.copy_(x[:4, :3].t().reshape(4, 3) + z)
        z.add_(first[:3])
        return first, y * 3

    check(f, torch.randn(5, 7), torch.randn(4, 3), torch.randn(3), written=(0, 1, 2))


def test_counters_of_many_layers():
    def f(*counters):
        for c in counters:
            c.add_(1)
        return [c * 2 for c in counters]

    check(f, *[torch.tensor(i) for i in range(5)], written=range(5))


def test_an_index_that_leads_out_is_reported_of_each():
    compiled = torch.compile(lambda t, i, j: (t[i] * 2, t.sum(0), t.t()[j] + 1))
    table = torch.randn(6, 4).to(D)
    with torch.no_grad():
        good = torch.tensor([1, 3], device=D)
        compiled(table, good, good)
        for given in ((torch.tensor([1, 6], device=D), good), (good, torch.tensor([4, 0], device=D))):
            with pytest.raises(IndexError, match="out of bounds"):
                compiled(table, *given)[0].cpu()
                torch.webgpu.synchronize()


def test_too_many_for_one(adapter_of):
    adapter_of(max_bindings=8)
    given = [torch.randn(3 + i) for i in range(9)]
    check(lambda *t: [a.exp() for a in t], *given)


NORMS = {
    "rms": lambda x, w, n: F.rms_norm(x, (n,), w),
    "layer": lambda x, w, n: F.layer_norm(x, (n,), w, w * 0.5),
    "by hand": lambda x, w, n: (
        w * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
    ),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("n", [64, 100, 896])
def test_products_of_one_row_with_their_norm(adapter_of, name, dtype, n):
    adapter_of(kind="gpu")
    x, r, w = torch.randn(1, 1, n), torch.randn(1, 1, n), torch.rand(n) + 0.5
    ws = [torch.randn(m, n) * n**-0.5 for m in (40, 24, 24)]
    bias = torch.randn(40)

    def f(x, r, w, a, b, c, bias):
        y = NORMS[name](x, w, n)
        z = x + F.linear(y, a, bias).sum(-1, keepdim=True)
        return F.linear(y, b), F.linear(y, c), z, F.linear(NORMS[name](z + r, w, n), a)

    check(f, *[t.to(dtype) for t in (x, r, w, *ws, bias)], kernels=4, rough=ROUGH[dtype])


def test_a_norm_that_others_see_is_computed_once(adapter_of):
    adapter_of(kind="gpu")
    x, w, v = torch.randn(1, 128), torch.randn(40, 128), torch.randn(128)

    def f(x, w, v):
        y = F.rms_norm(x, (128,), v)
        return F.linear(y, w), y

    check(f, x, w, v, kernels=2, rough=1e-4)


def test_a_norm_of_parts_is_none_of_the_row(adapter_of):
    """Heads have norms of their own, and factors that are repeated for each."""
    adapter_of(kind="gpu")
    x, w, v = torch.randn(1, 4, 32), torch.randn(40, 128), torch.randn(32)

    def f(x, w, v):
        y = F.rms_norm(x, (32,), v).view(1, 128)
        z = (F.layer_norm(x.view(1, 128), (128,)).view(1, 4, 32) * v).view(1, 128)
        return F.linear(y, w), F.linear(z, w)

    check(f, x, w, v, rough=1e-4)
