"""Products of the same rows by matrices of one size, as those that make queries, keys and values, become one: each of
them alone leaves a part of a large GPU idle at its end."""

import torch
from torch.fx import Graph, Node

from .... import tensor as T
from ....kernels.matmul.matmul import microseconds
from ....kernels.matmul.product import Matrix, Product
from ....kernels.matmul.tiles import tuning
from ....ops.matmul import alike  # noqa: F401  defines the operator
from ....plan import caps
from .nodes import VIEWS, call
from .products import FLOATS

aten, ours = torch.ops.aten, torch.ops.webgpu_backend
MOST = 0.9  # of the time that they would take one by one: estimates are not exact


def join_alike(graph: Graph) -> None:
    groups: dict[tuple, list[Node]] = {}
    for node in [n for n in graph.nodes if n.target in (aten.mm.default, aten.addmm.default)]:
        if (key := _key(node)) is not None:
            groups.setdefault(key, []).append(node)
    order = {node: i for i, node in enumerate(graph.nodes)}
    for nodes in groups.values():
        if len(nodes) > 1 and _pays(nodes) and all([order[x] < order[nodes[0]] for n in nodes for x in _others(n)]):
            _rewrite(graph, nodes)
    graph.eliminate_dead_code()


def _key(node: Node) -> tuple | None:
    """What products that can be joined have in common: the rows, and the size and dtype of their matrices, which lie
    transposed, as those of linear layers do."""
    *c, a, b = node.args
    values = [x.meta["val"] for x in (a, b, *c, node)]
    if node.kwargs or not all([isinstance(n, int) and n > 0 for v in values for n in v.shape]):
        return None
    if any([v.dtype not in FLOATS or v.dtype != values[0].dtype or v.device.type != T.NAME for v in values]):
        return None
    weight = _weight(b)
    if weight is None or not weight.meta["val"].is_contiguous() or any([x.meta["val"].dim() != 1 for x in c]):
        return None
    while a.target in VIEWS:
        a = a.args[0]
    return a, values[0].shape, values[1].shape, values[0].dtype, bool(c)


def _weight(b: Node) -> Node | None:
    turned = b.target is aten.permute.default and list(b.args[1]) == [1, 0]
    return b.args[0] if turned or b.target is aten.t.default else None


def _others(node: Node) -> list[Node]:
    """What a product reads, but for the rows."""
    *c, _, b = node.args
    return [_weight(b), *c]


def _pays(nodes: list[Node]) -> bool:
    """Whether one product and a copy of the matrices should take less time than the products one by one."""
    value, count = nodes[0].meta["val"], len(nodes)
    (m, n), k = value.shape, nodes[0].args[-1].meta["val"].shape[0]
    dtype, size = T.DTYPES[value.dtype], count * n * k * value.element_size()
    if max(size, count * m * n * value.element_size()) > caps().max_binding:
        return False

    def product(inner: int) -> Product:
        places = ((k, 1, 0), (k, 1, n * k), (n, 1, m * n))
        a, b, out = (Matrix(dtype, 0, row, column, 0, step) for row, column, step in places)
        return Product(m, n, k, a, b, out, inner=inner)

    one, all_of_them = (microseconds(product(inner), caps()) for inner in (1, count))
    if one is None or all_of_them is None:
        return False
    return all_of_them + tuning().launch + 2 * size / tuning().bandwidth < MOST * count * one


def _rewrite(graph: Graph, nodes: list[Node]) -> None:
    weights, added = [_weight(n.args[-1]) for n in nodes], [n.args[0] for n in nodes if n.target is aten.addmm.default]
    with graph.inserting_before(nodes[0]):
        made = call(graph, ours.alike_products.default, nodes[0].args[-2], weights, added)
        for i, node in enumerate(nodes):
            node.replace_all_uses_with(call(graph, aten.select.int, made, 0, i))
