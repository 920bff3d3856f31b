"""Connectionist temporal classification: the forward and backward variables of the states, and the gradient."""

from functools import cache
from typing import NamedTuple

from ...program import Caps, Plan, Program, Step
from ..layout import WORKGROUP, grid, spread
from ..text.numbers import packed
from ..text.render import render_program

# Threads that share the states of one sequence, and the iterations one thread may have: a software driver stops
# after 65,535.
THREADS = {"gpu": 256, "cpu": 16}
TRIPS = {"gpu": 1 << 20, "cpu": 60000}
MAX_STATES = 60000
_FIELDS = ("n", "steps", "batch", "classes", "states", "blank", "first", "last", "zero_infinity")
_READ = {"gather": ("alpha", "beta"), "finish": ("loss", "grad")}  # besides lengths, labels and what is called x


class Sizes(NamedTuple):
    steps: int
    batch: int
    classes: int
    states: int
    blank: int
    zero_infinity: bool
    double: bool


def plan_walk(kind: str, sizes: Sizes, caps: Caps) -> Plan:
    """alpha or beta, [batch, steps, states], over lengths, labels, log probabilities and the result: as many dispatches
    as the trips of a thread ask for."""
    threads = THREADS[caps.kind]
    chunk = max(1, TRIPS[caps.kind] // (1 + -(-sizes.states // threads)))
    program, where = _program(kind, threads, sizes.double, caps), spread(sizes.batch, caps)
    ranges = [(first, min(first + chunk, sizes.steps)) for first in range(0, sizes.steps, chunk)]
    return Plan(tuple([Step(program, _params(sizes, sizes.batch, *some), where, (0, 1, 2, 3)) for some in ranges]))


def plan_each(kind: str, sizes: Sizes, caps: Caps) -> Step:
    """loss: a thread per sequence; gather: per sequence and step; finish: per element of the gradient."""
    n = {"loss": 1, "gather": sizes.steps, "finish": sizes.steps * sizes.classes}[kind] * sizes.batch
    return Step(_program(kind, WORKGROUP[caps.kind], sizes.double, caps), _params(sizes, n), grid(n, caps))


def _params(sizes: Sizes, n: int, first: int = 0, last: int = 0) -> bytes:
    *counts, zero_infinity, _ = sizes
    return packed([n, *counts, first, last, zero_infinity])


@cache
def _program(kind: str, workgroup: int, double: bool, caps: Caps) -> Program:
    bindings = [("lengths", "read", "array<u32>"), ("labels", "read", "array<i32>")]
    bindings += [(name, "read", "array<f32>") for name in ("x", *_READ.get(kind, ()))]
    bindings.append(("out", "read_write", "array<f32>"))
    name = f"ctc_{kind}_{'f64' if double else 'f32'}"
    names = {"kind": kind, "workgroup": workgroup, "lowest": -1.79e308 if double else -3.4e38}
    return render_program(name, "loss/ctc.wgsl", _FIELDS, bindings, caps, double=double, **names)
