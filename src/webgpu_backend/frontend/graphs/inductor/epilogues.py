"""Products of several rows, and of batches, take in the elementwise steps that follow them and that nobody else sees:
activations, a factor, the residual."""

from typing import NamedTuple

import torch
from torch.fx import Graph, Node

from .... import tensor as T
from ....ops.conv import finished as _finished  # noqa: F401  defines an operator
from ....ops.matmul import finished  # noqa: F401  and this one
from ....plan import caps
from .nodes import VIEWS, call, equal, known, size
from .products import CAST, FLOATS, STEPS, Text

aten, ours = torch.ops.aten, torch.ops.webgpu_backend
_LAID = {aten.permute.default, aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.squeeze.dim}
_PLAIN = {aten.mm.default, aten.bmm.default}
_ADDING = {aten.addmm.default, aten.baddbmm.default}
_PRODUCTS = {
    *_PLAIN, *_ADDING, ours.finished_product.default, aten.convolution.default, ours.finished_convolution.default,
}  # fmt: skip
_READERS = {*_PRODUCTS, ours.attention.default, ours.finished_attention.default}
_OVERLOAD = type(aten.mm.default)
_MOST = 24  # steps that a product takes in


def finish_products(graph: Graph) -> None:
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in [n for n in graph.nodes if n.target in (*_PLAIN, *_ADDING)]:
        found = Region(node, order).best if _serves(node) else None
        if found is None:
            continue
        c, a, b = (None, *node.args) if node.target in _PLAIN else node.args
        value = node.meta["val"]
        with graph.inserting_before(found.root):
            d = found.other
            if d is not None:
                whole = not equal(d.meta["val"].numel(), value.shape[-1])
                lead = [size(graph, a, i) for i in range(value.dim() - 1)] if whole else []
                d = call(graph, aten.reshape.default, d, [*lead, value.shape[-1]])
            dtype = found.root.meta["val"].dtype
            made = call(graph, ours.finished_product.default, a, b, c, d, found.after, dtype)
            if found.sizes is not None:
                made = call(graph, aten.reshape.default, made, found.sizes)
        order[made] = order[found.root]
        found.root.replace_all_uses_with(made)
    graph.eliminate_dead_code()


def _serves(node: Node) -> bool:
    """Matrices that can be bound, of which each element of the result is computed. How many rows they have, or how many
    of them there are, may change: what does not fit then is done in parts."""
    values = [a.meta["val"] for a in node.args] + [node.meta["val"]]
    if node.kwargs or not all([n > 0 for v in values for n in v.shape if isinstance(n, int)]):
        return False
    if any([v.dtype not in FLOATS or v.dtype != values[0].dtype or v.device.type != T.NAME for v in values]):
        return False
    return known(values[-2].shape[-2:]) and all(map(fits, values)) and not equal(values[-1].shape[-2], 1)


def fits(value: torch.Tensor) -> bool:
    """One binding, as far as that is known."""
    return not known(value.shape) or value.numel() * value.element_size() <= caps().max_binding


class Found(NamedTuple):
    """The last of the steps that a product takes in, all of them as text, what else they read, and the sizes that views
    have made of the product's."""

    root: Node
    after: str
    other: Node | None
    sizes: list | None


class Region:
    """Steps after a product that see nothing but it and one value of its shape or of its columns."""

    def __init__(self, product: Node, order: dict):
        self.size, self.columns = product.meta["val"].numel(), product.meta["val"].shape[-1]
        self.dtype = product.meta["val"].dtype
        self.order = order
        self.text = Text()
        self.inside = [product]
        self.other: Node | None = None
        self.viewed: dict[Node, list] = {}  # those that a view has made
        self.best: Found | None = None
        self.start(product)
        while len(self.inside) < _MOST and self._next():
            pass

    def start(self, product: Node) -> None:
        self.text.rounded(product, "r")

    def _next(self) -> bool:
        """Takes one more step in, if that can be."""
        users = {u for n in self.inside for u in n.users if u not in self.inside}
        step = min(users, key=lambda n: self.order.get(n, -1), default=None)
        if step is None or step.op != "call_function" or not self._shaped(step):
            return False
        if step.target in VIEWS or step.target is aten.clone.default:
            self.text.names[step] = self.text.names[step.args[0]]
        elif step.target not in (*STEPS, CAST) or not self._alike(step) or not self.text.step(step, self._leaf):
            return False
        if step.target in VIEWS:
            self.viewed[step] = list(step.args[1])
        for given in step.all_input_nodes:
            if given in self.viewed and step.target not in VIEWS:
                self.viewed[step] = self.viewed[given]
        self.inside.append(step)
        seen = [n for n in self.inside if any([u not in self.inside for u in n.users])]
        if seen == [step] and step.target in (*STEPS, CAST) and self._ends(step):
            self.ends_at(step)
        return True

    def ends_at(self, step: Node) -> None:
        after = self.text.source(step).replace("\n", "; ")  # generated code has it in comments
        self.best = Found(step, after, self.other, self.viewed.get(step))

    def _ends(self, step: Node) -> bool:
        """Whether its value may be what is stored. What follows in Inductor's kernels reads less of the product itself
        than of a wider dtype."""
        dtype = step.meta["val"].dtype
        if dtype not in FLOATS or dtype.itemsize > self.dtype.itemsize and not stored(step):
            return False
        return dtype != self.dtype or any([n.target in STEPS for n in self.inside])

    def _shaped(self, node: Node) -> bool:
        """Whether it has the product's elements, in its order."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not value.dim():
            return False
        return equal(value.shape[-1], self.columns) and equal(value.numel(), self.size)

    def _alike(self, step: Node) -> bool:
        """Whether what is taken from inside is not broadcast on the way."""
        shape = step.meta["val"].shape
        return all([equal(n.meta["val"].shape, shape) for n in step.all_input_nodes if n in self.inside])

    def _leaf(self, node: Node) -> str | None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in FLOATS:
            return None
        shape = self.inside[-1].meta["val"].shape
        if not value.dim() or not equal(value.shape[-1], self.columns) or not fits(value):
            return None
        if not equal(value.shape, shape) and not equal(value.numel(), self.columns):
            return None
        return self.meets(node)

    def meets(self, node: Node) -> str | None:
        """As the one value that is read beside what is computed, if it can be that; a cast of it is done here."""
        if self.other is not None:
            return None
        if node.target is CAST and node.args[0].meta["val"].dtype in FLOATS and there(node.args[0]):
            return self.text.names[node] if self.text.step(node, self.meets) else None
        if not there(node):
            return None
        self.other = node
        self.text.names[node] = "d"
        return "d"


def stored(node: Node) -> bool:
    """Whether somebody needs a value in memory whom Inductor's kernels cannot take in."""
    users = [n for u in node.users for n in (u.users if u.target in VIEWS else [u])]
    return any([u.op == "output" or u.target in _READERS for u in users])


def there(node: Node) -> bool:
    """Whether a value lies in memory anyway: to compute it for the product alone would not pay."""
    base = node
    while base.target in (*VIEWS, *_LAID):
        base = base.args[0]
    if base.op in ("placeholder", "get_attr") or base.target in _PRODUCTS or len(base.users) > 1:
        return True
    return base.op == "call_function" and not isinstance(base.target, _OVERLOAD)
