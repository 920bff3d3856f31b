"""The tuning table of matrix products: tiles by adapter class, and what a product costs with each.

`python -m benchmarks.tune` measures the rows for an adapter and writes them to a file that `WEBGPU_TUNING` names.
"""

import json
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from ... import env
from ...program import Caps


class Tile(NamedTuple):
    """A row of the tuning table. `bk` 0: no workgroup memory, each thread reads for itself."""

    bm: int  # rows of the output per workgroup (per thread without workgroup memory)
    bn: int
    bk: int  # depth of the tile in workgroup memory
    tm: int  # rows and columns per thread
    tn: int
    warp: int = 4  # of 32 threads that run together, how many lie along the rows
    twist: int = 0  # 1: rows of a turned tile are spread over the banks, from 32 rows; 2: and turned four at once
    slices: int = 1  # teams of threads in a workgroup, each with a part of k; a power of two
    rate: float = 1.0  # TFLOP/s of the adapter when it is full
    alone: float = 1.0  # time of a workgroup that has its unit to itself, over its share of a full one


class UnitTile(NamedTuple):
    """A row of the tuning table for matrix units."""

    bm: int  # rows and columns of the output per workgroup, and depth of the tile in workgroup memory
    bn: int
    bk: int
    wm: int  # rows and columns of the output per subgroup
    wn: int
    stages: int = 1  # tiles in workgroup memory; of two, one is filled while the other is used
    rate: float = 1.0
    alone: float = 1.0

    @property
    def twist(self) -> int:
        return 0

    @property
    def slices(self) -> int:
        return 1


@dataclass(frozen=True)
class Tuning:
    units: int  # workgroups that run without sharing anything
    tiles: tuple[Tile, ...]
    halves: tuple[Tile, ...]  # with sums of a few products in f16, where the adapter has it
    launch: float  # microseconds of one more dispatch, which waits for the one before
    bandwidth: float  # bytes a microsecond
    matrices: tuple[UnitTile, ...] = ()  # where the adapter has matrix units


# Measured on a card of 132 units; what differs between cards is mostly the scale of all rates, which changes no choice.
GPU = Tuning(
    132,
    (
        Tile(128, 256, 16, 8, 16, twist=1, rate=46.5, alone=1.02),
        Tile(128, 64, 16, 8, 8, twist=2, rate=44.5, alone=1.25),
        Tile(128, 64, 16, 8, 8, twist=1, slices=2, rate=38.6, alone=1.03),
        Tile(64, 64, 32, 8, 4, twist=1, rate=41.4, alone=1.5),
        Tile(32, 32, 16, 4, 4, rate=29.0, alone=2.5),
        Tile(32, 32, 16, 4, 4, slices=4, rate=27.7, alone=1.5),
        Tile(16, 16, 16, 4, 4, slices=16, rate=11.5, alone=2.4),
    ),
    (Tile(128, 128, 32, 8, 4, rate=72.3, alone=1.0), Tile(64, 64, 32, 8, 4, rate=70.5, alone=1.5)),
    10.0,
    3e6,
    # Not measured: the rates are guesses.
    (
        UnitTile(128, 128, 32, 64, 32, rate=200.0),
        UnitTile(64, 64, 64, 32, 32, rate=120.0, alone=1.5),
        UnitTile(32, 64, 64, 16, 32, rate=60.0, alone=2.0),
        UnitTile(16, 64, 64, 16, 16, rate=30.0, alone=2.0),
    ),
)
# Without workgroup memory, largest first. The first tile with enough threads is taken.
CPU = (Tile(16, 8, 0, 16, 8), Tile(8, 8, 0, 8, 8), Tile(4, 8, 0, 4, 8), Tile(1, 8, 0, 1, 8))
LEAST = Tile(32, 32, 16, 4, 4)  # for a table of which no row fits
# Types that no vector instruction serves: a small tile of scalars per thread.
WIDE = Tile(2, 4, 0, 2, 4)


# What is measured, for an adapter's table or for a product of a graph that asks for it.
CANDIDATES = (
    Tile(128, 256, 16, 8, 16, twist=1),
    Tile(128, 128, 16, 8, 8, twist=1),
    Tile(128, 64, 16, 8, 8, twist=2),
    Tile(128, 64, 16, 8, 8, twist=1),
    Tile(128, 64, 16, 8, 8, twist=1, slices=2),
    Tile(128, 128, 8, 8, 8),
    Tile(128, 64, 16, 8, 4, twist=1),
    Tile(64, 64, 32, 8, 4, twist=1),
    Tile(64, 64, 16, 8, 4),
    Tile(64, 64, 16, 4, 4),
    Tile(32, 32, 16, 4, 4),
    Tile(32, 32, 16, 4, 4, slices=4),
    Tile(16, 16, 16, 4, 4, slices=16),
    Tile(16, 16, 16, 4, 4, slices=8),
)
HALVES = (
    Tile(128, 128, 32, 8, 4),
    Tile(128, 64, 32, 8, 4),
    Tile(64, 64, 32, 8, 4),
    Tile(64, 64, 16, 8, 4),
)


MATRICES = tuple([
    UnitTile(*sizes, stages)
    for sizes in (
        (128, 256, 32, 64, 64), (256, 128, 32, 64, 64), (128, 128, 64, 64, 32), (128, 128, 32, 64, 64),
        (128, 128, 32, 64, 32), (128, 128, 16, 64, 32), (128, 64, 32, 64, 32), (128, 64, 64, 32, 32),
        (64, 128, 64, 32, 64), (64, 64, 64, 32, 32), (64, 64, 32, 32, 32), (32, 128, 64, 32, 32),
        (32, 64, 64, 16, 32), (16, 128, 64, 16, 32), (16, 64, 64, 16, 16), (16, 64, 128, 16, 16),
    )
    for stages in (1, 2)
])  # fmt: skip


KNOWN = {
    "tiles": (*CANDIDATES, *GPU.tiles), "halves": (*HALVES, *GPU.halves), "matrices": (*MATRICES, *GPU.matrices),
}  # fmt: skip
_used: Tuning | None = None


def tuning() -> Tuning:
    """The rows of the file that `WEBGPU_TUNING` names, or the built-in ones."""
    global _used
    if _used is None:
        _used = GPU
        if env.TUNING:
            try:
                with open(env.TUNING, encoding="utf-8") as file:
                    _used = from_json(json.load(file))
            except (OSError, ValueError, KeyError, TypeError) as error:
                what = f"{type(error).__name__}: {error}"
                env.tell(f"WEBGPU_TUNING={env.TUNING!r} is no such file of rows ({what}); the built-in ones are taken")
    return _used


def use(table: Tuning | None) -> None:
    """Replaces the table for the plans made from now on; None goes back to the usual one."""
    global _used
    _used = table


def every() -> Tuning:
    """The table, and behind its rows, whose speed is known, what else could be measured."""
    table = tuning()
    rows = {"tiles": CANDIDATES, "halves": HALVES, "matrices": MATRICES}
    return replace(table, **{name: _and(getattr(table, name), others) for name, others in rows.items()})


def _and(rows: tuple, others: tuple) -> tuple:
    known = {shape(tile) for tile in rows}
    return (*rows, *(tile for tile in others if tile not in known))


def from_json(rows: dict) -> Tuning:
    """ValueError, KeyError or TypeError for what `benchmarks.tune` does not write: kernels trust a tile."""
    lists: dict[str, tuple] = {name: tuple(Tile(**row) for row in rows[name]) for name in ("tiles", "halves")}
    lists["matrices"] = tuple(UnitTile(**row) for row in rows.get("matrices", ()))
    table = Tuning(rows["units"], **lists, launch=rows["launch"], bandwidth=rows["bandwidth"])
    measured = [x for some in lists.values() for tile in some for x in (tile.rate, tile.alone)]
    if not all(math.isfinite(x) and x > 0 for x in (table.units, table.launch, table.bandwidth, *measured)):
        raise ValueError("a rate or a time is no positive number")
    for name, known in KNOWN.items():
        if unknown := {shape(tile) for tile in lists[name]} - {shape(tile) for tile in known}:
            raise ValueError(f"{min(unknown)} is not among the tiles that are measured")
    return table


def shape(tile):
    return tile._replace(rate=1.0, alone=1.0)


def to_json(table: Tuning) -> dict:
    rows = {name: [row._asdict() for row in getattr(table, name)] for name in KNOWN}
    return {"units": table.units, **rows, "launch": table.launch, "bandwidth": table.bandwidth}


def fits(tile: Tile, caps: Caps) -> bool:
    nty, ntx = tile.bm // tile.tm, tile.bn // tile.tn
    across = min(nty * ntx, 32) // tile.warp
    stored = tile.slices * tile.bk * (tile.bm + tile.bn) * 4  # of halves two tiles
    whole = tile.warp % 2 == 0 and nty % tile.warp == 0 and across and ntx % across == 0
    # Threads move whole vectors of four; teams hand over whole rows.
    whole = whole and all(x * tile.bk % (4 * nty * ntx) == 0 for x in (tile.bm, tile.bn))
    whole = whole and (tile.slices == 1 or 2 * tile.bk * tile.tm >= tile.bn)
    return bool(whole) and nty * ntx * tile.slices <= caps.workgroup_size and stored <= caps.workgroup_bytes


SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
SPLIT_DEPTH = 128  # a split of k is at least this long


def cost(tile: Tile, parts: int, m: int, n: int, k: int, batch: int) -> float:
    """Microseconds: waves of workgroups, and the sums of the parts that k is cut into."""
    table = tuning()
    groups = batch * -(-m // tile.bm) * -(-n // tile.bn) * parts
    waves = -(-groups // table.units)
    waves += (tile.alone - 1) / waves  # a few workgroups a unit do not fill it either
    time = waves * 2.0 * tile.bm * tile.bn * -(-k // parts) * table.units / (tile.rate * 1e6)
    return time if parts == 1 else time + table.launch + parts * batch * m * n * 8 / table.bandwidth


def choose(rows, m: int, n: int, k: int, batch: int, most: int = 64) -> tuple[float, Tile, int]:
    """Microseconds, tile and parts of k that should take the least time."""
    parts = [s for s in SPLITS if s == 1 or (s <= most and k >= s * SPLIT_DEPTH)]
    return min((cost(tile, s, m, n, k, batch), tile, s) for tile in rows for s in parts)
