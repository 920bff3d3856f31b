"""A token's query and key that are turned by its place, its key and value that are put into a cache of fixed size, and
attention over that, become one operator, where the three are parts of one row."""

import operator
from typing import NamedTuple

import torch
from torch.fx import Graph, Node

from ....ops.attention import cached
from .nodes import VIEWS, call, known, storage

aten, ours = torch.ops.aten, torch.ops.webgpu_backend
_HEADS_FIRST = [0, 2, 1, 3]


class _Put(NamedTuple):
    """What is put into which cache, at which place."""

    node: Node
    cache: Node
    place: Node
    value: Node


class _Turned(NamedTuple):
    x: Node
    cos: Node
    sin: Node


class _Heads(NamedTuple):
    """Heads side by side in a row, from one of its columns on."""

    row: Node
    start: int
    count: int


def attend_to_caches(graph: Graph) -> None:
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.find_nodes(op="call_function", target=ours.attention.default):
        outputs = [n for n in node.users if n.target is operator.getitem and n.users]
        if node.kwargs or any([n.args[1] != 0 for n in outputs]) or len(outputs) != 1:
            continue
        q, keys, values, mask, causal, scale, lies = node.args
        keys, values = _put(keys), _put(values)
        if causal or keys is None or values is None or keys.place is not values.place:
            continue
        if storage(keys.cache) == storage(values.cache):
            continue  # which a kernel cannot write to by two bindings
        if any([order[user] < order[node] for put in (keys, values) for user in put.node.users]):
            continue  # somebody sees the caches before this does
        q, k = _turned(q), _turned(keys.value)
        if q is None or k is None or (q.cos, q.sin) != (k.cos, k.sin):
            continue
        heads = [_heads(x) for x in (q.x, k.x, values.value)]
        if None in heads or len({h.row for h in heads}) > 1 or not _agree(heads, keys, values, q):
            continue
        rest = dict(place=keys.place, cos=q.cos, sin=q.sin, mask=mask, scale=scale)
        rest |= dict(heads=heads[0].count, starts=[h.start for h in heads], order=list(lies))
        made = _functional(graph, node, heads[0].row, keys.cache, values.cache, rest)
        for old, new in zip((outputs[0], keys.node, values.node), made):
            old.replace_all_uses_with(new)
            order[new] = order[node]
    graph.eliminate_dead_code()


def _functional(graph: Graph, before: Node, row: Node, keys: Node, values: Node, rest: dict) -> list[Node]:
    """The operator as torch writes one that changes its arguments before it decides where they may be changed: the
    result and both caches."""
    target = ours.cached_attention.default
    given = torch.fx.map_arg(rest, lambda n: n.meta["val"])
    result = target(row.meta["val"], keys.meta["val"], values.meta["val"], **given)
    found = result, keys.meta["val"], values.meta["val"]
    rest = rest | dict(fresh=row, _keys_base_index=0, _values_base_index=1, _all_bases=[keys, values])
    with graph.inserting_before(before):
        node = graph.call_function(torch.ops.higher_order.auto_functionalized_v2, (target,), rest)
        node.meta["val"] = found
        return [call(graph, operator.getitem, node, i) for i in range(3)]


def _put(node: Node) -> _Put | None:
    """keys or values with one more, at a place that is read."""
    if node.target is not aten.index_put.default or len(node.args) > 3 or node.kwargs:
        return None
    cache, (*lead, place), value = node.args
    if lead != [None, None] or not known(cache.meta["val"].shape) or cache.meta["val"].dim() != 4:
        return None
    number = place.meta["val"]
    return _Put(node, cache, place, value) if number.shape == (1,) and number.dtype is torch.int64 else None


def _turned(node: Node) -> _Turned | None:
    """x * cos + (the halves of x exchanged, the first one negated) * sin."""
    if node.target is not aten.add.Tensor or node.kwargs:
        return None
    along, across = node.args
    if not all([isinstance(n, Node) and n.target is aten.mul.Tensor for n in (along, across)]):
        return None
    (x, cos), (exchanged, sin) = along.args, across.args
    if exchanged.target is not aten.cat.default or len(exchanged.args) != 2 or exchanged.args[1] not in (-1, 3):
        return None
    if len(exchanged.args[0]) != 2 or exchanged.args[0][0].target is not aten.neg.default:
        return None
    second, first = exchanged.args[0][0].args[0], exchanged.args[0][1]
    size = x.meta["val"].shape[-1]
    halves = _part(first, x, 0, size // 2) and _part(second, x, size // 2, size)
    tensors = all([isinstance(n, Node) and isinstance(n.meta.get("val"), torch.Tensor) for n in (cos, sin)])
    return _Turned(x, cos, sin) if halves and tensors else None


def _part(node: Node, x: Node, start: int, end: int) -> bool:
    """Whether it is these elements of x's last dimension."""
    if node.target is not aten.slice.Tensor or node.args[0] is not x or len(node.args) != 4:
        return False
    size, (_, dim, first, last) = x.meta["val"].shape[-1], node.args
    if not known((size, first, last)) or dim not in (-1, x.meta["val"].dim() - 1):
        return False
    return first == start and min(last, size) == end


def _heads(node: Node) -> _Heads | None:
    """[batch, head, 1, element] that are a part of a row of [batch, 1, column]."""
    if node.target is not aten.permute.default or list(node.args[1]) != _HEADS_FIRST:
        return None
    batch, count, length, size = node.meta["val"].shape
    view = node.args[0]
    row = view.args[0] if view.target in VIEWS else view
    start = 0
    if row.target is aten.slice.Tensor and len(row.args) == 4 and row.args[1] in (-1, 2) and known(row.args[2:]):
        row, start = row.args[0], row.args[2]
    value = row.meta["val"]
    if value.dim() != 3 or not known(value.shape) or length != 1 or value.shape[:2] != (batch, 1):
        return None
    return _Heads(row, start, count)


def _agree(heads: list[_Heads], keys: _Put, values: _Put, turned: _Turned) -> bool:
    """Whether sizes and dtypes are those that the operator takes."""
    row, cos, sin = (n.meta["val"] for n in (heads[0].row, turned.cos, turned.sin))
    k, v = keys.cache.meta["val"], values.cache.meta["val"]
    batch, shared, length, size = k.shape
    if (row.shape[0], heads[1].count, heads[2].count) != (batch, shared, shared) or heads[0].count % shared:
        return False
    if v.shape[:3] != k.shape[:3] or turned.x.meta["val"].shape[-1] != size:
        return False
    if (
        cos.shape != sin.shape
        or cos.stride() != sin.stride()
        or cos.shape not in ((1, 1, 1, size), (batch, 1, 1, size))
    ):
        return False
    return cached.serves(row, k, v, cos, sin, heads[0].count, tuple([h.start for h in heads]))
