"""What the Python that Inductor generates calls: kernels as steps of plans, and its function as a graph."""

from collections.abc import Callable

import torch

from .... import dtypes
from .... import tensor as T
from ....kernels.compiled.access import Operand, Place
from ....kernels.compiled.program import Source, kernel, lanes_of
from ....kernels.compiled.together import fewer
from ....plan import caps, constant, launch
from ....plan.faults import ASSERTED, site
from ....plan.graphs import Outgrown, planned_graph
from ....runtime.errors import BindingTooLarge
from . import tuning

_UPLOADED = {torch.float64: torch.float32}  # numbers as kernels read them


class Compiled:
    """A kernel that Inductor wrote, called with its tensors and then its sizes."""

    def __init__(self, name: str, body: str, operands: tuple, sizes: tuple = (), count=1, **rest):
        described = tuple([Operand(n, T.STORED[getattr(torch, dtype)], uses) for n, dtype, uses in operands])
        self.source = Source(name, described, tuple(sizes), count, body, **rest)
        told = ["compiled graph", *[ASSERTED + said for said in self.source.asserted]]
        self.site = tuple([site(op, 0, False) for op in told]) if self.source.guarded else ()

    def __call__(self, *args) -> None:
        source = self.source
        tensors, sizes = args[: len(source.operands)], args[len(source.operands) :]
        count = self._number(source.count, sizes)
        if not count or any([not t.numel() for t, o in zip(tensors, source.operands) if o.written]):
            return
        tensors = [empty(t.shape, t.stride(), t.dtype).copy_(t) if t.is_neg() else t for t in tensors]
        lanes = lanes_of(source, count, self._number(source.length, sizes), caps()) if source.reduction else 1
        made = kernel(source, self._places(tensors), lanes, caps())
        offsets = [t.storage_offset() for t in tensors]
        step = made.step(caps(), count, sizes, offsets, self.site)
        launch(step, *[tensors[i] for i in made.bound])

    def _number(self, size: int | str, sizes: tuple) -> int:
        return size if isinstance(size, int) else sizes[self.source.sizes.index(size)]

    def _places(self, tensors) -> tuple[Place, ...]:
        """Where the operands of a call are. Those that share memory with one that is written share its binding."""
        shown: dict = {}
        places, written = [], {}
        for t, o in zip(tensors, self.source.operands):
            if o.written:
                written[T.block_of(t)] = o.dtype
        for i, (t, o) in enumerate(zip(tensors, self.source.operands)):
            block, offset = (T.block_of(t), t.storage_offset()) if t.numel() else (i, 0)
            key = block if block in written else i
            if written.get(block, o.dtype) != o.dtype:
                raise dtypes.Unsupported("webgpu: a compiled kernel that sees memory as two dtypes")
            number = shown.setdefault(key, len(shown))
            places.append(Place(number, offset != 0, offset % 4 == 0, o.written and T.owns_tail(t)))
        return tuple(places)


def planned(
    call: Callable, mutated: tuple, uploads: tuple, moved: tuple, constants: Callable[[], list], measured: bool
) -> Callable:
    """The generated function, which takes its arguments in a list and empties it, from plans. It writes to the
    arguments that are `mutated`, takes `uploads` from the host, as kernels read them, and those that it only copies
    to the device (`moved`) as they are, since a plan has no tensors of the host. It reads `constants`, which it has
    when it is called first. With `measured` the tiles of its matrix products are."""

    def function(*args):
        return call(list(args))

    def make(function):
        return planned_graph(function, mutated, fewer)

    run = tuning.planned(function, make) if measured else make(function)
    fixed: list | None = None

    def boxed(args: list):
        nonlocal fixed
        if fixed is None:
            fixed = [constant(lambda c=c: c) for c in constants() if T.is_ours(c) and c.numel()]
        for i in uploads:
            args[i] = args[i].to(_UPLOADED.get(args[i].dtype, args[i].dtype)).to(T.here())
        for i in moved:
            args[i] = args[i].to(T.here())
        given = tuple(args)
        args.clear()
        try:
            return run(*given)
        except BindingTooLarge as error:
            if mutated:
                raise
            raise Outgrown(str(error)) from error

    return boxed


def empty(size, stride, dtype: torch.dtype) -> torch.Tensor:
    return T.new(T.meta(size, stride, dtype))


def made(result: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The result of an operator, in the place of `out`, which was meant for it."""
    if result.stride() == out.stride() and result.dtype == out.dtype and result.shape == out.shape:
        return result
    return out.copy_(result)


def laid(result: torch.Tensor, size: tuple, stride: tuple, operator: str = "") -> torch.Tensor:
    """The result of an operator with the strides that the code after it takes for granted."""
    if tuple(result.shape) != tuple(size):
        raise AssertionError(
            f"{operator} gave a tensor of sizes {tuple(result.shape)}, where {tuple(size)} was expected"
        )
    if all([own == wanted or n <= 1 for n, own, wanted in zip(size, result.stride(), stride)]):
        return result
    return empty(size, stride, result.dtype).copy_(result)
