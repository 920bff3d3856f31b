"""Parts of a kernel's text that are put together at the end: loops, and the groups of four that they load and store."""

import re
from typing import NamedTuple

import torch
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.dependencies import MemoryDep
from torch._inductor.utils import sympy_product


class Four:
    """Four neighbouring elements that one line loads or stores."""

    def __init__(self, operand: str, base: str, name: str, dtype: torch.dtype, buffer: str):
        self.operand = operand
        self.base = base
        self.name = name
        self.dtype = dtype
        self.buffer = buffer

    def loaded(self, first: str) -> str:
        """The text that loads those from `first` on."""
        return f"read4_{self.operand}({self.base} + {first})"


class Drawn(Four):
    """Four random numbers: those of one counter of a stream, of which the operand says where it is."""

    def __init__(self, function: str, place: int, base: str, name: str, buffer: str):
        super().__init__(function, base, name, torch.float32, buffer)
        self.place = place

    def loaded(self, first: str) -> str:
        return f"{self.operand}({self.place}u + u32({self.base} + {first}) / 4u)"


class Segment(NamedTuple):
    """What a loop does with an element, its loads and stores of four, and what comes before it."""

    inner: IndentedBuffer
    loads: list[Four]
    stores: list[Four]
    starts: list[str]

    def defined(self) -> set[str]:
        return set(re.findall(r"^(?:let|var) (tmp\d+)\b", self.inner.getvalue(), re.M))

    def used(self) -> set[str]:
        text = self.inner.getvalue()
        return set(re.findall(r"\btmp\d+\b", text)) - self.defined()


def reads_along(node) -> bool:
    """Whether a reduction reads what lies side by side."""
    reads = [d for d in node.read_writes.reads if isinstance(d, MemoryDep)] if node.is_reduction() else []
    return any(d.var_names and d.index.coeff(d.var_names[-1]) == 1 for d in reads)


def walked_once(nodes: list) -> bool:
    """Whether one loop over a row does all: no reduction has to be known for each element of it."""
    reduced = {d.name for n in nodes if n.is_reduction() for d in n.read_writes.writes}
    elements = [sympy_product(n.group[1]) for n in nodes]
    whole = next(size for size, n in zip(elements, nodes) if n.is_reduction())
    reads = [{d.name for d in n.read_writes.reads} for size, n in zip(elements, nodes) if size == whole]
    return not any(reduced & names for names in reads)
