"""The records every layer shares: what an adapter can do, a program, and one dispatch of it."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Caps:
    """What kernels may rely on; decided once per device."""

    kind: str  # "gpu", or "cpu" for a software adapter
    f16: bool
    i64: bool
    f64: bool
    subgroups: bool  # of at least eight lanes, as most kernels need
    immediate_bytes: int  # 0: parameters travel in a uniform buffer
    max_binding: int
    max_buffer: int
    max_bindings: int
    workgroup_bytes: int
    workgroup_size: int
    max_groups: int = 65535
    f32_atomic: bool = False  # atomic additions of f32; else by compare-exchange
    lanes: int = 0  # neighbours that are always in one subgroup, as far as known


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One compute shader. `wgsl` declares `struct P` and reads `p`; the runtime adds where `p` lives.

    `access` has a letter per binding: r for `var<storage, read>`, w for `read_write`. `trusted` text proves its own
    bounds and is compiled without the driver's checks.
    """

    name: str
    wgsl: str = field(repr=False)
    access: str
    param_bytes: int
    trusted: bool = True
    entry: str = "main"


class Window(NamedTuple):
    """A part of a buffer, for bindings that must not see all of it."""

    block: Any
    offset: int
    size: int


class Dispatch(NamedTuple):
    """One kernel launch: the only thing that eager mode encodes, and that a recording keeps."""

    program: Program
    buffers: tuple[Any, ...]
    params: bytes
    grid: tuple[int, int, int]
