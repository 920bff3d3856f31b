"""Products of few rows with quantised weights take in what is around them: those of the same rows become one call, with
the norm of these rows, and with the elementwise steps that nobody else sees."""

import ast
import math
from typing import NamedTuple

import torch
from torch.fx import Graph, Node

from .... import tensor as T
from ....ops.quantized import fused
from ....plan import caps
from .nodes import call
from .values import SOURCES, source_of

aten, prims, ours = torch.ops.aten, torch.ops.prims, torch.ops.webgpu_backend
FLOATS = {torch.float32: "float({})", torch.float16: "half(float({}))", torch.bfloat16: "brain(float({}))"}
_MOST = 24  # steps that a product takes in
STEPS = {
    aten.add.Tensor: "add", aten.sub.Tensor: "sub", aten.mul.Tensor: "mul", aten.div.Tensor: "truediv",
    aten.neg.default: "neg", aten.exp.default: "exp", aten.sigmoid.default: "sigmoid", aten.tanh.default: "tanh",
    aten.relu.default: "relu", aten.erf.default: "erf", aten.abs.default: "abs", aten.reciprocal.default: "reciprocal",
    aten.pow.Tensor_Scalar: "pow", aten.square.default: "square", aten.sqrt.default: "sqrt",
    aten.rsqrt.default: "rsqrt", aten.expm1.default: "expm1", aten.log1p.default: "log1p",
    aten.clamp_min.default: "maximum", aten.clamp_max.default: "minimum", aten.maximum.default: "maximum",
    aten.minimum.default: "minimum", aten.gt.Scalar: "gt", aten.lt.Scalar: "lt", aten.ge.Scalar: "ge",
    aten.le.Scalar: "le", aten.where.self: "where",
}  # fmt: skip


def join_products(graph: Graph) -> None:
    groups: dict[tuple, list[Node]] = {}
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.find_nodes(op="call_function", target=ours.linear_blocks.default):
        if _serves(node):
            groups.setdefault((node.args[0], node.args[4]), []).append(node)
    for (x, _), nodes in groups.items():
        nodes.sort(key=order.get)
        norm = _norm(x, {node for (other, _), found in groups.items() if other is x for node in found})
        for joint in _calls(nodes, order, norm is not None):
            _rewrite(graph, joint, norm)
    graph.eliminate_dead_code()


def _serves(node: Node) -> bool:
    x, codes, scales, bias, format = node.args
    shape = x.meta["val"].shape
    held = [t for t in (codes, scales, bias) if t is not None]
    if node.kwargs or not node.users or any([t.op not in ("placeholder", "get_attr") for t in held]):
        return False
    if not all([isinstance(n, int) for n in shape]) or node.meta["val"].device.type != T.NAME:
        return False
    rows = math.prod(shape[:-1])
    return rows > 0 and fused.serves(rows, x.meta["val"].dtype, [codes.meta["val"]], [scales.meta["val"]], format)


class _Call(NamedTuple):
    """Products that become one, where their values are used first, what they meet, and what is made of them. Results
    are apart, or there is one, the value of `root`."""

    products: list[Node]
    others: list[Node]
    after: str
    root: Node | None


def _calls(nodes: list[Node], order: dict, normed: bool) -> list[_Call]:
    """How products of the same rows are taken together: two whose results meet, then all that are left."""
    found, left = [], list(nodes)
    for node in nodes:
        if node in left:
            region = _region(node, left, order)
            if region is not None and len(region.products) == 2 and _bindable(region):
                found.append(region)
                left = [n for n in left if n not in region.products]
    if len(left) == 1:
        region = _region(left[0], left, order)
        found.append(region if region is not None and _bindable(region) else _apart(left))
    else:
        while left:
            count = next(c for c in range(len(left), 0, -1) if c == 1 or _bindable(_apart(left[:c])))
            found.append(_apart(left[:count]))
            left = left[count:]
    return [c for c in found if len(c.products) > 1 or c.root is not None or normed]


def _apart(nodes: list[Node]) -> _Call:
    """Results that stand one after the other; biases, where one has any, are for all of them."""
    biases = [n.args[3] for n in nodes]
    if None in biases:
        return _Call(nodes, [], "v0", None)
    return _Call(nodes, biases, "v0 + o0", None)


def _bindable(joint: _Call) -> bool:
    """With the rows, a norm and the output. Products that have no bias cannot be beside one that has."""
    mixed = joint.root is None and not joint.others and any([n.args[3] is not None for n in joint.products])
    return not mixed and 2 * len(joint.products) + len(joint.others) + 3 <= caps().max_bindings


def _rewrite(graph: Graph, joint: _Call, norm: "_Norm | None") -> None:
    first = joint.root or joint.products[0]
    x, _, _, _, format = joint.products[0].args
    codes, scales = ([n.args[i] for n in joint.products] for i in (1, 2))
    before = (norm.weight, norm.eps, norm.source) if norm else (None, 0.0, "")
    rows = norm.rows if norm else x
    joined = joint.root is None
    with graph.inserting_before(first):
        target = ours.products_of_blocks.default
        made = call(graph, target, rows, codes, scales, format, joint.others, joined, joint.after, *before)
        if joint.root is not None:
            joint.root.replace_all_uses_with(made)
            return
        start, dim = 0, len(made.meta["val"].shape) - 1
        for node in joint.products:
            end = start + node.args[1].meta["val"].shape[0]
            part = made if len(joint.products) == 1 else call(graph, aten.slice.Tensor, made, dim, start, end)
            node.replace_all_uses_with(part)
            start = end


# -- what is done to the results


def _region(product: Node, group: list[Node], order: dict) -> _Call | None:
    """The most steps after a product that see nothing but it, another one of its group, and values of its shape or of
    its columns; all but the last are seen by nobody else."""
    shape, text = product.meta["val"].shape, Text()
    members, others, best = [], [], None

    def leaf(node: Node) -> str | None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in FLOATS:
            return None
        if node in group and value.shape == shape:
            members.append(node)
            bias = "" if node.args[3] is None else f" + {leaf(node.args[3])}"
            text.rounded(node, f"v{len(members) - 1}{bias}")
            return text.names[node]
        if value.shape != shape and value.shape != shape[-1:]:
            return None
        others.append(node)
        text.names[node] = f"o{len(others) - 1}"
        return text.names[node]

    leaf(product)
    while len(text.names) < _MOST:
        within = [n for n in text.names if n not in others]
        users = {u for n in within for u in n.users if u not in text.names}
        step = min(users, key=lambda n: order.get(n, -1), default=None)
        if step is None or step.op != "call_function" or step.target not in (*STEPS, CAST):
            break
        if step.meta["val"].shape != shape or not text.step(step, leaf):
            break
        within = [n for n in text.names if n not in others]
        seen = [n for n in within if any([u not in text.names for u in n.users])]
        if seen == [step] and step.meta["val"].dtype == product.meta["val"].dtype:
            best = _Call(list(members), list(others), text.source(step), step)
    return best


CAST = prims.convert_element_type.default


class Text:
    """Steps of a graph as statements, whose values are rounded as their dtypes would round them."""

    def __init__(self):
        self.names: dict[Node, str] = {}
        self.lines: list[str] = []

    def rounded(self, node: Node, source: str) -> None:
        name = f"t{len(self.lines)}"
        self.names[node] = name
        self.lines.append(f"{name} = {FLOATS.get(node.meta['val'].dtype, '{}').format(source)}")

    def step(self, node: Node, leaf) -> bool:
        """Adds a step; `leaf` names a value that comes from elsewhere, or says None."""
        if node.kwargs or node.meta["val"].dtype not in (*FLOATS, torch.bool):
            return False
        given = node.args[:1] if node.target is CAST else node.args
        if _folds(node):
            return False
        names = [self._named(a, leaf) for a in given]  # statements that they take come before
        source = "a" if node.target is CAST else _source(STEPS[node.target])
        if None in names or source is None:
            return False
        self.rounded(node, ast.unparse(_Renamed(dict(zip("abc", names))).visit(ast.parse(source, mode="eval"))))
        return True

    def _named(self, value, leaf) -> str | None:
        if isinstance(value, Node):
            return self.names.get(value) or leaf(value)
        return f"({value!r})" if isinstance(value, int | float) and math.isfinite(value) else None

    def source(self, result: Node) -> str:
        return "\n".join([*self.lines, self.names[result]])


def _folds(node: Node) -> bool:
    """Whether drivers would compute it by a rule that knows neither infinities nor NaN: x * 0.0, 0.0 / x, x - x."""
    zero = any([isinstance(a, int | float) and a == 0 for a in node.args])
    if node.target in (aten.mul.Tensor, aten.div.Tensor):
        return zero
    return node.target is aten.sub.Tensor and node.args[0] is node.args[1]


def _source(name: str) -> str | None:
    """An expression of one statement, or None."""
    source = SOURCES.get(name) or source_of(name)
    if name in ("gt", "lt", "ge", "le"):  # drivers make a maximum, which knows no NaN, of `where(a < 0, 0, a)`
        source = f"({source}) & ~isnan(a)"
    return source if source is not None and len(ast.parse(source.strip()).body) == 1 else None


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        found = self.names.get(node.id)
        return node if found is None else ast.parse(found, mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Call(node.func, [self.visit(a) for a in node.args], [])


# -- what is done to the rows before


class _Norm(NamedTuple):
    """Rows, what they are times, and how: an expression of an element a, of the inverse r of the root of the mean of
    its row's squares, and of its factor w."""

    rows: Node
    weight: Node | None
    eps: float
    source: str


def _norm(x: Node, products: set[Node]) -> _Norm | None:
    """How rows are normalised by the mean of their squares, where nobody but products sees the result."""
    if set(x.users) - products:
        return None
    steps = _steps_before(x)
    inverse = [n for n in steps if n.target is aten.rsqrt.default]
    if len(inverse) != 1 or (found := _mean_of_squares(inverse[0])) is None:
        return None
    rows, eps = found
    if rows.meta["val"].shape != x.meta["val"].shape or rows.meta["val"].dtype != x.meta["val"].dtype:
        return None
    text, weights = Text(), []
    text.names = {rows: "a", inverse[0]: "r"}

    def leaf(node: Node) -> str | None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in FLOATS or value.shape != x.meta["val"].shape[-1:]:
            return None
        if node.target in (*STEPS, CAST):
            return text.names[node] if text.step(node, leaf) else None
        if weights or node.op not in ("placeholder", "get_attr"):
            return None
        weights.append(node)
        text.names[node] = "w"
        return "w"

    for node in reversed(steps):
        if node not in text.names and node.meta["val"].shape == x.meta["val"].shape and not text.step(node, leaf):
            return None
    if x not in text.names:
        return None
    return _Norm(rows, weights[0] if weights else None, eps, text.source(x))


def _steps_before(x: Node) -> list[Node]:
    """Elementwise steps that a value is made of, back to an inverse root, each before what it is made of."""
    found, left = [], [x]
    while left and len(found) < _MOST:
        node = left.pop(0)
        if node in found or node.op != "call_function" or node.target not in (*STEPS, CAST, aten.rsqrt.default):
            continue
        found.append(node)
        if node.target is not aten.rsqrt.default:
            left += [a for a in node.all_input_nodes if a.meta["val"].dim() == x.meta["val"].dim()]
    return found


def _mean_of_squares(inverse: Node) -> tuple[Node, float] | None:
    """What 1 / sqrt(mean(x * x) + eps) is made of."""
    added = inverse.args[0]
    if added.target is not aten.add.Tensor or not isinstance(added.args[1], float):
        return None
    mean, eps = added.args
    if mean.target is not aten.mean.dim or len(mean.args) != 3 or mean.args[2] is not True:
        return None
    square, dims = mean.args[:2]
    if list(dims) not in ([-1], [square.meta["val"].dim() - 1]):
        return None
    if square.target is aten.pow.Tensor_Scalar and square.args[1] == 2:
        rows = square.args[0]
    elif square.target is aten.mul.Tensor and square.args[0] is square.args[1]:
        rows = square.args[0]
    else:
        return None
    if rows.target is CAST and rows.args[1] is torch.float32:
        return rows.args[0], eps
    return None
