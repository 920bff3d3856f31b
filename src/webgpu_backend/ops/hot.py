"""The elementwise calls that programs make most, spelt out: a loop over arguments costs as much again as the look-up.

Each function here serves one entry, with everything it needs at hand. A block of None under an operand says that the
tensor is empty or not on the device: that, and whatever else is unusual, takes the entry's general way.
"""

from .. import tensor as T
from ..dtypes import Unsupported
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu

NUMBERS = frozenset((int, float, bool, complex))
_MAX_PACKED = 64


def _first_record(program, buffers, params, grid) -> None:
    _connect()
    record(program, buffers, params, grid)


def _first_guarded(program, buffers, params, grid) -> None:
    _connect()
    record_guarded(program, buffers, params, grid)


# The queue's own methods from the first dispatch on.
record, record_guarded = _first_record, _first_guarded


def _connect() -> None:
    global record, record_guarded
    record, record_guarded = gpu().queue.record, gpu().queue.record_guarded


def reset() -> None:
    """After a fork: the next call asks for the device again."""
    global record, record_guarded
    record, record_guarded = _first_record, _first_guarded


def unary_of(run, refused=None):
    """The function of one operand for `run`'s entry; `refused` gets what there is no kernel for, and arguments that are
    not at their defaults."""
    plans, make = run.plans, T.make

    def unary(a, *args, **rest):
        if args or rest:
            return refused(a, *args, **rest)
        x = T._blocks[a.data_ptr() >> 40]
        key = (a.dtype, a.shape, a.stride(), a.storage_offset())
        call = plans.get(key)
        if call is None or x is None:
            try:
                if x is None:
                    return run.general((a,), ())
                call = run.plan(key, (a,))
            except Unsupported:
                if refused is None:
                    raise
                return refused(a)
        out, block = make(call.meta)
        try:
            record(call.program, (x, block), call.params, call.grid)
        except BindingTooLarge:
            run.split((a,), (), (out,))
        return out

    return unary


def binary_of(run, refused=None):
    """As unary_of, for two operands, of which one may be a number. torch leaves out arguments that are at their
    defaults: what comes after the operands is for `refused`."""
    plans, make = run.plans, T.make

    def general(a, b):
        try:
            return run.general((a, b), ())
        except Unsupported:
            if refused is None:
                raise
            return refused(a, b)

    def binary(a, b, *args, **rest):
        if args or rest:
            return refused(a, b, *args, **rest)
        blocks = T._blocks
        try:
            x = blocks[a.data_ptr() >> 40]
            if b.__class__ in NUMBERS:
                return with_number(a, b, x)
            y = blocks[b.data_ptr() >> 40]
        except AttributeError:  # the first is a number
            return general(a, b)
        if x is None or y is None:
            return general(a, b)
        key = (
            a.dtype, a.shape, a.stride(), a.storage_offset(),
            b.dtype, b.shape, b.stride(), b.storage_offset(),
        )  # fmt: skip
        call = plans.get(key)
        if call is None:
            try:
                call = run.plan(key, (a, b))
            except Unsupported:
                return general(a, b)
        out, block = make(call.meta)
        try:
            record(call.program, (x, y, block), call.params, call.grid)
        except BindingTooLarge:
            run.split((a, b), (), (out,))
        return out

    def with_number(a, b, x):
        if x is None:
            return general(a, b)
        key = (a.dtype, a.shape, a.stride(), a.storage_offset(), b.__class__)
        call = plans.get(key)
        if call is None:
            try:
                call = run.plan(key, (a, b))
            except Unsupported:
                return general(a, b)
        params = call.packed.get(b) or with_value(call, b)
        out, block = make(call.meta)
        try:
            record(call.program, (x, block), params, call.grid)
        except BindingTooLarge:
            run.split((a, b), (), (out,))
        return out

    return binary


def call_of(run):
    """The function of any inputs, tensors or numbers, and of scalars in the entry's order."""
    plans, make = run.plans, T.make

    def call(inputs, scalars):
        blocks = T._blocks
        key, bound, values = [], [], []
        for x in inputs:
            if x.__class__ in NUMBERS:
                key.append(x.__class__)
                values.append(x)
                continue
            try:
                block = blocks[x.data_ptr() >> 40]
            except AttributeError:
                block = None
            if block is None:
                return run.general(inputs, scalars)
            bound.append(block)
            key += (x.dtype, x.shape, x.stride(), x.storage_offset())
        key = tuple(key)
        planned = plans.get(key)
        if planned is None:
            planned = run.plan(key, inputs)
        params = planned.params
        if planned.packers:
            numbers = [*values, *scalars] if values else scalars
            params += b"".join([pack(value) for pack, value in zip(planned.packers, numbers)])
        outs = []
        for meta in planned.metas:
            out, block = make(meta)
            outs.append(out)
            bound.append(block)
        try:
            record(planned.program, tuple(bound), params, planned.grid)
        except BindingTooLarge:
            run.split(inputs, scalars, tuple(outs))
        return outs[0] if len(outs) == 1 else tuple(outs)

    return call


def with_value(call, value) -> bytes:
    """The parameters of a call with one number; those of the numbers seen last are kept."""
    params = call.params + call.packers[0](value)
    if value:  # 0.0 and -0.0 are one key
        if len(call.packed) >= _MAX_PACKED:
            call.packed.clear()
        call.packed[value] = params
    return params


def inplace_of(run):
    """The function that writes to its first input. Another input on that buffer takes the general way."""
    plans = run.plans

    def inplace(inputs, scalars):
        a = inputs[0]
        blocks = T._blocks
        block = blocks[a.data_ptr() >> 40]
        if block is None:
            return run.call_into(inputs, scalars, (a,), inplace=True)
        # What lies behind the tensor in its storage says how its end may be written.
        key = [a.dtype, a.shape, a.stride(), a.storage_offset(), block.nbytes]
        bound, values = [], None
        for x in inputs[1:]:
            c = x.__class__
            if c in NUMBERS:
                key.append(c)
                values = [x] if values is None else [*values, x]
                continue
            other = blocks[x.data_ptr() >> 40]
            if other is None or other is block:
                return run.call_into(inputs, scalars, (a,), inplace=True)
            bound.append(other)
            key += (x.dtype, x.shape, x.stride(), x.storage_offset())
        key = tuple(key)
        call = plans.get(key)
        if call is None:
            call = run.plan_into(key, inputs, (a,), [0] + [None] * (len(inputs) - 1), inplace=True)
        params = call.params
        if call.packers:
            for pack, value in zip(call.packers, scalars if values is None else (*values, *scalars)):
                params += pack(value)
        bound.append(block)
        try:
            record(call.program, tuple(bound), params, call.grid)
        except BindingTooLarge:
            run.split(inputs, scalars, (a,))
        return a

    return inplace


def inplace_binary_of(run, refused):
    """As inplace_of, for two operands; scalars that are not at their defaults are for `refused`."""
    plans, inplace = run.plans, run.inplace

    def general(a, b):
        try:
            return inplace((a, b), ())
        except Unsupported:
            return refused(a, b)

    def binary(a, b, *args, **rest):
        if args or rest:
            return refused(a, b, *args, **rest)
        blocks = T._blocks
        x = blocks[a.data_ptr() >> 40]
        if b.__class__ in NUMBERS:
            if x is None:
                return general(a, b)
            call = plans.get((a.dtype, a.shape, a.stride(), a.storage_offset(), x.nbytes, b.__class__))
            if call is None:
                return general(a, b)
            bound, params = (x,), call.packed.get(b) or with_value(call, b)
        else:
            y = blocks[b.data_ptr() >> 40]
            if x is None or y is None or x is y:
                return general(a, b)
            call = plans.get((
                a.dtype, a.shape, a.stride(), a.storage_offset(), x.nbytes,
                b.dtype, b.shape, b.stride(), b.storage_offset(),
            ))  # fmt: skip
            if call is None:
                return general(a, b)
            bound, params = (y, x), call.params
        try:
            record(call.program, bound, params, call.grid)
        except BindingTooLarge:
            run.split((a, b), (), (a,))
        return a

    return binary
