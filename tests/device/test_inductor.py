"""torch.compile by Inductor: what becomes one kernel, and that it computes what eager operators do."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import webgpu_backend
from tests import needs
from tests.device._adapter import kernels_of
from tests.device._compare import keeps_denormals
from webgpu_backend import env
from webgpu_backend.frontend.graphs.inductor import compiling
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "inductor")
    torch._dynamo.reset()
    with _no_refusals():
        yield
    torch._dynamo.reset()


class _no_refusals:
    """No graph of these tests may be left to the replay."""

    def __enter__(self):
        self.told = compiling._told
        self.told.clear()

    def __exit__(self, kind, *_):
        assert kind or not self.told, self.told


def dispatches(f) -> int:
    before = webgpu_backend.stats()["dispatches"]
    f()
    return webgpu_backend.stats()["dispatches"] - before


def check(f, *args, kernels=None, rtol=1e-5, atol=1e-5, **options):
    """The compiled function on the device against the plain one on the CPU, twice, and its dispatches."""
    compiled = torch.compile(f, **options)
    moved = [a.to(D) if isinstance(a, torch.Tensor) else a for a in args]
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(f(*args))
        for _ in range(2):
            found = torch.utils._pytree.tree_leaves(compiled(*moved))
            for a, b in zip(found, expected, strict=True):
                assert a.dtype == b.dtype and a.device.type == D
                torch.testing.assert_close(a.cpu(), b, rtol=rtol, atol=atol, equal_nan=True)
        if kernels is not None:
            assert dispatches(lambda: compiled(*moved)) == kernels


SHAPES = [(5, 8), (3, 7), (1, 1), (2, 3, 5), (4, 1030), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_chain_is_one_kernel(shape):
    torch.manual_seed(0)
    x, a, b = torch.randn(shape), torch.randn(shape[-1]), torch.randn(shape[-1])
    check(lambda x, a, b: F.gelu(x * a + b), x, a, b, kernels=int(x.numel() > 0))


@pytest.mark.parametrize("n", [1, 6, 64, 1000, 4096])
def test_softmax_and_norms_are_one_kernel_with_what_is_around_them(adapter_class, n):
    torch.manual_seed(0)
    x, y, w, b = torch.randn(7, n), torch.randn(7, n), torch.randn(n), torch.randn(n)
    mask = torch.rand(7, n) > 0.5
    check(lambda x, m: torch.softmax((x * 0.5).masked_fill(m, -1e9), -1), x, mask, kernels=1)
    check(lambda x, y, w: F.rms_norm(x + y, (n,)) * w, x, y, w, kernels=1, rtol=1e-4)
    if n > 1:
        check(lambda x, w, b: F.layer_norm(x * 2, (n,), w, b).relu(), x, w, b, kernels=1, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n", [96, 130, 1024])
def test_what_is_the_same_for_a_row_outlives_its_loop(adapter_class, n, dtype):
    """A norm's statistics go to the gradient: they are stored after the loop that made them and read by the next."""
    torch.manual_seed(0)
    x, w, b = (torch.randn(s, dtype=dtype) for s in ((6, n), (n,), (n,)))
    found = {}
    for device in ("cpu", D):
        given = [t.to(device, copy=True).requires_grad_() for t in (x, w, b)]
        f = lambda x, w, b: F.layer_norm(x * 2, (n,), w, b).tanh()  # noqa: E731
        (torch.compile(f) if device == D else f)(*given).square().sum().backward()
        found[device] = [t.grad.cpu().float() for t in given]
    rough = 1e-4 if dtype is torch.float32 else 0.05 if dtype is torch.float16 else 0.3
    for a, b in zip(found[D], found["cpu"]):
        torch.testing.assert_close(a, b, rtol=rough, atol=rough)
    if gpu().caps.max_bindings <= 8:  # too few for the gradient as one kernel: it is replayed
        compiling._told.clear()


def test_halves_are_rounded_once():
    """What a half holds already is not rounded again, and what it does not hold is rounded as eager operators do, or
    as CUDA's compiled kernels do, in float32 until it is stored: some drivers leave out a rounding in between."""
    x, y = torch.randn(40, 64).half(), torch.randn(40, 64).half()
    f = lambda x, y: ((x * 3.1 + y) * x - y).to(torch.bfloat16) + y  # noqa: E731
    exact = gpu().caps.kind == "cpu"
    check(f, x, y, kernels=1, rtol=0 if exact else 0.02, atol=0 if exact else 0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("sizes", [(96, 40), (896, 130), (1000, 7), (4864, 33)], ids=str)
def test_products_of_one_row(adapter_of, sizes, dtype):
    adapter_of(kind="gpu")
    torch.manual_seed(0)
    x, w, b, r = (
        torch.randn(s, dtype=dtype) for s in ((1, sizes[0]), (sizes[1], sizes[0]), (sizes[1],), (1, sizes[1]))
    )
    rough = dict(rtol=1e-4, atol=1e-3) if dtype is torch.float32 else dict(rtol=0.02, atol=0.1)
    check(lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r, x, w, b, r, kernels=1, **rough)
    normed = 1 if sizes[0] <= 4096 else 2
    check(lambda x, w, b: F.linear(F.rms_norm(x, (sizes[0],)), w) * b, x, w, b, kernels=normed, **rough)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [2, 6, 64])
def test_rotation_of_one_row_is_a_part_of_its_product(adapter_of, size, dtype):
    """Also of infinities and NaN, which stay where they are."""
    adapter_of(kind="gpu")
    torch.manual_seed(0)
    heads, length = 3, 96
    x, w = torch.randn(1, 1, length, dtype=dtype), torch.randn(heads * size, length, dtype=dtype)
    b, cos, sin = (torch.randn(n, dtype=dtype) for n in (heads * size, size, size))
    b[1], b[-1], b[size] = float("inf"), float("-inf"), float("nan")
    rough = dict(rtol=1e-4, atol=1e-3) if dtype is torch.float32 else dict(rtol=0.05, atol=0.3)

    def turned(x, w, b, cos, sin):
        return rotated(F.linear(F.rms_norm(x, (length,)), w, b).view(1, 1, heads, size).transpose(1, 2), cos, sin)

    few = gpu().caps.max_bindings <= 8  # the sums are stored, and the rotation is a kernel of its own
    check(turned, x, w, b, cos, sin, kernels=2 if few else 1, **rough)
    plain = lambda x, w, cos, sin: rotated(F.linear(x, w).view(heads, size), cos, sin)  # noqa: E731
    check(plain, x, w, cos, sin, kernels=1, **rough)


def test_halves_that_are_no_rotation(adapter_of):
    """Another order, other parts, parts of another tensor: kernels of their own, and right."""
    adapter_of(kind="gpu")
    torch.manual_seed(0)
    x, w = torch.randn(1, 96), torch.randn(64, 96)
    rough = dict(rtol=1e-4, atol=1e-3)

    def product(x, w):
        return F.linear(x, w).view(4, 16)

    check(lambda x, w: torch.cat((product(x, w)[:, 8:], -product(x, w)[:, :8]), -1), x, w, **rough)
    check(lambda x, w: torch.cat((-product(x, w)[:, 8:], product(x + 1, w)[:, :8]), -1), x, w, **rough)
    check(lambda x, w: torch.cat((-product(x, w)[:, 9:], product(x, w)[:, :9]), -1), x, w, **rough)
    check(lambda x, w: torch.cat((-product(x, w)[:, 8:], product(x, w)[:, :8]), 0), x, w, **rough)
    check(lambda x, w: torch.cat((-product(x, w).t()[:, 2:], product(x, w).t()[:, :2]), -1), x, w, **rough)


def test_rows_that_lie_apart_are_one_product():
    torch.manual_seed(0)
    x, w, b = torch.randn(5, 30, 24), torch.randn(40, 24), torch.randn(40)
    check(lambda x, w, b: F.linear(x.transpose(0, 1), w, b), x, w, b, kernels=2)
    check(lambda x, w: x.transpose(0, 1) @ w.t(), x, w, dynamic=True)


def test_repetitions_of_what_is_stored_too():
    x = torch.arange(-2, 2, dtype=torch.int8)
    check(lambda x: ((y := torch.where(x > 0, x, -x)), y.tile(2), y.repeat(3, 2)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64], ids=str)
def test_a_part_is_written_and_no_more(dtype):
    torch.manual_seed(0)

    def f(x):
        first, second = x.flip(0), x.flip(1)
        first[:1].copy_(first[-1:].clone())
        second[0] = 1
        second[2:4] = second[1:3].clone()
        return first, second

    check(f, torch.randint(0, 5, (5, 7)).to(dtype))
    check(f, torch.randint(0, 5, (5, 1, 5)).to(dtype), dynamic=True)


def test_arguments_are_written_in_part_with_their_own_values():
    torch.manual_seed(0)
    index = torch.tensor([2, 0, 2])

    def f(x, y, index):
        x[:1].copy_(x[-1:].clone())
        y.index_add_(1, index, y.clone())
        y.index_add_(0, index[:1] * 0, y.clone())
        return x + 1, y.square()

    compiled = torch.compile(f)
    for _ in range(3):
        given = [torch.randint(-4, 4, s).float() for s in ((5, 7), (1, 3))]
        moved = [t.to(D) for t in given]
        for a, b in zip(compiled(*moved, index.to(D)), f(*given, index)):
            assert torch.equal(a.cpu(), b)
        assert all(torch.equal(a.cpu(), b) for a, b in zip(moved, given))


def test_values_that_are_one_of_several_are_written():
    def f(x, y, index):
        x.index_copy_(0, index, y.sort(-1)[0])
        return x * 2

    check(f, torch.randn(5, 7), torch.randn(2, 7), torch.tensor([3, 0]))


def test_cosines_are_computed_once():
    """A function that costs much is read by all who use it."""
    x, y = torch.randn(40), torch.randn(3, 40)
    check(lambda x, y: (y * x.cos(), (y + 1) * x.cos(), y.flip(0) / x.cos()), x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int64], ids=str)
def test_products_over_one_element_are_elementwise(dtype):
    """As angles of rotary embeddings are made of frequencies and positions; with infinities and NaN."""
    if dtype is torch.float64:
        needs.feature("f64")
    x, y = torch.randn(2, 33, 1).mul(4).to(dtype), torch.randn(2, 1, 7).mul(4).to(dtype)
    if dtype.is_floating_point:
        x[0, 3], x[1, 4], y[0, 0, 2] = float("inf"), float("nan"), 0
    kernels = 1 if dtype.is_floating_point else None
    check(lambda x, y: (x @ y).transpose(1, 2) * 2 + 1, x, y, kernels=kernels, rtol=1e-3, atol=1e-3)
    check(lambda x, y: x[0] @ y[0] + y[0], x, y, kernels=kernels, rtol=1e-3, atol=1e-3)


ZEROS = {
    "x * 0.0": lambda x: x * 0.0,
    "x * -0.0 + 1": lambda x: x * -0.0 + 1,
    "zeros * x": lambda x: torch.zeros_like(x) * x,
    "x - x": lambda x: x - x,
    "x * x - x * x": lambda x: x * x - x * x,
    "x + (-x)": lambda x: x + (-x),
    "0.0 / x": lambda x: 0.0 / x,
    "-0.0 / x": lambda x: -0.0 / x,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.0),
    "elu": lambda x: F.elu(x, 0.0),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.0),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.0),
    "where": lambda x: torch.where(x > 1, x, x * 0.0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
def test_zeros_hide_no_infinities_and_no_nan(dtype):
    """Drivers know that x * 0.0 and x - x are zero, which they are not for these."""
    if dtype is torch.float64:
        needs.feature("f64")
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 2.0, -3.0, 1e-6]).to(dtype)
    for name, f in ZEROS.items():
        torch._dynamo.reset()
        with torch.no_grad():
            expected, found = f(x), torch.compile(f)(x.to(D)).cpu()
        assert torch.equal(found.isnan(), expected.isnan()), name
        kept = ~expected.isnan()
        assert torch.equal(found[kept], expected[kept]), name
        if name != "lerp":  # drivers of GPUs take x for x + 0.0, which makes 0.0 of -0.0
            assert torch.equal(found[kept].signbit(), expected[kept].signbit()), name


@pytest.mark.parametrize("kind", ["as it is", "gpu"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_rounding_within_a_kernel(adapter_of, dtype, kind):
    """A driver's compiler may take casts to a half and back out, and with them what they round, or make infinite."""
    if kind == "gpu":
        adapter_of(kind=kind)
    halves = torch.arange(0x400, 0x7C00, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
    between = (halves[1:] + halves[:-1]) / 2
    x = torch.cat([halves, between, between.nextafter(halves[1:]), between.nextafter(halves[:-1])])
    x = torch.cat([x, torch.tensor([0.0, 65520, 1e5, 3e38, float("inf"), float("nan")])])
    x = torch.cat([x, -x])
    tiny = torch.rand(999) * 2**-14  # drivers may leave them as they are

    def f(x):
        rounded = (-x.to(dtype)).float()  # casts with nothing between them are taken out by Inductor itself
        return rounded, x + rounded

    torch._dynamo.reset()
    compiled = torch.compile(f)
    for found, expected in zip(compiled(x.to(D)), f(x), strict=True):
        assert torch.equal(found.cpu().nan_to_num(7.0), expected.nan_to_num(7.0))
    for found, expected in zip(compiled(tiny.to(D)), f(tiny), strict=True):
        assert (found.cpu() - expected).abs().max() <= (2**-25 if dtype is torch.float16 else 0)


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_zeros_after_products_hide_none_either(adapter_of, kind):
    adapter_of(kind="gpu")
    torch.manual_seed(0)
    x, w = (
        (torch.randn(9, 64), torch.randn(33, 64))
        if kind == "linear"
        else (torch.randn(2, 8, 9, 9), torch.randn(8, 8, 3, 3))
    )
    x[0] = float("inf")
    call = F.linear if kind == "linear" else F.conv2d
    for f in (lambda x, w: F.leaky_relu(call(x, w), 0.0), lambda x, w: call(x, w) * 0.0 + 1):
        torch._dynamo.reset()
        with torch.no_grad():
            expected, found = f(x, w), torch.compile(f)(x.to(D), w.to(D)).cpu()
        assert torch.equal(found.isnan(), expected.isnan())
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_special_values_come_through():
    small = 1e-40 if keeps_denormals() else 1e-30
    x = torch.tensor([0.0, -0.0, small, 3e38, float("inf"), float("-inf"), float("nan"), -1.5] * 3)
    y = x.roll(3)
    check(lambda x, y: (x * y, x.exp(), x.sqrt(), x.maximum(y), x > y, x.isnan(), x.relu(), torch.atan2(x, y)), x, y)
    check(lambda x, y: (x.max(), x.min(), x.sum(), x.argmax(), (x > y).any()), x, y)
    check(lambda x, y: (torch.where(x < 0, 0.0, x), torch.where(x > y, x, y), F.threshold(x, 1, 1), F.relu6(x)), x, y)


DTYPES = [torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(33,), (5, 8)], ids=str)
def test_dtypes(shape, dtype):
    torch.manual_seed(0)
    if dtype.is_floating_point:
        x, y = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    else:
        x, y = torch.randint(-90, 90, shape).to(dtype), torch.randint(1, 90, shape).to(dtype)
    rough = 1e-2 if dtype.is_floating_point else 0
    check(lambda x, y: (x + y, x * y - 3, x > y, -x.abs()), x, y, kernels=1, rtol=rough, atol=rough)
    check(lambda x, y: (x.sum(), x.amax(-1), (x > y).sum(-1), x.float()), x, y, rtol=rough, atol=rough * 10)
    check(lambda x: x.t().contiguous() if x.dim() == 2 else x.flip(0), x)


def test_by_the_name_of_a_backend(monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "replay")
    x = torch.randn(5, 8)
    check(lambda x: torch.softmax(x.exp() * 2, -1), x, kernels=1, backend="webgpu_inductor")
    check(lambda x: torch.softmax(x.exp() * 2, -1), x, kernels=2)


def test_masks_and_bits():
    torch.manual_seed(0)
    a, b = torch.rand(5, 9) > 0.5, torch.rand(5, 9) > 0.3
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a.sum(), a.any(0), b.all(1), a.long() * 3), a, b)
    x = torch.randint(-99, 99, (5, 9))
    check(lambda x: (x & 12, (x | 3) ^ 5, x << 2, ~(x >> 1), x // 7, x % 7), x, kernels=1)


def test_gathers_and_scatters():
    torch.manual_seed(0)
    table, at, rows = torch.randn(10, 6), torch.tensor([1, -1, 3, 3]), torch.randn(4, 6)
    check(lambda t, i: t[i] * 2, table, at, kernels=1)
    check(lambda t, i: F.embedding(i % 10, t).sum(-1), table, at.abs(), kernels=1)
    check(lambda t, i, v: t.index_add(0, i % 10, v) + 1, table, at, rows)
    check(lambda t, i, v: t.index_put((i,), v, accumulate=True), table.half(), at, rows.half(), rtol=1e-2)
    check(lambda t, i: t.gather(1, i).relu(), table, torch.randint(0, 6, (10, 3)), kernels=1)
    check(lambda t, i: torch.zeros(10, 6, dtype=t.dtype, device=t.device).scatter_add(1, i, t), table,
          torch.randint(0, 6, (10, 6)))  # fmt: skip


def test_an_index_that_leads_out_is_reported():
    compiled = torch.compile(lambda t, i: t[i] * 2)
    table = torch.randn(4, 2).to(D)
    with torch.no_grad():
        compiled(table, torch.tensor([1, 3], device=D))
        with pytest.raises(IndexError, match="out of bounds"):
            compiled(table, torch.tensor([1, 4], device=D)).cpu()
        assert compiled(table, torch.tensor([0, -1], device=D)).cpu().equal(table.cpu()[[0, 3]] * 2)


def test_views_cats_and_pads():
    torch.manual_seed(0)
    x, y = torch.randn(6, 10), torch.randn(6, 3)
    check(lambda x, y: torch.cat([x * 2, y + 1], 1), x, y, kernels=1)
    check(lambda x, y: torch.cat([x @ x.t(), y], 1), x, y, rtol=1e-4)
    check(lambda x: F.pad(x, (1, 2, 0, 1), value=3.0) + 1, x, kernels=1)
    check(lambda x: (x.t() + 1, x[::2] * 2, x.flip(0), x[1:, 3:].exp(), x.as_strided((3, 4), (2, 3), 1) * 2), x)
    check(lambda x: x.expand(4, 6, 10).permute(2, 0, 1).sum(1), x)


@pytest.mark.parametrize("shape", [(4, 3), (1000, 130), (3, 70000), (70000, 2), (2, 3, 4, 5)], ids=str)
def test_reductions(shape):
    torch.manual_seed(0)
    x = torch.randn(shape)
    check(lambda x: (x.sum(), x.sum(0), x.mean(-1), x.amax(0), x.argmax(-1)), x, rtol=1e-4, atol=1e-2)
    check(lambda x: (x.var(-1), x.std(0), x.norm(dim=-1)), x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [8, 1000, 5000])
def test_variances_of_numbers_without_a_square(n):
    torch.manual_seed(0)
    x = torch.randn(3, n) * 1e30
    x[1, n // 2] = torch.inf
    check(lambda x: [x.var(-1) + 1, x[:1].var() * 2, F.batch_norm(x[None, :1], None, None, training=True) + 1], x)


def test_one_kernel_for_all_sizes():
    from torch._dynamo.utils import counters

    counters.clear()
    compiled = torch.compile(lambda x, w: (F.softmax(x * 2, -1) * w, x.sum(0), x.mean()), dynamic=True)
    for n, m in ((3, 4), (5, 9), (1000, 130), (7, 65), (2, 2), (64, 1024)):
        torch.manual_seed(n)
        x, w = torch.randn(n, m), torch.randn(m)
        with torch.no_grad():
            found = compiled(x.to(D), w.to(D))
        for a, b in zip(found, (F.softmax(x * 2, -1) * w, x.sum(0), x.mean())):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4)
    assert counters["stats"]["unique_graphs"] == 1


def test_a_softmax_that_is_asked_for_in_float64():
    needs.feature("f64")
    x, found = torch.randn(3, 40), []
    for f, device in ((torch.softmax, "cpu"), (torch.compile(torch.softmax), D)):
        given = x.to(device).requires_grad_()
        y = f(given, -1, dtype=torch.float64)
        found.append([y.detach().cpu(), torch.autograd.grad(y.square().sum(), given)[0].cpu()])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)


def test_heads_of_any_size():
    """The scale is a power of a size that a kernel is told."""
    compiled = torch.compile(F.scaled_dot_product_attention, dynamic=True)
    for size in (8, 12, 24):
        given = [torch.randn(2, 2, 5, size) for _ in range(3)]
        with torch.no_grad():
            found = compiled(*[t.to(D) for t in given])
        torch.testing.assert_close(found.cpu(), F.scaled_dot_product_attention(*given), rtol=1e-4, atol=1e-4)


def test_arguments_are_written():
    @torch.compile
    def f(cache, at, x):
        cache[:, at] = x
        cache.mul_(2)
        return cache.sum()

    same, cache = torch.zeros(4, 6), torch.zeros(4, 6, device=D)
    for i in range(3):
        x, version = torch.randn(4), cache._version
        with torch.no_grad():
            total = f(cache, i, x.to(D))
        same[:, i] = x
        same.mul_(2)
        torch.testing.assert_close(total.cpu(), same.sum())
        torch.testing.assert_close(cache.cpu(), same)
        assert cache._version > version


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
def test_a_tensor_is_written_with_its_own_values(dtype):
    """torch leaves the copies out."""
    torch.manual_seed(0)
    order, again = torch.randperm(9), torch.randint(9, (9,))

    def f(t, order, again):
        t = t.flip(0)
        t[order] = t.clone()
        if t.dtype is not torch.bool:
            t.index_add_(0, again, t.clone())
        t.index_copy_(1, order[:4].sort().indices, t.clone())
        t[1:] = t[:-1].clone()
        return t.clone()

    check(f, torch.randint(-4, 4, (9, 4)).to(dtype), order, again)


def test_parts_of_packed_storages_are_written_alone():
    """Halves and flags share words with elements that are none of the kernel's business."""
    for dtype in (torch.float16, torch.bool, torch.uint8):
        storage = torch.ones(40, dtype=dtype, device=D)

        @torch.compile
        def f(part):
            part.copy_(part.logical_not().to(part.dtype))

        with torch.no_grad():
            f(storage[3:16])
        expected = torch.ones(40, dtype=dtype)
        expected[3:16] = 0
        assert storage.cpu().equal(expected), dtype


def test_constants_and_numbers():
    k = torch.randn(5)
    moved = k.to(D)
    compiled = torch.compile(lambda x, s: x * moved + s)
    x = torch.randn(3, 5)
    with torch.no_grad():
        for s in (2.5, 3.0, -1.0):
            torch.testing.assert_close(compiled(x.to(D), s).cpu(), x * k + s)


def test_training_with_an_optimizer_step_that_is_compiled():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.0), nn.Linear(32, 4))
    ours = copy.deepcopy(net).to(D)
    model = torch.compile(ours, fullgraph=True)
    optimizers = [torch.optim.AdamW(n.parameters(), 1e-2) for n in (net, ours)]
    step = torch.compile(lambda: optimizers[1].step())
    for _ in range(4):
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        losses = []
        for call, optimizer, inputs in ((net, optimizers[0], (x, y)), (model, optimizers[1], (x.to(D), y.to(D)))):
            optimizer.zero_grad()
            loss = F.cross_entropy(call(inputs[0]), inputs[1])
            loss.backward()
            step() if call is model else optimizer.step()
            losses.append(loss.item())
        assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_an_optimizer_step_over_all_parameters_is_a_handful():
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Linear(16, 16) for _ in range(10)])
    twin = copy.deepcopy(net).to(D)
    optimizers = [torch.optim.AdamW(m.parameters()) for m in (net, twin)]
    step, x = torch.compile(optimizers[1].step), torch.randn(4, 16)
    for _ in range(3):
        net(x).square().sum().backward()
        twin(x.to(D)).square().sum().backward()
        optimizers[0].step()
        made = dispatches(step)
    assert made <= 12, made  # three where kernels have many buffers
    for a, b in zip(twin.parameters(), net.parameters()):
        torch.testing.assert_close(a.cpu(), b)


def test_a_row_before_patches(adapter_of):
    """As vision transformers begin: places of patches are one less than those of rows."""
    adapter_of(kind="gpu")
    patches, first, places = torch.randn(2, 32, 7, 7), torch.randn(1, 1, 32), torch.randn(1, 50, 32)

    def rows(patches, first, places):
        x = torch.cat([first.expand(2, -1, -1), patches.flatten(2).transpose(1, 2)], 1) + places
        return F.layer_norm(x, (32,)), x

    check(rows, patches, first, places)


def test_four_elements_begin_where_a_size_says(adapter_of):
    """The last place of a sequence of any length."""
    adapter_of(kind="gpu")
    weight = torch.randn(64)
    compiled = torch.compile(lambda x: torch.relu(x[:, -1] * 2 + 1) * weight.to(x.device))
    for length in (5, 7, 9):
        x = torch.randn(1, length, 64)
        given = x.to(D)
        torch._dynamo.mark_dynamic(given, 1)
        torch.testing.assert_close(compiled(given).cpu(), torch.relu(x[:, -1] * 2 + 1) * weight)


def test_kernels_over_more_buffers_than_can_be_bound_are_replayed(adapter_of):
    adapter_of(max_bindings=8)
    torch.manual_seed(0)
    given = [torch.randn(5, 7) for _ in range(9)]
    check(lambda *t: sum(a * (k + 1) for k, a in enumerate(t)).tanh(), *given)
    compiling._told.clear()


def test_ranges_that_are_made_on_the_cpu():
    """As in relative positions of attention; where they are results they stay there."""

    def table(x):
        there = torch.arange(5)[:, None] - torch.arange(5)[None] * 1.0
        return x[(there + 4).long()] * 2

    check(table, torch.rand(9, 3), kernels=1)
    check(lambda x: x.clone().index_put_((torch.arange(2),), x[:1] * 3), torch.rand(4, 3))

    @torch.compile
    def both(x):
        return x + 1, torch.arange(3) * 2

    with pytest.warns(UserWarning, match="computed on the CPU"):
        found = both(torch.ones(2, device=D))
    assert found[0].tolist() == [2, 2] and found[1].device.type == "cpu" and found[1].tolist() == [0, 2, 4]
    compiling._told.clear()


def test_what_is_refused_is_replayed_and_said_once():
    @torch.compile
    def f(x, y):
        return x + y, x.to(D) * 2

    with pytest.warns(UserWarning, match="computed on the CPU"):
        for i in range(2):
            a, b = f(torch.full((2,), float(i)), torch.ones(2))
            assert a.tolist() == [i + 1.0] * 2 and b.tolist() == [2.0 * i] * 2
    assert len(compiling._told) == 1
    compiling._told.clear()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(5,), (3, 7), (1,), ()])
def test_assertions(shape, dynamic):
    """They are made in kernels and told when the host waits, as bad indices are; nothing else is lost."""

    def f(x):
        torch._assert_async((x > 0).all(), "not positive")
        return x * 2

    torch._dynamo.reset()
    compiled, good = torch.compile(f, dynamic=dynamic), torch.rand(shape) + 1
    bad = good.clone()
    bad.view(-1)[-1] = -1
    given = good.to(D), bad.to(D)
    assert torch.equal(compiled(given[0]).cpu(), good * 2)
    kept = torch.ones(3, device=D) + 1
    with pytest.raises(RuntimeError, match=r"^not positive \(in aten::_assert_async, called at .*test_inductor.py:"):
        compiled(given[1]).cpu()
    assert kept.tolist() == [2, 2, 2]
    assert torch.equal(compiled(given[0]).cpu(), good * 2)
    assert all([name.startswith("wgsl") for name in kernels_of(lambda: compiled(given[0]))])


def test_one_hot():
    x = torch.tensor([[0, 2, 1], [3, 3, 0]])
    for n in (-1, 4, 9):
        check(lambda x, n=n: F.one_hot(x, n) * 2.0 + 1, x)
