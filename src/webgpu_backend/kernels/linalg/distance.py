"""Distances between the rows of matrices, by any norm, and their gradients."""

from functools import cache
from struct import pack

from ...program import Caps, Program
from ..layout import grid
from ..pointwise.elementwise import WORKGROUP
from ..text.render import render


def norm_of(power: float) -> str:
    if power in (0.0, 1.0, 2.0, float("inf")):
        return {0.0: "zero", 1.0: "one", 2.0: "two"}.get(power, "inf")
    return "low" if power < 2.0 else "high"


def plan(pairs: bool, backward: bool, power: float, threads: int, sizes: tuple[int, int, int], offsets, caps: Caps):
    """`sizes` are the rows, the other rows and their width; `offsets` are where x, y, grad and the distances begin."""
    program = _program(pairs, backward, norm_of(power), caps)
    exponent = power if norm_of(power) in ("low", "high") else 0.0
    params = pack("<8If", threads, *sizes, *offsets, exponent)
    return program, params, grid(threads, WORKGROUP[caps.kind], caps)


@cache
def _program(pairs: bool, backward: bool, norm: str, caps: Caps) -> Program:
    names = ["x"] + ([] if pairs else ["y"]) + (["grad", "dist"] if backward else [])
    bindings = [(n, "read") for n in names] + [("out", "read_write")]
    text = render(
        "linalg/distance.wgsl",
        caps,
        bindings=bindings,
        pairs=pairs,
        backward=backward,
        norm=norm,
        workgroup=WORKGROUP[caps.kind],
    )
    name = f"{'pdist' if pairs else 'cdist'}{'_backward' if backward else ''}_{norm}"
    return Program(name, text, "r" * len(names) + "w", 36)
