"""Random kernels: what each distribution makes of Philox's words, four elements to a counter."""

from dataclasses import dataclass
from functools import cache
from struct import pack

from ...dtypes import ALL, BOOL, FLOAT32, DType, carrier
from ...program import Caps, Program, Step
from ..layout import grid_of_fours
from ..text import elements
from ..text.expression import convert
from ..text.numbers import packed
from ..text.render import Binding, render_program

# The bits of float32 that a shorter dtype holds.
_HELD = {"float16": "0xffffe000u", "bfloat16": "0xffff0000u"}
_PAIRS = ("normal2_a.x", "normal2_a.y", "normal2_b.x", "normal2_b.y")
_NORMAL = (
    "let normal2_a = philox_normal2(bits.x, bits.y);",
    "let normal2_b = philox_normal2(bits.z, bits.w);",
)


@dataclass(frozen=True)
class Distribution:
    """`lane` is one element's text: {w} its word, {z} its normal, {a} {b} its inputs, {base} a counter of its own,
    {held} the bits of float32 that its dtype has."""

    name: str
    lane: str
    type: str = "f32"  # the carrier of `lane`
    inputs: int = 0  # float32 tensors that give each element its parameters
    scalars: int = 0  # f32 parameters p.a, p.b
    wide: bool = False  # two words for each element
    range: bool = False  # 64-bit parameters, from (low) and range (high)


DISTRIBUTIONS: dict[str, Distribution] = {d.name: d for d in (
    Distribution("uniform", "philox_between({w}, p.a, p.b, {held})", scalars=2),
    Distribution("uniform64", "philox_uniform_f64({w}, {v})", "f64", wide=True),
    Distribution("normal", "{z} * p.b + p.a", scalars=2),
    Distribution("log_normal", "philox_log_normal({z}, p.a, p.b)", scalars=2),
    Distribution("bernoulli", "philox_bernoulli({w}, p.a)", "bool", scalars=1),
    Distribution("bernoulli_each", "philox_bernoulli({w}, {a})", "bool", inputs=1),
    Distribution("exponential", "philox_exponential({w}, p.a)", scalars=1),
    Distribution("geometric", "philox_geometric({w}, p.a)", scalars=1),
    Distribution("cauchy", "philox_cauchy({w}, p.a, p.b)", scalars=2),
    Distribution("below", "i64_add({low}, vec2<u32>(philox_below_u32({w}, p.high_x), 0u))", "i64", range=True),
    Distribution("below64", "i64_add({low}, philox_below_u64({w}, {v}, {high}))", "i64", wide=True, range=True),
    Distribution("any64", "vec2<u32>({w}, {v})", "i64", wide=True),
    Distribution("poisson", "philox_poisson({a}, {base}, key)", inputs=1),
    Distribution("gamma", "philox_gamma({a}, {base}, key)", inputs=1),
    Distribution("log_gamma", "philox_log_gamma({a}, {base}, key)", inputs=1),
    Distribution("binomial", "philox_binomial({a}, {b}, {base}, key)", inputs=2),
)}  # fmt: skip


def plan(name: str, dtype: DType, n: int, offset: int, numbers: bytes, caps: Caps) -> Step:
    """Fills `n` elements of a contiguous tensor from `offset` on. Inputs come first."""
    return _drawing(_program(name, dtype.name, caps), n, offset, numbers, caps)


def _drawing(program: Program, n: int, offset: int, numbers: bytes, caps: Caps) -> Step:
    """Parameters are the elements, where they go in groups of four, the place in the stream, and numbers."""
    return Step(program, packed([n, offset // 4]) + bytes(16) + numbers, grid_of_fours(n, caps), draw=8)


@cache
def _program(name: str, dtype_name: str, caps: Caps) -> Program:
    d, dtype = DISTRIBUTIONS[name], ALL[dtype_name]
    own = carrier(dtype, caps)
    fields = ["a: f32", "b: f32"][: d.scalars]
    if d.range:
        fields += ["low_x", "low_y", "high_x", "high_y"]
    bindings, lines, lanes = [], [], {}
    for letter in "ab"[: d.inputs]:
        bindings.append((letter, "read", elements.array_type(FLOAT32, "v", caps)))
        read, lanes[letter] = elements.read4(FLOAT32, letter, "g", f"x_{letter}", caps)
        lines += read
    bindings.append(("out", "read_write", elements.array_type(dtype, "v", caps)))
    if "{w}" in d.lane or "{z}" in d.lane:
        lines.append("let bits = philox(counter, key);")
    if d.wide:
        lines.append("let more = philox(vec4<u32>(counter.xy, 1u, 0u), key);")
        words = [("bits.x", "bits.y"), ("bits.z", "bits.w"), ("more.x", "more.y"), ("more.z", "more.w")]
    else:
        words = [(f"bits.{c}", "") for c in "xyzw"]
    if "{z}" in d.lane:
        lines += _NORMAL
    for k, (w, v) in enumerate(words):
        text = d.lane.format(
            w=w, v=v, z=_PAIRS[k], held=_HELD.get(dtype.name, "0xffffffffu"), low="vec2<u32>(p.low_x, p.low_y)",
            high="vec2<u32>(p.high_x, p.high_y)", base=f"vec4<u32>(counter.xy, {k}u, 0u)",
            **{letter: four[k] for letter, four in lanes.items()},
        )  # fmt: skip
        lines.append(f"let y{k} = {text};")
        lines.append(f"let w{k} = {_convert(f'y{k}', d.type, own)};")
    lines += elements.write4(dtype, "out", "p.o + g", [f"w{k}" for k in range(4)], caps)
    return _rendered(f"{name}_{dtype.short}", fields, bindings, lines, caps)


def _convert(text: str, source: str, target: str) -> str:
    if source == "i64" and target in ("n64", "nu64"):
        words = f"(u64({text}.x) | (u64({text}.y) << 32u))"
        return f"i64({words})" if target == "n64" else words
    if source == "i64" and target == "f64":
        return f"(f64(bitcast<i32>({text}.y)) * 4294967296.0lf + f64({text}.x))"
    return convert(text, source, target)


def plan_dropout(dtype: DType, n: int, offset: int, chance: float, caps: Caps) -> Step:
    """Input (from `offset` on), result and mask in one kernel."""
    return _drawing(_dropout(dtype.name, caps), n, 0, pack("<ffI", chance, 1 / (1 - chance), offset // 4), caps)


@cache
def _dropout(dtype_name: str, caps: Caps) -> Program:
    dtype = ALL[dtype_name]
    own = carrier(dtype, caps)
    lines, lanes = elements.read4(dtype, "a", "p.a_o + g", "x", caps)
    lines = [*lines, "let bits = philox(counter, key);"]
    for k, c in enumerate("xyzw"):
        lines.append(f"let m{k} = !philox_bernoulli(bits.{c}, p.p);")
        factor = f"select(0.0, p.scale, m{k})"  # NaN and infinity times zero stay NaN
        lines.append(f"let y{k} = {lanes[k]} * {convert(factor, 'f32', own)};")
    lines += elements.write4(dtype, "out", "g", [f"y{k}" for k in range(4)], caps)
    lines += elements.write4(BOOL, "mask", "g", [f"m{k}" for k in range(4)], caps)
    bindings = [
        ("a", "read", elements.array_type(dtype, "v", caps)),
        ("out", "read_write", elements.array_type(dtype, "v", caps)),
        ("mask", "read_write", elements.array_type(BOOL, "v", caps)),
    ]
    return _rendered(f"dropout_{dtype.short}", ["p: f32", "scale: f32", "a_o"], bindings, lines, caps)


def plan_place(caps: Caps) -> Step:
    """Four words: the key and the place of a stream."""
    return Step(_place(caps), bytes(16), (1, 1, 1), draw=0)


@cache
def _place(caps: Caps) -> Program:
    bindings = [("out", "read_write", "array<u32>")]
    return render_program("random_place", "random/place.wgsl", _STREAM[2:], bindings, caps)


_STREAM = ["n", "o", "key_x", "key_y", "at_x", "at_y"]


def _rendered(name: str, fields: list[str], bindings: list[Binding], lines: list[str], caps: Caps) -> Program:
    return render_program(name, "random/distributions.wgsl", _STREAM + fields, bindings, caps, main=lines)
