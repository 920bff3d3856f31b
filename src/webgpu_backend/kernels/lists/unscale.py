"""The gradient scaler: unscales in place and notes whether anything was not finite."""

from functools import cache

from ...dtypes import ALL, DType, Unsupported
from ...program import Caps, Program
from ..layout import grid
from ..pointwise.elementwise import GROUPS, WORKGROUP
from ..text import elements
from ..text.render import render


def plan_unscale(dtype: DType, n: int, caps: Caps) -> tuple[Program, tuple[int, int, int]]:
    threads = -(-n // (4 * GROUPS[caps.kind]))
    return _program(dtype.name, caps), grid(threads, WORKGROUP[caps.kind], caps)


@cache
def _program(dtype_name: str, caps: Caps) -> Program:
    dtype = ALL[dtype_name]
    if dtype.carrier != "f32":
        raise Unsupported(f"webgpu: gradients of {dtype_name} are not scaled")
    lines, lanes = elements.read4(dtype, "a", "i", "x", caps)
    for k, lane in enumerate(lanes):
        # The exponent's bits, since comparisons with NaN are unreliable; lanes past the end are padding.
        bad = f"(bitcast<u32>({lane}) & 0x7f800000u) == 0x7f800000u"
        lines.append(f"if (g * 4u + {k}u < p.n && {bad}) {{ found[p.found_o] = 1.0; }}")
    # As torch: a factor of exactly 1 leaves the bits alone.
    lines += [f"let y{k} = select({lane} * s, {lane}, s == 1.0);" for k, lane in enumerate(lanes)]
    lines += elements.write4(dtype, "a", "i", [f"y{k}" for k in range(4)], caps)
    source = render(
        "lists/unscale.wgsl", caps, type=elements.array_type(dtype, "v", caps), main=lines,
        workgroup=WORKGROUP[caps.kind], groups=GROUPS[caps.kind],
    )  # fmt: skip
    return Program(f"amp_unscale_{dtype.short}", source, "rww", 16)
