"""Nodes that passes add to Inductor's graphs."""

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq
from torch.multiprocessing.reductions import StorageWeakRef

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define("realized(Tensor x) -> Tensor")
torch.library.impl(_library, "realized", "CompositeExplicitAutograd")(torch.clone)
torch.library.register_fake("webgpu_backend::realized", torch.empty_like, lib=_library)
aten = torch.ops.aten
VIEWS = {aten.view.default, aten.reshape.default, aten._unsafe_view.default}  # the elements in their order
realized = torch.ops.webgpu_backend.realized.default  # computed once, whoever reads it: see `schedule.register`


def call(graph: torch.fx.Graph, target, *args) -> torch.fx.Node:
    """A new node, which knows what its value looks like."""
    node = graph.call_function(target, args)
    node.meta["val"] = target(*torch.fx.map_arg(args, lambda n: n.meta["val"]))
    return node


def equal(a, b) -> bool:
    """Whether sizes, or lists of them, are the same whatever those that change may be."""
    return statically_known_true(sym_eq(tuple(a), tuple(b)) if isinstance(a, (tuple, list)) else sym_eq(a, b))


def storage(node: torch.fx.Node) -> StorageWeakRef | None:
    """The memory of its value."""
    value = node.meta.get("val")
    return StorageWeakRef(value.untyped_storage()) if isinstance(value, torch.Tensor) else None


def known(sizes) -> bool:
    return all([isinstance(n, int) for n in sizes])


def size(graph: torch.fx.Graph, node: torch.fx.Node, dim: int) -> int | torch.fx.Node:
    """One that a view can be given: a number, or a node where it changes."""
    found = aten.sym_size.int(node.meta["val"], dim)  # a symbol's number, where that has turned out to be the only one
    return found if isinstance(found, int) else call(graph, aten.sym_size.int, node, dim)
