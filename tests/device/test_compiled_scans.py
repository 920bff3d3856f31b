"""Running sums and their like inside compiled kernels, with what is before and after them, against the CPU."""

import pytest
import torch

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.plan import caps

D = "webgpu"
SHAPES = [(3, 7), (2, 2048), (3, 4099)]
pytestmark = [
    pytest.mark.usefixtures("compiled_by_inductor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def check(f, *args, kernels=None, **tolerance):
    compiled, given = torch.compile(f), [a.to(D) for a in args]
    found, expected = compiled(*given), f(*args)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, equal_nan=True, **tolerance)
    if kernels is not None:
        names = kernels_of(lambda: compiled(*given))
        assert len(names) == kernels, names


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_kernel(adapter_class, shape):
    """Steps before and after, two scans of one loop, a scan of a scan, and reductions of the same rows."""
    torch.manual_seed(0)
    x, near_one = torch.randn(shape), torch.rand(shape) * 0.01 + 0.995

    def several(x, y):
        sums = (x * 2 + 1).cumsum(-1)
        return sums.relu() - x.sum(-1, keepdim=True), y.cumprod(-1) + sums, (sums * 1e-3).cumsum(-1), sums.amax(-1)

    check(several, x, near_one, kernels=1 if caps().max_bindings > 8 else 2, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_along_other_dimensions(adapter_class, shape):
    torch.manual_seed(0)
    x = torch.randn(*shape, 3)
    check(lambda x: ((x + 1).cumsum(1) * 2, x.cumsum(0), x.flip(1).cumsum(1)), x, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("shape", [(3, 7), (2, 2100)], ids=str)
def test_extremes_with_their_places(adapter_class, shape):
    """The last of equal ones; NaN stays from where it is."""
    torch.manual_seed(0)
    x = torch.randint(-9, 9, shape).float()
    x[0, 5:] *= 2
    x[-1, shape[1] // 2] = float("nan")
    check(lambda x: (*(x * 2).cummax(-1), *x.cummin(-1)), x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.uint8], ids=str)
def test_whole_numbers(dtype):
    torch.manual_seed(0)
    x = torch.randint(0, 100, (3, 1100)).to(dtype)
    large = torch.randint(-(1 << 60), 1 << 60, (2, 9))
    check(lambda x, y: ((x.cumsum(-1), x.cumprod(-1), y.cumsum(-1))), x, large)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_floats(adapter_class, dtype):
    if dtype is torch.float64:
        needs.feature("f64")
    torch.manual_seed(0)
    x = torch.randn(3, 1100).to(dtype)
    rounding = torch.finfo(dtype).eps * 4
    check(lambda x: (x.cumsum(-1),), x, rtol=rounding, atol=rounding * 32)


def test_infinities(adapter_class):
    x = torch.randn(4, 600)
    x[0, 7], x[1, 300], x[2, 0], x[3, 599] = float("inf"), float("-inf"), float("nan"), float("inf")
    x[1, 400] = float("inf")
    check(lambda x: (x.cumsum(-1), x.logcumsumexp(-1)), x, rtol=1e-4, atol=1e-4)


def test_gradients(adapter_class):
    torch.manual_seed(0)
    x = torch.randn(3, 130)

    def step(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x.cumsum(-1).tanh() * x.logcumsumexp(0)).sum(), x)

    check(step, x, rtol=1e-4, atol=1e-4)


def test_few_long_rows_are_left_to_the_eager_operator():
    x = torch.randn(2, 20_000)
    compiled = torch.compile(lambda x: (x + 1).cumsum(-1))
    torch.testing.assert_close(compiled(x.to(D)).cpu(), (x + 1).cumsum(-1), rtol=1e-4, atol=0.1)
    names = kernels_of(lambda: compiled(x.to(D)))
    assert any([name.startswith("cumsum") for name in names])


def test_sizes_that_change():
    compiled = torch.compile(lambda x: (x * 2).cumsum(-1), dynamic=True)
    for length in (5, 64, 700, 3000):
        x = torch.randn(3, length)
        torch.testing.assert_close(compiled(x.to(D)).cpu(), (x * 2).cumsum(-1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape, dim", [((1, 20011), -1), ((3, 9001), 1), ((9001, 2), 0), ((2, 10007), None)], ids=str)
def test_places_in_few_long_rows_too(adapter_class, shape, dim):
    """As the next token of a text is chosen; the first of equal ones, and the first NaN."""
    torch.manual_seed(0)
    x = torch.randint(-50, 50, shape).float()
    with_nan = x.clone()
    with_nan.view(-1)[x.numel() // 2 :: 977] = float("nan")
    for given in (x, with_nan):
        check(lambda x: ((x * 2).argmax(dim), (x + 1).argmin(dim, keepdim=dim is not None)), given)
    names = kernels_of(lambda: torch.compile(lambda x: x.argmax(dim))(x.to(D)))
    assert any(name.startswith("argmax") for name in names), names
