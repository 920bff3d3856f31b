"""Windows whose elements are read at places of their own (deform_conv2d), and where gradients go."""

from functools import cache

from ...dtypes import FLOAT32, FLOAT64, INT64, DType, Unsupported, carrier
from ...program import Caps
from ..text import by_index
from ..text.by_index import Kernel

TRIPS = 60000  # a software driver stops an invocation after 65,535 loop iterations
FIELDS = (
    "channels", "groups", "height", "width", "high", "wide", "ow", "places", "step_y", "step_x", "pad_y", "pad_x",
    "gap_y", "gap_x",
)  # fmt: skip


@cache
def kernel(kind: str, dtype: DType, masked: bool, caps: Caps) -> Kernel:
    """`columns` reads the image, `mask` and `offset` (their gradients) also the gradient of the columns; `taps` reads
    neither. All read the offsets, then the mask where there is one."""
    c = carrier(dtype, caps)
    if c not in ("f32", "f64"):
        raise Unsupported(f"webgpu: deform_conv2d has no kernel for {dtype.name}")
    reads = {"columns": ("a",), "taps": (), "mask": ("a", "dy"), "offset": ("a", "dy")}[kind]
    reads += ("o", "m") if masked else ("o",)
    writes = (("out", dtype),)
    if kind == "taps":
        writes = (("where_", INT64), ("share", FLOAT64 if c == "f64" else FLOAT32))
    names = (("kind", kind), ("masked", masked), ("half", dtype.name == "float16"), ("index_dtype", INT64))
    return by_index.kernel(
        f"deform_{kind}{'_masked' if masked else ''}", "vision/deform.wgsl", tuple((name, dtype) for name in reads),
        writes, FIELDS, caps, names=names, double=c == "f64",
    )  # fmt: skip
