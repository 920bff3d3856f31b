"""Running sums and their like inside a kernel: a thread has a stretch of the row. It joins the elements of that, learns
what those before have together, and walks its stretch again."""

import torch
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.virtualized import OpsValue
from torch.fx import Graph, Node

from ....dtypes import WGSL_TYPE
from .values import as_carrier, carrier_of, computed

aten = torch.ops.aten
_SCANS = {
    aten.cumsum.default, aten.cumprod.default, aten.logcumsumexp.default, aten.cummax.default, aten.cummin.default,
}  # fmt: skip
_PLACES = {aten.argmax.default, aten.argmin.default}  # of which Inductor makes one kernel, however long a row is
_LONGEST = 8192  # elements of a row, where there are fewer than so many rows
_MANY = 256


def leave_long_ones(graph: Graph) -> None:
    """Few rows of many elements are for the eager operator, which has several workgroups to a row."""
    for node in graph.nodes:
        if (node.target in _SCANS and not _fits(node)) or (node.target in _PLACES and _is_long(node)):
            node.meta["should_fallback"] = True


def _fits(node: Node) -> bool:
    """A scan that is known not to be long."""
    shape = node.args[0].meta["val"].shape
    return bool(shape) and all([isinstance(n, int) for n in shape]) and not _is_long(node)


def _is_long(node: Node) -> bool:
    shape, dim = node.args[0].meta["val"].shape, node.args[1] if len(node.args) > 1 else None
    if not shape or not all([isinstance(n, int) for n in shape]):
        return False
    numel = node.args[0].meta["val"].numel()
    length = numel if dim is None else shape[dim]
    return length > _LONGEST and numel < length * _MANY


def emit(kernel, dtypes: tuple[torch.dtype, ...], combine, values: tuple) -> tuple:
    """The variables of an element's results."""
    dtypes = [computed(d) for d in dtypes]
    name, carriers = f"scan{len(kernel.scans)}", [carrier_of(d) for d in dtypes]
    fields = [*[(f"v{i}", WGSL_TYPE[c]) for i, c in enumerate(carriers)], ("n", "i32")]
    kernel.scans[name] = (name, tuple(fields))
    kernel.helpers[f"join_{name}"] = _joining(kernel, name, dtypes, combine)
    element = f"S_{name}({', '.join(as_carrier(v, c) for v, c in zip(values, carriers))}, 1)"
    kernel.body.writeline(f"var part_{name}: S_{name};")
    kernel.walk_first(f"part_{name} = join_{name}(part_{name}, {element});")
    kernel.body.writeline(f"let start_{name} = before_{name}(part_{name}, lid, lane);")
    kernel.starts.append(f"var run_{name} = start_{name};")
    kernel.compute.writeline(f"run_{name} = join_{name}(run_{name}, {element});")
    found = []
    for i, dtype in enumerate(dtypes):
        found.append(kernel.cse.newvar(dtype=dtype))
        kernel.compute.writeline(f"let {found[-1]} = run_{name}.v{i};")
    return tuple(found)


def _joining(kernel, name: str, dtypes: list[torch.dtype], combine) -> str:
    """The function that joins what two neighbouring stretches have; `n` is 0 for one without elements."""
    scope = IndentedBuffer()
    with kernel.swap_buffers(scope), kernel.inside_mask():
        sides = []
        for side in "so":
            sides.append([kernel.cse.namedvar(f"r0_{name}_{side}{i}", dtype=d) for i, d in enumerate(dtypes)])
            scope.writelines([f"let {v} = {side}.v{i};" for i, v in enumerate(sides[-1])])
        made = [m.value if isinstance(m, OpsValue) else m for m in combine(*map(tuple, sides))]
    results = ", ".join([as_carrier(m, carrier_of(d)) for m, d in zip(made, dtypes)])
    lines = [
        "if (s.n == 0) { return o; }",
        "if (o.n == 0) { return s; }",
        *scope.getvalue().splitlines(),
        f"return S_{name}({results}, 1);",
    ]
    return f"fn join_{name}(s: S_{name}, o: S_{name}) -> S_{name} {{\n    " + "\n    ".join(lines) + "\n}"
