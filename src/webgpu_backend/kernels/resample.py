"""Interpolation kernels: every mode in one to three dimensions, and the gradients, gathered in a fixed order."""

from functools import lru_cache

from ..dtypes import DType, Unsupported, carrier
from ..program import Caps
from . import indexed

FIELDS = (
    "channels", "depth", "height", "width", "od", "oh", "ow", "fz:f32", "fy:f32", "fx:f32", "sn", "sc", "sz", "sy", "sx",
)  # fmt: skip
TRIPS = 60000


@lru_cache(maxsize=None)
def kernel(
    mode: str, dims: int, corners: bool, antialias: bool, backward: bool, dtype: DType, channels_last: bool, caps: Caps
) -> indexed.Kernel:
    c = carrier(dtype, caps)
    rounded = "y_"
    if c != "f32":
        if mode in ("linear", "cubic") or backward:
            if dtype.name != "uint8":
                raise Unsupported(f"webgpu: {mode} interpolation has no kernel for {dtype.name}")
            rounded = "i32(clamp(floor(y_ + 0.5), 0.0, 255.0))"
    names = (
        ("mode", mode),
        ("dims", dims),
        ("corners", corners),
        ("antialias", antialias),
        ("backward", backward),
        ("channels_last", channels_last),
        ("rounded", rounded),
    )
    name = f"resample_{mode}{dims}{'_aa' if antialias else ''}{'_backward' if backward else ''}"
    return indexed.kernel(name, "resample.wgsl", (("a", dtype),), (("out", dtype),), FIELDS, caps, names=names)
