"""Element types: how each is stored, and the WGSL type it is computed in. Knows nothing of torch or wgpu.

A *carrier* is the type a value has inside a shader: f32, i32, u32, bool, f64, c64 (vec2<f32>), c128 (vec2<f64>), and
for 64-bit integers n64/nu64 where the adapter has `shader-int64`, else i64/u64 (vec2<u32>, low word first).
"""

from dataclasses import dataclass

from .program import Caps


@dataclass(frozen=True, slots=True)
class DType:
    name: str
    size: int  # bytes per element
    carrier: str  # before the adapter is known: 64-bit integers say "i64" or "u64"
    short: str  # in program names

    @property
    def packed(self) -> bool:
        """Several elements share a 32-bit word."""
        return self.size < 4


FLOAT32 = DType("float32", 4, "f32", "f32")
FLOAT16 = DType("float16", 2, "f32", "f16")
BFLOAT16 = DType("bfloat16", 2, "f32", "bf16")
FLOAT64 = DType("float64", 8, "f64", "f64")
INT64 = DType("int64", 8, "i64", "i64")
INT32 = DType("int32", 4, "i32", "i32")
INT16 = DType("int16", 2, "i32", "i16")
INT8 = DType("int8", 1, "i32", "i8")
UINT8 = DType("uint8", 1, "i32", "u8")
UINT16 = DType("uint16", 2, "i32", "u16")
UINT32 = DType("uint32", 4, "u32", "u32")
UINT64 = DType("uint64", 8, "u64", "u64")
BOOL = DType("bool", 1, "bool", "b")
COMPLEX64 = DType("complex64", 8, "c64", "c64")
COMPLEX128 = DType("complex128", 16, "c128", "c128")
COMPLEX32 = DType("complex32", 4, "c64", "c32")
E4M3FN = DType("float8_e4m3fn", 1, "f32", "e4m3fn")
E5M2 = DType("float8_e5m2", 1, "f32", "e5m2")
E4M3FNUZ = DType("float8_e4m3fnuz", 1, "f32", "e4m3fnuz")
E5M2FNUZ = DType("float8_e5m2fnuz", 1, "f32", "e5m2fnuz")
E4M3FN_NAN = DType("float8_e4m3fn", 1, "f32", "e4m3fn_nan")  # what is too large becomes NaN, not the largest number
UINT128 = DType("uint128", 16, "u128", "u128")  # bits that are moved and never computed with

ALL: dict[str, DType] = {d.name: d for d in (
    FLOAT32, FLOAT16, BFLOAT16, FLOAT64, INT64, INT32, INT16, INT8, UINT8, UINT16, UINT32, UINT64, BOOL, COMPLEX64,
    COMPLEX128, COMPLEX32,
)}  # fmt: skip

# Stored and converted; nothing is computed in them.
FLOATS_OF_A_BYTE: dict[str, DType] = {d.name: d for d in (E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ)}

WGSL_TYPE = {
    "f32": "f32",
    "i32": "i32",
    "u32": "u32",
    "bool": "bool",
    "f64": "f64",
    "c64": "vec2<f32>",
    "c128": "vec2<f64>",
    "n64": "i64",
    "nu64": "u64",
    "i64": "vec2<u32>",
    "u64": "vec2<u32>",
    "u128": "vec4<u32>",
}


REAL = {"c64": "f32", "c128": "f64"}
"""The carriers of complex numbers' parts."""


class Unsupported(TypeError):
    """This adapter or this kernel cannot handle the dtype; the frontend decides what follows."""


def carrier(dtype: DType, caps: Caps) -> str:
    c = dtype.carrier
    if c == "i64" and caps.i64:
        return "n64"
    if c == "u64" and caps.i64:
        return "nu64"
    if c in ("f64", "c128") and not caps.f64:
        raise Unsupported(
            f"webgpu: {dtype.name} needs an adapter with the shader-f64 feature, which this one does not offer; "
            "use float32 (tensor.float() or torch.set_default_dtype(torch.float32))"
        )
    return c
