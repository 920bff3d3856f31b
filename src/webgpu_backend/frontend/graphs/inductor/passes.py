"""Passes over Inductor's graphs, and what its caches on disk know our code by."""

import operator
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.multiprocessing.reductions import StorageWeakRef

import webgpu_backend

from ....plan import caps
from .alike import join_alike
from .attention import finish_attention
from .cached import attend_to_caches
from .convolutions import finish_convolutions
from .epilogues import finish_products
from .nodes import call, realized, storage
from .products import join_products
from .random import draw_inside
from .rows import single_rows
from .scans import leave_long_ones

_PARTS = (
    "frontend/graphs", "kernels/compiled", "kernels/text", "kernels/lib", "ops/attention", "ops/conv", "ops/matmul",
    "ops/pointwise",
)  # fmt: skip


@cache
def fingerprint(parts: tuple[str, ...] = _PARTS) -> str:
    """Of everything that generated code follows from, or of other parts of the package."""
    found, root = sha256(), Path(webgpu_backend.__file__).parent
    for part in parts:
        for path in sorted((root / part).rglob("*")):
            if path.suffix in (".py", ".wgsl"):
                found.update(path.read_bytes())
    return found.hexdigest()


def share_heads(graph: torch.fx.Graph) -> None:
    """Keys and values that are repeated for the heads that share them: attention takes them as they were."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.webgpu_backend.attention.default):
        if any(user.args[1] == 1 and user.users for user in node.users if user.target is operator.getitem):
            continue  # its gradient is asked for, with a shape for each head
        key, value = (_repeated(x) for x in node.args[1:3])
        if key is not None and value is not None and key.meta["val"].shape[1] == value.meta["val"].shape[1]:
            node.args = (node.args[0], key, value, *node.args[3:])
    graph.eliminate_dead_code()


_COSTLY = (torch.ops.aten.cos.default, torch.ops.aten.sin.default)
_CHEAP = (
    torch.ops.aten.mul.Tensor,
    torch.ops.aten.unsqueeze.default,
    torch.ops.aten.view.default,
    torch.ops.prims.convert_element_type.default,
)


def compute_once(graph: torch.fx.Graph) -> None:
    """Functions that cost much and that many read, as turns of rotary embeddings, are not computed by each of those."""
    for node in [n for n in graph.nodes if n.target in _COSTLY]:
        while len(node.users) == 1 and (user := next(iter(node.users))).target in _CHEAP:
            node = user
        if len(node.users) > 1:
            users = list(node.users)
            with graph.inserting_after(node):
                kept = call(graph, realized, node)
            for user in users:
                user.replace_input_with(node, kept)


def fold_rows(graph: torch.fx.Graph) -> None:
    """Products of many matrices with the same one become a product of all their rows: torch derives the others where
    rows do not follow one another, as in attention over [place, batch, element], and a copy of them costs less."""
    aten = torch.ops.aten
    for node in graph.find_nodes(op="call_function", target=aten.bmm.default):
        x, w = node.args
        batch, rows, inner = x.meta["val"].shape
        numbers = all(isinstance(n, int) for n in (batch, rows, inner))
        if w.meta["val"].stride()[0] != 0 or batch == 1 or not numbers:
            continue
        with graph.inserting_before(node):
            flat = call(graph, aten.reshape.default, x, [batch * rows, inner])
            made = call(graph, aten.mm.default, flat, call(graph, aten.select.int, w, 0, 0))
            found = call(graph, aten.view.default, made, list(node.meta["val"].shape))
        node.replace_all_uses_with(found)
        graph.erase_node(node)


def multiply_single(graph: torch.fx.Graph) -> None:
    """Products over one element, as positions by frequencies of rotary embeddings, are elementwise: what follows takes
    them in."""
    aten = torch.ops.aten
    for target in (aten.mm.default, aten.bmm.default):
        for node in graph.find_nodes(op="call_function", target=target):
            value, inner = node.meta["val"], node.args[0].meta["val"].shape[-1]
            if isinstance(inner, int) and inner == 1 and value.is_floating_point() and not node.kwargs:
                with graph.inserting_before(node):
                    made = call(graph, aten.mul.Tensor, *node.args)
                node.replace_all_uses_with(made)
                graph.erase_node(node)


def leave_wide_products(graph: torch.fx.Graph) -> None:
    """Products with an `out_dtype` are for the eager operator: Inductor has them for CUDA alone."""
    aten = torch.ops.aten
    for target in (aten.mm.dtype, aten.bmm.dtype, aten.addmm.dtype):
        for node in graph.find_nodes(op="call_function", target=target):
            node.meta["should_fallback"] = True


def round_fills(graph: torch.fx.Graph) -> None:
    """A tensor of one number has it as its dtype has it; a number beside a tensor is taken as it is."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.full.default):
        dtype, value = node.meta["val"].dtype, node.args[1]
        if dtype in (torch.float16, torch.bfloat16) and isinstance(value, float):
            node.args = (node.args[0], torch.tensor(value, dtype=dtype, device="cpu").item())


_ALIKE = {
    torch.ops.aten.view.default,
    torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default,
    torch.ops.aten.clone.default,
}


def _repeated(x: torch.fx.Node) -> torch.fx.Node | None:
    """What [batch, heads, length, element] repeats for each of its heads, one after the other, or None."""
    wanted, node = x.meta["val"].shape, x
    while node.target in _ALIKE:
        node = node.args[0]
    if node.target is not torch.ops.aten.expand.default or len(node.meta["val"].shape) != 5:
        return None
    batch, shared, groups, *rest = node.meta["val"].shape
    source = node.args[0]
    if (batch, shared * groups, *rest) != tuple(wanted) or source.meta["val"].shape[2] != 1:
        return None
    if source.target is not torch.ops.aten.unsqueeze.default or source.args[1] != 2:
        return None
    return source.args[0]


def keep_apart(graph: torch.fx.Graph) -> None:
    """What is written gets its values from elsewhere: torch leaves out copies (`t[i] = t.clone()`) before it decides
    which operators may write in place."""
    aten = torch.ops.aten
    for node in [n for n in graph.nodes if n.target in (aten.index_put.default, aten._unsafe_index_put.default)]:
        written, indices, values = node.args[:3]
        if _reads(values, storage(written)):
            with graph.inserting_before(node):
                copied = call(graph, realized, call(graph, aten.clone.default, values))
            node.args = (written, indices, copied, *node.args[3:])


def _reads(node: torch.fx.Node, memory: StorageWeakRef) -> bool:
    """Whether a value is made of this memory."""
    seen, left = {node}, [node]
    while left:
        one = left.pop()
        own = storage(one)
        if own is not None and own == memory:
            return True
        fresh = [n for n in one.all_input_nodes if n not in seen]
        seen.update(fresh)
        left += fresh
    return False


def before_lowering(graph: torch.fx.Graph) -> None:
    round_fills(graph)
    share_heads(graph)
    multiply_single(graph)
    compute_once(graph)
    draw_inside(graph)
    fold_rows(graph)
    leave_long_ones(graph)
    leave_wide_products(graph)
    if caps().kind == "gpu":
        single_rows(graph)
        join_products(graph)
    finish_attention(graph)
    finish_convolutions(graph)
    finish_products(graph)
    if caps().kind == "gpu":
        attend_to_caches(graph)
        join_alike(graph)


class Passes(CustomGraphPass):
    """What is done to a graph, after the pass that was there."""

    def __init__(self, own: Callable, before=None):
        self.own = own
        self.before = before

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.before is not None:
            self.before(graph)
        self.own(graph)

    def uuid(self):
        before = self.before.uuid() if isinstance(self.before, CustomGraphPass) else repr(self.before)
        return (fingerprint(), repr(caps()), before)
