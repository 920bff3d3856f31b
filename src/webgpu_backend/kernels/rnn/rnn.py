"""Recurrent cells: all gates of one hidden unit in one thread."""

from functools import cache, partial

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import grid
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program

# What each cell reads and writes: name -> elements per hidden unit. A sequence keeps its states twice, as the next
# step's own and in a place among all of them (out, cells): no buffer is read and written.
READ = {
    "lstm": {"ig": 4, "hg": 4, "cx": 1},
    "lstm_backward": {"ghy": 1, "ghn": 1, "gcy": 1, "cx": 1, "cy": 1, "ws": 4},
    "gru": {"ig": 3, "hg": 3, "hx": 1},
    "gru_backward": {"ghy": 1, "ghn": 1, "ws": 5},
}
WRITTEN = {
    "lstm": {"hy": 1, "cy": 1, "ws": 4, "out": 1, "cells": 1},
    "lstm_backward": {"gg": 4, "gcx": 1},
    "gru": {"hy": 1, "ws": 5, "out": 1},
    "gru_backward": {"gi": 3, "gh": 3, "ghx": 1},
}
_BIASES = {"ib": 0, "hb": 0}  # which rows share


def plan(
    cell: str,
    given: tuple[str, ...],
    wanted: tuple[str, ...],
    dtype: DType,
    rows: int,
    width: int,
    offsets: list[int],
    caps: Caps,
) -> Step:
    """`given` names the inputs that are there, in binding order; others (biases, undefined gradients) read as 0. After
    them come the outputs that are `wanted`; others are not computed. `offsets` are those of both."""
    words = [rows * width, width, *offsets]
    return Step(_program(cell, given, wanted, dtype, caps), packed(words), grid(rows * width, caps))


@cache
def _program(cell: str, given: tuple[str, ...], wanted: tuple[str, ...], dtype: DType, caps: Caps) -> Program:
    read, written = READ[cell] | _BIASES, WRITTEN[cell]
    mode = elements.element_mode(dtype, caps, written=True)
    bindings = [(name, "read", elements.array_type(dtype, "e", caps)) for name in given]
    bindings += [(name, "read_write", elements.array_type(dtype, mode, caps)) for name in wanted]

    def value(name: str, gate: int) -> str:
        return elements.read(dtype, name, _at(name, gate, read[name]), caps) if name in given else "0.0"

    return render_program(
        f"{cell}_{dtype.short}_{len(given)}_{len(wanted)}",
        "rnn/rnn.wgsl",
        ["n", "width", *(f"{name}_o" for name in (*given, *wanted))],
        bindings,
        caps,
        double=dtype.carrier == "f64",
        cell=cell,
        wanted=wanted,
        write=lambda name, gate: elements.write(dtype, name, _at(name, gate, written[name]), f"{name}_{gate}", caps),
        **{name: partial(value, name) for name in read},
    )


def _at(name: str, gate: int, count: int) -> str:
    """Where a gate of the thread's row and hidden unit lies among `count`."""
    if not count:
        return f"p.{name}_o + {gate}u * p.width + h"
    return f"p.{name}_o + (row * {count}u + {gate}u) * p.width + h"
