"""The WGSL maths library against float64 references: every function, its error in ulp, and its special values."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import wgpu

LIBRARY = Path(__file__).parents[2] / "src/webgpu_backend/kernels/wgsl/math_f32.wgsl"
ITEM = re.compile(r"^(?:fn (f32_\w+)\((.*?)\) -> (\w+(?:<f32>)?) \{\n.*?^\}|const (F32_\w+)[^;]*;)$", re.M | re.S)
WORDS = re.compile(r"\b[fF]32_\w+")


@functools.cache
def library() -> dict[str, re.Match]:
    """Every top-level item of the file by its name."""
    return {m[1] or m[4]: m for m in ITEM.finditer(LIBRARY.read_text())}


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


@dataclass(frozen=True)
class Case:
    """A function, its float64 reference, boxes of arguments ((low, high) for each), and the error allowed there."""

    name: str
    reference: object
    boxes: list
    ulp: float
    atol: float = 0.0

    def __str__(self):
        return self.name


SIZE = 1 << 16


def samples(box: tuple, seed: int = 0) -> list[np.ndarray]:
    """A grid for one argument, random points for more; ranges of several decades are sampled by logarithm."""
    rng = np.random.default_rng(seed)
    columns = []
    for low, high in box:
        if isinstance(low, int) and isinstance(high, int) and len(box) > 1 and high - low < 64:
            columns.append(rng.integers(low, high + 1, SIZE))
            continue
        t = np.linspace(0, 1, SIZE) if len(box) == 1 else rng.random(SIZE)
        spread = low > 0 and high / low > 1e4
        x = low * (high / low) ** t if spread else low + (high - low) * t
        columns.append(x.astype(np.float32))
    return columns


def double(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x.astype(np.int64 if x.dtype.kind == "i" else np.float64))


ALL = 3e38
F = torch.nn.functional
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
    Case("pow", torch.pow, [((0.0, 9.0), (-30.0, 30.0)), ((0.6, 1.6), (-250.0, 250.0)), ((1e-38, ALL), (-1.0, 1.0))], 2),
    Case("sqrt", torch.sqrt, [(1e-37, ALL)], 1.5),
    Case("rsqrt", torch.rsqrt, [(1e-37, ALL)], 2.5),
    Case("sigmoid", torch.sigmoid, [(-87.0, 87.0), (-4.0, 4.0)], 3),
    Case("erf", torch.erf, [(-4.5, 4.5), (1e-20, 1.0)], 2),
    Case("gelu", F.gelu, [(-8.0, 8.0)], 4, 3e-7),
    Case("gelu_tanh", functools.partial(F.gelu, approximate="tanh"), [(-8.0, 8.0)], 4, 3e-7),
    Case("fmod", torch.fmod, [((-9.0, 9.0), (-9.0, 9.0)), ((1e-38, ALL), (1e-38, ALL))], 0),
    Case("remainder", torch.remainder, [((-9.0, 9.0), (-9.0, 9.0)), ((1e-38, ALL), (1e-38, ALL))], 1),
    Case("hypot", torch.hypot, [((-9.0, 9.0), (-9.0, 9.0)), ((1e-38, ALL), (1e-38, ALL))], 2.5),
    Case("logaddexp", torch.logaddexp, [((-9.0, 9.0), (-9.0, 9.0)), ((-1e3, 1e3), (-1e3, 1e3))], 2, 1e-7),
    Case("logaddexp2", torch.logaddexp2, [((-9.0, 9.0), (-9.0, 9.0)), ((-1e3, 1e3), (-1e3, 1e3))], 2, 2e-7),
    Case("ldexp", torch.ldexp, [((0.5, 1.0), (-30, 30)), ((1e-38, ALL), (-30, 30))], 0.75),
]


@pytest.mark.parametrize("case", ACCURACY, ids=str)
def test_accuracy(case):
    for box in case.boxes:
        inputs = samples(box if isinstance(box[0], tuple) else (box,))
        want = case.reference(*map(double, inputs)).numpy()
        got = evaluate("f32_" + case.name, *inputs)
        spacing = np.spacing(np.clip(np.abs(want), 2.0**-126, ALL).astype(np.float32))
        error = np.maximum(ulp_error(got, want) - case.atol / spacing, 0)
        k = int(np.argmax(error))
        at = ", ".join(repr(float(x[k])) for x in inputs)
        assert error[k] <= case.ulp, f"{case.name}({at}) = {got[k]!r}, not {want[k]!r}: {error[k]:.2f} ulp"


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

# Compared with torch, -0 apart from 0: (ulp allowed, reference type). torch's own float32 sinh and sqrt are not good enough.
EXACT = {
    "isnan isinf isfinite signbit sign sgn trunc round floor ceil frac": (0, torch.float32),
    "eq ne lt le gt ge min max fmin fmax copysign nextafter floor_divide frexp_mantissa frexp_exponent": (0, torch.float32),
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf": (4, torch.float64),
    "sqrt rsqrt atan2 pow hypot": (4, torch.float64),
    "sigmoid logaddexp": (4, torch.float32),
}
TORCH_NAME = {
    "min": torch.minimum,
    "max": torch.maximum,
    "fmin": torch.fmin,
    "fmax": torch.fmax,
    "floor_divide": functools.partial(torch.div, rounding_mode="floor"),
    "frexp_mantissa": lambda x: torch.frexp(x)[0],
    "frexp_exponent": lambda x: torch.frexp(x)[1],
}
SPECIAL_CASES = [(name, *how) for names, how in EXACT.items() for name in names.split()]


@pytest.mark.parametrize("name, ulp, kind", SPECIAL_CASES, ids=[c[0] for c in SPECIAL_CASES])
def test_special_values(name, ulp, kind):
    count = library()["f32_" + name][2].count(":")
    inputs = [SPECIAL] if count == 1 else [m.ravel() for m in np.meshgrid(SPECIAL, SPECIAL)]
    reference = TORCH_NAME.get(name) or getattr(torch, name)
    want = reference(*(torch.from_numpy(x).to(kind) for x in inputs)).float().numpy()
    got = evaluate("f32_" + name, *inputs)
    bad = (ulp_error(got, want.astype(np.float64)) > ulp) | ((got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want)))
    shown = [(*(float(x[k]) for x in inputs), got[k], want[k]) for k in np.nonzero(bad)[0][:8]]
    assert not bad.any(), f"(arguments, got, want): {shown}"


def test_fmod_special_values():
    """C's fmod; torch's own vectorised one gives NaN where the quotient overflows."""
    a, b = (m.ravel() for m in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        assert np.array_equal(evaluate("f32_fmod", a, b), np.fmod(a.astype(np.float64), b).astype(np.float32), equal_nan=True)


BUILT_IN = (
    r"(?<![\w])(exp|exp2|log|log2|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|pow|inverseSqrt|fract)\("
)


def test_no_inexact_built_in_is_called():
    code = re.sub(r"//.*", "", LIBRARY.read_text())
    assert re.findall(BUILT_IN, code) == []
    assert "!= x" not in code


def test_every_function_parses():
    """The renderer finds functions by the column of `fn` and of the closing brace: nothing may be left between them."""
    rest = ITEM.sub("", LIBRARY.read_text())
    assert re.sub(r"^//.*$", "", rest, flags=re.M).strip() == ""


HELPERS = set(
    "nan inf exp2i exp_poly exp_rest exp_bounded exp_scaled exp2_poly expm1_poly log_poly log_exponent log_special".split()
)
HELPERS |= set("mulhi trig_reduce trig_reduce_large sin_poly cos_poly asin_poly atan_poly head".split())


def test_every_function_is_tested():
    tested = {c.name for c in ACCURACY} | {c[0] for c in SPECIAL_CASES}
    assert {n[4:] for n in library() if n.startswith("f32_")} - tested == HELPERS
