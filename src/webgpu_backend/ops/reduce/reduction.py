"""Reductions over tensors: one or two dispatches, or parts of what passes one binding."""

from dataclasses import replace

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.layout import View, contiguous_strides, numel
from ...kernels.pointwise.elementwise import Spec as PointwiseSpec
from ...kernels.reduce import reduction
from ...plan import caps, launch
from ...runtime.errors import BindingTooLarge
from ..pointwise.elementwise import Elementwise
from ..table import Pointwise


def normal_dims(dim, rank: int) -> tuple[int, ...]:
    """Dimensions as torch accepts them: None or () is all of them, negative ones count from the end."""
    if rank > 64:
        raise RuntimeError("only tensors with up to 64 dims are supported")
    if dim is None:
        return tuple(range(rank))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    if not given:
        return tuple(range(rank))
    low, high = -max(rank, 1), max(rank, 1) - 1
    found = []
    for d in given:
        if not low <= d <= high:
            raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but got {d})")
        d = d + max(rank, 1) if d < 0 else d
        if d in found:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
        found.append(d)
    return tuple(found) if rank else ()


def _strided(x: torch.Tensor, dims: tuple[int, ...]) -> bool:
    """Whether neighbours along the reduced dimensions are further apart than neighbours across them."""
    steps = [(st, d in dims) for d, (s, st) in enumerate(zip(x.shape, x.stride())) if s > 1]
    return bool(steps) and not min(steps, key=lambda step: (step[0], not step[1]))[1]


def _kept(shape, dims) -> tuple[int, ...]:
    """The shape with 1 in the reduced dimensions."""
    return tuple([1 if d in dims else s for d, s in enumerate(shape)])


class Reduction:
    """A spec ready to be called. `empty` is the result of reducing nothing; None where torch refuses that."""

    def __init__(self, spec: reduction.Spec, empty=None):
        self.spec = spec
        self.empty = empty
        self._two_steps: tuple[Reduction, Elementwise] | None = None

    def __call__(self, inputs: tuple, dim, keepdim: bool, compute: torch.dtype, out: tuple, scalars: tuple = ()):
        """One tensor per result: `compute` and `out` are torch dtypes, `inputs` share a shape."""
        dims = normal_dims(dim, inputs[0].dim())
        results, _ = self._made(inputs, dims, keepdim, out, ())
        if not inputs[0].numel():
            return results
        try:
            self._launch(inputs, dims, compute, results, (), scalars)
        except BindingTooLarge:
            made = self._in_parts(inputs, dims, compute, out, scalars)
            results = tuple([new.view(r.shape) for new, r in zip(made, results)])
        return results

    def rewrite(self, inputs: tuple, dims: tuple[int, ...], compute: torch.dtype, out: tuple, maps: tuple, scalars=()):
        """Reduces rows and maps their elements: (results in keepdim shape, mapped tensors), contiguous.

        `out` may be shorter than the results: those left out are not stored.
        """
        shape = inputs[0].shape
        length = numel([shape[d] for d in dims])
        rows = numel(shape) // max(length, 1)
        if numel(shape) and not reduction.fused(rows, length, _strided(inputs[0], dims), caps()):
            return self._in_two_steps(inputs, dims, compute, out, maps, scalars)
        results, mapped = self._made(inputs, dims, True, out, maps)
        if numel(shape):
            try:
                self._launch(inputs, dims, compute, results, mapped, scalars)
            except BindingTooLarge:
                return self._in_two_steps(inputs, dims, compute, out, maps, scalars)
        return results, mapped

    def _made(self, inputs, dims, keepdim: bool, out, maps) -> tuple[tuple, tuple]:
        """Tensors for the results and the maps; the results of nothing are filled in."""
        shape = tuple(inputs[0].shape)
        sizes = _kept(shape, dims) if keepdim else tuple([s for d, s in enumerate(shape) if d not in dims])
        results = tuple([T.empty(sizes, dtype) for dtype in out])
        if not inputs[0].numel():
            for r in results:
                if r.numel():
                    r.fill_(self.empty)
        return results, tuple([T.empty(shape, dtype) for dtype in maps])

    def _launch(self, inputs, dims, compute, results, mapped, scalars) -> None:
        shape = tuple(inputs[0].shape)
        wide = _kept(shape, dims)
        views = [View(T.DTYPES[r.dtype], wide, contiguous_strides(wide)) for r in results]
        plan = reduction.plan(
            self.spec, T.DTYPES[compute], [T.view_of(x) for x in inputs], frozenset(dims), views,
            [T.view_of(x) for x in mapped], scalars, caps(),
        )  # fmt: skip
        launch(plan, *inputs, *results, *mapped)

    def _fitting(self, inputs: tuple, dims, limit: int) -> list[tuple]:
        """The inputs, halved along reduced dimensions until windows of all fit, in the order of their elements."""
        large = next((x for x in inputs if T.window_of(x, limit) is None), None)
        if large is None:
            return [inputs]
        several = [d for d in dims if large.shape[d] > 1]
        if not several:
            raise Unsupported(f"webgpu: {self.spec.name} of a tensor whose parts do not fit a binding")
        # Where places matter, parts are ranges of them: the outermost dimension goes first.
        dim = several[0] if self.spec.ordered else max(several, key=lambda d: (large.shape[d] - 1) * large.stride(d))
        half = large.shape[dim] // 2
        ends = ((0, half), (half, large.shape[dim] - half))
        halves = [tuple([x.narrow(dim, start, n) for x in inputs]) for start, n in ends]
        return [part for both in halves for part in self._fitting(both, dims, limit)]

    def _in_parts(self, inputs, dims, compute, out, scalars) -> list:
        """Inputs or results larger than one binding, in keepdim shape: states of parts that fit are finished
        together."""
        limit = caps().max_binding
        large = [x for x in inputs if T.window_of(x, limit) is None]
        shape, parts = inputs[0].shape, [inputs]
        kept = [d for d, s in enumerate(shape) if d not in dims and s > 1]
        rows = numel([shape[d] for d in kept])
        if not large and rows * max([d.itemsize for d in out]) > limit:
            return self._in_halves(max(kept, key=shape.__getitem__), inputs, dims, compute, out, scalars)
        if large:
            spans = [(s - 1) * st for s, st in zip(large[0].shape, large[0].stride())]
            first = spans.index(max(spans))
            nbytes = large[0].numel() * large[0].element_size()
            if kept and 16 * rows * -(-nbytes // limit) > limit:  # the states of the parts would not fit either
                first = max(kept, key=spans.__getitem__)
            if first not in dims:
                return self._in_halves(first, inputs, dims, compute, out, scalars)
            if self.spec.ordered and any(shape[d] > 1 for d in dims if d < first):
                return self._in_parts(tuple([x.contiguous() for x in inputs]), dims, compute, out, scalars)
            parts = self._fitting(inputs, dims, limit)
        kind, over = T.DTYPES[compute], frozenset(dims)
        states, base = [], 0
        for part in parts:
            windows = [T.window_of(x, limit) for x in part]
            step, found = reduction.plan_part(self.spec, kind, [v for _, v in windows], over, scalars, caps(), base)
            fields = [T.empty((m, slots), T.TORCH_DTYPE[name]) for m, slots, name in found]
            launch(step, *[w for w, _ in windows], *fields)
            states.append(fields)
            base += numel([part[0].shape[d] for d in dims]) if self.spec.ordered else 0
        joined = [torch.cat(field, 1) if len(states) > 1 else field[0] for field in zip(*states)]
        results = [T.empty(_kept(shape, dims), d) for d in out]
        views, slots = [T.view_of(r) for r in results], joined[0].shape[1]
        step = reduction.plan_finish(self.spec, kind, T.view_of(inputs[0]), over, views, slots, scalars, caps())
        launch(step, *joined, *results)
        return results

    def _in_halves(self, dim: int, inputs, dims, compute, out, scalars) -> list:
        """Cut along a dimension that is not reduced."""
        half = inputs[0].shape[dim] // 2
        pair = [
            self(tuple([x.narrow(dim, start, n) for x in inputs]), dims, True, compute, out, scalars)
            for start, n in ((0, half), (half, inputs[0].shape[dim] - half))
        ]
        return [torch.cat(both, dim) for both in zip(*pair)]

    def _in_two_steps(self, inputs, dims, compute, out, maps, scalars):
        """Few long rows: the whole device reduces them, and an elementwise kernel rewrites them."""
        spec = self.spec
        if self._two_steps is None:
            plain = replace(spec, map="", maps=())
            names = spec.inputs + tuple(n for n, _ in spec.results)
            if len(spec.maps) != 1:
                raise NotImplementedError("two-step rewrites have one output")
            entry = Pointwise(spec.name, PointwiseSpec(spec.name, spec.map, names, spec.scalars), "none")
            self._two_steps = Reduction(plain, self.empty), _Rewrite(entry)
        reduce, rewrite = self._two_steps
        wide = torch.float32 if compute in (torch.float16, torch.bfloat16) else compute
        stats = reduce(inputs, dims, True, compute, (wide,) * len(spec.results), scalars)
        result = rewrite.made(inputs + stats, scalars, compute, maps[0])
        kept = tuple([s if s.dtype == d else s.to(d) for s, d in zip(stats, out)])
        return kept, (result,)


class _Rewrite(Elementwise):
    """An elementwise entry whose compute and result dtypes the caller names."""

    def made(self, inputs, scalars, compute: torch.dtype, result: torch.dtype) -> torch.Tensor:
        self.compute = compute
        return self.into((*inputs, *scalars), (T.empty(inputs[0].shape, result),), inplace=True)

    def _dtypes(self, inputs):
        return self.compute, self.compute

    def _check_cast(self, inputs, outs):
        return None
