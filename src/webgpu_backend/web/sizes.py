"""Sizes that a page chooses at run time: the call is planned for every size of the declared ranges, and what differs
between plans of the same steps is written as a formula of the sizes, or as a list where no formula gives it exactly.

Nothing is guessed: a formula stands for numbers that were all planned and compared with it.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product

import torch

from .recording import ExportError

MOST = 1024  # sizes that are planned for one function


class Sizes:
    """The ranges of a function's dynamic sizes, and which dimensions of its inputs they are."""

    def __init__(self, names: list[str], inputs: dict[str, torch.Tensor], declared):
        self.ranges: dict[str, tuple[int, int]] = {}
        self.places: dict[str, dict[int, str]] = {}
        if isinstance(declared, (list, tuple)):
            declared = dict(zip(names, declared))
        for name, dims in (declared or {}).items():
            if dims is None:
                continue
            if name not in inputs:
                raise ExportError(f"webgpu export: dynamic_shapes names {name!r}; the inputs are {', '.join(inputs)}")
            self.places[name] = {d: self._range(dim) for d, dim in _items(dims) if dim is not None}
        if self.count > MOST:
            raise ExportError(
                f"webgpu export: the dynamic sizes have {self.count} combinations, each of which is planned; {MOST} "
                "are the most. Give the dimensions narrower ranges (torch.export.Dim(name, min=, max=))"
            )
        for name, tensor in inputs.items():
            for d, size in self.places.get(name, {}).items():
                low, high = self.ranges[size]
                if not low <= tensor.shape[d] <= high:
                    raise ExportError(
                        f"webgpu export: dimension {d} of {name!r} is {tensor.shape[d]}, outside {size}'s range "
                        f"{low} to {high}"
                    )

    def _range(self, dim) -> str:
        name, low, high = getattr(dim, "__name__", None), getattr(dim, "min", None), getattr(dim, "max", None)
        if name is None or high is None or high > 1 << 20:
            raise ExportError(f"webgpu export: {dim!r} is no torch.export.Dim with a largest size (max=)")
        found = (max(int(low or 1), 1), int(high))
        if self.ranges.setdefault(name, found) != found:
            raise ExportError(f"webgpu export: the size {name!r} is declared with two ranges")
        return name

    @property
    def count(self) -> int:
        total = 1
        for low, high in self.ranges.values():
            total *= high - low + 1
        return total

    def points(self) -> Iterator[tuple[int, ...]]:
        """Every combination, the last size quickest."""
        return product(*[range(low, high + 1) for low, high in self.ranges.values()])

    def index(self, point: tuple[int, ...]) -> int:
        """The place of a combination among all."""
        at = 0
        for size, (low, high) in zip(point, self.ranges.values()):
            at = at * (high - low + 1) + size - low
        return at

    def example(self, inputs: dict[str, torch.Tensor]) -> tuple[int, ...]:
        """The sizes that these inputs have."""
        found = {size: inputs[n].shape[d] for n, dims in self.places.items() for d, size in dims.items()}
        return tuple([found[size] for size in self.ranges])

    def inputs(self, inputs: dict[str, torch.Tensor], point: tuple[int, ...]) -> dict[str, torch.Tensor]:
        """Tensors that look like the inputs, of these sizes."""
        sizes, found = dict(zip(self.ranges, point)), {}
        for name, tensor in inputs.items():
            dims = self.places.get(name)
            shape = [sizes[dims[d]] if dims and d in dims else s for d, s in enumerate(tensor.shape)]
            found[name] = tensor if not dims else torch.empty(shape, dtype=tensor.dtype, device="meta")
        return found

    def shape(self, name: str, shape: tuple[int, ...]) -> list:
        dims = self.places.get(name, {})
        return [dims.get(d, s) for d, s in enumerate(shape)]


def _items(dims):
    return dims.items() if isinstance(dims, Mapping) else enumerate(dims)


class Merged:
    """Descriptions of one plan at several sizes as one: numbers that differ become {"n": place in `numbers`}."""

    def __init__(self, points: list[tuple[int, ...]]):
        self.points = points
        self.numbers: list[dict] = []
        self._known: dict[tuple, int] = {}

    def of(self, all_: list):
        first = all_[0]
        if isinstance(first, dict):
            return {key: self.of([one[key] for one in all_]) for key in first}
        if isinstance(first, list):
            return [self.of([one[i] for one in all_]) for i in range(len(first))]
        if all(one == first for one in all_):
            return first
        return {"n": self._number(tuple(all_))}

    def _number(self, values: tuple) -> int:
        if values not in self._known:
            self._known[values] = len(self.numbers)
            found = formula(self.points, values)
            self.numbers.append({"list": list(values)} if found is None else {"sum": found})
        return self._known[values]


def formula(points: list[tuple[int, ...]], values: tuple[int, ...]) -> list | None:
    """[coefficient, exponent of each size] whose sum is every value exactly; None where there is none."""
    dims = len(points[0])
    terms = [e for e in product(range(3), repeat=dims) if sum(e) <= 2]
    rows = [[Fraction(_power(p, e)) for e in terms] for p in points]
    solved = _solved(rows, [Fraction(v) for v in values])
    if solved is None or any(c.denominator != 1 for c in solved):
        return None
    found = [[int(c), list(e)] for c, e in zip(solved, terms) if c]
    fits = all(sum(c * _power(p, e) for c, e in found) == v for p, v in zip(points, values))
    return found if fits and all(abs(c) < 1 << 31 for c, _ in found) else None


def _power(point: tuple[int, ...], exponents) -> int:
    total = 1
    for size, e in zip(point, exponents):
        total *= size**e
    return total


def _solved(rows: list, values: list) -> list | None:
    """Coefficients that fit as many independent points as there are unknowns; those that nothing determines are 0."""
    unknowns = len(rows[0])
    kept: list[tuple[int, list]] = []  # pivot and row, eliminated
    for row, value in zip(rows, values):
        row = [*row, value]
        for pivot, other in kept:
            if row[pivot]:
                factor = row[pivot]
                row = [a - factor * b for a, b in zip(row, other)]
        pivot = next((i for i in range(unknowns) if row[i]), None)
        if pivot is None:
            if row[-1]:
                return None
            continue
        scale = row[pivot]
        row = [a / scale for a in row]
        kept = [(p, [a - r[pivot] * b for a, b in zip(r, row)] if r[pivot] else r) for p, r in kept]
        kept.append((pivot, row))
    found = [Fraction(0)] * unknowns
    for pivot, row in kept:
        found[pivot] = row[-1]
    return found
