"""Recurrent cells: all gates of one hidden unit in one thread."""

from functools import cache

from ...dtypes import ALL, DType
from ...program import Caps, Program
from ..layout import grid
from ..pointwise.elementwise import WORKGROUP
from ..text import elements
from ..text.render import render

# What is read and written: name -> elements per hidden unit; 0 for a bias, which rows share. A sequence keeps its
# states twice, as the next step's own and in a place among all of them (out, cells): no buffer is read and written.
_LSTM = (("ig", 4), ("hg", 4), ("cx", 1)), (("hy", 1), ("cy", 1), ("ws", 4), ("out", 1), ("cells", 1))
_LSTM_BACKWARD = (("ghy", 1), ("ghn", 1), ("gcy", 1), ("cx", 1), ("cy", 1), ("ws", 4)), (("gg", 4), ("gcx", 1))
_GRU = (("ig", 3), ("hg", 3), ("hx", 1)), (("hy", 1), ("ws", 5), ("out", 1))
_GRU_BACKWARD = (("ghy", 1), ("ghn", 1), ("ws", 5)), (("gi", 3), ("gh", 3), ("ghx", 1))
_BIASES = (("ib", 0), ("hb", 0))

CELLS = {
    "lstm": (_LSTM, """
        let a0 = f32_sigmoid(ig(0) + hg(0) + ib(0) + hb(0));
        let a1 = f32_sigmoid(ig(1) + hg(1) + ib(1) + hb(1));
        let a2 = f32_tanh(ig(2) + hg(2) + ib(2) + hb(2));
        let a3 = f32_sigmoid(ig(3) + hg(3) + ib(3) + hb(3));
        let c = a1 * cx(0) + a0 * a2;
        let y = a3 * f32_tanh(c);
        cy(0) = c; cells(0) = c;
        hy(0) = y; out(0) = y;
        ws(0) = a0; ws(1) = a1; ws(2) = a2; ws(3) = a3;
    """),
    "lstm_backward": (_LSTM_BACKWARD, """
        let a0 = ws(0); let a1 = ws(1); let a2 = ws(2); let a3 = ws(3);
        let t = f32_tanh(cy(0));
        let g = ghy(0) + ghn(0);
        let gc = gcy(0) + g * a3 * (1.0 - t * t);
        gg(0) = gc * a2 * a0 * (1.0 - a0);
        gg(1) = gc * cx(0) * a1 * (1.0 - a1);
        gg(2) = gc * a0 * (1.0 - a2 * a2);
        gg(3) = g * t * a3 * (1.0 - a3);
        gcx(0) = gc * a1;
    """),
    "gru": (_GRU, """
        let r = f32_sigmoid(ig(0) + hg(0) + ib(0) + hb(0));
        let z = f32_sigmoid(ig(1) + hg(1) + ib(1) + hb(1));
        let x = hg(2) + hb(2);
        let m = f32_tanh(ig(2) + ib(2) + r * x);
        let old = hx(0);
        let y = m + z * (old - m);
        hy(0) = y; out(0) = y;
        ws(0) = r; ws(1) = z; ws(2) = m; ws(3) = old; ws(4) = x;
    """),
    "gru_backward": (_GRU_BACKWARD, """
        let r = ws(0); let z = ws(1); let m = ws(2); let old = ws(3); let x = ws(4);
        let g = ghy(0) + ghn(0);
        let gm = g * (1.0 - z) * (1.0 - m * m);
        let gr = gm * x * r * (1.0 - r);
        let gz = g * (old - m) * z * (1.0 - z);
        gi(0) = gr; gi(1) = gz; gi(2) = gm;
        gh(0) = gr; gh(1) = gz; gh(2) = gm * r;
        ghx(0) = g * z;
    """),
}  # fmt: skip


def plan(
    cell: str, given: tuple[str, ...], wanted: tuple[str, ...], dtype: DType, n: int, caps: Caps
) -> tuple[Program, tuple[int, int, int]]:
    """`given` names the inputs that are there, in binding order; others (biases, undefined gradients) read as 0. After
    them come the outputs that are `wanted`; others are not computed."""
    return _program(cell, given, wanted, dtype.name, caps), grid(n, WORKGROUP[caps.kind], caps)


@cache
def _program(cell: str, given: tuple[str, ...], wanted: tuple[str, ...], dtype_name: str, caps: Caps) -> Program:
    (inputs, outputs), text = CELLS[cell]
    dtype = ALL[dtype_name]
    counts = dict((*inputs, *_BIASES, *outputs))
    written = {name for name, _ in outputs}
    mode = {name: elements.element_mode(dtype, caps, name in written) for name in counts}
    bindings = [(name, "read", elements.array_type(dtype, mode[name], caps)) for name in given]
    bindings += [(name, "read_write", elements.array_type(dtype, mode[name], caps)) for name in wanted]
    lines = []
    for statement in text.replace("\n", " ").split(";"):
        if not statement.strip():
            continue
        target, _, value = statement.strip().partition(" = ")
        value = _reads(value, given, counts, dtype, caps)
        name = target.partition("(")[0]
        if name in wanted:
            place = f"{name}_{target[-2]}"
            lines.append(f"let {place} = {value};")
            at = _at(name, int(target[-2]), counts[name], f"p.{name}_o")
            lines.append(elements.write(dtype, name, at, place, caps))
        elif name not in written:
            lines.append(f"{target} = {value};")
    fields = ["n: u32", "width: u32", *(f"{name}_o: u32" for name in (*given, *wanted))]
    source = render("rnn/rnn.wgsl", caps, fields=fields, bindings=bindings, main=lines, workgroup=WORKGROUP[caps.kind])
    access = "".join("r" if a == "read" else "w" for _, a, _ in bindings)
    return Program(f"{cell}_{dtype.short}_{len(given)}_{len(wanted)}", source, access, 4 * len(fields))


def _at(name: str, gate: int, count: int, offset: str) -> str:
    if not count:
        return f"{offset} + {gate}u * p.width + h"
    return f"{offset} + (row * {count}u + {gate}u) * p.width + h"


def _reads(text: str, given: tuple[str, ...], counts: dict[str, int], dtype: DType, caps: Caps) -> str:
    """`ig(2)` becomes the element it names, or 0 where that input is not there."""
    for name, count in counts.items():
        for gate in range(5):
            token = f"{name}({gate})"
            if token not in text:
                continue
            at = _at(name, gate, count, f"p.{name}_o")
            text = text.replace(token, elements.read(dtype, name, at, caps) if name in given else "0.0")
    return text
