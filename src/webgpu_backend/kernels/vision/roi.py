"""Regions of images, averaged over samples in their bins (roi_align, ps_roi_align), and where gradients go.

The gradient is gathered: a thread has an element of the image and looks for the samples beside it, so that nothing is
added by atomics and results repeat exactly.
"""

from functools import cache

from ...dtypes import FLOAT32, FLOAT64, INT32, DType, Unsupported, carrier
from ...program import Caps
from ..layout import WORKGROUP
from ..text import by_index
from ..text.by_index import Kernel
from ..text.render import render_program

TRIPS = 60000  # a software driver stops an invocation after 65,535 loop iterations
CHUNK = 8  # channels that a thread of the gradient has
FORWARD = (
    "channels", "height", "width", "high", "wide", "images", "sn", "sc", "sy", "sx", "ratio", "scale: f32",
    "margin: f32", "begin", "end", "site",
)  # fmt: skip
BACKWARD = (
    "channels", "height", "width", "high", "wide", "gn", "gc", "gy", "gx", "ratio", "scale: f32", "margin: f32",
    "begin", "end",
)  # fmt: skip
POOL = ("channels", "height", "width", "high", "wide", "images", "sn", "sc", "sy", "sx", "scale: f32", "site")


def margin(dtype: DType, size: int) -> float:
    """By how many samples a place may be off for the rounding of coordinates."""
    return 2.5 + (size / 64 if dtype.name == "float16" else 0.0)


def rows_of_forward(dtype: DType, height: int, width: int, ratio: int, caps: Caps) -> list[tuple[int, int]]:
    """Samples of a bin, cut along y into what one dispatch may take."""
    most = max(height, width)
    if caps.kind == "gpu":
        return [(0, 0x3FFFFFFF)]
    # Of a bin with eight samples or more each way, these are more than 7/8 of an element apart.
    rows, columns = (
        min(ratio, 0x3FFFFFFF) if ratio > 0 else int((size + 1) * 8 / 7 + 2 * margin(dtype, most)) + 10
        for size in (height, width)
    )
    fit = TRIPS // ((columns + 1) * (4 if dtype.packed else 1))
    if not fit:
        raise Unsupported("webgpu: a region of this size is beyond the driver's loop limit")
    return [(start, min(start + fit, rows)) for start in range(0, rows, fit)]


def rois_of_backward(dtype: DType, rois: int, sizes: tuple[int, int, int, int], ratio: int, caps: Caps) -> int:
    """How many regions one dispatch may look at; `sizes` are those of the image and of the bins."""
    if caps.kind == "gpu":
        return max(rois, 1)
    height, width, high, wide = sizes
    # Where a bin has several samples, these are more than half an element apart; an element is beside those within one.
    near = int(2 * margin(dtype, max(height, width))) + 8
    rows, columns = (max(bins, near) if ratio <= 0 else bins * ratio for bins in (high, wide))
    fit = TRIPS // (rows * (columns + 1) + 1)
    if not fit:
        raise Unsupported("webgpu: regions of so many bins are beyond the driver's loop limit")
    return fit


def _double(dtype: DType, caps: Caps) -> bool:
    c = carrier(dtype, caps)
    if c not in ("f32", "f64"):
        raise Unsupported(f"webgpu: regions have no kernel for {dtype.name}")
    return c == "f64"


def _names(kind: str, dtype: DType, adaptive: bool, aligned: bool, mapped: bool) -> tuple:
    half = dtype.name == "float16"
    return ("kind", kind), ("half", half), ("adaptive", adaptive), ("aligned", aligned), ("mapped", mapped)


@cache
def forward(dtype: DType, out: DType, adaptive: bool, aligned: bool, mapped: bool, caps: Caps) -> Kernel:
    """Reads the image and the regions."""
    double = _double(dtype, caps)
    return by_index.kernel(
        f"{'ps_' if mapped else ''}roi_align{'_adaptive' if adaptive else ''}", "vision/roi.wgsl",
        (("a", dtype), ("r", dtype)), (("out", out),), FORWARD, caps, lanes=1,
        names=_names("forward", dtype, adaptive, aligned, mapped), double=double, guarded=True,
    )  # fmt: skip


@cache
def backward(dtype: DType, adaptive: bool, aligned: bool, mapped: bool, caps: Caps) -> Kernel:
    """Reads the regions and the gradient; writes float32 or float64, channels last. A thread's work is counted."""
    double = _double(dtype, caps)
    reads, writes = (("r", dtype), ("dy", dtype)), (("out", FLOAT64 if double else FLOAT32),)
    face = by_index.interface(reads, writes, "e", ("n", *BACKWARD), caps, double=double)
    program = render_program(
        f"{'ps_' if mapped else ''}roi_align_backward{'_adaptive' if adaptive else ''}_{dtype.short}",
        "vision/roi.wgsl", face.fields, face.bindings, caps, double=double, chunk=1 if mapped else CHUNK,
        **face.accessors, **dict(_names("backward", dtype, adaptive, aligned, mapped)),
    )  # fmt: skip
    return Kernel(program, face.pack, WORKGROUP[caps.kind])


@cache
def pool(dtype: DType, caps: Caps) -> Kernel:
    """Reads the image and the regions; writes the largest elements and their places."""
    double, writes = _double(dtype, caps), (("out", dtype), ("where_", INT32))
    reads = (("a", dtype), ("r", dtype))
    return by_index.kernel(
        "roi_pool", "vision/roi_pool.wgsl", reads, writes, POOL, caps, lanes=1, double=double, guarded=True
    )
