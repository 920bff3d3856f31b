"""Products of one row, as a token's are: sums along the rows of the other operand. Bound by reading that once, they
take what is before and after them into their kernel, also the norm of their row."""

import operator

import torch
from torch.fx import Graph, Node

from .nodes import VIEWS, call, realized
from .turns import summed, turn, turned_halves

aten, prims = torch.ops.aten, torch.ops.prims
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_LONGEST = 4096  # elements of a row that threads keep while its norm is computed
_MOST = 1 << 25  # elements of a matrix; for one that takes longer to read, a norm of its own is nothing
_CAST = prims.convert_element_type.default
_STEPS = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.neg.default, aten.rsqrt.default,
    aten.sqrt.default, aten.reciprocal.default, aten.pow.Tensor_Scalar, aten.square.default, aten.add.Scalar,
    aten.mul.Scalar, aten.sub.Scalar, aten.div.Scalar, _CAST,
}  # fmt: skip
_OF_ROWS = {aten.mean.dim, aten.sum.dim_IntList, aten.var_mean.correction, aten.var.correction}


def single_rows(graph: Graph) -> None:
    found = [n for n in graph.nodes if n.target in (aten.mm.default, aten.addmm.default) and _serves(n)]
    for node in found:
        bias, x, w = (None, *node.args) if node.target is aten.mm.default else node.args
        norm = _norm(x, found) if w.meta["val"].numel() <= _MOST else None
        turned = turned_halves(node)
        with graph.inserting_before(node):
            across = call(graph, aten.permute.default, call(graph, _CAST, w, torch.float32), [1, 0])
            if norm is None:
                row = call(graph, realized, x)
            else:
                row = _Repeated(graph, norm, across.meta["val"].shape).of(x)
            row = call(graph, _CAST, row, torch.float32)
            made = summed(graph, across, row, bias)
            made = call(graph, aten.view.default, made, list(node.meta["val"].shape))
            made = call(graph, _CAST, made, node.meta["val"].dtype)
            for cat, views in turned:
                cat.replace_all_uses_with(turn(graph, node, views, across, row, bias))
        node.replace_all_uses_with(made)
    for node in found:
        graph.erase_node(node)
    graph.eliminate_dead_code()


def _serves(node: Node) -> bool:
    """One row times a matrix whose columns lie one after the other, as a layer's weights do."""
    x, w = (a.meta["val"] for a in node.args[-2:])
    sizes = [n for n in (*x.shape, *w.shape) if isinstance(n, int)]
    one = len(sizes) == 4 and x.shape[0] == 1 and x.shape[1] >= 64 and w.stride()[0] == 1
    return one and node.meta["val"].dtype in _FLOATS and not node.kwargs


# -- norms


def _norm(x: Node, products: list[Node]) -> set[Node] | None:
    """The row, if it is not held, that `x` is made of by elementwise steps and by reductions, where nobody sees the
    result but products; None for a row that is made in another way."""
    length = x.meta["val"].numel()
    if length > _LONGEST or length % 4:
        return None
    start = _base(x)
    if not all([user in products or _seen_by(user, products) for user in start.users]):
        return None
    rows, seen, left, reduced = set(), set(), [start], False
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        value = node.meta.get("val")
        if _held(node):
            if not _of_row(value, length):
                return None
            continue
        whole = isinstance(value, torch.Tensor) and value.numel() == length
        if (whole and node is not start and len(node.users) > 1) or not _known(node, length):
            rows.add(_base(node))
            continue
        reduced |= node.target in _OF_ROWS
        left += node.all_input_nodes
    values = [row.meta.get("val") for row in rows if not _held(row)]
    fits = reduced and len(values) <= 1 and all([isinstance(v, torch.Tensor) and v.numel() == length for v in values])
    return rows if fits else None


def _of_row(value: torch.Tensor, length: int) -> bool:
    """Whether there is a value for each element of a row, or one for all."""
    return value.numel() == 1 or tuple(value.shape[-1:]) == (value.numel(),) == (length,)


def _view(node: Node) -> bool:
    """Whether it has the elements of its argument, in their order."""
    whole = node.target is aten.slice.Tensor and node.meta["val"].shape == node.args[0].meta["val"].shape
    return node.target in VIEWS or whole


def _base(node: Node) -> Node:
    """What this is a view or a cast of."""
    while _view(node) or node.target is _CAST:
        node = node.args[0]
    return node


def _seen_by(node: Node, products: list[Node]) -> bool:
    """Whether a view or a cast is for products alone."""
    same = _view(node) or node.target is _CAST
    return same and all([user in products or _seen_by(user, products) for user in node.users])


def _held(node: Node) -> bool:
    return node.op in ("placeholder", "get_attr") and isinstance(node.meta.get("val"), torch.Tensor)


def _known(node: Node, length: int) -> bool:
    """Whether a step can be done for a row alone."""
    if node.op != "call_function" or node.target in _OF_ROWS:
        return node.op == "call_function" and _along(node, length)
    if node.target is operator.getitem:
        return node.args[0].target in _OF_ROWS
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in _FLOATS or not _of_row(value, length):
        return False
    return _view(node) or (node.target in _STEPS and not node.kwargs)


def _along(node: Node, length: int) -> bool:
    """Whether a reduction is of the row, which stays a dimension."""
    value, dims = node.args[0].meta["val"], node.args[1] if len(node.args) > 1 else None
    keeps = (node.args[2] if len(node.args) > 2 else False) or node.kwargs.get("keepdim", False)
    last = dims is not None and list(dims) in ([-1], [value.dim() - 1])
    return keeps is True and last and tuple(value.shape[-1:]) == (value.numel(),) == (length,)


class _Repeated:
    """A row's steps for each row of a matrix: whoever multiplies one computes them again."""

    def __init__(self, graph: Graph, rows: set[Node], shape: torch.Size):
        self.graph = graph
        self.shape = tuple(shape)
        self.made = {row: self._broadcast(row if _held(row) else call(graph, realized, row)) for row in rows}

    def _broadcast(self, leaf: Node) -> Node:
        size = leaf.meta["val"].numel()
        flat = call(self.graph, aten.reshape.default, leaf, [1, size])
        return flat if size == 1 else call(self.graph, aten.expand.default, flat, list(self.shape))

    def of(self, node):
        if not isinstance(node, Node):
            return node
        if node not in self.made:
            self.made[node] = self._again(node)
        return self.made[node]

    def _again(self, node: Node) -> Node:
        if _view(node):
            return self.of(node.args[0])
        if _held(node):
            return self._broadcast(node)
        args = [self.of(a) for a in node.args]
        if node.target in _OF_ROWS:
            args[1] = [1]
        made = self.graph.call_function(node.target, tuple(args), node.kwargs)
        known = torch.fx.map_arg(tuple(args), lambda n: n.meta["val"])
        made.meta["val"] = node.target(*known, **node.kwargs)
        return made
