"""Sampling at the points of a grid: values, the elements and shares that each point reads, gradient of the grid."""

from functools import cache

from ...dtypes import FLOAT32, FLOAT64, INT64, DType, Unsupported, carrier
from ...program import Caps
from ..text import by_index
from ..text.by_index import Kernel

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")
TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
FIELDS = ("channels", "depth", "height", "width", "od", "oh", "ow", "sn", "sc", "sz", "sy", "sx")


@cache
def kernel(kind: str, mode: str, padding: str, dims: int, corners: bool, dtype: DType, caps: Caps) -> Kernel:
    """`forward`, `taps` or `backward` (of the grid)."""
    c = carrier(dtype, caps)
    if c not in ("f32", "f64"):
        raise Unsupported(f"webgpu: grid_sampler has no kernel for {dtype.name}")
    reads = {
        "forward": (("a", dtype), ("g", dtype)),
        "taps": (("g", dtype),),
        "backward": (("a", dtype), ("g", dtype), ("dy", dtype)),
    }[kind]
    writes = (("where_", INT64), ("share", FLOAT64 if c == "f64" else FLOAT32)) if kind == "taps" else (("out", dtype),)
    rounding = "x"
    if dtype.name == "float16":
        rounding = "f32_half(x)"
    elif dtype.name == "bfloat16":
        rounding = "f32_brain(x)"
    names = (
        ("kind", kind),
        ("rounding", rounding),
        ("mode", mode),
        ("padding", padding),
        ("dims", dims),
        ("corners", corners),
        ("channels_last", False),
        ("index_dtype", INT64),
    )
    name = f"grid_sample{dims}_{kind}_{mode}_{padding}"
    template, double = "image/grid_sample.wgsl", c == "f64"
    return by_index.kernel(name, template, reads, writes, FIELDS, caps, names=names, double=double)
