"""Elementwise operators against the CPU: values, special values, dtypes, layouts, gradients, in-place and out=."""

import pytest
import torch
from torch.nn import functional as F

import webgpu_backend
from tests import needs
from tests.device._compare import D, close, gradients, of_a_kind, same

INF, NAN = float("inf"), float("nan")
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
SPECIAL = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, -0.5, 1e-6, 2.5, -2.5, 3.0, 30.0, -30.0, 100.0])


def numbers(*sizes, dtype=torch.float32, scale=3.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, sizes, generator=generator).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        low = 0 if dtype == torch.uint8 else -20
        return torch.randint(low, 20, sizes, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.complex(numbers(*sizes, seed=seed), numbers(*sizes, seed=seed + 1))
    return (torch.randn(sizes, generator=generator) * scale).to(dtype)


def agree(function, *inputs, tolerance=None):
    same(function, *inputs, tolerance=tolerance)


def outcome(function, *args):
    """The result, or the error's type and text."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


ROUNDINGS = ("floor", "ceil", "trunc", "round", "sign", "sgn", "signbit", "abs", "neg", "frac")
TESTS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "logical_not")
UNARY = (*ROUNDINGS, *TESTS, "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh",
         "sigmoid", "relu", "angle", "nan_to_num", "deg2rad", "square")  # fmt: skip


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary_at_special_values(name, dtype):
    agree(getattr(torch, name), SPECIAL.to(dtype))


@pytest.mark.parametrize("dtype", (torch.int64, torch.uint8, torch.bool), ids=str)
@pytest.mark.parametrize("name", ("sign", "sgn", "signbit", *TESTS, "exp", "sigmoid", "angle", "nan_to_num"))
def test_unary_of_whole_numbers(name, dtype):
    agree(getattr(torch, name), numbers(3, 7, dtype=dtype))


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", ("floor", "ceil", "trunc", "round", "abs", "square", "bitwise_not"))
def test_rounding_of_integers_is_the_identity(name, dtype):
    agree(getattr(torch, name), numbers(3, 7, dtype=dtype))


BINARY = ("add", "sub", "mul", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge", "logical_and",
          "logical_or", "logical_xor", "heaviside", "copysign")  # fmt: skip


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool), ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    a, b = numbers(4, 9, dtype=dtype), numbers(4, 9, dtype=dtype, seed=2)
    if name == "sub" and dtype == torch.bool:
        with pytest.raises(RuntimeError, match="two bool tensors is not supported"):
            torch.sub(a.to(D), b.to(D))
        return
    if dtype.is_floating_point:
        a[0, :5] = SPECIAL[:5].to(dtype)
        b[:4, 1] = SPECIAL[1:5].to(dtype)
    agree(getattr(torch, name), a, b)
    agree(getattr(torch, name), a, b[:, :1])
    agree(getattr(torch, name), a.t(), b.t()[1])


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", ("gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "remainder", "fmod",
                                  "floor_divide", "bitwise_left_shift", "bitwise_right_shift"))  # fmt: skip
def test_integer_arithmetic(name, dtype):
    a, b = numbers(5, 11, dtype=dtype), numbers(5, 11, dtype=dtype, seed=3)
    b = torch.where(b == 0, torch.ones_like(b), b)
    agree(getattr(torch, name), a, b.abs() % 8 if "shift" in name else b)


def test_int64_is_exact():
    a = torch.tensor([2**62 + 1, -(2**63), 2**63 - 1, -1, 123456789012345678, -987654321987654321])
    b = torch.tensor([3, 1, -2, 2**40 + 1, 1000003, -77])
    for name in ("add", "sub", "mul", "remainder", "floor_divide", "maximum", "lt", "bitwise_xor", "gcd"):
        agree(getattr(torch, name), a, b)
    agree(lambda x: x * 4611686018427387905, b)
    agree(lambda x: torch.clamp(x, min=-(2**63), max=2**53 + 1), a)


@pytest.mark.parametrize("mode", (None, "trunc", "floor"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8), ids=str)
def test_division_modes(mode, dtype):
    a, b = numbers(6, 5, dtype=dtype, scale=20), numbers(6, 5, dtype=dtype, seed=4)
    if dtype.is_floating_point:
        a[0], b[:, 0] = SPECIAL[:5].to(dtype), torch.tensor([INF, -INF, NAN, 0.0, -0.0, 1.0]).to(dtype)
    else:
        b = torch.where(b == 0, torch.ones_like(b), b)
    agree(lambda x, y: torch.div(x, y, rounding_mode=mode), a, b)
    agree(lambda x: torch.div(x, 3, rounding_mode=mode), a)


def test_powers():
    a = numbers(5, 6).abs() + 0.1
    for exponent in (2, 3, 0.5, -1, 0, 2.5, -2.5):
        agree(lambda x, e=exponent: x**e, a)
        agree(lambda x, e=exponent: e**x if e > 0 else x, a)
    agree(lambda x: x**2, numbers(9, dtype=torch.int64))
    agree(lambda x: x**3, numbers(9, dtype=torch.bool))
    agree(torch.pow, SPECIAL[:, None], SPECIAL[None])
    for device in ("cpu", D):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
            torch.ones(2, dtype=torch.int32, device=device) ** -1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nextafter_steps_in_the_stored_dtype(dtype):
    if dtype == torch.float16 and isinstance(outcome(lambda: torch.nextafter(SPECIAL.half(), SPECIAL.half())), tuple):
        a = torch.tensor([1.0, 0.0, -1.0], dtype=dtype)
        steps = torch.nextafter(a.to(D), torch.full_like(a, INF).to(D)).cpu()
        assert steps.tolist() == [1 + 2**-10, 2**-24, -1 + 2**-11]
        return
    a = torch.cat((SPECIAL, numbers(20))).to(dtype)
    agree(torch.nextafter, a[:, None], a[None], tolerance=0)


def test_clamp_bounds():
    a, low, high = numbers(4, 6), numbers(6, seed=5), numbers(4, 1, seed=6)
    a[0, :5] = SPECIAL[:5]
    agree(lambda x: torch.clamp(x, -1, 1.5), a)
    agree(lambda x: torch.clamp(x, min=0), a)
    assert torch.clamp(a.to(D), max=NAN).isnan().all()  # the CPU of torch 2.11 overlooks such a bound
    agree(lambda x: torch.clamp(x, 2, 1), a)
    agree(lambda x, y, z: torch.clamp(x, y, z), a, low, high)
    agree(lambda x, y: torch.clamp(x, max=y), a, low)
    agree(lambda x: torch.clamp(x, 0.5, 3), numbers(7, dtype=torch.int32))
    agree(lambda x: x.clone().clamp_(-1, 1), a)
    gradients(lambda x, y, z: torch.clamp(x, y, z), numbers(4, 6), low, high)
    for device in ("cpu", D):
        with pytest.raises(RuntimeError, match="At least one of 'min' or 'max' must not be None"):
            torch.clamp(a.to(device))


def test_close_and_rounding_by_decimals():
    a = torch.cat((SPECIAL, numbers(20)))
    b = a + torch.tensor([0.0, 1e-7, 1e-2])[torch.arange(len(a)) % 3]
    for equal_nan in (False, True):
        agree(lambda x, y, e=equal_nan: torch.isclose(x, y, equal_nan=e), a, b)
        agree(lambda x, y, e=equal_nan: torch.isclose(x, y, equal_nan=e), torch.complex(a, b), torch.complex(b, b))
    agree(
        lambda x, y: torch.isclose(x, y, rtol=0.1), numbers(30, dtype=torch.int64), numbers(30, dtype=torch.int64) + 1
    )
    assert torch.allclose(a[:4].to(D), a[:4].to(D)) and not torch.allclose(a.to(D), b.to(D), equal_nan=True)
    before = webgpu_backend.stats()["dispatches"]
    torch.isclose(a.to(D), b.to(D))
    assert webgpu_backend.stats()["dispatches"] == before + 1
    for decimals in (0, 2, -1):
        agree(lambda x, d=decimals: torch.round(x, decimals=d), numbers(40, scale=100))


def test_complex_parts():
    a, b = numbers(5, 1), numbers(3, seed=7)
    agree(torch.complex, a, b)
    agree(torch.polar, a.abs(), b)
    agree(torch.complex, a.half(), b.half())
    z = numbers(6, 5, dtype=torch.complex64)
    for function in (
        torch.abs,
        torch.angle,
        torch.conj_physical,
        torch.sgn,
        torch.exp,
        torch.reciprocal,
        torch.sigmoid,
    ):
        agree(function, z)
    agree(torch.nan_to_num, torch.complex(SPECIAL, SPECIAL.flip(0)))
    agree(lambda x: x.clone().conj_physical_(), z)
    agree(lambda x: x.conj() * x.t().conj().t() + x.imag, z)
    gradients(torch.polar, a, b)


def test_frexp_and_bits():
    a = torch.cat((SPECIAL, numbers(10), torch.tensor([1e-40, 1e38])))
    agree(torch.frexp, a)
    agree(torch.frexp, a.half())
    agree(torch.ldexp, numbers(10), numbers(10, dtype=torch.int32))


SHAPES = ((), (0,), (3, 0, 2), (1,), (7,), (5, 4), (3, 5, 7), (2, 3, 4, 5))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.uint8, torch.int64), ids=str)
def test_shapes_layouts_and_outputs(dtype):
    for shape in SHAPES:
        a, b = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype, seed=8)
        agree(torch.add, a, b)
        agree(lambda x, y: torch.clamp(x, y, y + 1), a, b)
        if len(shape) > 1:
            agree(torch.mul, a.transpose(0, -1), b.transpose(0, -1).contiguous())
            agree(torch.maximum, a[..., ::2], b[..., ::2])
        for base in (a, a.to(D)):
            other = b.to(base.device)
            into = torch.empty((0,), dtype=dtype, device=base.device)
            torch.sub(base, other, out=into)
            close(into.to(D), a - b, 0)
            wide = torch.zeros((*shape, 3), dtype=dtype, device=base.device)
            torch.clamp(base, max=5, out=wide[..., 1])
            assert not wide[..., 0].any() and not wide[..., 2].any()
            close(wide[..., 1].to(D), a.clamp(max=5), 0)


def test_large_and_odd_lengths():
    for n in (65, 4099, 70_001):
        a = numbers(n, dtype=torch.float16)
        agree(torch.neg, a)
        agree(lambda x: x[1:] * 2, a)
        agree(lambda x: x > 0, a[1:])


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("approximate", ("none", "tanh"))
def test_gelu(approximate, dtype):
    a = torch.cat((numbers(50), torch.linspace(-15, 15, 31))).to(dtype)
    gradients(lambda x: F.gelu(x, approximate=approximate), a)
    agree(lambda x: F.gelu(x, approximate=approximate), SPECIAL[4:].to(dtype))  # the CPU's gelu(inf) is NaN


ACTIVATIONS = {
    "relu": F.relu, "relu6": F.relu6, "silu": F.silu, "mish": F.mish, "elu": lambda x: F.elu(x, 1.3), "celu": F.celu,
    "selu": F.selu, "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "hardtanh": lambda x: F.hardtanh(x, -1.5, 0.7),
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "logsigmoid": F.logsigmoid, "softplus": lambda x: F.softplus(x, 2, 5), "softsign": F.softsign, "glu": F.glu,
    "threshold": lambda x: F.threshold(x, 0.1, -3), "tanhshrink": F.tanhshrink,
    "logit": lambda x: x.sigmoid().logit(1e-3),
}  # fmt: skip


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16), ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_gradients(name, dtype):
    function = ACTIVATIONS[name]
    gradients(function, numbers(6, 10, dtype=dtype, scale=4))
    agree(function, SPECIAL.to(dtype))


def test_activations_in_place_and_twice():
    a = numbers(6, 6)
    for function in (F.relu, F.elu, F.leaky_relu, F.hardtanh, F.silu, F.mish):
        gradients(lambda x, f=function: f(x * 1, inplace=True), a)

    def second(device):
        x = a.to(device).requires_grad_()
        (g,) = torch.autograd.grad(F.silu(x).sum() + F.mish(x).sum() + F.gelu(x).sum(), x, create_graph=True)
        return torch.autograd.grad((g * g).sum(), x)[0]

    close(second(D), second("cpu"))


def test_prelu_and_one_dispatch_each():
    a, weight = numbers(4, 3, 5), torch.tensor([0.1, -0.2, 0.3])
    gradients(F.prelu, a, weight)
    x = a.to(D)
    for function in (
        F.gelu,
        F.silu,
        F.mish,
        F.logsigmoid,
        lambda v: F.glu(v, 0),
        torch.isfinite,
        lambda v: v.clamp(0, 1),
    ):
        function(x)
        before = webgpu_backend.stats()["dispatches"]
        function(x)
        assert webgpu_backend.stats()["dispatches"] == before + 1


def test_where_keeps_gradients_through_numbers():
    gradients(lambda x: torch.where(x > 0, x * 2, 0.5), numbers(5, 5))
    gradients(lambda x: torch.where(x > 0, 0.5, x), numbers(5, 5))
    agree(lambda c, x: torch.where(c, x, 1), numbers(4, 4, dtype=torch.bool), numbers(4, 4, dtype=torch.int64))


UNARY_SPECIAL = ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr", "erfcx", "i0", "i0e", "i1",
                 "i1e", "log_ndtr", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
                 "modified_bessel_k1", "ndtr", "ndtri", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
                 "spherical_bessel_j0", "digamma", "gammaln", "erf", "erfc", "erfinv", "sinc")  # fmt: skip


@pytest.mark.parametrize("name", UNARY_SPECIAL)
def test_special_functions(name):
    function = getattr(torch.special, name)
    a = torch.linspace(-0.95, 0.95, 19) if name == "erfinv" else torch.linspace(0.05, 6, 33)
    a = torch.linspace(0.01, 0.99, 21) if name == "ndtri" else a
    agree(function, a)
    agree(function, torch.arange(1, 5))


def test_special_functions_of_two():
    x, q = torch.linspace(0.3, 4, 12), torch.linspace(1.2, 6, 12)
    for function in (torch.special.gammainc, torch.special.gammaincc, torch.special.xlogy, torch.special.xlog1py):
        agree(function, x, q)
    agree(torch.special.zeta, q, x)
    for n in range(4):
        agree(lambda v, n=n: torch.polygamma(n, v), q)
    for name in ("chebyshev_polynomial_t", "hermite_polynomial_h", "laguerre_polynomial_l", "legendre_polynomial_p"):
        agree(getattr(torch.special, name), x / 4, torch.arange(12))
    gradients(lambda v: torch.digamma(v) + torch.lgamma(v) + torch.special.i0e(v), q)


def test_errors_are_torchs_own():
    i, b = torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.bool)
    for call in (
        lambda d: torch.add(i.to(d), i.to(d), alpha=1.5),
        lambda d: i.to(d).add_(1.5),
        lambda d: torch.ones(3, device=d) + torch.ones(4, device=d),
        lambda d: torch.div(i.to(d), 2, rounding_mode="up"),
        lambda d: F.gelu(torch.ones(2, device=d), approximate="no"),
        lambda d: torch.complex(i.to(d), i.to(d)),
        lambda d: F.glu(torch.ones(3, device=d)),
        lambda d: -b.to(d),
        lambda d: b.to(d) - b.to(d),
        lambda d: torch.floor(b.to(d)),
        lambda d: torch.sign(torch.ones(2, dtype=torch.complex64, device=d)),
    ):
        want, got = outcome(call, "cpu"), outcome(call, D)
        assert isinstance(want, tuple) and of_a_kind(got[0], want[0]) and got[1] == want[1]


def test_float64():
    needs.feature("f64")
    a = torch.cat((SPECIAL, numbers(50, scale=30))).double()
    for name in ("exp", "log", "expm1", "log1p", "sqrt", "tanh", "sigmoid", "floor", "round", "sign", "isnan", "sinh"):
        agree(getattr(torch, name), a, tolerance=1e-13)
    for name in ("add", "mul", "div", "pow", "remainder", "fmod", "floor_divide", "maximum", "fmin", "hypot"):
        agree(getattr(torch, name), a[:, None], a[None], tolerance=1e-12)
    agree(lambda x: x.to(torch.int64), a[5:])
    agree(lambda x, y: torch.float_power(x, y), numbers(9).abs(), numbers(9), tolerance=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gelu_of_halves_is_within_a_unit(dtype):
    """Of the last place of the exact result; below 1e-5 the absolute error counts."""
    x = torch.linspace(-8, 8, 40001).to(dtype)
    exact = F.gelu(x.double()).to(dtype)
    ours = F.gelu(x.to("webgpu")).cpu()
    large = exact.abs() > 1e-5
    assert (ours.view(torch.int16).int() - exact.view(torch.int16).int()).abs()[large].max() <= 1
    assert (ours.double() - exact.double()).abs()[~large].max() < 1e-5
    slope = torch.ops.aten.gelu_backward(torch.ones_like(x).to("webgpu"), x.to("webgpu")).cpu().double()
    expected = torch.ops.aten.gelu_backward(torch.ones_like(x).double(), x.double())
    assert (slope - expected).abs().max() < torch.finfo(dtype).eps


def test_the_gradient_of_hardswish_keeps_nan():
    x = torch.tensor([float("nan"), -4.0, -3.0, 0.5, 3.0, 4.0, float("inf"), -float("inf")] * 4)
    leaves = [x.detach().to(device).requires_grad_() for device in ("cpu", "webgpu")]
    for leaf in leaves:
        torch.nn.functional.hardswish(leaf).sum().backward()
    torch.testing.assert_close(leaves[1].grad.cpu(), leaves[0].grad, equal_nan=True)
    assert leaves[0].grad.isnan().any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", [torch.fmod, torch.remainder])
def test_remainders_by_a_number_of_16_bits(function, dtype):
    """The number has the tensor's bits first: 2.3 goes into 6.9 three times, float16's neighbour of it twice or so."""
    x = numbers(7, 33, dtype=dtype, scale=9)
    for number in (2.3, -0.7, 1e9, 3, torch.tensor(2.3)):
        close(function(x.to(D), number), function(x, number), 0)
        close(x.to(D).clone().fmod_(number), x.clone().fmod_(number), 0)
    close(torch.remainder(7.7, x.to(D)), torch.remainder(7.7, x), 0)


@pytest.mark.parametrize("function", [torch.clamp_min, torch.clamp_max])
@pytest.mark.parametrize("bound", [1, 1j, torch.ones(3), torch.ones(3, dtype=torch.complex64)], ids=str)
def test_bounds_of_complex_numbers_are_refused_in_the_cpu_s_words(function, bound):
    x = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(NotImplementedError) as theirs:
        function(x, bound)
    with pytest.raises(NotImplementedError) as ours:
        function(x.to(D), bound.to(D) if torch.is_tensor(bound) else bound)
    assert str(ours.value) == str(theirs.value)
