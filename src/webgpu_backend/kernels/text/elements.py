"""How elements of each dtype are declared, read and written in WGSL: one at a time, or four to a thread."""

from ...dtypes import DType
from ...program import Caps

# Access modes of a binding: "v" four consecutive elements at once, "e" single elements, "a" single elements of a
# packed dtype written through atomics (neighbours in a word belong to other threads).


def array_type(dtype: DType, mode: str, caps: Caps) -> str:
    name = dtype.name
    if mode == "v":
        if name in ("float32", "int32", "uint32"):
            return f"array<vec4<{dtype.carrier}>>"
        if name == "float16" and caps.f16:
            return "array<vec4<f16>>"
        if dtype.size == 2:
            return "array<vec2<u32>>"
        if dtype.size == 1:
            return "array<u32>"
        if name == "complex64":
            return "array<vec4<f32>>"
        if name == "complex32":
            return "array<vec4<u32>>"
        if name in ("int64", "uint64"):
            return f"array<vec4<{_word64(dtype)}>>" if caps.i64 else "array<vec4<u32>>"
        return "array<f64>"
    if mode == "a":
        return "array<atomic<u32>>"
    if name in ("float32", "int32", "uint32"):
        return f"array<{dtype.carrier}>"
    if name == "float16" and caps.f16:
        return "array<f16>"
    if dtype.packed:
        return "array<u32>"
    if name == "complex64":
        return "array<vec2<f32>>"
    if name == "complex32":
        return "array<u32>"
    if name in ("int64", "uint64"):
        return f"array<{_word64(dtype)}>" if caps.i64 else "array<vec2<u32>>"
    return "array<f64>"


def _word64(dtype: DType) -> str:
    return "i64" if dtype.name == "int64" else "u64"


def element_mode(dtype: DType, caps: Caps, written: bool) -> str:
    """Mode for single-element access: packed dtypes are written through atomics."""
    plain = not dtype.packed or (dtype.name == "float16" and caps.f16)
    return "e" if plain or not written else "a"


def read(dtype: DType, var: str, index: str, caps: Caps, mode: str = "e") -> str:
    """One element, as its carrier; `index` is evaluated more than once."""
    name = dtype.name
    if name == "float16" and caps.f16:
        return f"f32({var}[{index}])"
    if name == "complex32":
        return f"unpack2x16float({var}[{index}])"
    if not dtype.packed:
        return f"{var}[{index}]"
    per, shift = (2, 16) if dtype.size == 2 else (4, 8)
    word = f"{var}[({index}) / {per}u]"
    if mode == "a":
        word = f"atomicLoad(&{word})"
    at = f"(({index}) % {per}u) * {shift}u"
    if name == "float16":
        return f"unpack2x16float({word} >> ({at})).x"
    if name == "bfloat16":
        return f"bitcast<f32>(({word} >> ({at})) << 16u)"
    if name == "bool":
        return f"(extractBits({word}, {at}, 8u) != 0u)"
    if name in ("uint8", "uint16"):
        return f"i32(extractBits({word}, {at}, {shift}u))"
    return f"extractBits(bitcast<i32>({word}), {at}, {shift}u)"


def bits(dtype: DType, value: str) -> str:
    """The bits of an element of at most a word, from its carrier, as u32."""
    name = dtype.name
    if name == "float16":
        return f"f16_bits({value})"
    if name == "bfloat16":
        return f"bf16_bits({value})"
    if name == "bool":
        return f"u32({value})"
    if name == "complex32":
        return f"(f16_bits({value}.x) | (f16_bits({value}.y) << 16u))"
    mask = "0xffffu" if dtype.size == 2 else "0xffu"
    return f"(bitcast<u32>({value}) & {mask})"


def write(dtype: DType, var: str, index: str, value: str, caps: Caps) -> str:
    """A statement that writes one element; packed dtypes need mode "a"."""
    if dtype.name == "float16" and caps.f16:
        return f"{var}[{index}] = f16({value});"
    if dtype.name == "complex32":
        return f"{var}[{index}] = {bits(dtype, value)};"
    if not dtype.packed:
        return f"{var}[{index}] = {value};"
    per, shift = (2, 16) if dtype.size == 2 else (4, 8)
    mask = "0xffffu" if dtype.size == 2 else "0xffu"
    word = f"&{var}[({index}) / {per}u]"
    at = f"((({index}) % {per}u) * {shift}u)"
    return f"atomicAnd({word}, ~({mask} << {at})); atomicOr({word}, {bits(dtype, value)} << {at});"


def read4(dtype: DType, var: str, group: str, to: str, caps: Caps) -> tuple[list[str], list[str]]:
    """Statements that load elements 4*group..4*group+3, and the four lanes' texts."""
    name = dtype.name
    xyzw = [f"{to}.{c}" for c in "xyzw"]
    if name in ("float32", "int32", "uint32"):
        return [f"let {to} = {var}[{group}];"], xyzw
    if name == "float16" and caps.f16:
        return [f"let {to} = vec4<f32>({var}[{group}]);"], xyzw
    if dtype.size == 2:
        w = f"{to}_w"
        lines = [f"let {w} = {var}[{group}];"]
        if name == "float16":
            lanes = f"vec4<f32>(unpack2x16float({w}.x), unpack2x16float({w}.y))"
        elif name == "bfloat16":
            lanes = (
                f"bitcast<vec4<f32>>(vec4<u32>({w}.x << 16u, {w}.x & 0xffff0000u, {w}.y << 16u, {w}.y & 0xffff0000u))"
            )
        else:
            shift = f"bitcast<vec4<i32>>(vec4<u32>({w}.x << 16u, {w}.x, {w}.y << 16u, {w}.y))"
            if name == "int16":
                lanes = f"{shift} >> vec4<u32>(16u)"
            else:
                lanes = f"vec4<i32>(vec4<u32>({w}.x & 0xffffu, {w}.x >> 16u, {w}.y & 0xffffu, {w}.y >> 16u))"
        return [*lines, f"let {to} = {lanes};"], xyzw
    if dtype.size == 1:
        w = f"{to}_w"
        lines = [f"let {w} = {var}[{group}];"]
        if name == "int8":
            spread = f"bitcast<vec4<i32>>(vec4<u32>({w} << 24u, {w} << 16u, {w} << 8u, {w})) >> vec4<u32>(24u)"
        else:
            spread = f"(vec4<u32>({w}, {w} >> 8u, {w} >> 16u, {w} >> 24u) & vec4<u32>(255u))"
            spread = f"{spread} != vec4<u32>(0u)" if name == "bool" else f"vec4<i32>{spread}"
        return [*lines, f"let {to} = {spread};"], xyzw
    if name == "complex32":
        return [f"let {to} = {var}[{group}];"], [f"unpack2x16float({x})" for x in xyzw]
    if name == "complex64" or (name in ("int64", "uint64") and not caps.i64):
        lines = [f"let {to}_l = {var}[2u * ({group})];", f"let {to}_h = {var}[2u * ({group}) + 1u];"]
        return lines, [f"{to}_l.xy", f"{to}_l.zw", f"{to}_h.xy", f"{to}_h.zw"]
    if name in ("int64", "uint64"):
        return [f"let {to} = {var}[{group}];"], xyzw
    lines = [f"let {to}_{k} = {var}[4u * ({group}) + {k}u];" for k in range(4)]
    return lines, [f"{to}_{k}" for k in range(4)]


def write4(dtype: DType, var: str, group: str, lanes: list[str], caps: Caps) -> list[str]:
    """Statements that store four lanes (carriers) at elements 4*group..4*group+3."""
    name = dtype.name
    x, y, z, w = lanes
    if name in ("float32", "int32", "uint32"):
        return [f"{var}[{group}] = vec4<{dtype.carrier}>({x}, {y}, {z}, {w});"]
    if name == "float16" and caps.f16:
        return [f"{var}[{group}] = vec4<f16>(vec4<f32>({x}, {y}, {z}, {w}));"]
    if name == "bfloat16":
        return [f"{var}[{group}] = vec2<u32>(bf16_pair({x}, {y}), bf16_pair({z}, {w}));"]
    if dtype.size == 2:
        low = f"{bits(dtype, x)} | ({bits(dtype, y)} << 16u)"
        high = f"{bits(dtype, z)} | ({bits(dtype, w)} << 16u)"
        return [f"{var}[{group}] = vec2<u32>({low}, {high});"]
    if dtype.size == 1:
        parts = [bits(dtype, x)] + [f"({bits(dtype, v)} << {8 * k}u)" for k, v in enumerate((y, z, w), start=1)]
        return [f"{var}[{group}] = {' | '.join(parts)};"]
    if name == "complex32":
        return [f"{var}[{group}] = vec4<u32>({', '.join(bits(dtype, v) for v in lanes)});"]
    if name == "complex64" or (name in ("int64", "uint64") and not caps.i64):
        base = "f32" if name == "complex64" else "u32"
        return [
            f"{var}[2u * ({group})] = vec4<{base}>({x}, {y});",
            f"{var}[2u * ({group}) + 1u] = vec4<{base}>({z}, {w});",
        ]
    if name in ("int64", "uint64"):
        return [f"{var}[{group}] = vec4<{_word64(dtype)}>({x}, {y}, {z}, {w});"]
    return [f"{var}[4u * ({group}) + {k}u] = {v};" for k, v in enumerate(lanes)]
