"""The WGSL maths library against float64 references: every function, its error in ulp, and its special values."""

import functools
import math
import re
from dataclasses import dataclass
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
import wgpu

FOLDER = Path(__file__).parents[2] / "src/webgpu_backend/kernels/lib"
LIBRARY = "\n".join([path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("math_f32*.wgsl"))])
ITEM = re.compile(r"^(?:fn (f32_\w+)\((.*?)\) -> (\w+(?:<f32>)?) \{\n.*?^\}|const (F32_\w+)[^;]*;)$", re.M | re.S)
WORDS = re.compile(r"\b[fF]32_\w+")


@functools.cache
def library() -> dict[str, re.Match]:
    """Every top-level item of the files by its name."""
    return {m[1] or m[4]: m for m in ITEM.finditer(LIBRARY)}


def assemble(name: str) -> str:
    """The text of one function and of what it calls."""
    items, wanted, todo = library(), {}, [name]
    while todo:
        word = todo.pop()
        if word not in wanted:
            wanted[word] = items[word][0]
            todo += WORDS.findall(items[word][0])
    return "\n\n".join(reversed(wanted.values()))


@functools.cache
def device() -> wgpu.GPUDevice:
    return wgpu.gpu.request_adapter_sync().request_device_sync()


@functools.cache
def pipeline(name: str) -> tuple[wgpu.GPUComputePipeline, bool]:
    args = [a.split(":")[1].strip() for a in library()[name][2].split(",")]
    returns = library()[name][3]
    store = {"bool": "select(0.0, 1.0, {})", "i32": "f32({})"}.get(returns, "{}")
    inputs = "\n".join(f"@group(0) @binding({k + 1}) var<storage, read> x{k}: array<{t}>;" for k, t in enumerate(args))
    call = store.format(f"{name}({', '.join(f'x{k}[i]' for k in range(len(args)))})")
    code = f"""{assemble(name)}
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
{inputs}
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let i = id.x;
  if (i < arrayLength(&out)) {{ out[i] = {call}; }}
}}"""
    shader = device().create_shader_module(code=code)
    return device().create_compute_pipeline(layout="auto", compute={"module": shader, "entry_point": "main"})


def evaluate(name: str, *inputs: np.ndarray) -> np.ndarray:
    """`name` of each element on the device; integer arrays go to i32 parameters."""
    d, pipe, n = device(), pipeline(name), len(inputs[0])
    out = d.create_buffer(size=n * 4, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC)
    arrays = [np.ascontiguousarray(x, np.int32 if x.dtype.kind == "i" else np.float32) for x in inputs]
    buffers = [out] + [d.create_buffer_with_data(data=x, usage=wgpu.BufferUsage.STORAGE) for x in arrays]
    entries = [{"binding": k, "resource": {"buffer": b}} for k, b in enumerate(buffers)]
    encoder = d.create_command_encoder()
    step = encoder.begin_compute_pass()
    step.set_pipeline(pipe)
    step.set_bind_group(0, d.create_bind_group(layout=pipe.get_bind_group_layout(0), entries=entries))
    step.dispatch_workgroups((n + 63) // 64)
    step.end()
    d.queue.submit([encoder.finish()])
    result = np.frombuffer(d.queue.read_buffer(out), np.float32).copy()
    for b in buffers:
        b.destroy()
    return result


def ulp_error(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units of the float32 spacing at `want` (float64); both out of float32's range counts as 0."""
    with np.errstate(all="ignore"):
        exact = want.astype(np.float32)
        spacing = np.spacing(np.maximum(np.abs(want), 2.0**-126).astype(np.float32)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want) / spacing
    same = (got == exact) | (np.isnan(got) & np.isnan(exact))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


NORMAL = 2.0**-126


@functools.cache
def keeps_denormals() -> bool:
    """Whether arithmetic on this adapter does; many GPUs take and give 0 for them."""
    return evaluate("f32_ldexp", np.array([1e-39], np.float32), np.array([-1]))[0] != 0


def within_reach(inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The inputs without denormals, where the adapter flushes them."""
    if keeps_denormals():
        return inputs
    denormal = np.any([(x.dtype.kind == "f") & (x != 0) & (np.abs(x) < NORMAL) for x in inputs], axis=0)
    return [x[~denormal] for x in inputs]


def flushed(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Results that a flushed denormal on the way to them explains."""
    return (not keeps_denormals()) & (np.abs(got) < 1e-34) & (np.abs(want) < 1e-34)


@dataclass(frozen=True)
class Case:
    """A function, its float64 reference, boxes of arguments ((low, high) for each), and the error allowed there."""

    name: str
    reference: object
    boxes: list
    ulp: float
    atol: float = 0.0
    size: int = 1 << 16

    def __str__(self):
        return self.name


def samples(box: tuple, size: int) -> list[np.ndarray]:
    """A grid for one argument, random points for more; ranges of several decades are sampled by logarithm."""
    rng = np.random.default_rng(0)
    columns = []
    for low, high in box:
        if isinstance(low, int) and isinstance(high, int) and len(box) > 1 and high - low < 64:
            columns.append(rng.integers(low, high + 1, size))
            continue
        t = np.linspace(0, 1, size) if len(box) == 1 else rng.random(size)
        spread = low > 0 and high / low > 1e4
        x = low * (high / low) ** t if spread else low + (high - low) * t
        columns.append(x.astype(np.float32))
    return columns


def double(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x.astype(np.int64 if x.dtype.kind == "i" else np.float64))


def exact(function, *first):
    """From mpmath: torch's own float64 Bessel and Airy functions are off by up to 3e-6."""

    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor([float(function(*first, v)) for v in x.tolist()])

    return reference


def sample_polygamma(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for order in n.unique().tolist():
        out[n == order] = torch.polygamma(order, x[n == order])
    return out


def exact_ndtr(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * torch.erfc(x * -(0.5**0.5))  # torch's own is 0 below -8.4


def sample_logit(x: torch.Tensor, eps: torch.Tensor) -> torch.Tensor:
    clamped = torch.minimum(torch.maximum(x, eps), 1 - eps)
    return torch.logit(torch.where(eps < 0, x, clamped))


ALL = 3e38
F = torch.nn.functional
POLYNOMIALS = [f"{kind}chebyshev_polynomial_{letter}" for kind in ("", "shifted_") for letter in "tuvw"]
POLYNOMIALS += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
NEAR_ONE = [(0.5, 2.0), (0.99, 1.01), (1e-45, ALL)]
ANGLES = [(-4.0, 4.0), (-8192.0, 8192.0), (-1e6, 1e6), (1e6, ALL)]

ACCURACY = [
    Case("exp", torch.exp, [(-104.0, 89.0), (-1.0, 1.0)], 2),
    Case("exp2", torch.exp2, [(-150.0, 129.0), (-1.0, 1.0)], 2),
    Case("expm1", torch.expm1, [(-20.0, 89.0), (-1.0, 1.0), (1e-20, 1.0)], 2),
    Case("log", torch.log, NEAR_ONE, 1.5),
    Case("log2", torch.log2, NEAR_ONE, 2),
    Case("log10", torch.log10, NEAR_ONE, 2.5),
    Case("log1p", torch.log1p, [(-0.999, 5.0), (-0.01, 0.01), (1e-30, ALL)], 2),
    Case("sin", torch.sin, ANGLES, 3),
    Case("cos", torch.cos, ANGLES, 3),
    Case("tan", torch.tan, ANGLES, 4),
    Case("asin", torch.asin, [(-1.0, 1.0)], 3),
    Case("acos", torch.acos, [(-1.0, 1.0)], 2),
    Case("atan", torch.atan, [(-2.0, 2.0), (1e-20, 1e20)], 2.5),
    Case("atan2", torch.atan2, [((-9.0, 9.0), (-9.0, 9.0)), ((1e-37, 1e37), (1e-37, 1e37))], 2.5),
    Case("sinh", torch.sinh, [(-89.4, 89.4), (-2.0, 2.0)], 2.5),
    Case("cosh", torch.cosh, [(-89.4, 89.4)], 2.5),
    Case("tanh", torch.tanh, [(-12.0, 12.0), (-1.0, 1.0), (1e-20, 1.0)], 3),
    Case("asinh", torch.asinh, [(-10.0, 10.0), (1e-20, ALL)], 2.5),
    Case("acosh", torch.acosh, [(1.0, 3.0), (1.0, ALL)], 3),
    Case("atanh", torch.atanh, [(-0.999, 0.999), (1e-20, 0.9)], 3),
    Case(
        "pow", torch.pow, [((0.0, 9.0), (-30.0, 30.0)), ((0.6, 1.6), (-250.0, 250.0)), ((1e-38, ALL), (-1.0, 1.0))], 2
    ),
    Case("sqrt", torch.sqrt, [(1e-37, ALL)], 1.5),
    Case("rsqrt", torch.rsqrt, [(1e-37, ALL)], 2.5),
    Case("sigmoid", torch.sigmoid, [(-87.0, 87.0), (-4.0, 4.0)], 3),
    Case("erf", torch.erf, [(-4.5, 4.5), (1e-20, 1.0)], 2),
    Case("gelu", F.gelu, [(-8.0, 8.0)], 4, 3e-7),
    Case(
        "gelu_slope",
        lambda x: torch.special.ndtr(x) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi),
        [(-8.0, 8.0)],
        6,
        3e-7,
    ),
    Case("gelu_tanh", functools.partial(F.gelu, approximate="tanh"), [(-8.0, 8.0)], 4, 3e-7),
    # For results of 16 bits: within a tenth of float16's spacing.
    Case("gelu_half", F.gelu, [(-5.5, 20.0), (-0.01, 0.01)], 800, 1e-8),
    Case(
        "gelu_half_slope",
        lambda x: torch.special.ndtr(x) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi),
        [(-5.5, 20.0), (-0.01, 0.01)],
        800,
        2e-5,
    ),
    Case("fmod", torch.fmod, [((-9.0, 9.0), (-9.0, 9.0)), ((1e-38, ALL), (1e-38, ALL))], 0),
    Case("remainder", torch.remainder, [((-9.0, 9.0), (-9.0, 9.0)), ((1e-38, ALL), (1e-38, ALL))], 1),
    Case("div", torch.div, [((-9.0, 9.0), (0.1, 9.0)), ((1e-18, 1e18), (1e-18, 1e18))], 3),
    Case("quotient", torch.div, [((-9.0, 9.0), (0.1, 9.0)), ((1e-9, 1e9), (1e-9, 1e9))], 0.51),
    Case("hypot", torch.hypot, [((-9.0, 9.0), (-9.0, 9.0)), ((1e-38, ALL), (1e-38, ALL))], 2.5),
    Case("logaddexp", torch.logaddexp, [((-9.0, 9.0), (-9.0, 9.0)), ((-1e3, 1e3), (-1e3, 1e3))], 2, 1e-7),
    Case("logaddexp2", torch.logaddexp2, [((-9.0, 9.0), (-9.0, 9.0)), ((-1e3, 1e3), (-1e3, 1e3))], 2, 2e-7),
    Case("ldexp", torch.ldexp, [((0.5, 1.0), (-30, 30)), ((1e-38, ALL), (-30, 30))], 0.75),
    Case("erfc", torch.special.erfc, [(-5.0, 9.0), (-1.0, 1.0)], 6),
    Case("erfcx", torch.special.erfcx, [(-9.3, 10.0), (1e-3, 1e37)], 6),
    Case("erfinv", torch.special.erfinv, [(-0.999999, 0.999999)], 4),
    Case("ndtr", exact_ndtr, [(-12.5, 6.0)], 6),
    Case("log_ndtr", torch.special.log_ndtr, [(-20.0, 10.0), (-1e4, 0.0)], 7),
    Case("ndtri", torch.special.ndtri, [(1e-37, 0.5), (1e-3, 0.999)], 6),
    Case("lgamma", torch.lgamma, [(1e-37, 1e36), (0.3, 4.0), (0.9, 1.1), (1.9, 2.1)], 8),
    Case("lgamma", torch.lgamma, [(-10.0, -1e-3)], 4, 4e-6),
    Case("digamma", torch.digamma, [(1e-30, 1e30), (0.2, 5.0), (1.4, 1.5)], 20),
    Case("digamma", torch.digamma, [(-10.0, -1e-3)], 4, 2e-6),
    Case("trigamma", functools.partial(torch.polygamma, 1), [(1e-10, 1e10), (0.1, 5.0)], 8),
    Case("polygamma", sample_polygamma, [((0, 5), (0.5, 50.0)), ((2, 9), (0.1, 5.0))], 12, 1e-7),
    Case("zeta", torch.special.zeta, [((1.01, 10.0), (0.01, 50.0)), ((1.01, 20.0), (1.0, 12.0))], 10),
    Case(
        "igamma",
        torch.igamma,
        [((0.01, 10.0), (1e-3, 20.0)), ((10.0, 40.0), (5.0, 60.0)), ((1e-5, 1e5), (1e-5, 1e5))],
        2e3,
    ),
    Case(
        "igammac",
        torch.igammac,
        [((0.01, 10.0), (1e-3, 20.0)), ((10.0, 40.0), (5.0, 60.0)), ((1e-5, 1e5), (1e-5, 1e5))],
        2e3,
    ),
    Case("igamma", torch.igamma, [((0.01, 30.0), (0.01, 60.0))], 4, 1e-6),
    Case("i0", torch.special.i0, [(-90.0, 90.0), (1e-10, 50.0)], 6),
    Case("i0e", torch.special.i0e, [(-90.0, 90.0), (1e-10, 1e30)], 6),
    Case("i1", torch.special.i1, [(-90.0, 90.0), (1e-10, 50.0)], 6),
    Case("i1e", torch.special.i1e, [(-90.0, 90.0), (1e-10, 1e30)], 6),
    Case("modified_bessel_i0", torch.special.modified_bessel_i0, [(-90.0, 90.0)], 6),
    Case("modified_bessel_i1", torch.special.modified_bessel_i1, [(-90.0, 90.0)], 6),
    Case("modified_bessel_k0", torch.special.modified_bessel_k0, [(1e-10, 80.0), (0.5, 3.0)], 24),
    Case("modified_bessel_k1", torch.special.modified_bessel_k1, [(1e-10, 80.0), (0.5, 3.0)], 12),
    Case("scaled_modified_bessel_k0", torch.special.scaled_modified_bessel_k0, [(1e-10, 1e30), (0.5, 3.0)], 24),
    Case("scaled_modified_bessel_k1", torch.special.scaled_modified_bessel_k1, [(1e-10, 1e30), (0.5, 3.0)], 12),
    Case("bessel_j0", exact(mpmath.besselj, 0), [(-20.0, 20.0), (1e-8, 1e6)], 3, 2e-7, 400),
    Case("bessel_j1", exact(mpmath.besselj, 1), [(-20.0, 20.0), (1e-8, 1e6)], 3, 2e-7, 400),
    Case("bessel_y0", exact(mpmath.bessely, 0), [(0.01, 20.0), (1e-8, 1e6)], 4, 4e-7, 400),
    Case("bessel_y1", exact(mpmath.bessely, 1), [(0.01, 20.0), (1e-8, 1e6)], 4, 4e-7, 400),
    Case("spherical_bessel_j0", torch.special.spherical_bessel_j0, [(-20.0, 20.0)], 4),
    Case("airy_ai", exact(mpmath.airyai), [(-2.2, 2.2), (-10.0, 8.0)], 8, 1e-6, 400),
    Case("sinc", torch.special.sinc, [(-20.0, 20.0)], 4, 1e-15),
    Case("entr", torch.special.entr, [(1e-30, 1e30), (0.5, 2.0)], 3),
    Case("xlogy", torch.special.xlogy, [((-5.0, 5.0), (1e-3, 10.0))], 3),
    Case("xlog1py", torch.special.xlog1py, [((-5.0, 5.0), (-0.999, 10.0))], 3),
    Case("logit", sample_logit, [((0.001, 0.999), (0.01, 0.02)), ((0.001, 0.999), (-2.0, -1.0))], 16, 3e-7),
]
TO_10 = [((-1.0, 1.0), (0, 10)), ((1.0, 3.0), (0, 10))]
ACCURACY += [
    Case(n, getattr(torch.special, n), TO_10, 48, 2e-5) for n in POLYNOMIALS if "hermite" not in n and "shift" not in n
]
ACCURACY += [Case(n, getattr(torch.special, n), [((0.0, 1.0), (0, 10))], 48, 5e-5) for n in POLYNOMIALS if "shift" in n]
ACCURACY += [
    Case(n, getattr(torch.special, n), [((-1.0, 1.0), (0, 6))], 48, 1e-4) for n in POLYNOMIALS if "hermite" in n
]
ACCURACY += [
    Case(n, getattr(torch.special, n), [((-0.9, 0.9), (20, 60))], 4, 1e-4)
    for n in POLYNOMIALS
    if n[:3] in ("che", "leg")
]


def check_accuracy(case: Case, evaluate, within_reach, flushed, ulp: float) -> None:
    for box in case.boxes:
        inputs = samples(box if isinstance(box[0], tuple) else (box,), case.size)
        inputs = within_reach(inputs)
        want = case.reference(*map(double, inputs)).numpy()
        got = evaluate("f32_" + case.name, *inputs)
        spacing = np.spacing(np.clip(np.nan_to_num(np.abs(want)), 2.0**-126, ALL).astype(np.float32))
        with np.errstate(over="ignore"):
            error = np.maximum(ulp_error(got, want) - case.atol / spacing, 0)
        error[flushed(got, want)] = 0
        k = int(np.argmax(error))
        at = ", ".join(repr(float(x[k])) for x in inputs)
        assert error[k] <= ulp, f"{case.name}({at}) = {got[k]!r}, not {want[k]!r}: {error[k]:.2f} ulp"


@pytest.mark.parametrize("case", ACCURACY, ids=str)
def test_accuracy(case):
    check_accuracy(case, evaluate, within_reach, flushed, case.ulp)


TINY = 2.0**-149
SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        0,
        1,
        0.5,
        2,
        3,
        1.5,
        2.5,
        100,
        TINY,
        1e-40,
        1e-30,
        1e-8,
        0.99,
        88.7,
        89,
        103.5,
        130,
        150,
        8388609,
        1e30,
        ALL,
    ],
    np.float32,
)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])

# Compared with torch, -0 apart from 0: (ulp allowed, reference type); its float32 sinh and sqrt are not good enough.
EXACT = {
    "isnan isinf isfinite signbit sign sgn trunc round floor ceil frac": (0, torch.float32),
    "eq ne lt le gt ge min max fmin fmax copysign nextafter frexp_mantissa frexp_exponent": (
        0,
        torch.float32,
    ),
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf": (
        4,
        torch.float64,
    ),
    "div floor_divide": (2, torch.float32),
    "sqrt rsqrt atan2 pow hypot": (4, torch.float64),
    "sigmoid logaddexp": (4, torch.float32),
    "erfc erfcx erfinv ndtr log_ndtr ndtri lgamma digamma i0 i0e i1 i1e entr xlogy xlog1py": (64, torch.float64),
    "modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1": (64, torch.float64),
    "scaled_modified_bessel_k0 scaled_modified_bessel_k1 bessel_j0 bessel_j1 bessel_y0 bessel_y1": (64, torch.float64),
    "igamma igammac": (2000, torch.float64),
    "spherical_bessel_j0": (4, torch.float64),
}
FAR = 1e7  # where torch's x - pi/4 loses the digits of pi/4


def bessel(name: str, c: float, s: float):
    near, odd = getattr(torch.special, name), name == "bessel_j1"

    def reference(x: torch.Tensor) -> torch.Tensor:
        a = x if "_y" in name else x.abs()
        far = (c * a.cos() + s * a.sin()) / (torch.pi * a).sqrt()
        return torch.where(a > FAR, far * torch.where(x < 0, -1.0, 1.0) if odd else far, near(x))

    return reference


def small_igammac(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Q(a, x) is proportional to a small a; torch computes 1 + a."""
    low = torch.igammac(torch.full_like(a, 1e-8), x) * (a / 1e-8)
    return torch.where((a > 0) & (a < 1e-8) & (x > 0), low, torch.igammac(a, x))


TORCH_NAME = {
    "bessel_j0": bessel("bessel_j0", 1, 1),
    "bessel_j1": bessel("bessel_j1", -1, 1),
    "bessel_y0": bessel("bessel_y0", -1, 1),
    "bessel_y1": bessel("bessel_y1", -1, -1),
    "igammac": small_igammac,
    "ndtr": exact_ndtr,
    "min": torch.minimum,
    "max": torch.maximum,
    "fmin": torch.fmin,
    "fmax": torch.fmax,
    "floor_divide": functools.partial(torch.div, rounding_mode="floor"),
    "frexp_mantissa": lambda x: torch.frexp(x)[0],
    "frexp_exponent": lambda x: torch.frexp(x)[1],
}
SPECIAL_CASES = [(name, *how) for names, how in EXACT.items() for name in names.split()]


def check_special_values(name: str, ulp: float, kind: torch.dtype, evaluate, within_reach, wrong) -> None:
    """`wrong` has the last word, of where a result is too far off, what it is, and what it should be."""
    count = library()["f32_" + name][2].count(":")
    inputs = within_reach([SPECIAL] if count == 1 else [m.ravel() for m in np.meshgrid(SPECIAL, SPECIAL)])
    reference = TORCH_NAME.get(name) or getattr(torch, name, None) or getattr(torch.special, name)
    want = reference(*(torch.from_numpy(x).to(kind) for x in inputs)).float().numpy()
    got = evaluate("f32_" + name, *inputs)
    bad = wrong(ulp_error(got, want.astype(np.float64)) > ulp, got, want)
    shown = [(*(float(x[k]) for x in inputs), got[k], want[k]) for k in np.nonzero(bad)[0][:8]]
    assert not bad.any(), f"(arguments, got, want): {shown}"


@pytest.mark.parametrize("name, ulp, kind", SPECIAL_CASES, ids=[c[0] for c in SPECIAL_CASES])
def test_special_values(name, ulp, kind):
    def wrong(far, got, want):
        return (far | ((got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want)))) & ~flushed(got, want)

    check_special_values(name, ulp, kind, evaluate, within_reach, wrong)


def test_denormals_that_no_arithmetic_flushes():
    """These read the bits, so they are right on every adapter."""
    x = np.array([TINY, 1e-44, 1e-40, 1e-38, 1.17e-38], np.float32)
    for name in ("log", "log2", "log10", "sign", "frexp_mantissa", "frexp_exponent", "nextafter", "copysign", "fmod"):
        pair = (x, -x[::-1]) if library()["f32_" + name][2].count(":") == 2 else (x,)
        reference = TORCH_NAME.get(name) or getattr(torch, name)
        want = reference(*(torch.from_numpy(v.copy()) for v in pair)).double().numpy()
        assert ulp_error(evaluate("f32_" + name, *pair), want).max() <= 2, name


def test_fmod_special_values():
    """C's fmod; torch's own vectorised one gives NaN where the quotient overflows."""
    a, b = (m.ravel() for m in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        assert np.array_equal(
            evaluate("f32_fmod", a, b), np.fmod(a.astype(np.float64), b).astype(np.float32), equal_nan=True
        )


BUILT_IN = r"\b(exp|exp2|log|log2|a?sinh?|a?cosh?|a?tanh?|atan2|pow|inverseSqrt|fract)\("


def test_no_inexact_built_in_is_called():
    """But where the result is rounded to 16 bits anyway, or an error of the power counts by a part of it."""
    exact = re.sub(r"^fn f32_gelu_(half|exp).*?^}", "", LIBRARY, flags=re.M | re.S)
    code = re.sub(r"//.*", "", exact)
    assert re.findall(BUILT_IN, code) == []
    assert "!= x" not in code


def test_every_function_parses():
    """The renderer finds functions by the column of `fn` and of the closing brace: nothing may be left between them."""
    rest = ITEM.sub("", LIBRARY)
    assert re.sub(r"^//.*$", "", rest, flags=re.M).strip() == ""


HELPERS = """
nan inf exp2i raised exp_poly exp_rest exp_bounded exp_scaled exp2_poly expm1_poly log_poly log_exponent log_split
log_special mulhi trig_reduce trig_reduce_large sin_poly cos_poly asin_poly atan_poly head exp_square
erfcx_positive ndtr_negative pi_reduce sinpi cospi stirling lgamma_poly lgamma_1p lgamma_positive
digamma_positive zeta_positive log1p_rest igamma_factor igamma_uniform igamma_series igammac_series
igammac_fraction igamma_either i0_small i1_small i0_large i1_large i_scaled k_small k_special sincos bessel_0_large
bessel_1_large bessel_j0_small bessel_j1_small chebyshev_recurrence erf_abs gelu_exp gelu_half_exp
"""


def test_every_function_is_tested():
    tested = {c.name for c in ACCURACY} | {c[0] for c in SPECIAL_CASES}
    assert {n[4:] for n in library() if n.startswith("f32_")} - tested == set(HELPERS.split())


def test_zeta_of_large_numbers():
    """Whose powers are no numbers any more, though their sum is."""
    x = torch.tensor([2.0, 2.0, 2.5, 3.0, 2.0, 20.0, 1.5])
    q = torch.tensor([1e20, 1e30, 1e20, 1e15, 3e37, 300.0, 1e30])
    expected = torch.special.zeta(x.double(), q.double()).float()
    found = torch.special.zeta(x.to("webgpu"), q.to("webgpu")).cpu()
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=float(NORMAL))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_ldexp_is_exact_where_the_power_is_not_a_float(dtype):
    small = 1e-40 if keeps_denormals() else 2e-38
    x = torch.tensor([1.0, 3e-5, -2.5, float("inf"), float("nan"), -0.0, small, 1e38, 1e-30, 3e38]).to(dtype)
    for exponent in (-3, 20, -140, 160, -200, 200, 10**9, -(10**9)):
        for kind in (torch.int64, torch.int32):
            at = torch.full(x.shape, exponent, dtype=kind)
            expected, found = torch.ldexp(x, at), torch.ldexp(x.to("webgpu"), at.to("webgpu")).cpu()
            if not keeps_denormals():
                expected[expected.abs() < float(NORMAL)] = 0
            assert found.dtype == expected.dtype and torch.equal(expected.nan_to_num(7), found.nan_to_num(7))
