"""Interpolation kernels: every mode in one to three dimensions, and the gradients, gathered in a fixed order."""

import math
from functools import cache, lru_cache

from ...dtypes import INT32, UINT8, DType, Unsupported, carrier
from ...program import Caps
from ..text import by_index
from ..text.by_index import Kernel

FIELDS = (
    "channels", "depth", "height", "width", "od", "oh", "ow", "fz: f32", "fy: f32", "fx: f32",
    "sn", "sc", "sz", "sy", "sx",
)  # fmt: skip
SMOOTH = {"linear": 2, "cubic": 4, "lanczos": 6}  # modes that weigh, and how many elements as they are


@cache
def kernel(
    mode: str,
    dims: int,
    corners: bool,
    antialias: bool,
    backward: bool,
    dtype: DType,
    channels_last: bool,
    planes: bool,
    whole: bool,
    caps: Caps,
) -> Kernel:
    """`planes`: channels of all images lie one behind the other. `whole`: outputs are a multiple of the inputs (going
    back), or rows of whole groups of four (going forward); for the nearest element only."""
    c = carrier(dtype, caps)
    double = c == "f64" and mode in SMOOTH  # places are the CPU's: in f32 for the nearest element
    if c not in ("f32", "f64") and (mode in SMOOTH or backward):
        raise Unsupported(f"webgpu: {mode} interpolation has no kernel for {dtype.name}")
    fours = whole and not backward and mode in ("nearest", "exact") and not channels_last
    names = (
        ("mode", mode),
        ("dims", dims),
        ("corners", corners),
        ("antialias", antialias),
        ("backward", backward),
        ("channels_last", channels_last),
        ("planes", planes),
        ("whole", whole and backward),
        ("fours", fours),
    )
    name = (
        f"resample_{mode}{dims}{'_aa' if antialias else ''}{'_backward' if backward else ''}{'_whole' if whole else ''}"
    )
    lanes = 4 if fours else 0
    return by_index.kernel(
        name, "image/interpolate.wgsl", (("a", dtype),), (("out", dtype),), FIELDS, caps, lanes, names, double
    )


@cache
def byte_kernel(caps: Caps) -> Kernel:
    reads = (("a", UINT8), ("low", INT32), ("weight", INT32))
    fields = ("inner", "size", "outs", "taps", "bits")
    return by_index.kernel("resample_bytes", "image/interpolate_bytes.wgsl", reads, (("out", UINT8),), fields, caps)


@lru_cache(maxsize=64)
def byte_weights(mode: str, size: int, outs: int, scale: float, corners: bool, antialias: bool):
    """First elements, weights (outs rows) and bits of the whole-number filter of one dimension."""
    width = SMOOTH[mode]
    a = -0.5 if antialias else -0.75
    stretch = max(scale, 1.0) if antialias else 1.0
    lows, rows = [], []
    for o in range(outs):
        if antialias:
            center = scale * (o + 0.5)
            low = max(int(center - width / 2 * stretch + 0.5), 0)
            high = min(int(center + width / 2 * stretch + 0.5), size)
            row = [_filter(mode, (j - center + 0.5) / stretch, a) for j in range(low, high)]
            total = sum(row)
            row = [w / total for w in row]
        else:
            source = scale * o if corners else scale * (o + 0.5) - 0.5
            source = max(source, 0.0) if mode == "linear" else source
            first = math.floor(source) - (width // 2 - 1)
            low = min(max(first, 0), size - 1)
            # Taps beyond an edge read the edge: their weights are one weight.
            row = [0.0] * min(width, size - low)
            for k in range(width):
                row[min(max(first + k, 0), size - 1) - low] += _filter(mode, first + k - source, a)
        lows.append(low)
        rows.append(row)
    largest = max(max(row) for row in rows)
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    taps = max(len(row) for row in rows)
    whole = [int(w * (1 << bits) + (0.5 if w >= 0 else -0.5)) for row in rows for w in row + [0.0] * (taps - len(row))]
    return lows, whole, taps, bits


def _filter(mode: str, x: float, a: float) -> float:
    x = abs(x)
    if mode == "linear":
        return max(1.0 - x, 0.0)
    if mode == "lanczos":
        return _sinc(x) * _sinc(x / 3) if x < 3 else 0.0
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def _sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0
