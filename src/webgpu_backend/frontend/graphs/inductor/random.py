"""Random numbers inside kernels: each element's are words of the stream that the eager operator would draw from, at the
same place. What a graph draws is taken at once, where its first operator would begin.

A graph that draws anything else keeps all of its operators, so that the order of draws is theirs."""

import math

import sympy
import torch
from torch._inductor.ir import Pointwise
from torch._inductor.lowering import register_lowering
from torch._inductor.virtualized import ops
from torch.fx import Graph, Node

from ....ops.random import places  # noqa: F401  defines `drawn`
from .nodes import call

aten, prims, ours = torch.ops.aten, torch.ops.prims, torch.ops.webgpu_backend
_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_KINDS = ("uniform", "normal")
for _kind in _KINDS:
    _library.define(f"{_kind}_at(Tensor stream, int place, int[] size) -> Tensor")
    torch.library.register_fake(
        f"webgpu_backend::{_kind}_at",
        lambda stream, place, size: stream.new_empty(size, dtype=torch.float32),
        lib=_library,
    )
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def draw_inside(graph: Graph) -> None:
    drawing = [n for n in graph.nodes if _draws(n)]
    if not drawing or not all([_serves(n) for n in drawing]):
        return
    counters = [-(-_value(n).numel() // 4) for n in drawing]
    if sum(counters) >= 1 << 31:
        return
    with graph.inserting_before(drawing[0]):
        stream = graph.call_function(ours.drawn.default, (4 * sum(counters),))
        stream.meta["val"] = _value(drawing[0]).new_empty(4, dtype=torch.int32)  # nothing is drawn now
    place = 0
    for node, count in zip(drawing, counters):
        with graph.inserting_before(node):
            _SERVED[node.target](graph, node, stream, place)
        place += count
    for node in reversed(drawing):
        for user in list(node.users):  # results of an operator that has two
            graph.erase_node(user)
        graph.erase_node(node)


def _draws(node: Node) -> bool:
    if getattr(node.target, "namespace", "") == "higher_order":
        return True  # perhaps
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _value(node: Node) -> torch.Tensor:
    value = node.meta["val"]
    return value[0] if isinstance(value, (tuple, list)) else value


def _serves(node: Node) -> bool:
    """Whether a draw is known here: of elements that lie in order."""
    if node.target not in _SERVED or node.kwargs.get("generator") is not None:
        return False
    value = _value(node)
    whole = all([isinstance(n, int) for n in value.shape]) and value.is_contiguous() and value.numel() > 0
    if not whole or value.device.type != "webgpu" or value.dtype not in _FLOATS:
        return False
    if node.target is aten.native_dropout.default:
        _, p, train = node.args
        return train is True and 0 < p < 1 and node.args[0].meta["val"].is_contiguous()
    if node.target is aten.bernoulli.p:
        return 0 <= node.args[1] <= 1
    return value.dtype is torch.float32 or node.target not in (aten.rand.default, aten.rand_like.default)


def _single(x: float) -> float:
    """As a kernel's parameter holds it."""
    return torch.tensor(x, dtype=torch.float32, device="cpu").item()


def _words(graph: Graph, node: Node, kind: str, stream: Node, place: int) -> Node:
    return call(graph, getattr(ours, f"{kind}_at").default, stream, place, list(_value(node).shape))


def _dropout(graph: Graph, node: Node, stream: Node, place: int) -> None:
    x, p, _ = node.args
    kept = call(graph, aten.ge.Scalar, _words(graph, node, "uniform", stream, place), _single(p))
    factor = call(graph, prims.convert_element_type.default, kept, torch.float32)
    factor = call(graph, aten.mul.Tensor, factor, _single(1 / (1 - p)))
    wide = call(graph, prims.convert_element_type.default, x, torch.float32)
    made = call(graph, aten.mul.Tensor, wide, factor)
    made = call(graph, prims.convert_element_type.default, made, _value(node).dtype)
    for user in node.users:
        user.replace_all_uses_with((made, kept)[user.args[1]])


def _bernoulli(graph: Graph, node: Node, stream: Node, place: int) -> None:
    drawn = call(graph, aten.lt.Scalar, _words(graph, node, "uniform", stream, place), _single(node.args[1]))
    node.replace_all_uses_with(call(graph, prims.convert_element_type.default, drawn, _value(node).dtype))


def _plain(kind: str):
    def replace(graph: Graph, node: Node, stream: Node, place: int) -> None:
        drawn = _words(graph, node, kind, stream, place)
        node.replace_all_uses_with(call(graph, prims.convert_element_type.default, drawn, _value(node).dtype))

    return replace


_SERVED = {
    aten.native_dropout.default: _dropout,
    aten.bernoulli.p: _bernoulli,
    aten.rand.default: _plain("uniform"),
    aten.rand_like.default: _plain("uniform"),
    aten.randn.default: _plain("normal"),
    aten.randn_like.default: _plain("normal"),
}


# -- lowering


def register() -> None:
    for kind in _KINDS:
        register_lowering(getattr(ours, f"{kind}_at").default, type_promotion_kind=None)(_lowered(kind))


def _lowered(kind: str):
    def lower(stream, place: int, size):
        stream.realize()
        name, device = stream.get_name(), stream.get_device()
        steps = [math.prod(size[i + 1 :]) for i in range(len(size))]

        def element(index):
            flat = sympy.Add(*[i * step for i, step in zip(index, steps)])
            seed = ops.load_seed(name, place)
            return (ops.rand if kind == "uniform" else ops.randn)(seed, ops.index_expr(flat, torch.int32))

        return Pointwise.create(device=device, dtype=torch.float32, inner_fn=element, ranges=list(size))

    return lower
