"""Pooling kernels: maxima, averages and their gradients; fixed, adaptive or fractional windows in three dimensions.

Gradients are gathered, not scattered: an input element sums what the windows over it send back, in a fixed order.
"""

from functools import cache

from ...dtypes import FLOAT32, INT64, DType, carrier
from ...program import Caps
from ..text import by_index
from ..text.by_index import Kernel
from ..text.expression import literal

SIZES = ("channels", "depth", "height", "width", "od", "oh", "ow")
WINDOW = ("kz", "ky", "kx", "sz_", "sy_", "sx_", "pz", "py", "px", "dz", "dy", "dx")
STRIDES = ("sn", "sc", "sz", "sy", "sx")
TRIPS = 60000  # a software driver stops an invocation after 65,535 loop iterations

_LOWEST = {"i32": -(1 << 31), "u32": 0, "n64": -(1 << 63), "i64": -(1 << 63), "nu64": 0, "u64": 0, "bool": 0}


@cache
def kernel(kind: str, window: str, dtype: DType, channels_last: bool, include_pad: bool, many: bool, dims: int,
           caps: Caps) -> Kernel:  # fmt: skip
    """`kind`: max with the place of each maximum, largest without, ...; `many`: windows so large that a thread takes
    one element only."""
    c = carrier(dtype, caps)
    floating = c in ("f32", "f64")
    functions = [by_index.function("add", "a + b", {"a": c, "b": c}, c, caps)]
    if kind in ("max", "largest"):
        beats = {"f32": "isnan(a) or a > b", "f64": "not (a == a) or a > b"}.get(c, "a > b")
        functions = [by_index.function("beats", beats, {"a": c, "b": c}, "bool", caps)]
    if kind in ("avg", "avg_backward"):
        divide = "a / float(b)" if c == "f32" else "a / b" if floating else "trunc_divide(a, b)"
        functions.append(by_index.function("over", divide, {"a": c, "b": "i32"}, c, caps))
    reads = {
        "max": (("a", dtype),),
        "largest": (("a", dtype),),
        "avg": (("a", dtype),),
        "max_backward": (("g", dtype), ("k", INT64)),
        "avg_backward": (("g", dtype),),
    }[kind]
    writes = (("out", dtype),)
    if kind == "max":
        writes = (("out", dtype), ("outi", INT64))
    fields = SIZES + WINDOW + (STRIDES if kind in ("max", "largest", "avg") else ())
    if kind in ("avg", "avg_backward"):
        fields += ("divisor: i32",)
    if window == "fractional":
        reads += (("r", FLOAT32),)
        fields += ("dims",)
    return by_index.kernel(
        f"pool_{kind}_{window}",
        "image/pool.wgsl",
        reads,
        writes,
        fields,
        caps,
        1 if many else 0,
        names=(
            ("kind", kind),
            ("window", window),
            ("functions", "\n".join(functions)),
            ("channels_last", channels_last),
            ("include_pad", include_pad),
            ("zero", literal(0, c)),
            ("lowest", literal(float("-inf") if floating else _LOWEST[c], c)),
            ("index_dtype", INT64),
            ("dims", dims),
        ),
    )
