"""Rotary embeddings of one token: `x * cos + turned(x) * sin`, where `turned` changes the halves of each head and the
sign of one of them, and `x` is a product.

An element of `x` meets one that other threads sum up, so the rotation would be a kernel of its own, behind all of the
product. But the halves of a product by a matrix are the products by the halves of that: each thread sums up both
elements, reads twice as much of a matrix that most threads find in a cache, and there is one kernel.
"""

import torch
from torch.fx import Graph, Node

from .nodes import VIEWS, call

aten, prims = torch.ops.aten, torch.ops.prims
_MOST = 1 << 22  # elements of a matrix; to read a larger one twice takes longer than a kernel


def turned_halves(product: Node) -> list[tuple[Node, list[Node]]]:
    """The nodes that turn the halves of the heads of a product of one row, each with the views in between."""
    if product.args[-1].meta["val"].numel() > _MOST:
        return []
    found, left = [], [(product, [])]
    while left:
        node, views = left.pop()
        for user in node.users:
            moved = views and views[-1].target is aten.permute.default
            if user.target in VIEWS and not moved:
                left.append((user, [*views, user]))
            elif user.target is aten.permute.default and not moved and _keeps_last(user):
                left.append((user, [*views, user]))
            elif user.target is aten.slice.Tensor:
                found += [(cat, views) for cat in _cats(node, user)]
    return found


def _keeps_last(node: Node) -> bool:
    last = node.meta["val"].dim() - 1
    return node.args[1][-1] in (last, -1)


def _cats(x: Node, first: Node) -> list[Node]:
    """cat((-x[..., half:], x[..., :half]), -1), where `first` is a slice of x and one of these."""
    shape = x.meta["val"].shape
    last, half = len(shape) - 1, shape[-1] // 2
    if shape[-1] % 2 or _part(first, last, shape[-1]) != (0, half):
        return []
    found = []
    for cat in first.users:
        if cat.target is not aten.cat.default or (cat.args[1] if len(cat.args) > 1 else 0) not in (last, -1):
            continue
        parts = cat.args[0]
        if len(parts) == 2 and parts[1] is first and parts[0].target is aten.neg.default:
            other = parts[0].args[0]
            same = other.target is aten.slice.Tensor and other.args[0] is x
            if same and _part(other, last, shape[-1]) == (half, shape[-1]):
                found.append(cat)
    return found


def _part(node: Node, last: int, size: int) -> tuple[int, int] | None:
    """From where to where a slice of the last dimension goes."""
    dim, start, end, step = (*node.args[1:], *(0, None, None, 1)[len(node.args) - 1 :])
    plain = all([n is None or isinstance(n, int) for n in (start, end)])
    if node.kwargs or dim not in (last, -1) or step != 1 or not plain:
        return None
    return start or 0, size if end is None else min(end, size)


def summed(graph: Graph, across: Node, row: Node, bias: Node | None) -> Node:
    """The product of a row, as sums along the rows of a matrix."""
    made = call(graph, aten.sum.dim_IntList, call(graph, aten.mul.Tensor, across, row), [1])
    return made if bias is None else call(graph, aten.add.Tensor, made, bias)


def turn(graph: Graph, product: Node, views: list[Node], across: Node, row: Node, bias: Node | None) -> Node:
    """What stands for the halves of a product, turned: a product with the rows of the matrix in that order."""
    value = product.meta["val"]
    half = views[-1].meta["val"].shape[-1] // 2 if views else value.shape[-1] // 2

    def halves(x: Node) -> Node:
        shape = list(x.meta["val"].shape)
        parts = call(graph, aten.reshape.default, x, [shape[0] // (2 * half), 2, half, *shape[1:]])
        return call(graph, aten.reshape.default, call(graph, prims.rev.default, parts, [1]), shape)

    made = summed(graph, halves(across), row, None if bias is None else halves(bias))
    made = call(graph, prims.convert_element_type.default, made, value.dtype)
    made = call(graph, aten.reshape.default, made, [value.shape[-1] // (2 * half), 2, half])
    made = call(graph, aten.mul.Tensor, made, _signs(graph, value))
    made = call(graph, aten.reshape.default, made, list(value.shape))
    for view in views:
        made = call(graph, view.target, made, *view.args[1:])
    return made


def _signs(graph: Graph, value: torch.Tensor) -> Node:
    """Of the first half, and of the second."""
    kwargs = dict(start=-1, step=2, dtype=torch.int32, device=value.device, requires_grad=False)
    made = graph.call_function(prims.iota.default, (2,), kwargs)
    with value.fake_mode:
        made.meta["val"] = prims.iota.default(2, **kwargs)
    made = call(graph, aten.reshape.default, made, [2, 1])
    return call(graph, prims.convert_element_type.default, made, value.dtype)
