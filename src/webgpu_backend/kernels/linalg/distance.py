"""Distances between the rows of matrices, by any norm, and their gradients."""

from functools import cache
from struct import pack

from ...program import Caps, Program, Step
from ..layout import grid
from ..text.numbers import packed
from ..text.render import render_program

_FIELDS = ("n", "rows", "others", "width", "x_o", "y_o", "grad_o", "dist_o", "power: f32")


def norm_of(power: float) -> str:
    if power in (0.0, 1.0, 2.0, float("inf")):
        return {0.0: "zero", 1.0: "one", 2.0: "two"}.get(power, "inf")
    return "low" if power < 2.0 else "high"


def plan(
    pairs: bool, backward: bool, power: float, threads: int, sizes: tuple[int, int, int], offsets, double: bool,
    caps: Caps,
) -> Step:  # fmt: skip
    """`sizes` are the rows, the other rows and their width; `offsets` are where x, y, grad and the distances begin.
    Binds those of them that there are, and the result."""
    norm = norm_of(power)
    number = pack("<d" if double else "<f", power if norm in ("low", "high") else 0.0)
    params = packed([threads, *sizes, *offsets]) + number
    return Step(_program(pairs, backward, norm, double, caps), params, grid(threads, caps))


@cache
def _program(pairs: bool, backward: bool, norm: str, double: bool, caps: Caps) -> Program:
    names = ["x"] + ([] if pairs else ["y"]) + (["grad", "dist"] if backward else [])
    return render_program(
        f"{'pdist' if pairs else 'cdist'}{'_backward' if backward else ''}_{norm}{'_f64' if double else ''}",
        "linalg/distance.wgsl",
        _FIELDS,
        [*((n, "read", "array<f32>") for n in names), ("out", "read_write", "array<f32>")],
        caps,
        double=double,
        pairs=pairs,
        backward=backward,
        norm=norm,
    )
