"""What a matrix product is, and the parts of text that all of its kernels share. Integers and text only.

Both operands are seen as rows of length k: `a` has m rows, `b` has n rows (the columns of the right-hand matrix).
A row-major and a transposed operand differ only in their strides, so neither is ever copied.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Plan
from ..quantized.formats import Blocks
from ..text import elements
from ..text.expression import Emitter, wgsl_type
from ..text.numbers import PACKERS, scalar_fields, scalar_text


class Matrix(NamedTuple):
    """An operand: element strides of its rows, of k (of n for outputs), and of the two batch dimensions."""

    dtype: DType
    offset: int
    row: int
    col: int
    outer: int = 0
    inner: int = 0


class Gather(NamedTuple):
    """The right operand of a convolution: an image seen through a window. Three numbers per spatial dimension.

    Its rows are output positions and k counts (channel, tap); with `kind` "t" the window moves over the output
    instead (a transposed convolution), with "w" rows are (channel, tap) and k counts positions (weight gradients).
    """

    kind: str  # g, t or w; u is t where the window moves by one
    sizes: tuple[int, int, int]  # of the image
    strides: tuple[int, int, int, int]  # of its channels and dimensions, in elements
    positions: tuple[int, int, int]
    window: tuple[int, int, int]
    step: tuple[int, int, int]
    padding: tuple[int, int, int]
    dilation: tuple[int, int, int]

    @property
    def flat(self) -> bool:
        """The outermost dimension is one tap that every position meets: nothing to check there."""
        inside = (self.positions[0] - 1) * self.step[0] < self.sizes[0]
        return self.window[0] == 1 and self.padding[0] == 0 and inside

    def words(self) -> list[int]:
        steps = (*self.step, *self.padding, *self.dilation)
        return [*self.sizes, *self.strides, *self.positions[1:], *self.window, *steps]


GATHER_FIELDS = [
    "x_d", "x_h", "x_w", "xs_c", "xs_d", "xs_h", "xs_w", "pos_h", "pos_w", "win_d", "win_h", "win_w",
    "step_d", "step_h", "step_w", "pad_d", "pad_h", "pad_w", "dil_d", "dil_h", "dil_w",
]  # fmt: skip


@dataclass(frozen=True)
class Product:
    """out[o, i] = act(alpha * a[o, i] b[o, i]^T + beta * c[o, i]); with `summed`, added up over the inner batch i.

    `act` is one of `ACTS`, or statements over r, which is what it is applied to, over an element of `d`, and over e0,
    e1, ..., which lie side by side in `e`.
    """

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    out: Matrix
    c: Matrix | None = None
    outer: int = 1
    inner: int = 1
    summed: bool = False
    alpha: object = 1
    beta: object = 1
    act: str = ""
    gather: Gather | None = None  # how to read b, whose strides then are of its batches only
    blocks: Blocks | None = None  # b is quantised: its offset and the stride of its rows are in pieces of 32 codes
    d: Matrix | None = None
    e: Matrix | None = None

    def swapped(self) -> "Product":
        """The transposed product, which is the same numbers."""
        flip = lambda x: x and x._replace(row=x.col, col=x.row)  # noqa: E731
        return Product(
            self.n, self.m, self.k, self.b, self.a, flip(self.out), flip(self.c), self.outer, self.inner, self.summed,
            self.alpha, self.beta, self.act, d=flip(self.d), e=flip(self.e),
        )  # fmt: skip

    @property
    def finishing(self) -> list[Matrix]:
        """What the epilogue reads."""
        return [x for x in (self.c, self.d, self.e) if x is not None]

    @property
    def finishers(self) -> tuple:
        """The dtypes of c, d and e, None for what is not there, and the names of those that are."""
        given = (self.c, self.d, self.e)
        dtypes = tuple([None if x is None else x.dtype for x in given])
        return dtypes, tuple([name for name, x in zip("cde", given) if x is not None])

    @property
    def buffers(self) -> tuple[str, ...]:
        """What its plan is over, by name; c has a place always."""
        quantised = ("s",) if self.blocks else ()
        return ("a", "b", *quantised, "c", *[name for name in self.finishers[1] if name != "c"], "out")


BUFFERS = ("a", "b", "c", "out")


def numbered(plan: Plan, names: tuple[str, ...] = BUFFERS) -> Plan:
    """A plan whose steps name their buffers, and whose scratch is named too, with numbers in place of the names."""
    places = {name: i for i, name in enumerate((*names, *plan.scratch))}
    for step in plan.steps:
        step.bindings = tuple([places[name] for name in step.bindings])
    plan.scratch = tuple(plan.scratch.values())
    return plan


UNITS = {"k": 4, "r": 4, "v": 4, "8": 8, "o": 8}


def class_of(x: Matrix, rows: int, k: int) -> str:
    """k or r: four elements at once along k or along the rows; K or R: one by one, neighbours along k or rows."""
    batches = x.outer % 4 == 0 and x.inner % 4 == 0 and x.offset % 4 == 0
    if x.col == 1 and k % 4 == 0 and batches and (x.row % 4 == 0 or rows == 1):
        return "k"
    if x.row == 1 and rows % 4 == 0 and batches and (x.col % 4 == 0 or k == 1):
        return "r"
    return "K" if x.col <= x.row or rows == 1 else "R"


def store_mode(out: Matrix, n: int, caps: Caps) -> str:
    batches = out.outer % 4 == 0 and out.inner % 4 == 0 and out.offset % 4 == 0
    if out.col == 1 and n % 4 == 0 and out.row % 4 == 0 and batches:
        return "v"
    return elements.element_mode(out.dtype, caps, written=True)


def words_of(x: Matrix, class_: str = "") -> list[int]:
    """Offset and strides as the kernel counts them: in groups of four or eight where it reads or writes such groups."""
    unit = UNITS.get(class_, 1)
    row = x.row if class_ in ("r", "o") else x.row // unit
    col = x.col if class_ in ("k", "8", "v") else x.col // unit
    return [x.offset // unit, row, col, x.outer // unit, x.inner // unit]


def epilogue_key(q: Product) -> str:
    if q.c is None:
        return "scaled" if q.alpha != 1 else "plain"
    return "bias_scaled" if q.alpha != 1 or q.beta != 1 else "bias"


def scalar_bytes(q: Product, epilogue: str, carry: str) -> bytes:
    if not epilogue.endswith("scaled"):
        return b""
    return PACKERS[carry](q.alpha) + (PACKERS[carry](q.beta) if q.c is not None else b"")


ACTS = {"": "", "relu": "max(r, 0.0)", "gelu": "0.5 * r * (1.0 + erf(r * 0.7071067811865476))"}


_EPILOGUES = {"plain": "v", "scaled": "v * alpha", "bias": "v + c", "bias_scaled": "v * alpha + c * beta"}


ALL = ("mnbi",) * 3  # strides of c, d and e: of rows, columns and the two batch dimensions
_COUNTED = {"m": "m", "n": "n", "b": "ob", "i": "ib"}


def epilogue_name(epilogue: str, act: str) -> str:
    return f"{epilogue}{act if act in ACTS else '_' + sha256(act.encode()).hexdigest()[:8]}"


def epilogue_text(
    epilogue: str, act: str, carry: str, dtypes: tuple[DType | None, ...], caps: Caps, strides: tuple[str, ...] = ALL
) -> tuple[list[str], list[str]]:
    """Parameter fields, and the function `epilogue` that finishes one element; none where nothing is left to do.
    `dtypes` are of c, d and e, `strides` those that are not always zero."""
    if epilogue == "none" or (epilogue == "plain" and not act):
        return [], []
    fields, texts, types, lines = [], {}, {"v": carry}, []
    for name, dtype, own in zip("cde", dtypes, strides):
        if dtype is not None:
            fields += [f"{name}_{s}" for s in f"o{own}"]
            at = " + ".join([f"p.{name}_o", *[f"{_COUNTED[s]} * p.{name}_{s}" for s in own]])
            lines.append(f"let at_{name} = {at};")
            places = {f"e{j}": f"(at_e + {j}u)" for j in range(beside(act))} if name == "e" else {name: f"at_{name}"}
            for each, place in places.items():
                types[each] = carry
                lines.append(f"let {each} = {elements.read(dtype, f'{name}_in', place, caps)};")
    for name in (["alpha"] + (["beta"] if dtypes[0] is not None else [])) if epilogue.endswith("scaled") else []:
        fields += scalar_fields(name, carry)
        texts[name] = scalar_text(name, carry)
        types[name] = carry
    source = _EPILOGUES[epilogue]
    if act:
        source = f"r = {source}\n{ACTS.get(act, act)}"
    lines += Emitter(types, texts, caps.i64).program(source, [("out0", carry)])
    body = "\n    ".join([*lines, "return out0;"])
    t = wgsl_type(carry)
    return fields, [f"fn epilogue(v: {t}, m: u32, n: u32, ob: u32, ib: u32) -> {t} {{\n    {body}\n}}"]


def beside(act: str) -> int:
    """How many elements of `e` lie side by side."""
    return 1 + max([int(n) for n in re.findall(r"\be(\d+)\b", act)], default=-1)


def finisher_bindings(dtypes: tuple[DType | None, ...], caps: Caps) -> list[tuple[str, str, str]]:
    found = [(name, dtype) for name, dtype in zip("cde", dtypes) if dtype is not None]
    return [(f"{name}_in", "read", elements.array_type(dtype, "e", caps)) for name, dtype in found]


def array_of(dtype: DType, class_: str, caps: Caps) -> str:
    """How an operand is declared; eight elements at once are words."""
    if class_ in ("8", "o"):
        return "array<vec4<u32>>"
    return elements.array_type(dtype, "v" if class_ in "kr" else "e", caps)
