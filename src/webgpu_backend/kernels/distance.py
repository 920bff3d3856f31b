"""Distances between the rows of two batches of matrices, and their gradient."""

from functools import cache
from math import inf

from ..program import Caps, Program
from .render import render

MAX_LENGTH = 60000  # of a thread's loop: one software driver stops at 65,535 iterations


def program(power: float, backward: bool, caps: Caps) -> Program:
    kind = {0.0: "zero", 1.0: "one", 2.0: "two", inf: "inf"}.get(power, "any")
    return _program(kind, backward, caps)


@cache
def _program(kind: str, backward: bool, caps: Caps) -> Program:
    wgsl = render("distance.wgsl", caps, kind=kind, backward=backward)
    name = f"distance_{'backward_' if backward else ''}{kind}_f32"
    return Program(name, wgsl, "rrrrw" if backward else "rrw", 20)
