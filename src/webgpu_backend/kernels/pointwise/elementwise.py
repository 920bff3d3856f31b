"""Elementwise kernels: one expression over any dtypes, layouts and broadcasts."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

from ...dtypes import UINT32, DType
from ...program import Caps, Program, Step
from ..layout import View, broadcast_strides, collapse, contiguous_strides, grid, numel, order_by, spread
from ..text import elements
from ..text.numbers import packed
from . import text
from .text import TILE, Packers, Spec, Walk

__all__ = ["Recipe", "Spec", "plan"]

# Bytes from which every second call that walks memory straight on walks it backwards: what the one before touched last
# is in the cache. An H200 (50 MB of it) gains 7 % with operands of 128 MiB, 3 % with 256.
TURNED = 32 << 20
# Bytes from which a software adapter copies memory by a command: it takes a quarter of the time of a kernel.
MOVED = 64 << 10


class Recipe(NamedTuple):
    """What a dispatch computes: enough to plan it again as part of another."""

    spec: Spec
    compute: DType
    inputs: tuple[View | None, ...]
    output: View
    owned: bool
    length: int  # of the parameters before the scalars


def plan(
    spec: Spec,
    compute: DType,
    inputs: list[View | None],
    outputs: list[View],
    owned: list[bool],
    aliases: list[int | None],
    caps: Caps,
) -> tuple[Step, Packers]:
    """Plans one call: the step over the tensors among the inputs and then the outputs, and what packs the numbers that
    follow its parameters. An input of None is a number. `owned[k]`: padding after output k may be written.
    `aliases[i]`: the output that shares input i's buffer and layout, bound once.
    """
    moved = None
    if spec.name == "copy" and spec.source == "a":
        inputs, outputs = _as_words(inputs[0], outputs[0], owned[0])
        compute = outputs[0].dtype
        moved = None if aliases[0] is not None else _moved(inputs[0], outputs[0], caps)
    slots = tuple([i for i, v in enumerate(inputs) if v is None])
    tensors = [i for i, v in enumerate(inputs) if v is not None]
    shared = [aliases[i] for i in tensors]
    laid = _Laid([inputs[i] for i in tensors], outputs, owned, shared, caps)
    program, packers = text.render(spec, compute, laid.walk, slots, tuple(aliases), caps)
    params, groups = packed(laid.words()), laid.grid()
    bound = [k for k, alias in enumerate(shared) if alias is None] + [*range(len(tensors), len(laid.views))]
    recipe = None
    if len(outputs) == 1 and not any(a is not None for a in aliases):
        recipe = Recipe(spec, compute, tuple(inputs), outputs[0], owned[0], len(params))
    step = Step(program, params, groups, tuple(bound), turned=laid.turned(groups), meaning=recipe, moved=moved)
    if moved is not None:
        step.program = _mover(program)
    return step, packers


class _Laid:
    """Operands in the order of the first output's memory, in the fewest dimensions, and how each is walked."""

    def __init__(self, inputs: list[View], outputs: list[View], owned: list[bool], shared: list, caps: Caps):
        self.caps = caps
        self.views = inputs + outputs
        shape = outputs[0].sizes
        order = order_by(shape, outputs[0].strides)
        strides = [[broadcast_strides(v, shape)[d] for d in order] for v in self.views]
        self.dims, self.strides = collapse([shape[d] for d in order], strides)
        self.n, rank = numel(self.dims), len(self.dims)
        self.linear = list(contiguous_strides(self.dims[::-1]))[::-1]
        self.inner4 = rank > 1 and self.dims[0] % 4 == 0
        count = len(inputs)
        modes = [self._input_mode(k) for k in range(count)]
        modes += [self._output_mode(count + k, owned[k]) for k in range(len(outputs))]
        for k, alias in enumerate(shared):
            if alias is not None:
                modes[k] = modes[count + alias]
        crossed = any(m == "e" and rank > 1 and 0 < st[1] < st[0] for st, m in zip(self.strides, modes))
        tiled = caps.kind == "gpu" and self.inner4 and crossed
        self.walk = Walk(tuple([v.dtype for v in self.views]), "".join(modes), rank, self.inner4, tiled)

    def _linear(self, k: int) -> bool:
        """Its elements lie one behind the other, from a whole group of four on."""
        return self.strides[k] == self.linear and self.views[k].offset % 4 == 0

    def _vector(self, k: int) -> bool:
        """Its neighbours along the inner dimension are whole groups of four."""
        strides = self.strides[k]
        aligned = self.views[k].offset % 4 == 0 and all(s % 4 == 0 for s in strides[1:])
        return strides[0] == 1 and aligned and (self.inner4 or len(self.dims) == 1)

    def _input_mode(self, k: int) -> str:
        if all(s == 0 for s in self.strides[k]):
            return "c"
        if self._linear(k):
            return "l"
        if self._vector(k):
            return "v"
        return "s" if self.inner4 and self.strides[k][0] == 0 else "e"

    def _output_mode(self, k: int, owned: bool) -> str:
        whole = owned or self.n % 4 == 0
        if self._linear(k) and whole:
            return "l"
        if self._vector(k) and (self.inner4 or whole):
            return "v"
        return elements.element_mode(self.views[k].dtype, self.caps, written=True)

    def words(self, turn: int = 0) -> list[int]:
        """The parameters; `turn` is the workgroup to count back from."""
        words = [self.n, *([turn] if self.walk.reversible(self.caps) else []), *self.dims[:-1]]
        for view, mode, strides in zip(self.views, self.walk.modes, self.strides):
            if mode == "l":
                words.append(view.offset // 4)
            elif mode == "c":
                words.append(view.offset)
            elif mode == "v":
                words += [view.offset // 4, *(s // 4 for s in strides[1:])]
            else:
                words += [view.offset, *strides]
        return words

    def grid(self) -> tuple[int, int, int]:
        if self.walk.tiled:
            return spread(-(-self.dims[0] // TILE) * -(-self.dims[1] // TILE) * numel(self.dims[2:]), self.caps)
        threads, groups = self.walk.threads(self.caps)
        return grid(-(-self.n // (4 * groups)), self.caps, threads)

    def turned(self, groups: tuple[int, int, int]) -> bytes | None:
        """The parameters that walk memory backwards, where that is worth it."""
        nbytes = self.n * sum(v.dtype.size for v, m in zip(self.views, self.walk.modes) if m == "l")
        if not self.walk.reversible(self.caps) or nbytes < TURNED:
            return None
        return packed(self.words(turn=groups[0] * groups[1] - 1))


def _as_words(source: View, target: View, owned: bool) -> tuple[list[View], list[View]]:
    """A plain copy of packed elements, or of pairs of words, moves words where both views are one run of memory in the
    same order: a thread then has sixteen bytes in place of four elements."""
    item, n = target.dtype.size, numel(target.sizes)
    as_they_are = [source], [target]
    if not (target.dtype.packed or item >= 8) or not _same_run(source, target) or not (n * item % 4 == 0 or owned):
        return as_they_are
    if source.offset * item % 4 or target.offset * item % 4:
        return as_they_are
    words = (-(-n * item // 4),)
    source, target = (View(UINT32, words, (1,), v.offset * item // 4) for v in (source, target))
    return [source], [target]


def _same_run(source: View | None, target: View) -> bool:
    """Both views are one run of memory, in the same order."""
    if source is None or source[:3] != target[:3]:
        return False
    walk = order_by(target.sizes, target.strides)
    dims, strides = collapse([target.sizes[d] for d in walk], [[target.strides[d] for d in walk]])
    return len(dims) <= 1 and (numel(target.sizes) == 1 or strides[0][0] == 1)


def _moved(source: View | None, target: View, caps: Caps) -> tuple[int, int, int] | None:
    """What a command could copy in the place of a kernel, where that is faster."""
    nbytes = numel(target.sizes) * target.dtype.size
    if caps.kind == "gpu" or nbytes < MOVED or target.dtype.size % 4 or not _same_run(source, target):
        return None
    return source.offset * target.dtype.size, target.offset * target.dtype.size, nbytes


@cache
def _mover(program: Program) -> Program:
    """The same text for steps that a command may do: programs that the queue finds compiled it does dispatch."""
    return replace(program)
