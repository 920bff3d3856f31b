"""`torch.compile` on the device: by Inductor, or by a replay of the dispatches that a graph's first call made."""

import copy
from collections.abc import Callable
from functools import cache, wraps
from operator import attrgetter
from pathlib import Path

import torch
from torch.nn import Parameter

from ... import env
from ... import tensor as T
from ...runtime import gpu as runtime
from .. import first_use

tracing = False  # torch derives a graph that only this device will run


def compile(graph: torch.fx.GraphModule, inputs: list):
    """The backend. Without gradients the graph runs as it is; else torch derives graphs for both passes first."""
    from functorch.compile import default_partition, make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    first_use.complete()  # torch derives graphs by what is registered
    graded = torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
    if not graded and not _reshapes(graph):
        return replayed(graph)

    def both(graph, inputs):
        return make_boxed_func(replayed(graph))

    global tracing
    outer, tracing = tracing, True
    try:
        return aot_autograd(fw_compiler=both, bw_compiler=both, partition_fn=default_partition)(graph, inputs)
    finally:
        tracing = outer


_RESHAPING = {"transpose_", "t_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_", "detach_"}


def _reshapes(graph: torch.fx.GraphModule) -> bool:
    """Whether a tensor's sizes or strides change in place: a replay would not tell the caller's tensor."""
    return any(n.op == "call_method" and n.target in _RESHAPING for n in graph.graph.nodes)


def concerns(graph: torch.fx.GraphModule, inputs: list) -> bool:
    """Whether a graph has anything to do on a device of ours."""
    return bool(devices(graph, inputs))


def devices(graph: torch.fx.GraphModule, inputs: list) -> set[int]:
    """Those of ours on which a graph has something to do; its inputs alone may not tell."""
    shown = (n.meta.get("example_value") for n in graph.graph.nodes)
    found = [x.device for x in (*inputs, *shown) if isinstance(x, torch.Tensor) and x.device.type == T.NAME]
    return {T.here().index if d.index is None else d.index for d in found}


def replayed(graph: torch.fx.GraphModule):
    """The graph's function, planned by what its inputs look like."""
    from ...plan.graphs import planned_graph

    constants = [attrgetter(n.target)(graph) for n in graph.graph.nodes if n.op == "get_attr"]
    constants = [c for c in constants if T.is_ours(c)]
    unused = [i for i, n in enumerate(_inputs(graph)) if not n.users]

    def call(*args):
        return graph.forward(*args[: len(args) - len(constants)])

    run = planned_graph(call)

    def canonical(*args):
        # The strides of dimensions of one follow a sequence's length where nothing else does.
        args = [a if a.__class__ is Parameter else _plain(a) for a in args]
        for i in unused:
            args[i] = None
        return run(*args, *constants)

    return canonical


def _inputs(graph: torch.fx.GraphModule) -> list:
    return [n for n in graph.graph.nodes if n.op == "placeholder"]


def _plain(x):
    if not T.is_ours(x) or not x.is_contiguous():
        return x
    strides = T.meta(x.shape, None, x.dtype).strides
    return x if x.stride() == strides else T.as_strided(x, x.shape, strides)


def fused(original: Callable, graph: torch.fx.GraphModule, inputs: list, kwargs: dict):
    """The graph by Inductor, with our code generator."""
    from ...plan.graphs import Outgrown, Shared
    from .inductor import compiling

    first_use.complete()
    where = devices(graph, inputs)
    if len(where) > 1 or _flexible(graph):  # its code takes memory of one device, and has no template for FlexAttention
        return compile(graph, inputs)
    as_written = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    alike = [n.meta.get("example_value", x) for n, x in zip(_inputs(graph), inputs)]  # hold no memory
    global tracing
    outer, tracing = tracing, True
    try:
        compiled = compiling.compile(original, graph, inputs, kwargs)
    except compiling.RestartAnalysis:
        raise
    except Exception as error:
        compiling.explain(error)
        return compile(as_written, inputs)
    finally:
        tracing = outer

    @cache
    def otherwise():
        return compile(as_written, alike)

    def call(*args):
        try:
            return compiled(*args)
        except Shared:  # torch derives graphs for arguments that are apart
            return otherwise()(*args)
        except Outgrown as error:  # operator by operator it is done in parts
            compiling.explain(error, "its kernels cannot do it in parts")
            return otherwise()(*args)

    return placed(call, where.pop()) if where else call


def _flexible(graph: torch.fx.GraphModule) -> bool:
    return any(n.target is torch.ops.higher_order.flex_attention for n in graph.graph.nodes)


def placed(call: Callable, index: int) -> Callable:
    """A function that makes its tensors on that device."""

    def on_its_device(*args):
        if index == runtime.current():
            return call(*args)
        with runtime.on(index):
            return call(*args)

    return on_its_device


# -- where torch.compile finds it


def registered(registry):
    """By its name, and the way through Inductor by another."""
    registry.register_backend(compile, name=T.NAME)
    registry.register_backend(by_inductor, name=f"{T.NAME}_inductor")
    return registry


def by_inductor(graph: torch.fx.GraphModule, inputs: list):
    """The backend that goes through Inductor, whatever the switch says."""
    from torch._inductor.compile_fx import compile_fx

    original = getattr(compile_fx, "__wrapped__", compile_fx)
    return fused(original, graph, inputs, {}) if concerns(graph, inputs) else original(graph, inputs)


_TRACED = (
    "device/current.py", "integrations/decoding.py", "integrations/encoder.py", "integrations/generation.py",
    "integrations/torchao.py", "quantized/modules.py",
)  # fmt: skip


def untraced(trace_rules):
    """Kernels called between two graphs are no code to compile."""
    trace_rules.add(__package__.partition(".")[0])
    return trace_rules


def traced(original):
    """What stands in for a method or module is code to compile. torch makes the list anew when processes are joined."""
    own = {(Path(__file__).parents[1] / file).as_posix() for file in _TRACED}

    @cache
    def get_legacy_mod_inlinelist():
        return original.__wrapped__() | own

    return get_legacy_mod_inlinelist


def move_constructors(original: Callable) -> Callable:
    """Ranges and numbers that a graph makes on the CPU for what it does on the device are made there, as for CUDA."""

    @wraps(original)
    def move_constructors_to_gpu(graph: torch.fx.Graph) -> None:
        from torch._inductor.fx_passes.post_grad import ConstructorMoverPass

        original(graph)
        ConstructorMoverPass(T.NAME)(graph)

    return move_constructors_to_gpu


def in_place_of_inductor(original):
    """The device's graphs go the way that the switch says."""

    @wraps(original)
    def compile_fx(model_, example_inputs_, *args, **kwargs):
        ours = isinstance(model_, torch.fx.GraphModule) and "inner_compile" not in kwargs
        if not ours or not concerns(model_, example_inputs_):
            return original(model_, example_inputs_, *args, **kwargs)
        if env.COMPILE == "replay" or args:
            return compile(model_, example_inputs_)
        return fused(original, model_, example_inputs_, kwargs)

    return compile_fx
