"""The gradient scaler: unscales in place and notes whether anything was not finite."""

from functools import cache

from ...dtypes import DType, Unsupported
from ...program import Caps, Program, Step
from ..layout import grid_of_fours
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program


def plan(dtype: DType, n: int, offset: int, found_offset: int, scale_offset: int, caps: Caps) -> Step:
    """`n` elements from `offset` on, a multiple of four. Binds the scale, the gradient, and what notes the find."""
    words = [n, offset // 4, found_offset, scale_offset]
    return Step(_program(dtype, caps), packed(words), grid_of_fours(n, caps))


@cache
def _program(dtype: DType, caps: Caps) -> Program:
    if dtype.carrier != "f32":
        raise Unsupported(f"webgpu: gradients of {dtype.name} are not scaled")
    lines, lanes = elements.read4(dtype, "a", "i", "x", caps)
    for k, lane in enumerate(lanes):
        # The exponent's bits, since comparisons with NaN are unreliable; lanes past the end are padding.
        bad = f"(bitcast<u32>({lane}) & 0x7f800000u) == 0x7f800000u"
        lines.append(f"if (g * 4u + {k}u < p.n && {bad}) {{ found[p.found_o] = 1.0; }}")
    # As torch: a factor of exactly 1 leaves the bits alone.
    lines += [f"let y{k} = select({lane} * s, {lane}, s == 1.0);" for k, lane in enumerate(lanes)]
    lines += elements.write4(dtype, "a", "i", [f"y{k}" for k in range(4)], caps)
    return render_program(
        f"amp_unscale_{dtype.short}",
        "lists/unscale.wgsl",
        ["n", "a_o", "found_o", "scale_o"],
        [
            ("scale", "read", "array<f32>"),
            ("a", "read_write", elements.array_type(dtype, "v", caps)),
            ("found", "read_write", "array<f32>"),
        ],
        caps,
        main=lines,
    )
