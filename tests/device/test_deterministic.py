"""Under `torch.use_deterministic_algorithms(True)` values that meet are taken in the order of their places."""

import pytest
import torch
import torch.nn.functional as F

D = "webgpu"


@pytest.fixture(autouse=True)
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def rough(*shape, seed=0, dtype=torch.float32):
    """Values whose sum depends on the order."""
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=g) * 10 ** torch.randint(-4, 5, shape, generator=g)).to(dtype)


def places(high, *shape, seed=1):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


SUMS = {
    "scatter_add": lambda s, i, x: s.scatter_add(0, i, x),
    "scatter_add, strided": lambda s, i, x: torch.stack((s, s), 1)[:, 0].scatter_add_(0, i, x),
    "scatter_reduce": lambda s, i, x: s.scatter_reduce(0, i, x, "sum", include_self=False),
    "scatter_reduce, product": lambda s, i, x: s.scatter_reduce(0, i, 1 + x * 1e-7, "prod"),
    "index_add": lambda s, i, x: s.index_add(0, i, x, alpha=2),
    "index_add, complex columns": lambda s, i, x: (
        s.view(37, 1)
        .repeat(2, 3)
        .to(torch.complex64)
        .t()
        .contiguous()
        .t()
        .index_add_(0, i, (x + 1j * x)[:, None].expand(-1, 3))
    ),
    "index_put": lambda s, i, x: s.index_put((i,), x, accumulate=True),
    "index_put, two": lambda s, i, x: s.view(1, -1).index_put((torch.zeros_like(i), i), x, accumulate=True),
    "put": lambda s, i, x: s.put(i, x, accumulate=True),
    "bincount": lambda s, i, x: torch.bincount(i, x, minlength=40),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums(name):
    function = SUMS[name]
    inputs = (rough(37, seed=3), places(37, 6000), rough(6000))
    ours = [function(*[x.to(D) for x in inputs]).cpu() for _ in range(3)]
    assert all(torch.equal(o, ours[0]) for o in ours)
    theirs = function(*inputs)
    if "product" in name:
        torch.testing.assert_close(ours[0], theirs, rtol=1e-4, atol=0)
    else:
        assert torch.equal(ours[0], theirs)  # the CPU adds in the order of the places, too


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64, torch.float32])
def test_dtypes(dtype):
    x, i = rough(500, 4, dtype=dtype), places(9, 500)
    ours = [torch.zeros(9, 4, dtype=dtype, device=D).index_add_(0, i.to(D), x.to(D)).cpu() for _ in range(3)]
    assert all(torch.equal(o, ours[0]) for o in ours)
    wide = x if x.is_complex() else x.double()
    wanted = torch.zeros(9, 4, dtype=wide.dtype).index_add_(0, i, wide)
    torch.testing.assert_close(ours[0], wanted.to(dtype), rtol=1e-2, atol=1)


def test_gradients():
    """Of embedding, index_select and advanced indexing: sums of rows that were read more than once."""
    weight, index = rough(11, 5), places(11, 700)

    def grads(device):
        made = []
        for read in (F.embedding, lambda i, w: w.index_select(0, i), lambda i, w: w[i], lambda i, w: w.gather(0, wide)):
            w, i = weight.to(device).requires_grad_(), index.to(device)
            wide = i.unsqueeze(1).expand(700, 5)
            made += torch.autograd.grad(read(i, w), w, rough(700, 5, seed=9).to(device))
        return made

    first, second = grads(D), grads(D)
    for a, b, c in zip(first, second, grads("cpu")):
        assert torch.equal(a.cpu(), b.cpu())
        torch.testing.assert_close(a.cpu(), c, rtol=1e-4, atol=1e-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_the_last_of_several_stays(dtype):
    i = places(13, 4000)
    x = torch.arange(4000).to(dtype) if dtype is not torch.bool else places(2, 4000, seed=4).bool()
    s = torch.zeros(13, dtype=dtype)
    for function in (
        lambda s, i, x: s.scatter(0, i, x),
        lambda s, i, x: s.index_copy(0, i, x),
        lambda s, i, x: s.index_put((i,), x),
        lambda s, i, x: torch.zeros(13, 3, dtype=dtype, device=s.device)[:, 1].scatter_(0, i, x),
    ):
        assert torch.equal(function(s.to(D), i.to(D), x.to(D)).cpu(), function(s, i, x))


def test_long_runs():
    """More values at one place than one dispatch takes."""
    n = 70_000
    x = rough(n)
    i = torch.zeros(n, dtype=torch.int64)
    got = torch.zeros(1, device=D).index_add_(0, i.to(D), x.to(D)).item()
    assert got == torch.zeros(1).index_add_(0, i, x).item()


def test_without_the_switch_it_is_one_kernel():
    from webgpu_backend import stats

    torch.use_deterministic_algorithms(False)
    s, i, x = torch.zeros(37, device=D), places(37, 600).to(D), rough(600).to(D)
    s.scatter_add_(0, i, x)
    before = stats()["dispatches"]
    s.scatter_add_(0, i, x)
    assert stats()["dispatches"] - before == 1


def test_memory_that_nobody_has_written_is_known():
    torch.use_deterministic_algorithms(True)
    try:
        for device in ("cpu", "webgpu"):
            assert (
                torch.empty(3, device=device).isnan().all()
                and torch.empty_like(torch.zeros(2, device=device)).isnan().all()
            )
            assert torch.empty_strided((2, 2), (1, 2), device=device, dtype=torch.complex64).isnan().all()
            for dtype in (torch.uint8, torch.int16, torch.int64):
                assert torch.empty(2, dtype=dtype, device=device).tolist() == [torch.iinfo(dtype).max] * 2
            assert torch.zeros(2, device=device).resize_(4).isnan().tolist() == [False, False, True, True]
    finally:
        torch.use_deterministic_algorithms(False)
