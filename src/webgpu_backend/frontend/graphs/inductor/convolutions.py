"""Convolutions take in the elementwise steps that follow them and that nobody else sees: a norm with kept statistics,
activations, the residual."""

import torch
from torch.fx import Graph, Node

from .... import tensor as T
from ....ops.conv.finished import serves
from ....ops.conv.operators import each
from .epilogues import Region, fits
from .nodes import call, equal, known
from .products import CAST, FLOATS

aten, prims, ours = torch.ops.aten, torch.ops.prims, torch.ops.webgpu_backend
_MOST_NUMBERS = 6  # of a channel: the kernel that puts them side by side has a buffer for each


def finish_convolutions(graph: Graph) -> None:
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        region = _Region(node, order) if _serves(node) else None
        if region is None or region.best is None:
            continue
        root, after, other, _ = region.best
        x, weight, *_ = node.args
        with graph.inserting_before(root):
            table = _table(graph, region.best_numbers, node.meta["val"].shape[1])
            dtype = root.meta["val"].dtype
            made = call(graph, ours.finished_convolution.default, x, weight, table, other, *_how(node), after, dtype)
        order[made] = order[root]
        root.replace_all_uses_with(made)
    graph.eliminate_dead_code()


def _serves(node: Node) -> bool:
    values, how = [a.meta["val"] for a in (*node.args[:3], node) if a is not None], _how(node)
    if node.kwargs or not all([n > 0 for v in values for n in v.shape if isinstance(n, int)]):
        return False
    if any([v.dtype not in FLOATS or v.dtype != values[0].dtype or v.device.type != T.NAME for v in values]):
        return False
    if not known(_flat(how)) or values[0].dim() > 5:
        return False
    if not all([known(v.shape) for v in values]):  # images, or their number, may change: the kernels fit any
        stride, _, _, transposed, *_ = how
        if transposed and max(stride) > 1:  # sizes say whether all of its phases take something in
            return False
        return known([*values[1].shape, values[0].shape[1]]) and fits(values[1])
    return serves(*values[:2], *how)


def _how(node: Node) -> list:
    """Strides and the rest."""
    return each(node.args[0].meta["val"].dim() - 2, *node.args[3:])


def _flat(values) -> list:
    return [n for v in values for n in (v if isinstance(v, list | tuple) else [v])]


def _table(graph: Graph, numbers: list[Node], channels: int) -> Node | None:
    """What is known of each channel, side by side."""
    if not numbers:
        return None
    dtypes = {n.meta["val"].dtype for n in numbers}
    columns = []
    for number in numbers:
        if len(dtypes) > 1 and number.meta["val"].dtype != torch.float32:
            number = call(graph, CAST, number, torch.float32)
        if number.meta["val"].numel() != channels:
            number = call(graph, aten.expand.default, number, [channels] + [1] * max(number.meta["val"].dim() - 1, 0))
        columns.append(call(graph, aten.reshape.default, number, [channels, 1]))
    *first, made = columns
    if first:  # not `cat`, which may be a kernel for each of them
        place = _places(graph, len(columns), made.meta["val"])
        for i, column in reversed([*enumerate(first)]):
            made = call(graph, aten.where.self, call(graph, aten.eq.Scalar, place, i), column, made)
    return made


def _places(graph: Graph, count: int, like: torch.Tensor) -> Node:
    how = dict(start=0, step=1, dtype=torch.int64, device=like.device, requires_grad=False)
    node = graph.call_function(prims.iota.default, (count,), how)
    with like.fake_mode:
        node.meta["val"] = prims.iota.default(count, **how)
    return node


class _Region(Region):
    """Steps after a convolution that see nothing but it, numbers of its channels, and one value of its shape or that is
    broadcast to it."""

    def start(self, product: Node) -> None:
        self.shape = product.meta["val"].shape
        self.numbers: list[Node] = []
        self.best_numbers: list[Node] = []
        bias = product.args[2]
        self.text.rounded(product, "r" if bias is None else f"r + {self._number(bias)}")
        if bias is not None:  # which Inductor would add by a kernel of its own
            self.ends_at(product)
            self.best_numbers = [bias]

    def _next(self) -> bool:
        before = self.best
        taken = super()._next()
        if self.best is not before:
            self.best_numbers = list(self.numbers)
        return taken

    def _shaped(self, node: Node) -> bool:
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and equal(value.shape, self.shape)

    def _number(self, node: Node) -> str | None:
        if len(self.numbers) == _MOST_NUMBERS:
            return None
        self.numbers.append(node)
        self.text.names[node] = f"e{len(self.numbers) - 1}"
        return self.text.names[node]

    def _leaf(self, node: Node) -> str | None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in FLOATS or value.device.type != T.NAME:
            return None
        if value.dim() > len(self.shape):
            return None
        sizes = (*[1] * (len(self.shape) - value.dim()), *value.shape)
        if not all([equal(n, 1) or equal(n, wanted) for n, wanted in zip(sizes, self.shape)]):
            return None
        if equal(value.numel(), 1) or equal(sizes, (1, self.shape[1], *[1] * (len(sizes) - 2))):
            return self._number(node)
        return self.meets(node) if fits(value) else None
