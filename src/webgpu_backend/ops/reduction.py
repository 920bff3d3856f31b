"""Running reductions: dims and dtypes checked at plan time, then one or two dispatches from a cached plan."""

from operator import itemgetter

import torch

from .. import tensor as T
from ..dtypes import Unsupported
from ..kernels import reduce as R
from ..kernels.layout import View, contiguous_strides, numel
from ..kernels.numbers import PACKERS
from ..kernels.pointwise import Spec as PointwiseSpec
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu
from . import hot
from .elementwise import Elementwise
from .table import Pointwise

_MAX_PLANS = 16384


def normal_dims(dim, rank: int) -> tuple[int, ...]:
    """Dimensions as torch accepts them: None or () is all of them, negative ones count from the end."""
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


class _Call:
    """A planned call: outputs to make, and the dispatches."""

    __slots__ = ("metas", "map_metas", "partials", "passes", "packers", "empty")


class Reduction:
    """A spec ready to be called. Plans are kept by metadata, so a repeated call costs a look-up.

    `empty` is the result of reducing nothing; None where torch refuses that.
    """

    def __init__(self, spec: R.Spec, empty=None):
        self.spec = spec
        self.empty = empty
        self.plans: dict[tuple, _Call] = {}
        self._two_steps: tuple[Reduction, Elementwise] | None = None

    def __call__(self, inputs: tuple, dim, keepdim: bool, compute: torch.dtype, out: tuple, scalars: tuple = ()):
        """One tensor per result: `compute` and `out` are torch dtypes, `inputs` share a shape."""
        key = (tuple([(x.dtype, x.shape, x.stride(), x.storage_offset()) for x in inputs]), dim, keepdim, compute, out)
        call = self.plans.get(key)
        if call is None:
            call = self._plan(key, inputs, normal_dims(dim, inputs[0].dim()), keepdim, compute, out, ())
        try:
            return self._run(call, inputs, scalars)
        except BindingTooLarge:
            dims = normal_dims(dim, inputs[0].dim())
            results = self._in_parts(inputs, dims, compute, out, scalars)
            return tuple([r.view(m.sizes) for r, m in zip(results, call.metas)])

    def rewrite(self, inputs: tuple, dims: tuple[int, ...], compute: torch.dtype, out: tuple, maps: tuple, scalars=()):
        """Reduces rows and maps their elements: (results in keepdim shape, mapped tensors), contiguous.

        `out` may be shorter than the results: those left out are not stored.
        """
        key = (tuple([(x.dtype, x.shape, x.stride(), x.storage_offset()) for x in inputs]), dims, compute, out, maps)
        call = self.plans.get(key)
        if call is None:
            shape = inputs[0].shape
            length = numel([shape[d] for d in dims])
            rows = numel(shape) // max(length, 1)
            if numel(shape) and not R.fused(rows, length, _strided(inputs[0], dims), gpu().caps):
                return self._in_two_steps(inputs, dims, compute, out, maps, scalars)
            call = self._plan(key, inputs, dims, True, compute, out, maps)
        try:
            made = self._run(call, inputs, scalars)
        except BindingTooLarge:
            return self._in_two_steps(inputs, dims, compute, out, maps, scalars)
        return made[: len(out)], made[len(out) :]

    def _plan(self, key, inputs, dims, keepdim, compute, out, maps) -> _Call:
        shape = tuple(inputs[0].shape)
        wide = tuple([1 if d in dims else s for d, s in enumerate(shape)])
        narrow = wide if keepdim else tuple([s for d, s in enumerate(shape) if d not in dims])
        call = _Call()
        call.metas = tuple(T.meta(narrow, None, d) for d in out)
        call.map_metas = tuple(T.meta(shape, None, d) for d in maps)
        call.passes = call.partials = call.packers = ()
        call.empty = numel(shape) == 0
        if not call.empty:
            views = [T.view_of(x) for x in inputs]
            results = [View(T.DTYPES[d], wide, contiguous_strides(wide)) for d in out]
            mapped = [View(T.DTYPES[d], shape, contiguous_strides(shape)) for d in maps]
            plan = R.plan(self.spec, T.DTYPES[compute], views, frozenset(dims), results, mapped, gpu().caps)
            call.packers = tuple(PACKERS[c] for c in plan.scalar_carriers)
            call.partials = tuple(T.meta((m, slots), None, T.TORCH_DTYPE[name]) for m, slots, name in plan.partials)
            first = {"i": 0, "r": len(inputs), "m": len(inputs) + len(out), "p": len(inputs) + len(out) + len(maps)}
            call.passes = tuple(
                (step.program, itemgetter(*[first[kind] + i for kind, i in step.bindings]), step.params, step.grid)
                for step in plan.passes
            )
        if len(self.plans) >= _MAX_PLANS:
            self.plans.clear()
        self.plans[key] = call
        return call

    def _run(self, call: _Call, inputs: tuple, scalars: tuple) -> tuple:
        if call.empty:
            results = tuple([T.new(m) for m in call.metas])
            for r in results:
                if r.numel():
                    r.fill_(self.empty)
            return results + tuple([T.new(m) for m in call.map_metas])
        blocks, made, kept = T._blocks, [], []
        bound = [blocks[x.data_ptr() >> 40] for x in inputs]
        for where, metas in ((made, call.metas), (made, call.map_metas), (kept, call.partials)):
            for meta in metas:
                tensor, block = T.make(meta)
                where.append(tensor)
                bound.append(block)
        tail = b"".join([pack(v) for pack, v in zip(call.packers, scalars)]) if scalars else b""
        for program, chosen, params, grid in call.passes:
            hot.record(program, chosen(bound), params + tail, grid)
        return tuple(made)

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
        """Inputs larger than one binding, in keepdim shape: states of parts that fit are finished together."""
        caps, limit = gpu().caps, gpu().queue.caps.max_binding
        large = [x for x in inputs if T.window_of(x, limit) is None]
        shape, parts, first = inputs[0].shape, [inputs], 0
        if large:
            spans = [(s - 1) * st for s, st in zip(large[0].shape, large[0].stride())]
            first = spans.index(max(spans))
            kept = [d for d, s in enumerate(shape) if d not in dims and s > 1]
            rows, nbytes = numel([shape[d] for d in kept]), large[0].numel() * large[0].element_size()
            if kept and 16 * rows * -(-nbytes // limit) > limit:  # the states of the parts would not fit either
                first = max(kept, key=spans.__getitem__)
            if first not in dims:
                half = shape[first] // 2
                pair = [
                    self(tuple([x.narrow(first, start, n) for x in inputs]), dims, True, compute, out, scalars)
                    for start, n in ((0, half), (half, shape[first] - half))
                ]
                return [torch.cat(both, first) for both in zip(*pair)]
            if self.spec.ordered and any(shape[d] > 1 for d in dims if d < first):
                return self._in_parts(tuple([x.contiguous() for x in inputs]), dims, compute, out, scalars)
            parts = self._fitting(inputs, dims, limit)
        kind, record = T.DTYPES[compute], gpu().queue.record
        states, tail, base = [], b"", 0
        for part in parts:
            windows = [T.window_of(x, limit) for x in part]
            plan = R.plan(self.spec, kind, [v for _, v in windows], frozenset(dims), [], [], caps, base)
            fields = [T.empty((m, slots), T.TORCH_DTYPE[name]) for m, slots, name in plan.partials]
            tail = b"".join([PACKERS[c](v) for c, v in zip(plan.scalar_carriers, scalars)])
            buffers = {"i": [w for w, _ in windows], "p": [T.block_of(f) for f in fields]}
            step = plan.passes[0]
            record(step.program, tuple([buffers[k][i] for k, i in step.bindings]), step.params + tail, step.grid)
            states.append(fields)
            base += numel([part[0].shape[d] for d in dims]) if self.spec.ordered else 0
        joined = [torch.cat(field, 1) if len(states) > 1 else field[0] for field in zip(*states)]
        wide = tuple([1 if d in dims else s for d, s in enumerate(shape)])
        results = [T.empty(wide, d) for d in out]
        views = [T.view_of(r) for r in results]
        plan = R.plan_finish(self.spec, kind, T.view_of(inputs[0]), frozenset(dims), views, joined[0].shape[1], caps)
        buffers = {"p": [T.block_of(f) for f in joined], "r": [T.block_of(r) for r in results]}
        for step in plan.passes:
            record(step.program, tuple([buffers[k][i] for k, i in step.bindings]), step.params + tail, step.grid)
        return results

    def _in_two_steps(self, inputs, dims, compute, out, maps, scalars):
        """Few long rows: the whole device reduces them, and an elementwise kernel rewrites them."""
        spec = self.spec
        if self._two_steps is None:
            plain = R.Spec(
                spec.name,
                spec.step,
                spec.combine,
                spec.init,
                spec.state,
                spec.finish,
                spec.results,
                spec.inputs,
                spec.scalars,
            )
            names = spec.inputs + tuple(n for n, _ in spec.results)
            if len(spec.maps) != 1:
                raise NotImplementedError("two-step rewrites have one output")
            entry = Pointwise(spec.name, PointwiseSpec(spec.name, spec.map, names, spec.scalars), "none")
            self._two_steps = Reduction(plain, self.empty), _Rewrite(entry)
        reduction, rewrite = self._two_steps
        wide = torch.float32 if compute in (torch.float16, torch.bfloat16) else compute
        stats = reduction(inputs, dims, True, compute, (wide,) * len(spec.results), scalars)
        result = rewrite.into(inputs + stats, scalars, compute, maps[0])
        kept = tuple([s if s.dtype == d else s.to(d) for s, d in zip(stats, out)])
        return kept, (result,)


class _Rewrite(Elementwise):
    """An elementwise entry whose compute and result dtypes the caller names."""

    def into(self, inputs, scalars, compute: torch.dtype, result: torch.dtype):
        self.compute = compute
        out = T.empty(inputs[0].shape, result)
        return self.call_into(inputs, scalars, (out,), inplace=True)

    def _dtypes(self, inputs):
        return self.compute, self.compute

    def _check_cast(self, inputs, outs):
        return None
