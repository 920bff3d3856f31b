"""Connectionist temporal classification: the forward and backward variables of the states, and the gradient."""

from functools import cache
from struct import pack
from typing import NamedTuple

from ...program import Caps, Program, Step
from ..layout import grid, spread
from ..pointwise.elementwise import WORKGROUP
from ..text.render import render

# Threads that share the states of one sequence, and the iterations one thread may have: a software driver stops
# after 65,535.
THREADS = {"gpu": 256, "cpu": 16}
TRIPS = {"gpu": 1 << 20, "cpu": 60000}
MAX_STATES = 60000
_ACCESS = {"alpha": "rrrw", "beta": "rrrw", "loss": "rrrw", "gather": "rrrrrw", "finish": "rrrrrw"}


class Sizes(NamedTuple):
    steps: int
    batch: int
    classes: int
    states: int
    blank: int
    zero_infinity: bool


def walk(kind: str, sizes: Sizes, caps: Caps) -> list[Step]:
    """alpha or beta, [batch, steps, states]: as many dispatches as the trips of a thread ask for."""
    threads = THREADS[caps.kind]
    chunk = max(1, TRIPS[caps.kind] // (1 + -(-sizes.states // threads)))
    where = spread(sizes.batch, caps)
    return [
        Step(_program(kind, threads, caps), _params(sizes, sizes.batch, first, min(first + chunk, sizes.steps)), where)
        for first in range(0, sizes.steps, chunk)
    ]


def each(kind: str, sizes: Sizes, caps: Caps) -> Step:
    """loss: a thread per sequence; gather: per sequence and step; finish: per element of the gradient."""
    n = {"loss": 1, "gather": sizes.steps, "finish": sizes.steps * sizes.classes}[kind] * sizes.batch
    threads = WORKGROUP[caps.kind]
    return Step(_program(kind, threads, caps), _params(sizes, n), grid(n, threads, caps))


def _params(sizes: Sizes, n: int, first: int = 0, last: int = 0) -> bytes:
    numbers = (n, sizes.steps, sizes.batch, sizes.classes, sizes.states, sizes.blank, first, last, sizes.zero_infinity)
    return pack("<9I", *numbers)


@cache
def _program(kind: str, workgroup: int, caps: Caps) -> Program:
    text = render("loss/ctc.wgsl", caps, kind=kind, workgroup=workgroup)
    return Program(f"ctc_{kind}_f32", text, _ACCESS[kind], 36)
