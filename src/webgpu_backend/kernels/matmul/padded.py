"""Products whose rows start anywhere: a prior pass lays the operands out with whole vectors and whole tiles of k.

Single elements cost a product a third of its time, the pass what moving the copies takes. Neither operand is turned.
"""

from functools import cache
from typing import NamedTuple

from ...program import Caps, Program, Step
from ..layout import spread
from ..text.numbers import packed
from ..text.render import render_program
from . import tiles
from .product import Matrix, Product

ODD = 1.15  # what reading an operand element by element adds to the time of a tile
DEPTH = 32  # k is padded to a multiple of it: whole tiles, also of two teams
THREADS = 256


class Padded(NamedTuple):
    product: Product  # over the padded operands
    classes: str
    step: Step
    work: dict[str, int]  # elements of the operands that are copied, by their name


def odd(classes: str) -> int:
    """How many operands are read element by element."""
    return sum(c in "KR" for c in classes)


def serves(q: Product, classes: str) -> bool:
    return odd(classes) > 0 and q.a.dtype.size == 4 and not q.gather and not q.blocks and not q.summed


def padded(q: Product, classes: str, caps: Caps) -> Padded | None:
    """Both operands, or only the one that needs it where k is whole already; None where a copy passes a binding."""
    depth = -(-q.k // DEPTH) * DEPTH
    changed, words, work, groups = {}, [], {}, 0
    for name, x, rows, order in (("a", q.a, q.m, classes[0]), ("b", q.b, q.n, classes[1])):
        if order in "kr" and depth == q.k:
            continue
        if order in "kK":
            lines, width, apart, along, height, wide = rows, q.k, x.row, x.col, rows, depth
        else:
            lines, width, apart, along, height, wide = q.k, rows, x.col, x.row, depth, -(-rows // 4) * 4
        inner, outer = q.inner if x.inner else 1, q.outer if x.outer else 1
        size = height * wide
        work[name] = outer * inner * size
        if work[name] * 4 > caps.max_binding:
            return None
        here = -(-work[name] // (4 * THREADS))
        words += [x.offset, x.outer, x.inner, inner, apart, along, lines, width, height, wide // 4]
        words += [work[name] // 4, here]
        groups += here
        strides = (depth, 1) if order in "kK" else (1, wide)
        changed[name] = Matrix(x.dtype, 0, *strides, size * inner if x.outer else 0, size if x.inner else 0)
    product = Product(
        q.m, q.n, depth, changed.get("a", q.a), changed.get("b", q.b), q.out, q.c, q.outer, q.inner, q.summed,
        q.alpha, q.beta, q.act, d=q.d, e=q.e,
    )  # fmt: skip
    names = "".join(work)
    bindings = (*names, *(f"p{x}" for x in names))
    step = Step(_program(names, caps), packed(words), spread(groups, caps), bindings)
    return Padded(product, classes.lower(), step, work)


def cost(found: Padded) -> float:
    """Microseconds of the pass."""
    table = tiles.tuning()
    return table.launch + 8 * sum(found.work.values()) / table.bandwidth


@cache
def _program(names: str, caps: Caps) -> Program:
    own = ("o", "b", "i", "inner", "apart", "along", "lines", "width", "height", "wide", "total", "groups")
    bindings = [(x, "read", "array<u32>") for x in names]
    bindings += [(f"p{x}", "read_write", "array<vec4<u32>>") for x in names]
    return render_program(
        f"matmul_pad_{names}", "matmul/padded.wgsl", [f"{x}_{f}" for x in names for f in own], bindings, caps,
        names=names, threads=THREADS,
    )  # fmt: skip
