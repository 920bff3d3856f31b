"""The one cache of plans: a table for each operator, all for the world as it is.

A plan depends on its call's metadata, which is its key, and on what no call shows: the adapter's capabilities, torch's
default dtype, whether algorithms must be deterministic. Those are the world. When it changes, every table is put aside
and those of the other world are taken out again.
"""

from collections import deque

from ..runtime import budget
from ..runtime.gpu import on_caps

_WORLDS = 4


class Table(dict):
    """The plans of one operator, by key."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name


class Cache:
    def __init__(self):
        self.most = budget.plans("cpu")  # plans, each counted once and once more for every eight steps
        self.tables: list[Table] = []
        self._marks: list[set | dict] = []
        self.world: dict[str, object] = {}
        self.size = 0
        self.evicted = 0
        self._order: deque = deque()
        self._aside: dict[tuple, tuple] = {}

    def table(self, name: str) -> Table:
        """A new table, which the cache empties when it must."""
        table = Table(name)
        self.tables.append(table)
        return table

    def marks(self) -> set:
        """A new set of keys, which is emptied where plans are forgotten or put aside."""
        self._marks.append(set())
        return self._marks[-1]

    def notes(self) -> dict:
        """A new dictionary of what was found out beside plans, emptied likewise."""
        self._marks.append({})
        return self._marks[-1]

    def keep(self, table: Table, key: tuple, plan) -> None:
        """Puts a plan into its table; the oldest ones make room for it."""
        weight = 1 + len(plan.steps) // 8
        table[key] = plan
        self.size += weight
        self._order.append((table, key, plan, weight))
        self._trim()

    @property
    def held(self) -> int:
        """Plans of all worlds, counted as in `most`."""
        return self.size + sum([size for _, _, size in self._aside.values()])

    def _trim(self) -> None:
        while self._aside and self.held > self.most:
            del self._aside[next(iter(self._aside))]
        while self.size > self.most:
            old, key, plan, weight = self._order.popleft()
            self.size -= weight
            self.evicted += 1
            if old.get(key) is plan:
                del old[key]

    def clear(self) -> None:
        """Forgets every plan, in this world and in others."""
        self._empty()
        self._order.clear()
        self._aside.clear()
        self.size = 0

    def _empty(self) -> None:
        for some in (*self.tables, *self._marks):
            some.clear()

    def change(self, **facts) -> None:
        """The world has changed."""
        after = {**self.world, **facts}
        if after == self.world:
            return
        before = tuple(self.world.items())
        if self.size:
            if len(self._aside) >= _WORLDS:
                del self._aside[next(iter(self._aside))]
            self._aside[before] = ([(t, dict(t)) for t in self.tables if t], self._order, self.size)
        self._empty()
        self.world = after
        found = self._aside.pop(tuple(after.items()), ([], deque(), 0))
        for table, plans in found[0]:
            table.update(plans)
        self._order, self.size = found[1:]

    def __len__(self) -> int:
        return sum(map(len, self.tables))


cache = Cache()


def _new_caps(index: int, caps) -> None:
    cache.most = budget.plans(caps.kind)
    cache.change(**{f"caps{index}": caps})


on_caps.append(_new_caps)
