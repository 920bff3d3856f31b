"""Running elementwise entries: type promotion, broadcasting and aliasing at plan time, then one dispatch."""

from collections.abc import Callable

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.layout import View, contiguous_strides, numel
from ...kernels.pointwise import elementwise
from ...kernels.text.numbers import rounded
from ...plan import cache, caps, launch, run
from ...plan.forms import Pattern, short_form
from ...plan.run import NUMBERS, execute, place
from ...program import Plan
from ...runtime.errors import BindingTooLarge
from ..admitted import scalar_name as _scalar_name
from ..overlap import no_internal_overlap, no_partial_overlap
from ..table import Pointwise
from .promotion import common_dtype, promoted

_Tensor = torch.Tensor
_MAX_ELEMENTS = (1 << 32) - 1


def _key(x):
    """What a plan depends on of one argument."""
    c = x.__class__
    if c in NUMBERS:
        return c
    if isinstance(x, _Tensor):
        return (x.dtype, x.shape, x.stride(), x.storage_offset(), x.is_cpu)
    return type(x)


class Elementwise:
    """An entry ready to be called, with inputs (tensors or numbers) and then the values of its scalars.

    It needs no outlines: what it does is one step, planned by metadata as it stands.
    """

    def __init__(self, entry: Pointwise):
        self.entry = entry
        self.aten = entry.aten
        self.plans = cache.table(entry.aten)
        self.written_plans = cache.table(f"{entry.aten}_")
        self._functional, self._inplace = _Typed(Calls(self).forms), _Typed(Calls(self, inplace=True).forms)

    # -- calls

    def __call__(self, *args):
        """Functional: any inputs (tensors or numbers), then scalar values in the entry's order."""
        return self._functional[tuple(map(type, args))](*args)

    def inplace(self, *args):
        """As a call, written to the first input."""
        return self._inplace[tuple(map(type, args))](*args)

    def into(self, args: tuple, outs: tuple, inplace: bool = False):
        """Writes to existing tensors, resizing them where torch does."""
        inputs, scalars = self.split_args(args)
        shape = self._fit(inputs, outs, inplace)
        if 0 in shape:
            self.check_into(inputs, outs, inplace)
            self._check_kernel(inputs, outs)
            return outs[0] if len(outs) == 1 else outs
        inputs, aliases = self._aliases(inputs, outs)
        key = (
            tuple([_key(x) for x in inputs]),
            tuple([_key(o) for o in outs]),
            tuple(aliases),
            tuple([T.owns_tail(o) for o in outs]),
            place(),
        )
        plan = self.written_plans.get(key)
        if plan is None:
            self.check_into(inputs, outs, inplace)
            if self._rounds_first(inputs, outs):
                made = self.general(*args)
                for out, result in zip(outs, made if isinstance(made, tuple) else (made,)):
                    out.copy_(result)
                return outs[0] if len(outs) == 1 else outs
            plan = self.plan(self.written_plans, key, inputs, outs, aliases)
        tensors = [x for x in inputs if not _is_scalar(x)] + list(outs)
        try:
            execute(plan, [T.block_of(t) for t in tensors], tensors, self.packed(plan, (*inputs, *scalars)))
        except BindingTooLarge:
            self._split(inputs, scalars, outs)
        return outs[0] if len(outs) == 1 else outs

    def general(self, *args):
        """Any inputs: numbers, tensors of the CPU without dimensions, tensors without elements or too large."""
        inputs, scalars = self.split_args(args)
        key = (*[_key(x) for x in inputs], place())
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plan(self.plans, key, inputs)
        tensors = [x for x in inputs if not _is_scalar(x)]
        try:
            bound = [T.block_of(t) for t in tensors]
            return execute(plan, bound, tensors, self.packed(plan, args))
        except BindingTooLarge:
            outs = tuple([T.new(m) for m in plan.outputs])
            self._split(inputs, scalars, outs)
            return outs[0] if len(outs) == 1 else outs

    def split_args(self, args: tuple) -> tuple[tuple, tuple]:
        """Inputs and scalars."""
        count = len(self.entry.spec.inputs)
        return args[:count], args[count:]

    def packed(self, plan: Plan, args: tuple) -> bytes:
        """The bytes of a call's numbers."""
        if not plan.packers:
            return b""
        inputs, scalars = self.split_args(args)
        values = [x.item() if isinstance(x, _Tensor) else x for x in inputs if _is_scalar(x)]
        return b"".join([pack(value) for pack, value in zip(plan.packers, [*values, *scalars])])

    def _fit(self, inputs, outs, inplace: bool) -> tuple[int, ...]:
        """Outputs of the broadcast shape, or the error that torch gives."""
        shape = broadcast_shape([x.shape for x in (*inputs, *(outs if inplace else ())) if isinstance(x, _Tensor)])
        for out in outs:
            if tuple(out.shape) != shape:
                if inplace:
                    raise RuntimeError(
                        f"output with shape {list(out.shape)} doesn't match the broadcast shape {list(shape)}"
                    )
                self._check_cast(inputs, outs)  # an output that is refused stays as it is
                resize_output(out, shape)
                out.as_strided_(shape, self._strides(self._operands(inputs), shape))
        return shape

    def check_into(self, inputs, outs, inplace: bool) -> None:
        if inplace and self.entry.promote == "complex_to_float" and outs[0].is_complex():
            raise RuntimeError(f"In-place {self.aten} is not supported for complex tensors.")
        self._fit(inputs, outs, inplace)
        if self.aten != "threshold":  # done twice it is the same, and torch does not look
            for out in outs:
                no_internal_overlap(out)
        self._check_cast(inputs, outs)

    def _split(self, inputs, scalars, outs) -> None:
        """Work on buffers larger than one binding: halves, until each part's span fits a window of its buffer."""
        limit = caps().max_binding
        tensors = [x for x in (*inputs, *outs) if not _is_scalar(x)]
        windows = [T.window_of(t, limit) for t in tensors]
        if None in windows:
            self._halve(tensors[windows.index(None)].expand(outs[0].shape), inputs, scalars, outs)
            return
        aliases = self._aliases(inputs, outs)[1]
        views = iter([v for _, v in windows])
        in_views = [None if _is_scalar(x) else next(views) for x in inputs]
        step, packers = elementwise.plan(
            self.entry.spec, T.STORED[self._dtypes(inputs)[0]], in_views, list(views), [False] * len(outs), aliases,
            caps(),
        )  # fmt: skip
        plan = Plan((step,))
        plan.packers = self._packers(inputs, packers)
        bound = [w for w, _ in windows]
        numbers = self.packed(plan, (*inputs, *scalars))
        launch(step.followed(numbers), *[bound[i] for i in step.bindings])

    def _halve(self, large, inputs, scalars, outs) -> None:
        """Two calls, split along the dimension that spreads `large` most."""
        shape = outs[0].shape
        dim = max(range(len(shape)), key=lambda d: (shape[d] - 1) * large.stride(d))
        middle = shape[dim] // 2 + (-(shape[dim] // 2) % 4 if shape[dim] > 8 else 0)
        for start, length in ((0, middle), (middle, shape[dim] - middle)):
            part = [x if _is_scalar(x) or not x.dim() else x.expand(shape).narrow(dim, start, length) for x in inputs]
            self._split(tuple(part), scalars, tuple([o.narrow(dim, start, length) for o in outs]))

    # -- planning

    def plan_inplace(self, key: tuple, inputs: tuple) -> Plan:
        self.check_into(inputs, inputs[:1], True)
        return self.plan(self.written_plans, key, inputs, inputs[:1], [0] + [None] * (len(inputs) - 1), inplace=True)

    def plan(self, table, key: tuple, inputs, outs=None, aliases=None, inplace: bool = False) -> Plan:
        """The plan for these inputs, kept in `table`. With `outs` it writes to them: further arguments, or where it
        works `inplace` the first one."""
        self._check_devices(inputs)
        entry = self.entry
        compute, result = self._dtypes(inputs)
        shape = broadcast_shape([x.shape for x in inputs if isinstance(x, _Tensor)]) if outs is None else outs[0].shape
        views = [None if _is_scalar(x) else T.view_of(x) for x in inputs]
        arguments = len(views) - views.count(None)
        plan = Plan(())
        if outs is None:
            strides = self._strides(self._operands(inputs), shape)
            wanted = [result if o in ("T", "bool") else _out_dtype(o, result) for o in entry.spec.outputs]
            plan.outputs = tuple(T.meta(shape, strides, dtype) for dtype in wanted)
            out_views = [View(T.STORED[m.dtype], m.sizes, m.strides) for m in plan.outputs]
            owned = [True] * len(wanted)
            aliases = [None] * len(inputs)
            plan.results = 0 if len(wanted) == 1 else tuple(range(len(wanted)))
        else:
            out_views = [T.view_of(o) for o in outs]
            owned = [T.owns_tail(o) for o in outs]
            plan.written = (0,) if inplace else tuple(range(arguments, arguments + len(outs)))
            arguments += 0 if inplace else len(outs)
        n = numel(shape)
        if n > _MAX_ELEMENTS:
            for m in plan.outputs:
                T.new(m)  # most often this is what fails
            raise Unsupported(f"webgpu: {self.aten} of more elements than a kernel counts")
        if n:
            step, packers = elementwise.plan(entry.spec, T.STORED[compute], views, out_views, owned, aliases, caps())
            plan.packers = self._packers(inputs, packers)
            if inplace:
                step.bindings = tuple([i if i < arguments else i - arguments for i in step.bindings])
            plan.steps = (step,)
        else:
            self._check_kernel(inputs, plan.outputs if outs is None else outs)
        cache.keep(table, key, run.finish(plan, arguments))
        return plan

    def _packers(self, inputs, packers):
        """What packs the numbers, with the roundings that the entry asks for: a remainder by 2.3 and one by float16's
        neighbour of it have nothing in common."""
        common = common_dtype(*inputs) if self.entry.rounded else None
        if common not in (torch.float16, torch.bfloat16):
            return packers
        numbered = [n for n, x in zip(self.entry.spec.inputs, inputs) if _is_scalar(x)]
        name = T.STORED[common].name
        found = [rounded(p, name) if n in self.entry.rounded else p for n, p in zip(numbered, packers)]
        return (*found, *packers[len(found) :])

    def _operands(self, inputs) -> list[torch.Tensor]:
        """The tensors, and one without dimensions for numbers, which are that to torch's iterators."""
        tensors = [x for x in inputs if not _is_scalar(x)]
        if len(tensors) < len(inputs) and self.aten not in _NUMBERS_APART:
            tensors.append(torch.empty((), device="meta"))
        return tensors

    def _strides(self, tensors, shape):
        return _output_strides(tensors, shape)

    def _dtypes(self, inputs):
        if self.entry.admit is not None:
            self.entry.admit(inputs)
        fixed = dict(self.entry.spec.types)
        joining = [x for x, n in zip(inputs, self.entry.spec.inputs) if n not in fixed]
        promote = self.entry.promote
        compute, result = promoted(promote, *joining)
        if promote == "complex_to_float" and result != compute:
            compute = next(x.dtype for x in joining if isinstance(x, _Tensor))
        if self.aten in _EQUALITIES and compute in _EIGHT_BITS and not any([_is_scalar(x) for x in inputs]):
            compute = torch.float32  # all that the CPU does with them; a number would be rounded to one of them first
        if compute not in T.DTYPES or result not in T.DTYPES:
            raise Unsupported(f"webgpu: {self.aten} has no kernel for {compute}")
        return compute, result

    def _check_kernel(self, inputs, outs) -> None:
        """Raises where there is none for these dtypes: what is refused is refused of tensors without elements too."""
        compute = T.STORED[self._dtypes(inputs)[0]]
        views = [None if _is_scalar(x) else View(T.STORED[x.dtype], (1,), (1,)) for x in inputs]
        out_views = [View(T.STORED[o.dtype], (1,), (1,)) for o in outs]
        elementwise.plan(
            self.entry.spec, compute, views, out_views, [True] * len(outs), [None] * len(views), caps()
        )  # fmt: skip

    def _check_devices(self, inputs) -> None:
        for x in inputs:
            if isinstance(x, _Tensor) and x.device.type != T.NAME and not (x.is_cpu and x.dim() == 0):
                raise T.two_devices(f"aten::{self.aten}", x.device)

    def _check_cast(self, inputs, outs) -> None:
        self._check_devices(inputs)
        _, promoted = self._dtypes(inputs)
        for out, kind in zip(outs, self.entry.spec.outputs):
            result = promoted if kind in ("T", "bool") else _out_dtype(kind, promoted)
            if out.device.type != T.NAME:
                raise T.two_devices(f"aten::{self.aten}", out.device)
            if kind == "complex" and out.dtype != result:
                raise RuntimeError(
                    f"Expected object of scalar type {_scalar_name(result)} but got scalar type "
                    f"{_scalar_name(out.dtype)} for argument 'out'"
                )
            if kind != "bool" and not torch.can_cast(result, out.dtype):
                raise RuntimeError(
                    f"result type {_scalar_name(result)} can't be cast to the desired output type "
                    f"{_scalar_name(out.dtype)}"
                )

    def _rounds_first(self, inputs, outs) -> bool:
        """Results of few bits for wider outputs: kernels compute in 32 bits, and would store too much."""
        _, promoted = self._dtypes(inputs)
        return promoted in _FEW_BITS and any([o.dtype != promoted for o in outs if o.dtype is not torch.bool])

    def _aliases(self, inputs, outs):
        """Inputs on an output's buffer: bound once where layouts agree, else copied first; torch refuses those that
        are a part of what is written."""
        result, aliases = [], []
        for x in inputs:
            alias = None
            if not _is_scalar(x) and x.numel():
                block = T.block_of(x)
                for k, out in enumerate(outs):
                    if T.block_of(out) is not block:
                        continue
                    same = (
                        x.dtype == out.dtype
                        and x.storage_offset() == out.storage_offset()
                        and x.shape == out.shape
                        and x.stride() == out.stride()
                    )
                    if same:
                        alias = k
                    else:
                        no_partial_overlap(out, x)
                        x = x.clone()
                    break
            result.append(x)
            aliases.append(alias)
        return tuple(result), aliases


class _Forms(dict):
    """Short forms of an elementwise operator, by which of its arguments are tensors (t) and which numbers (p)."""

    def __init__(self, calls: "Calls"):
        self.calls = calls

    def __missing__(self, kinds: str) -> Callable:
        found = self[kinds] = self.calls.form(kinds)
        return found


class _Typed(dict):
    """Short forms by the types of the arguments."""

    def __init__(self, forms: _Forms):
        self.forms = forms

    def __missing__(self, types: tuple) -> Callable:
        found = self[types] = self.forms["".join(["p" if t in NUMBERS else "t" for t in types])]
        return found


class Calls:
    """Calls of an elementwise operator, functional or in place: what its short forms do not know. `refused` takes what
    there is no kernel for, `more` what comes beside the inputs."""

    def __init__(self, run: Elementwise, inplace: bool = False, refused=None, more=None):
        self.run = run
        self.name = run.aten
        self.inplace = inplace
        self.plans = run.written_plans if inplace else run.plans
        self.refused = refused
        self.more = more
        self.forms = _Forms(self)

    def form(self, kinds: str, names: tuple[str, ...] = (), defaults: tuple = ()) -> Callable:
        """The short form; the last numbers are called by `names`, `defaults` are those of the last arguments."""
        count = len(kinds) - len(names)
        written = ((0,), (0,)) if self.inplace else ((), None)
        optional = max(len(defaults) - len(names), 0)
        pattern = Pattern(kinds, count, names, optional, *written, mixed=True, rest=self.more is not None)
        return short_form(self, pattern, (None,) * (len(kinds) - len(defaults)) + defaults)

    def _general(self, args: tuple):
        try:
            return self.run.into(args, args[:1], inplace=True) if self.inplace else self.run.general(*args)
        except Unsupported:
            if self.refused is None:
                raise
            return self.refused(*args)

    def odd(self, args: tuple, kwargs: dict):
        return self._general((*args, *kwargs.values()))

    def miss(self, key: tuple, tensors: list, bound: list, args: tuple, kwargs: dict):
        args = (*args, *kwargs.values())
        if None in bound or (self.inplace and len(set(bound)) < len(bound)):
            return self._general(args)
        plan = self.plans.get(key)
        if plan is None:
            run = self.run
            inputs = run.split_args(args)[0]
            try:
                plan = run.plan_inplace(key, inputs) if self.inplace else run.plan(self.plans, key, inputs)
            except Unsupported:
                if self.refused is None:
                    raise
                return self.refused(*args)
        try:
            made = execute(plan, bound[:], tensors, self.run.packed(plan, args))
        except BindingTooLarge:
            return self._general(args)
        return args[0] if self.inplace else made

    def large(self, key: tuple, tensors: list, bound: list, args: tuple, kwargs: dict):
        return self._general((*args, *kwargs.values()))


class Into(Calls):
    """Calls whose last argument is the tensor to write to, of the inputs' shape."""

    def __init__(self, run: Elementwise):
        super().__init__(run)
        self.plans = run.written_plans

    def form(self, kinds: str) -> Callable:
        last = len(kinds) - 1
        return short_form(self, Pattern(kinds, len(kinds), (), 0, (last,), (last,)), (None,) * len(kinds))

    def _general(self, args: tuple):
        return self.run.into(args[:-1], args[-1:], inplace=True)

    def miss(self, key: tuple, tensors: list, bound: list, args: tuple, kwargs: dict):
        if None in bound or len(set(bound)) < len(bound):
            return self._general(args)
        plan = self.plans.get(key)
        if plan is None:
            self.run.check_into(args[:-1], args[-1:], True)
            plan = self.run.plan(self.plans, key, args[:-1], args[-1:], [None] * (len(args) - 1))
        try:
            execute(plan, bound[:], tensors, self.run.packed(plan, args[:-1]))
        except BindingTooLarge:
            return self._general(args)
        return args[-1]


_EQUALITIES = ("eq", "ne", "isclose_same", "isclose_same_nan")
_EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)
_FEW_BITS = (torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16)
_OUT_DTYPE = {"i64": torch.int64, "i32": torch.int32, "f32": torch.float32}


def _out_dtype(kind: str, promoted: torch.dtype) -> torch.dtype:
    """Of an output that does not follow the promoted inputs."""
    return promoted.to_complex() if kind == "complex" else _OUT_DTYPE[kind]


_runners: dict[Pointwise, Elementwise] = {}


def runner(entry: Pointwise) -> Elementwise:
    """The one runner of an entry, with its plans."""
    found = _runners.get(entry)
    if found is None:
        found = _runners[entry] = Elementwise(entry)
    return found


def _is_scalar(x) -> bool:
    """A number, or a tensor of one element that lives on the CPU and joins as one."""
    return not isinstance(x, _Tensor) or x.is_cpu


def broadcast_shape(shapes) -> tuple[int, ...]:
    if not shapes:
        return ()
    shape = list(shapes[0])
    for other in shapes[1:]:
        if len(other) > len(shape):
            shape = [1] * (len(other) - len(shape)) + shape
        lead = len(shape) - len(other)
        for d in range(len(other) - 1, -1, -1):  # torch names the last dimension that does not fit
            have, size = shape[lead + d], other[d]
            if have != size:
                if have == 1:
                    shape[lead + d] = size
                elif size != 1:
                    raise RuntimeError(
                        f"The size of tensor a ({have}) must match the size of tensor b ({size}) at non-singleton "
                        f"dimension {lead + d}"
                    )
    return tuple(shape)


_NUMBERS_APART = ("pow", "clamp", "clamp_min", "clamp_max", "lerp")  # numbers that torch's iterators do not see


def _output_strides(tensors, shape):
    """As torch's iterators choose them. Where all operands are contiguous and of one shape the result is too; others
    keep the strides of dimensions of one element, which tell formats apart."""
    dense = contiguous_strides(shape)
    if all(t.shape == shape and t.is_contiguous() for t in tensors):
        return dense
    if all(t.shape == shape and t.stride() == dense for t in tensors if t.dim()):
        return dense
    metas = [torch.empty_strided(t.shape, t.stride(), device="meta") for t in tensors]
    if len(metas) <= 3:  # an operator of torch's with so many operands tells
        return (torch.neg, torch.add, torch.addcmul)[len(metas) - 1](*metas).stride()
    from torch._prims_common import (
        compute_elementwise_output_strides,  # which takes half a second to import all it needs
    )

    return compute_elementwise_output_strides(*[m.expand(shape) for m in metas])


def resize_output(out: torch.Tensor, shape) -> None:
    """As torch resizes `out=`: silently where it is empty, with a warning where it is not."""
    if tuple(out.shape) == tuple(shape):
        return
    before, filled = list(out.shape), out.numel()
    out.resize_(tuple(shape))  # first: while a plan is made this ends it, and the call that follows tells
    if filled:
        import warnings

        warnings.warn(
            f"An output with one or more elements was resized since it had shape {before}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=3,
        )
