"""Products of few rows, bound by reading the other operand once: how threads lie over it, and meet at the end."""

from typing import NamedTuple

from ...program import Caps
from ..quantized.formats import PIECE
from .product import Product

ROWS = 8  # most rows; above, tiles in workgroup memory are faster
LEAST = 64  # of k
SPLIT = (128, 8192)  # workgroups that fill the adapter, and the least share of k worth a second pass
FEW = 256  # workgroups of narrow weights along k that leave the adapter room
DEEP = (4, 512)  # pieces of k that a thread should have, where so many workgroups are left


class Lay(NamedTuple):
    """Threads as [teams][along_n][along_k], each with `wide` columns and `unroll` pieces of k under way."""

    wide: int
    along_k: int  # at most 8, the least subgroup of GPUs
    along_n: int
    teams: int
    unroll: int
    ahead: bool = False  # the next pieces are read before these are multiplied

    @property
    def threads(self) -> int:
        return self.along_k * self.along_n * self.teams

    @property
    def columns(self) -> int:
        return self.wide * self.along_n

    def bytes(self, rows: int) -> int:
        """Of workgroup memory, where subgroups add up."""
        return 4 * rows * self.teams * self.columns


# By how b is read: eight or four elements at once along k (8, k) or along the columns (o, r), single ones (K, R),
# quantised (q); then by rows, up to so many. Measured on a card of 132 units: one or two rows want reads under way,
# more rows to multiply meanwhile, and columns 64 bytes side by side.
LAYS = {
    "8": {2: Lay(4, 8, 1, 16, 2), 4: Lay(4, 8, 2, 8, 2), 8: Lay(4, 8, 2, 8, 1, True)},
    "k": {1: Lay(1, 8, 4, 8, 4), 2: Lay(2, 8, 2, 8, 4), 4: Lay(4, 8, 1, 16, 1, True), 8: Lay(4, 8, 1, 8, 1, True)},
    "o": {4: Lay(8, 4, 4, 32, 4), 8: Lay(8, 4, 4, 16, 4, True)},
    "r": {1: Lay(4, 4, 4, 16, 4), 2: Lay(4, 4, 8, 16, 8), 4: Lay(4, 8, 4, 16, 4, True), 8: Lay(4, 4, 4, 16, 4, True)},
    "K": {8: Lay(4, 8, 1, 8, 4)},
    "R": {2: Lay(2, 4, 8, 16, 8), 8: Lay(4, 4, 8, 16, 4, True)},
    "q": {1: Lay(4, 8, 1, 8, 2), 2: Lay(4, 8, 1, 8, 2), 8: Lay(4, 8, 1, 8, 1)},
}
UNITS = {"8": 8, "k": 4, "q": PIECE}  # elements of a piece
WAYS = {"8": "k", "k": "k", "o": "r", "r": "r", "K": "e", "R": "r", "q": "q"}


def serves(q: Product, caps: Caps) -> bool:
    return caps.kind == "gpu" and q.m <= ROWS and q.k >= LEAST and not q.summed and not q.gather


def lay(b_class: str, rows: int, n: int, k: int, caps: Caps) -> Lay:
    """The table's row, as far as the adapter allows it: on half the columns where there would be few workgroups, and
    with twice the threads where there still are and k is long; on more columns where k is short, since adding up costs
    a thread of two pieces what it costs one of twenty."""
    found = next(x for most, x in LAYS[b_class].items() if rows <= most)
    few = FEW if b_class == "8" else SPLIT[0]
    if found.along_n > 1 and found.columns > 4 and -(-n // found.columns) < few:
        found = found._replace(along_n=found.along_n // 2, teams=found.teams * 2)
    if b_class in UNITS:
        pieces, (least, groups) = k // UNITS[b_class], DEEP
        while found.teams > 1 and pieces < least * found.along_k * found.teams and n >= 2 * groups * found.columns:
            found = found._replace(along_n=found.along_n * 2, teams=found.teams // 2)
        if b_class == "8" and n <= FEW * found.columns and pieces >= least * found.along_k * found.teams:
            found = found._replace(teams=found.teams * 2)
    while found.threads > caps.workgroup_size or found.bytes(rows) > caps.workgroup_bytes:
        found = found._replace(teams=found.teams // 2)
    return found


def classes(q: Product, a_class: str, b_class: str) -> tuple[str, str]:
    """How the operands are read; one whose pieces the other's do not fit is read one by one."""
    if b_class == "q":
        return a_class, b_class
    octets = q.a.dtype.name in ("float16", "bfloat16")
    if b_class == "k" and a_class == "k":
        octets = octets and q.k % 8 == 0 and _whole(q.a, q.a.row) and _whole(q.b, q.b.row)
        return ("8", "8") if octets else ("k", "k")
    if b_class in "rR":
        octets = octets and b_class == "r" and q.n % 8 == 0 and _whole(q.b, q.b.col)
        return a_class if a_class == "k" else a_class.upper(), "o" if octets else b_class
    return a_class.upper(), b_class.upper()


def _whole(x, apart: int) -> bool:
    return all(v % 8 == 0 for v in (x.offset, apart, x.outer, x.inner))


class Folding(NamedTuple):
    """Lines that add up the sums of `along_k` neighbours, and what each then holds: `values`, from the sum numbered
    `place`, where the thread's number and `spare` have no bit in common."""

    lines: list[str]
    values: list[str]
    spare: int


def folding(names: list[str], along_k: int) -> Folding:
    """At each step a thread gives one half of its sums to its partner and takes the other: no sum is added up twice."""
    lines, places, spare, mask = [], ["0u"], 0, along_k // 2
    while mask:
        made = [f"f{mask}_{i}" for i in range(max(1, len(names) // 2))]
        if len(names) > 1:
            half = len(names) // 2
            lines.append(f"let upper{mask} = (lid & {mask}u) != 0u;")
            places.append(f"select(0u, {half}u, upper{mask})")
            for to, x, y in zip(made, names[:half], names[half:]):
                kept, given = f"select({x}, {y}, upper{mask})", f"select({y}, {x}, upper{mask})"
                lines.append(f"let {to} = {kept} + subgroupShuffleXor({given}, {mask}u);")
        else:
            spare |= mask
            lines.append(f"let {made[0]} = {names[0]} + subgroupShuffleXor({names[0]}, {mask}u);")
        names, mask = made, mask // 2
    lines.append(f"let place = {' + '.join(places)};")
    return Folding(lines, names, spare)


def names(lay: Lay, rows: int, b_class: str, caps: Caps) -> dict:
    """What the template asks for besides the operands."""
    fold = lay.along_k > 1 and caps.subgroups
    found = Folding([], [], 0)
    parts, at_once = lay.teams * lay.along_k, rows
    if fold:
        found = folding([f"c{i}_{j}" for i in range(rows) for j in range(lay.wide)], lay.along_k)
        parts = lay.teams
    while parts * at_once * lay.columns * 4 > min(caps.workgroup_bytes, 16 << 10) and at_once > 1 and not fold:
        at_once //= 2
    near, apart = (1, lay.along_n) if b_class == "R" else (lay.wide, 1)
    return dict(
        l=lay, rows=rows, near=near, apart=apart, way=WAYS[b_class], parts=parts, at_once=at_once,
        folding=found.lines, folded=found.values, spare=found.spare,
    )  # fmt: skip
