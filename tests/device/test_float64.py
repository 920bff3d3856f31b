"""float64 where the adapter has it: numbers of its whole range, functions to the last places, everything on the device.

References are mpmath's with many more digits, and the CPU's float64.
"""

import copy
import math

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests import needs
from tests.device._compare import keeps_denormals

needs.feature("f64")

DOUBLE = torch.float64
LIMITS = torch.finfo(DOUBLE)
NUMBERS = (
    1e300,
    -1e300,
    1e-300,
    5e-324,
    LIMITS.tiny,
    LIMITS.max,
    LIMITS.min,
    1 / 3,
    -0.0,
    math.inf,
    math.nan,
    2**62 + 1,
)


def ones(device):
    return torch.ones(3, dtype=DOUBLE, device=device)


WITH_NUMBERS = {
    "full": lambda d, v: torch.full((3,), v, dtype=DOUBLE, device=d),
    "fill_": lambda d, v: ones(d).fill_(v),
    "add": lambda d, v: ones(d) + v,
    "mul": lambda d, v: ones(d) * v,
    "lt": lambda d, v: ones(d) < v,
    "where": lambda d, v: torch.where(ones(d) > 0, v, ones(d)),
    "clamp": lambda d, v: ones(d).clamp(min=v),
    "masked_fill": lambda d, v: ones(d).masked_fill(ones(d) > 0, v),
    "addcmul": lambda d, v: torch.addcmul(ones(d), ones(d), ones(d), value=v),
    "addmm": lambda d, v: torch.addmm(ones(d)[None, :1], ones(d)[None, :1], ones(d)[None, :1], alpha=v),
    "pad": lambda d, v: F.pad(ones(d), (1, 2), value=v),
    "index_fill": lambda d, v: ones(d).index_fill(0, torch.tensor([1], device=d), v),
    "scatter": lambda d, v: ones(d).scatter(0, torch.tensor([1], device=d), v),
    "lerp": lambda d, v: torch.lerp(ones(d), 2 * ones(d), v),
    "nan_to_num": lambda d, v: torch.nan_to_num(ones(d) * math.nan, nan=v),
    "foreach": lambda d, v: torch._foreach_mul([ones(d)], v)[0],
    "sum": lambda d, v: (ones(d)[:1] * v).sum(),
    "amax": lambda d, v: (ones(d) * v).amax(),
}

ARITHMETIC = ("mul", "foreach", "sum", "amax")


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers_keep_all_their_bits(name):
    call = WITH_NUMBERS[name]
    for value in NUMBERS:
        if value == 5e-324 and name in ARITHMETIC and not keeps_denormals(DOUBLE):
            continue
        got, want = call("webgpu", value).cpu(), call("cpu", value)
        if name == "clamp" and math.isnan(value):
            want = want * math.nan  # which not every release of torch gives
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True, msg=lambda m, v=value: f"{v}: {m}")


# -- functions

rng = np.random.default_rng(5)


def between(low, high, n=120):
    return rng.uniform(low, high, n)


def powers(low, high, n=120):
    """Numbers whose logarithm to base 10 lies between two."""
    return 10.0 ** rng.uniform(low, high, n)


def both_signs(x):
    return np.concatenate([x, -x])


ANGLES = np.concatenate(
    [both_signs(between(0, 10)), both_signs(powers(-10, 22)), powers(5, 308), np.arange(1, 120) * (np.pi / 2)]
)
NEAR_ONE = 1 + both_signs(powers(-15.9, -1))
SMALL = both_signs(powers(-320, 0))
ANY = np.concatenate([powers(-320, 308), between(0.5, 2), np.abs(NEAR_ONE)])
UNIT = np.concatenate([between(-1, 1), SMALL, 1 - powers(-16, -1), -1 + powers(-16, -1)])
# Function, mpmath's, arguments, units in the last place.
FUNCTIONS = {
    "sin": (mpmath.sin, ANGLES, 1),
    "cos": (mpmath.cos, ANGLES, 1),
    "tan": (mpmath.tan, ANGLES, 1.5),
    "asin": (mpmath.asin, UNIT, 1),
    "acos": (mpmath.acos, UNIT, 1),
    "atan": (mpmath.atan, np.concatenate([between(-5, 5), SMALL, powers(0, 308)]), 1),
    "exp": (mpmath.exp, np.concatenate([between(-5, 5), between(-745, 709.7), SMALL]), 1),
    "exp2": (lambda x: mpmath.mpf(2) ** x, np.concatenate([between(-5, 5), between(-1074, 1023.9), SMALL]), 1),
    "expm1": (mpmath.expm1, np.concatenate([between(-2, 2), between(-50, 709.7), SMALL]), 1),
    "log": (mpmath.log, ANY, 1.5),
    "log2": (lambda x: mpmath.log(x, 2), ANY, 1.5),
    "log10": (lambda x: mpmath.log(x, 10), ANY, 1.5),
    "log1p": (mpmath.log1p, np.concatenate([between(-1, 2), SMALL[SMALL > -1], powers(0, 308)]), 1.5),
    "sinh": (mpmath.sinh, np.concatenate([between(-5, 5), between(-710, 710), SMALL]), 2),
    "cosh": (mpmath.cosh, np.concatenate([between(-5, 5), between(-710, 710), SMALL]), 2),
    "tanh": (mpmath.tanh, np.concatenate([between(-5, 5), between(-30, 30), SMALL]), 2),
    "asinh": (mpmath.asinh, np.concatenate([between(-5, 5), SMALL, powers(0, 308)]), 2),
    "acosh": (mpmath.acosh, np.concatenate([between(1, 6), 1 + powers(-15.9, 10), powers(0, 308)]), 2),
    "atanh": (mpmath.atanh, UNIT[np.abs(UNIT) < 1], 1.5),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), np.concatenate([between(-10, 10), between(-700, 700)]), 2),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), ANY, 1.5),
    "erf": (mpmath.erf, np.concatenate([between(-6, 6), SMALL]), 1),
    "erfc": (mpmath.erfc, np.concatenate([between(-6, 6), between(0, 26.5), SMALL]), 3),
    "lgamma": (lambda x: mpmath.loggamma(x).real, np.concatenate([between(0, 200), between(0.5, 10), NEAR_ONE]), 4.5),
    "digamma": (mpmath.digamma, np.concatenate([between(0.01, 1.3), between(1.6, 200)]), 4),
    "erfinv": (mpmath.erfinv, between(-0.99, 0.99, 60), 3),
}
OF_TWO = {
    "atan2": (mpmath.atan2, powers(-100, 100), both_signs(powers(-100, 100, 60)), 2),
    "hypot": (mpmath.hypot, np.concatenate([powers(-320, 150), between(-5, 5)]),
              np.concatenate([powers(-320, 150), between(-5, 5)]), 1.5),
    "pow": (lambda a, b: mpmath.mpf(a) ** b, np.concatenate([powers(-100, 100), between(0.9, 1.1), between(0, 5)]),
            np.concatenate([between(-2.5, 2.5), between(-3000, 3000), np.round(between(-40, 40))]), 1),
}  # fmt: skip


def denormal(x):
    """Of a tensor or a number, where the adapter flushes them."""
    return (x != 0) & (abs(x) < LIMITS.tiny) & (not keeps_denormals(DOUBLE))


def worst(got: torch.Tensor, reference, *arguments) -> float:
    """The largest error in units in the last place of what is right."""
    most = 0.0
    with mpmath.workprec(1200):  # of the arguments of trigonometric functions, which reduce 1e308 themselves
        for value, *x in zip(got.tolist(), *arguments):
            want = reference(*[mpmath.mpf(float(part)) for part in x])
            near = float(want)
            if denormal(near) or any(denormal(part) for part in x):
                continue
            if math.isinf(near) or near == 0:
                assert value == near, x
                continue
            assert math.isfinite(value), x
            most = max(most, float(abs(mpmath.mpf(value) - want) / float(np.spacing(abs(near)))))
    return most


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_to_the_last_place(name):
    reference, x, ulps = FUNCTIONS[name]
    assert worst(getattr(torch, name)(torch.tensor(x).to("webgpu")).cpu(), reference, x) <= ulps


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_to_the_last_place(name):
    reference, x, y, ulps = OF_TWO[name]
    got = getattr(torch, name)(torch.tensor(x).to("webgpu"), torch.tensor(y).to("webgpu"))
    assert worst(got.cpu(), reference, x, y) <= ulps


SPECIAL = torch.tensor(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 2.5, 1e-17, -1e-17, 5e-324, -5e-324, 1e-310, LIMITS.tiny, LIMITS.max,
     LIMITS.min, 4503599627370497.5, 1e22, -746.0, 710.0, math.inf, -math.inf, math.nan], dtype=DOUBLE,
)  # fmt: skip


def assert_same(got: torch.Tensor, want: torch.Tensor, rtol: float = 2e-15) -> None:
    got, least = got.cpu(), denormal(want) | denormal(want / 2)
    assert (got.abs() < 4 * LIMITS.tiny)[least].all()
    got, want = got[~least], want[~least]
    torch.testing.assert_close(got, want, rtol=rtol, atol=0, equal_nan=True)
    assert torch.equal(got.signbit()[want == 0], want.signbit()[want == 0]), "a zero's sign"


@pytest.mark.parametrize(
    "name", [*FUNCTIONS, "round", "trunc", "floor", "ceil", "frac", "sign", "abs", "sqrt", "reciprocal"]
)
def test_special_values(name):
    call = getattr(torch, name)
    x = SPECIAL[~denormal(SPECIAL)]
    if name == "log1p":
        x = x[(x == 0) | ~(x.abs() < LIMITS.tiny)]  # the CPU gives 0
    # One by one: sinh(710) of a vector is infinite on processors with AVX2, of a single number it is not.
    assert_same(call(x.to("webgpu")), torch.stack([call(v) for v in x]), 1e-14 if name == "digamma" else 2e-15)


@pytest.mark.parametrize("name", ["round", "trunc", "floor", "ceil", "frac"])
def test_rounding_keeps_all_bits(name):
    """Built-ins of one driver round float64 as float32 where the processor's vectors are short."""
    whole = torch.tensor([0, 1, 2, 3, 2**24 + 1, 2**31, 2**32 + 1, 2**51 - 1], dtype=DOUBLE)
    x = (whole[:, None] + torch.tensor([0, 0.25, 0.5, 0.75, 2**-20], dtype=DOUBLE)).flatten()
    below = torch.nextafter(x, torch.zeros_like(x))
    x = torch.cat([x, below, -x, -below, 10.0 ** torch.linspace(-9, 17, 101, dtype=DOUBLE)])
    call = getattr(torch, name)
    assert_same(call(x.to("webgpu")), call(x), 0)


@pytest.mark.parametrize("name", [*OF_TWO, "copysign", "maximum", "fmin", "nextafter", "xlogy", "logaddexp"])
def test_special_values_of_two(name):
    call = getattr(torch, name)
    some = SPECIAL[~denormal(SPECIAL)]
    x, y = (part.reshape(-1) for part in torch.meshgrid(some, some, indexing="ij"))
    assert_same(call(x.to("webgpu"), y.to("webgpu")), call(x, y))


@pytest.mark.parametrize("name", ["gelu", "silu", "softplus", "mish", "elu", "celu", "logsigmoid", "hardswish"])
def test_activations_and_their_gradients(name):
    found = []
    for device in ("cpu", "webgpu"):
        x = torch.linspace(-4, 6, 203, dtype=DOUBLE).to(device).requires_grad_()
        y = getattr(F, name)(x)
        y.backward(torch.ones_like(y))
        found.append((y.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize(
    "name, low, high",
    [("entr", 0, 5), ("erfcx", -5, 20), ("ndtr", -6, 6), ("log_ndtr", -20, 6), ("sinc", 0.1, 3.9),
     ("logit", 0.01, 0.99), ("spherical_bessel_j0", 0.01, 3)],
)  # fmt: skip
def test_special_functions(name, low, high):
    x = torch.linspace(low, high, 101, dtype=DOUBLE)
    call = getattr(torch.special, name)
    torch.testing.assert_close(call(x.to("webgpu")).cpu(), call(x), rtol=1e-13, atol=1e-15)


BESSEL = {"i0": (0, 0), "i0e": (0, 1), "i1": (1, 0), "i1e": (1, 1)}


@pytest.mark.parametrize("name", BESSEL)
def test_modified_bessel_functions(name):
    order, scaled = BESSEL[name]
    x = np.concatenate([between(-30, 30, 60), powers(-300, 2.8, 40), [8.0, 712.0]])

    def reference(v):
        return mpmath.besseli(order, v) * mpmath.exp(-scaled * abs(v))

    got = getattr(torch.special, name)(torch.tensor(x).to("webgpu")).cpu()
    with mpmath.workprec(120):
        errors = [
            abs((g - reference(mpmath.mpf(v))) / reference(mpmath.mpf(v))) for g, v in zip(got.tolist(), x.tolist())
        ]
    assert max(errors) < 1e-15


OF_REALS = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1",
    "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
]  # fmt: skip


@pytest.mark.parametrize("name", OF_REALS)
def test_bessel_and_airy_functions(name):
    """The CPU's polynomials; where the functions have zeros the errors are of their waves."""
    ends = [0.0, math.inf, -math.inf, math.nan, 2.0, 5.0, 2.09, -2.09, 103.8, 104.0, -1e4]
    x = torch.tensor(np.concatenate([between(-30, 30, 301), powers(-12, 4, 40), ends]))
    call = getattr(torch.special, name)
    torch.testing.assert_close(call(x.to("webgpu")).cpu(), call(x), rtol=1e-13, atol=4e-15, equal_nan=True)


@pytest.mark.parametrize("upper", [False, True], ids=["igamma", "igammac"])
def test_incomplete_gamma_functions(upper):
    """Against mpmath: the CPU has nine digits."""
    pairs = [
        (a, x) for a in (1e-5, 0.3, 1.0, 7.5, 8.5, 40.0, 199.0, 201.0, 1000.0) for x in (1e-8, 0.4, 1.05, 3.0, 12.0)
    ]
    for a in (0.3, 7.5, 40.0, 199.0, 201.0, 1000.0):
        pairs += [(a, a * r) for r in (0.6, 0.71, 0.97, 1.0, 1.02, 1.29, 1.4)]
    a, x = torch.tensor(pairs, dtype=DOUBLE).unbind(1)
    call = torch.igammac if upper else torch.igamma
    got = call(a.to("webgpu"), x.to("webgpu")).cpu()
    with mpmath.workdps(40):
        ends = (lambda v: (v, mpmath.inf)) if upper else (lambda v: (0, v))
        want = [float(mpmath.gammainc(mpmath.mpf(p), *ends(mpmath.mpf(q)), regularized=True)) for p, q in pairs]
    torch.testing.assert_close(got, torch.tensor(want, dtype=DOUBLE), rtol=2e-11, atol=1e-300)
    odd = torch.tensor([0.0, 1.0, math.inf, math.nan, -1.0], dtype=DOUBLE)
    a, x = odd.repeat(5), odd.repeat_interleave(5)
    torch.testing.assert_close(call(a.to("webgpu"), x.to("webgpu")).cpu(), call(a, x), equal_nan=True)


def test_ndtri():
    y = torch.tensor([1e-300, 1e-20, 1e-5, 0.01, 0.05, 0.1, 0.3, 0.7, 0.95, 1 - 1e-12, 0.0, 1.0, -1.0], dtype=DOUBLE)
    torch.testing.assert_close(
        torch.special.ndtri(y.to("webgpu")).cpu(), torch.special.ndtri(y), rtol=1e-14, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("kind", ["hermite_polynomial_h", "hermite_polynomial_he", "legendre_polynomial_p"])
@pytest.mark.parametrize("degree", [0, 1, 7, 200])
def test_orthogonal_polynomials(kind, degree):
    x, call = torch.linspace(-1, 1, 41, dtype=DOUBLE), getattr(torch.special, f"{kind}")
    want = call(x, degree)
    torch.testing.assert_close(
        call(x.to("webgpu"), degree).cpu(), want, rtol=1e-10, atol=1e-10 * want.abs().max().item()
    )


LINES = {
    "logspace": lambda d: torch.logspace(-30, 300, 7, base=9.5, dtype=DOUBLE, device=d),
    "linspace": lambda d: torch.linspace(-1e300, 1e-300, 7, dtype=DOUBLE, device=d),
    "angle": lambda d: torch.tensor([-1.0, 2.0, 0.0], dtype=DOUBLE).to(d).angle(),
    "histc": lambda d: torch.histc(torch.linspace(-1, 1, 500, dtype=DOUBLE).to(d) * 1e200, 9),
    "histogram": lambda d: torch.histogram(torch.linspace(-1, 1, 500, dtype=DOUBLE).to(d).pow(3), 8)[0],
}


@pytest.mark.parametrize("name", LINES)
def test_lines_and_counts(name):
    torch.testing.assert_close(LINES[name]("webgpu").cpu(), LINES[name]("cpu"), rtol=1e-14, atol=0)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "antialiased", "grid"])
def test_images(mode):
    def results(device):
        x = torch.linspace(0, 5, 90, dtype=DOUBLE).sin().reshape(1, 2, 9, 5).to(device).requires_grad_()
        if mode == "grid":
            points = torch.linspace(-1.1, 1.1, 24, dtype=DOUBLE).reshape(1, 4, 3, 2).to(device)
            y = F.grid_sample(x, points, align_corners=False)
        else:
            size, smooth = (7, 11), mode == "antialiased"
            y = F.interpolate(x, size, mode="bilinear" if smooth else mode, antialias=smooth)
        y.square().sum().backward()
        return y.detach().cpu(), x.grad.cpu()

    torch.testing.assert_close(results("webgpu"), results("cpu"), rtol=1e-12, atol=1e-14)


# -- layers and steps

X = torch.randn(4, 2, 6, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
LAYERS = {
    "lstm": lambda: torch.nn.LSTM(6, 5, 2, bidirectional=True, dtype=DOUBLE),
    "gru": lambda: torch.nn.GRU(6, 5, dtype=DOUBLE),
    "attention": lambda: torch.nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, dtype=DOUBLE),
    "convolution": lambda: torch.nn.Conv1d(2, 3, 3, padding=1, dtype=DOUBLE),
    "bag": lambda: lambda x: F.embedding_bag(
        torch.tensor([0, 2, 1, 2]).to(x.device), x[:, 0], torch.tensor([0, 2]).to(x.device), mode="sum",
        per_sample_weights=x[0, 0, :4],
    ),
    "classes": lambda: lambda x: F.cross_entropy(
        x[:, 0], torch.tensor([0, 5, 2, 1]).to(x.device), weight=x[0, 1].abs().detach(), label_smoothing=0.1
    ),
    "nearest": lambda: lambda x: F.interpolate(x, 13),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_their_gradients(name):
    torch.manual_seed(0)
    made, found = LAYERS[name](), []
    for device in ("cpu", "webgpu"):
        x = X.to(device, copy=True).requires_grad_()
        layer = copy.deepcopy(made).to(device) if isinstance(made, torch.nn.Module) else made
        y = layer(x)
        y = y[0] if isinstance(y, tuple) else y
        (y * torch.linspace(0, 1, y.numel(), dtype=DOUBLE).reshape(y.shape).to(device)).sum().backward()
        own = [p.grad.cpu() for p in layer.parameters()] if isinstance(layer, torch.nn.Module) else []
        found.append([y.detach().cpu(), x.grad.cpu(), *own])
    torch.testing.assert_close(found[1], found[0], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", [{"fused": True}, {"foreach": True}, {"amsgrad": True}], ids=str)
def test_optimizer_steps(kind):
    found = []
    for device in ("cpu", "webgpu"):
        w = X[0].to(device, copy=True).requires_grad_()
        optimizer = torch.optim.AdamW([w], lr=0.1, **kind)
        for _ in range(3):
            optimizer.zero_grad()
            (w * X[1].to(device)).sin().sum().backward()
            optimizer.step()
        found.append(w.detach().cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-13, atol=0)


def test_results_follow_the_default_dtype():
    whole, flags = torch.tensor([1, 2, 3]).to("webgpu"), torch.tensor([True, False, True]).to("webgpu")
    calls = [
        lambda: whole / 2, lambda: whole.sin(), lambda: whole * 2.5, lambda: whole**0.5, lambda: flags * 1.5,
        lambda: torch.where(flags, 1.5, 2.5), lambda: torch.full((2,), 1.5, device="webgpu"),
        lambda: whole.reciprocal(), lambda: torch.arange(0.0, 3.0, device="webgpu"),
        lambda: torch.linspace(0, 1, 3, device="webgpu"), lambda: torch.rand(2, device="webgpu"),
        lambda: torch.atan2(whole, whole), lambda: torch.xlogy(whole, whole),
        lambda: torch.fft.fft(whole).real, lambda: (whole + 2j).real, lambda: torch.hann_window(4, device="webgpu"),
    ]  # fmt: skip
    try:
        for dtype in (torch.float32, DOUBLE, torch.float32, DOUBLE):
            torch.set_default_dtype(dtype)
            assert [call().dtype for call in calls] == [dtype] * len(calls)
    finally:
        torch.set_default_dtype(torch.float32)


def test_normal_numbers_beyond_float32():
    torch.manual_seed(0)
    x = torch.empty(4000, dtype=DOUBLE, device="webgpu").normal_(1e300, 1e298).cpu()
    assert abs((x / 1e300).mean() - 1) < 1e-3 and 0.9e-2 < (x / 1e300).std() < 1.1e-2


@pytest.mark.parametrize("order", [1, 2, 5])
def test_polygamma(order):
    x = between(0.1, 20, 60)
    got = torch.polygamma(order, torch.tensor(x).to("webgpu")).cpu()
    assert worst(got, lambda v: mpmath.psi(order, v), x) <= 8
