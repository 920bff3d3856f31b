"""Reductions against the CPU: every dtype, dims, layouts, sizes of both passes, special values, errors."""

import pytest
import torch

import webgpu_backend
from tests import needs
from tests.device._compare import same

SHAPES = [(), (1,), (5,), (7, 3), (3, 1001), (64, 128), (2, 3, 4, 5), (1, 70001), (70001, 3), (300, 7, 1)]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def make(shape, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed)
    if dtype.is_complex or dtype.is_floating_point:
        return torch.randn(shape, generator=g, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    low = 0 if dtype in (torch.uint8, torch.bool) else -100
    return torch.randint(low, 2 if dtype == torch.bool else 100, shape, generator=g).to(dtype)


def check(function, *inputs, rtol=1e-5, atol=1e-5):
    same(function, *inputs, tolerance=(rtol, atol))


def close(dtype):
    return {torch.float16: {"rtol": 2e-3, "atol": 2e-3}, torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}}.get(
        dtype, {"rtol": 2e-5, "atol": 1e-4}
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float_reductions(shape):
    x = make(shape)
    dims = [None, *range(-1, x.dim())] + ([(0, -1)] if x.dim() > 1 else [])
    for dim in dims:
        for keepdim in (False, True):
            kw = {"dim": dim, "keepdim": keepdim}
            for f in (torch.sum, torch.mean, torch.amax, torch.nansum, torch.linalg.vector_norm):
                args = {**kw, "dim": () if dim is None else dim} if f is torch.amax else kw
                check(lambda t, f=f, args=args: f(t, **args), x, **close(torch.float32))
            if x.numel() > 1:
                check(lambda t: torch.var_mean(t, correction=0, **kw), x, **close(torch.float32))
            if not isinstance(dim, tuple):
                check(lambda t: torch.argmax(t, **kw), x)
        if isinstance(dim, int):
            check(lambda t: t.max(dim), x)
            check(lambda t: t.min(dim, True), x)
            check(lambda t: t.aminmax(dim=dim), x)
            check(lambda t: t.logsumexp(dim), x)
            if x.dim() and x.shape[dim] < 1000:
                check(lambda t: (t.sign() * (1 + 0.01 * t)).prod(dim), x, rtol=1e-4)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.complex64], ids=str)
def test_dtypes(dtype):
    for shape in [(7, 13), (5, 64), (3, 2000)]:
        x = make(shape, dtype)
        for dim in (None, 0, 1):
            check(lambda t: t.sum(dim), x, **close(dtype))
            check(lambda t: t.any() if dim is None else t.any(dim), x)
            check(lambda t: t.all() if dim is None else t.all(dim), x)
            check(lambda t: t.count_nonzero(dim), x)
            if dtype.is_floating_point or dtype.is_complex:
                check(lambda t: t.mean(dim), x, **close(dtype))
                check(lambda t: torch.std_mean(t, dim), x, **close(dtype))
                for order in (0, 0.5, 1, 2, 3, float("inf"), float("-inf")):
                    check(lambda t: torch.linalg.vector_norm(t, order, dim), x, rtol=2e-2, atol=1e-2)
            if not dtype.is_complex:
                check(lambda t: t.amax(() if dim is None else dim), x)
                check(lambda t: t.amin(() if dim is None else dim), x)
                if dim is not None:
                    check(lambda t: t.max(dim), x)
                    check(lambda t: t.min(dim), x)
                if dtype != torch.bool:
                    check(lambda t: t.argmax(dim), x)
                    check(lambda t: t.argmin(dim), x)


def test_unsigned_extremes():
    x = torch.tensor([[0, 2**32 - 1, 5], [7, 6, 2**31]], dtype=torch.int64).to(torch.uint32)
    got = x.to("webgpu")
    assert got.amax().cpu().item() == 2**32 - 1
    assert got.amin(1).cpu().tolist() == [0, 6]
    assert got.sum().item() == int(x.to(torch.int64).sum())


def test_int64_is_exact():
    x = torch.tensor([2**62, 2**61 + 1, -(2**63) + 5, 3], dtype=torch.int64)
    check(lambda t: t.sum(), x)
    check(lambda t: t.amin(), x)
    check(lambda t: t.argmax(), x)
    check(lambda t: t.prod(), x)
    wide = torch.full((200_000,), 2**40 + 1, dtype=torch.int64)
    check(lambda t: t.sum(), wide)


def test_dtype_argument_and_promotion():
    x = make((5, 33), torch.int32)
    check(lambda t: t.sum(1, dtype=torch.float32), x)
    check(lambda t: t.mean(dtype=torch.float32), x)
    check(lambda t: t.sum(dtype=torch.int32), x)
    check(lambda t: t.prod(1), make((4, 5), torch.int8))
    check(lambda t: t.half().sum(0, dtype=torch.float32), make((40, 5)))
    check(lambda t: t.sum(0, dtype=torch.bool), make((4, 5), torch.int8))


def test_layouts():
    x = make((6, 10, 8, 12))
    views = [
        lambda t: t.permute(3, 1, 0, 2),
        lambda t: t[:, 1:, ::2, 3:],
        lambda t: t.transpose(0, 3),
        lambda t: t[2:3].expand(5, 10, 8, 12),
        lambda t: t[:, :, 3, 1:],
        lambda t: t.flatten()[3:],
        lambda t: t.to(memory_format=torch.channels_last),
    ]
    for view in views:
        rank = view(x).dim()
        for dims in [(0,), (rank - 1,), tuple({0, rank - 1}), tuple({rank // 2}), tuple(range(rank))]:
            check(lambda t: view(t).sum(dims), x, rtol=1e-4, atol=1e-4)
            check(lambda t: view(t).half().amax(dims), x)
        for dim in [None, 0, rank - 1]:
            check(lambda t: view(t).argmax(dim), x)


def test_strided_packed():
    x = make((33, 18), torch.float16)
    check(lambda t: t[1:, 1::2].sum(0), x, **close(torch.float16))
    check(lambda t: t[1:, 1::2].amax(1), x)
    check(lambda t: t[1:, 1::2].any(1), make((33, 18), torch.bool))
    check(lambda t: t.t().sum(1), make((33, 18), torch.int8))


def test_ties_and_nan():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor(
        [[1.0, 3, 3, 2], [nan, 5, nan, 1], [-inf, -inf, -inf, -inf], [inf, 1, inf, nan], [0.0, -0.0, 0.0, -0.0]]
    )
    for dim in (None, 0, 1):
        for f in (torch.argmax, torch.argmin):
            check(lambda t, f=f: f(t, dim), x)
        check(lambda t: t.amax(() if dim is None else dim), x)
        check(lambda t: t.nansum(dim), x)
        check(lambda t: t.any() if dim is None else t.any(dim), x)
    for f in (torch.max, torch.min):
        check(lambda t, f=f: f(t, 1), x)
        check(lambda t, f=f: f(t), x)
    check(lambda t: t.logsumexp(1), x)
    big = torch.zeros(100_003)
    check(lambda t: t.argmax(), big)
    big[77_777] = 1
    big[99_999] = 1
    check(lambda t: t.argmax(), big)
    big[88_888] = nan
    big[88_890] = nan
    check(lambda t: t.argmin(), big)


@pytest.mark.parametrize("number", [float("inf"), -float("inf"), float("nan"), complex(1, float("inf"))])
def test_the_mean_of_complex_infinities_is_a_complex_quotient(number):
    x = torch.tensor([[1 + 2j, 2 - 3j, 3 + 1j], [1 + 2j, number, 3 + 1j]])
    for dim in (None, 0, 1):
        check(lambda t, dim=dim: t.mean(dim), x)


def test_empty():
    x = torch.empty(0, 3)
    for f in (torch.sum, torch.mean, torch.prod, torch.any, torch.all, torch.var, torch.count_nonzero):
        check(lambda t, f=f: f(t), x)
        check(lambda t, f=f: f(t, 0), x)
        check(lambda t, f=f: f(t, 1), x)
    check(lambda t: t.amax(1), x)
    check(lambda t: t.logsumexp(0), x)
    check(lambda t: torch.linalg.vector_norm(t, 2, 0), x)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.max(),
        lambda t: t.amax(),
        lambda t: t.argmax(),
        lambda t: t.argmax(0),
        lambda t: t.min(0),
        lambda t: t.sum(2),
        lambda t: t.sum((0, 0)),
        lambda t: t.max(-3),
        lambda t: t.long().mean(),
        lambda t: torch.linalg.vector_norm(t, float("inf")),
    ],
)
def test_errors_are_torchs(call):
    x = torch.empty(0, 3)
    with pytest.raises(Exception) as expected:  # noqa: PT011
        call(x)
    with pytest.raises(type(expected.value)) as got:
        call(x.to("webgpu"))
    assert str(got.value) == str(expected.value)


def test_sum_accuracy():
    g = torch.Generator().manual_seed(1)
    x = torch.rand(10_000_000, generator=g)
    device = x.to("webgpu")
    exact = x.double().sum()
    assert abs(device.sum().item() - exact) / exact < 1e-5
    assert abs(device.view(-1, 5).sum(0).cpu().double() - x.view(-1, 5).double().sum(0)).max() / (exact / 5) < 1e-5
    assert abs(device.view(5, -1).mean(1).cpu().double() - x.view(5, -1).double().mean(1)).max() < 1e-5
    assert abs(device.var().item() - x.double().var()) < 1e-6


LONG = {
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean(), "var": lambda x: x.var(), "std": lambda x: (x + 9).std(),
    "nansum": lambda x: x.nansum(), "norm": lambda x: x.norm(), "norm 1": lambda x: torch.linalg.vector_norm(x, 1),
    "norm 3": lambda x: torch.linalg.vector_norm(x, 3), "logsumexp": lambda x: x.logsumexp(0),
    "prod": lambda x: (1 + (x - 0.5) * 2**-10).prod(), "sum of columns": lambda x: x.view(-1, 8).sum(0),
    "var of rows": lambda x: x.view(8, -1).var(1), "mean of columns": lambda x: x.view(-1, 8).mean(0),
    "norm of columns": lambda x: x.view(-1, 8).norm(dim=0),
    "prod of rows": lambda x: (1 + (x.view(8, -1) - 0.5) * 2**-10).prod(1),
}  # fmt: skip


@pytest.fixture(scope="module")
def ten_million():
    """Multiples of 1/1024 on the device and as float64: what the functions make of them before reducing is exact."""
    x = (torch.rand(10_000_000, generator=torch.Generator().manual_seed(1)) * 1024).round() / 1024
    return x.to("webgpu"), x.double()


@pytest.mark.parametrize("name", LONG)
def test_accurate_at_ten_million(name, ten_million):
    """Within 1e-5 of what float64 gives for the same numbers, and the same twice."""
    if name.startswith("prod"):
        needs.feature("f64")  # for so many factors
    device, wide = ten_million
    exact = LONG[name](wide)
    found = LONG[name](device)
    assert torch.equal(found.cpu(), LONG[name](device).cpu())
    assert ((found.cpu().double() - exact) / exact).abs().max() < 1e-5


def test_variance_of_shifted_data():
    x = make((4, 5000)) * 0.5 + 1000
    check(lambda t: t.var(1), x, rtol=1e-3)
    check(lambda t: torch.std_mean(t), x, rtol=1e-3)
    check(lambda t: t.var(1, correction=4999), x, rtol=1e-3)


@pytest.mark.parametrize("n", [8, 1000, 70001])
def test_variance_of_numbers_without_a_square(n):
    """It is infinite, as on the CPU, and what is normalised by it zero."""
    x = make((3, n)) * 1e30
    check(lambda t: t.var(1), x)
    check(lambda t: t.var(), x)
    check(lambda t: torch.nn.functional.batch_norm(t, None, None, training=True), x[:, :1000])
    check(lambda t: torch.nn.functional.instance_norm(t), x[None, :, :1000])


def test_gradients():
    x = make((6, 17))
    functions = [
        lambda t: t.sum(0), lambda t: t.mean(), lambda t: t.prod(1), lambda t: t.amax(1), lambda t: t.max(0).values,
        lambda t: t.min(), lambda t: t.var(1), lambda t: t.std(), lambda t: t.logsumexp(1), lambda t: t.norm(),
        lambda t: t.norm(3, dim=1), lambda t: torch.linalg.vector_norm(t, float("inf"), 1), lambda t: t.nansum(1),
    ]  # fmt: skip
    for f in functions:
        a = x.clone().requires_grad_()
        f(a).sum().backward()
        b = x.to("webgpu").requires_grad_()
        f(b).sum().backward()
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-5)


def test_dispatches_and_compilation():
    x = make((50, 60)).to("webgpu")
    x.sum(1)
    before = webgpu_backend.stats()
    x.sum(1)
    make((51, 64)).to("webgpu").sum(1)  # as many threads to a row, on a GPU too
    after = webgpu_backend.stats()
    assert after["dispatches"] - before["dispatches"] == 2
    assert after["pipelines_compiled"] == before["pipelines_compiled"]


def test_results_repeat():
    x = make((1_000_003,)).to("webgpu")
    first = x.sum().item()
    assert all(x.sum().item() == first for _ in range(3))


def test_out_overloads():
    x = make((5, 6))
    out = torch.empty(0, device="webgpu")
    torch.sum(x.to("webgpu"), 1, out=out)
    torch.testing.assert_close(out.cpu(), x.sum(1))


@pytest.fixture
def small_bindings(adapter_of):
    """As if no binding could hold more than 64 KiB. Blocks that were bound whole before are given back."""
    torch.webgpu.synchronize()
    torch.webgpu.empty_cache()
    adapter_of(max_binding=1 << 16)


def test_beyond_one_binding(small_bindings):
    x = make((60, 1000))
    for f in (
        lambda t: t.sum(), lambda t: t.sum(0), lambda t: t.sum(1), lambda t: t.argmax(), lambda t: t.t().argmax(),
        lambda t: t.max(0), lambda t: t.max(1, True), lambda t: torch.std_mean(t, 1), lambda t: t.var(),
        lambda t: t[10:50, 3:].mean((0, 1)), lambda t: t.softmax(1), lambda t: t.log_softmax(0),
    ):  # fmt: skip
        check(f, x, rtol=1e-4, atol=1e-4)


@pytest.fixture(params=["gpu", "cpu"])
def adapter_kind(request, adapter_of):
    """Plans made as for that class of adapter, whichever this is."""
    adapter_of(kind=request.param)


def test_both_adapter_classes(adapter_kind):
    for shape in [(3, 5), (40, 64), (2, 9001), (5000, 4), (300, 129), (6, 8, 10), (40000,)]:
        x = make(shape)
        for dim in range(x.dim()):
            check(lambda t: t.sum(dim), x, **close(torch.float32))
            check(lambda t: t.max(dim), x)
            check(lambda t: torch.var_mean(t, dim), x, **close(torch.float32))
            check(lambda t: t.softmax(dim), x)
            check(lambda t: torch.nn.functional.layer_norm(t, t.shape[dim:]), x, **close(torch.float32))
            check(lambda t: t.half().sum(dim), x, rtol=2e-3, atol=2e-2)
        check(lambda t: t.argmax(), x)
        check(lambda t: t.mean(), x, **close(torch.float32))
        check(lambda t: t.t().sum() if t.dim() == 2 else t.sum((0, -1) if t.dim() > 1 else 0), x, rtol=1e-4, atol=1e-3)
