"""How elements of each dtype are declared, read and written in WGSL: one at a time, or four to a thread."""

from ...dtypes import FLOATS_OF_A_BYTE, WGSL_TYPE, DType
from ...program import Caps

# Access modes of a binding: "v" four consecutive elements at once, "e" single elements, "a" single elements of a
# packed dtype written through atomics (neighbours in a word belong to other threads).


def is_packed(dtype: DType, caps: Caps) -> bool:
    """Whether several elements share a word: halves do not where the adapter has f16."""
    return dtype.packed and not (dtype.name == "float16" and caps.f16)


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
        return _wide_array(dtype)
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
    return _wide_array(dtype)


def _wide_array(dtype: DType) -> str:
    """Of elements that are read one by one in any mode."""
    return f"array<{WGSL_TYPE[dtype.carrier]}>"


def _word64(dtype: DType) -> str:
    return "i64" if dtype.name == "int64" else "u64"


def element_mode(dtype: DType, caps: Caps, written: bool) -> str:
    """Mode for single-element access: packed dtypes are written through atomics."""
    return "a" if written and is_packed(dtype, caps) else "e"


def read(dtype: DType, var: str, index: str, caps: Caps, mode: str = "e") -> str:
    """One element, as its carrier; `index` is evaluated more than once."""
    if dtype.name == "float16" and caps.f16:
        return f"f32({var}[{index}])"
    if dtype.name == "complex32":
        return f"unpack2x16float({var}[{index}])"
    if not dtype.packed:
        return f"{var}[{index}]"
    per, _ = per_word(dtype)
    word = f"{var}[({index}) / {per}u]"
    return read_word(dtype, f"atomicLoad(&{word})" if mode == "a" else word, index)


def read_word(dtype: DType, word: str, index: str) -> str:
    """Element `index` of a packed dtype, as its carrier, from the word that holds it."""
    name = dtype.name
    per, shift = per_word(dtype)
    at = f"(({index}) % {per}u) * {shift}u"
    if name == "float16":
        return f"unpack2x16float({word} >> ({at})).x"
    if name == "bfloat16":
        return f"bitcast<f32>(({word} >> ({at})) << 16u)"
    if name == "bool":
        return f"(extractBits({word}, {at}, 8u) != 0u)"
    if dtype.name in FLOATS_OF_A_BYTE:
        return of_byte(dtype, f"extractBits({word}, {at}, 8u)")
    if name in ("uint8", "uint16"):
        return f"i32(extractBits({word}, {at}, {shift}u))"
    return f"extractBits(bitcast<i32>({word}), {at}, {shift}u)"


def of_byte(dtype: DType, byte: str) -> str:
    """The number that a byte is as a float of a byte."""
    return f"f8_{dtype.name.removeprefix('float8_')}({byte})"


def rounded(dtype: DType, value: str) -> str:
    """A number as a float of a byte would hold it."""
    return of_byte(dtype, bits(dtype, value))


def per_word(dtype: DType) -> tuple[int, int]:
    """Elements of a packed dtype that share a word, and the bits of each."""
    return (2, 16) if dtype.size == 2 else (4, 8)


def bits(dtype: DType, value: str) -> str:
    """The bits of an element of at most a word, from its carrier, as u32."""
    name = dtype.name
    if name == "float16":
        return f"f16_bits({value})"
    if name == "bfloat16":
        return f"bf16_bits({value})"
    if name == "bool":
        return f"u32({value})"
    if name in FLOATS_OF_A_BYTE:
        return f"f8_{dtype.short}_bits({value})"
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
    per, shift = per_word(dtype)
    mask = "0xffffu" if dtype.size == 2 else "0xffu"
    word = f"&{var}[({index}) / {per}u]"
    at = f"((({index}) % {per}u) * {shift}u)"
    return f"atomicAnd({word}, ~({mask} << {at})); atomicOr({word}, {bits(dtype, value)} << {at});"


def vector(dtype: DType, group: str, caps: Caps) -> str:
    """Four elements of at most four bytes as one vector of their carrier, from the group that holds them, whose text is
    repeated where it is packed."""
    name = dtype.name
    if not is_packed(dtype, caps):
        return f"vec4<f32>({group})" if name == "float16" else group
    if name == "float16":
        return f"vec4<f32>(unpack2x16float({group}.x), unpack2x16float({group}.y))"
    if dtype.size == 2:
        x, y = f"{group}.x", f"{group}.y"
        if name == "bfloat16":
            return f"bitcast<vec4<f32>>(vec4<u32>({x} << 16u, {x} & 0xffff0000u, {y} << 16u, {y} & 0xffff0000u))"
        if name == "int16":
            return f"bitcast<vec4<i32>>(vec4<u32>({x} << 16u, {x}, {y} << 16u, {y})) >> vec4<u32>(16u)"
        return f"vec4<i32>(vec4<u32>({x} & 0xffffu, {x} >> 16u, {y} & 0xffffu, {y} >> 16u))"
    if name == "int8":
        shifted = f"vec4<u32>({group} << 24u, {group} << 16u, {group} << 8u, {group})"
        return f"bitcast<vec4<i32>>({shifted}) >> vec4<u32>(24u)"
    if name in FLOATS_OF_A_BYTE:
        bytes_ = [of_byte(dtype, f"extractBits({group}, {at}u, 8u)") for at in (0, 8, 16, 24)]
        return f"vec4<f32>({', '.join(bytes_)})"
    spread = f"(vec4<u32>({group}, {group} >> 8u, {group} >> 16u, {group} >> 24u) & vec4<u32>(255u))"
    return f"{spread} != vec4<u32>(0u)" if name == "bool" else f"vec4<i32>{spread}"


def widened(dtype: DType, group: str, caps: Caps) -> str:
    """As `vector`, for an expression that is written once: packed dtypes call a function of `wideners`."""
    return f"widen_{dtype.short}({group})" if is_packed(dtype, caps) else vector(dtype, group, caps)


def wideners(dtypes: tuple[DType, ...], caps: Caps) -> list[str]:
    """The functions that `widened` calls for these dtypes: from a group as it lies in memory to a vector."""
    found = {}
    for dtype in dtypes:
        if is_packed(dtype, caps):
            group = "vec2<u32>" if dtype.size == 2 else "u32"
            head = f"fn widen_{dtype.short}(w: {group}) -> vec4<{dtype.carrier}>"
            found[dtype] = f"{head} {{ return {vector(dtype, 'w', caps)}; }}"
    return [*found.values()]


def read4(dtype: DType, var: str, group: str, to: str, caps: Caps) -> tuple[list[str], list[str]]:
    """Statements that load elements 4*group..4*group+3, and the four lanes' texts."""
    name = dtype.name
    xyzw = [f"{to}.{c}" for c in "xyzw"]
    if is_packed(dtype, caps):
        return [f"let {to}_w = {var}[{group}];", f"let {to} = {vector(dtype, f'{to}_w', caps)};"], xyzw
    if dtype.size <= 4:
        lanes = [f"unpack2x16float({x})" for x in xyzw] if name == "complex32" else xyzw
        return [f"let {to} = {vector(dtype, f'{var}[{group}]', caps)};"], lanes
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
