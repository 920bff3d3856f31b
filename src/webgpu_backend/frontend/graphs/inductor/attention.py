"""Attention takes in the elementwise steps that follow it and that nobody else sees, also where heads are put side by
side first: a gate, a factor."""

import operator

import torch
from torch.fx import Graph, Node

from .... import tensor as T
from ....ops.attention import finished  # noqa: F401  defines the operator
from .epilogues import Region, fits, there
from .nodes import VIEWS, call, equal, size
from .products import CAST, FLOATS, STEPS

aten, ours = torch.ops.aten, torch.ops.webgpu_backend
_ROWS = (0, 2, 1, 3)  # rows before heads


def finish_attention(graph: Graph) -> None:
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.find_nodes(op="call_function", target=ours.attention.default):
        outputs = [n for n in node.users if n.target is operator.getitem]
        if any([n.args[1] != 0 for n in outputs]) or len(outputs) != 1:
            continue
        region = _Region(outputs[0], order)
        if region.best is None:
            continue
        root, after, other, sizes = region.best
        q, k, v, mask, causal, scale, lies = node.args
        by_rows = root in region.rows
        with graph.inserting_before(root):
            if other is not None and region.turned:
                wanted = [size(graph, v if d == 3 else q, d) for d in _ROWS]
                other = call(graph, aten.reshape.default, other, wanted)
                other = call(graph, aten.permute.default, other, list(_ROWS))
            lies = list(_ROWS if by_rows else lies)
            rest = (causal, scale, lies, after, root.meta["val"].dtype)
            made = call(graph, ours.finished_attention.default, q, k, v, mask, other, *rest)
            if by_rows:
                made = call(graph, aten.permute.default, made, list(_ROWS))
            if sizes is not None:
                made = call(graph, aten.reshape.default, made, sizes)
        order[made] = order[root]
        root.replace_all_uses_with(made)
    graph.eliminate_dead_code()


class _Region(Region):
    """Steps after attention that see nothing but it and one value: of the shape that a step has, or broadcast to it
    while heads come before rows."""

    def start(self, product: Node) -> None:
        self.sizes = tuple(product.meta["val"].shape)
        self.rows: set[Node] = set()  # in which rows come before heads
        self.turned = False  # the value beside them lies as those do
        self.text.rounded(product, "r")

    def _next(self) -> bool:
        users = {u for n in self.inside for u in n.users if u not in self.inside}
        turned = [u for u in users if u.target is aten.permute.default and tuple(u.args[1]) == _ROWS]
        if len(users) == len(turned) == 1 and self.inside[-1] is turned[0].args[0] and not self.rows:
            self.text.names = {turned[0]: self.text.names[turned[0].args[0]]}  # what was met lies by heads
            self.inside.append(turned[0])
            self.rows.add(turned[0])
            return True
        taken = super()._next()
        if taken and any([n in self.rows for n in self.inside[-1].all_input_nodes]):
            self.rows.add(self.inside[-1])
        return taken

    def _shaped(self, node: Node) -> bool:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return False
        if self.rows:
            return equal(value.numel(), self.size)
        return equal(value.shape, self.sizes) and node.target not in VIEWS

    def _leaf(self, node: Node) -> str | None:
        value, shape = node.meta.get("val"), tuple(self.inside[-1].meta["val"].shape)
        if not isinstance(value, torch.Tensor) or value.dtype not in FLOATS or value.device.type != T.NAME:
            return None
        if value.dim() > len(shape) or not fits(value):
            return None
        sizes = (*[1] * (len(shape) - value.dim()), *value.shape)
        if self.rows and not equal(sizes, shape):
            return None
        if not all([equal(n, 1) or equal(n, wanted) for n, wanted in zip(sizes, shape)]):
            return None
        alone = node.target in (*STEPS, CAST) and not there(node)
        if alone and equal(value.shape, shape):  # made for this alone: with it, if it is made of one value
            return self.text.names[node] if self.text.step(node, self._leaf) else None
        return self.meets(node)

    def meets(self, node: Node) -> str | None:
        first, found = self.other is None, super().meets(node)
        if first and self.other is node:
            self.turned = bool(self.rows)
        return found
