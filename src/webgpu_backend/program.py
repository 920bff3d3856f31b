"""The records every layer shares: what an adapter can do, a program, one dispatch of it, and plans of several."""

from collections.abc import Callable
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
    dots: bool = False  # four products of bytes and their sum are one instruction, as far as known
    matrix: int = (
        0  # rows of the square matrices of f16 that a subgroup multiplies, with sums in f32; 0: no matrix units
    )


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One compute shader. `wgsl` declares `struct P` and reads `p`; the runtime adds where `p` lives.

    `access` has a letter per binding: r for `var<storage, read>`, w for `read_write`. A `guarded` program reports bad
    indices: the words it reports them in are one more binding, which the runtime adds. `trusted` text proves its own
    bounds and is compiled without the driver's checks.
    """

    name: str
    wgsl: str = field(repr=False)
    access: str
    param_bytes: int
    trusted: bool = True
    entry: str = "main"
    guarded: bool = False


class Window(NamedTuple):
    """A part of a buffer, for bindings that must not see all of it."""

    block: Any
    offset: int
    size: int


class Step:
    """One dispatch: a program, its parameters and its grid. `bindings` are the places of its buffers among those of
    its plan; a part of one is (place, offset, bytes).

    `draw` is the byte of the parameters from which a random stream's place stands (sixteen bytes, filled in at each
    run), `turned` the parameters that walk memory backwards where that is worth it, `meaning` what an elementwise step
    computes, enough to plan it again as part of another, or how many rows of lists a step has. `moved`: it copies bytes
    from one buffer to another and does nothing else (from where, to where, how many), on an adapter that does this
    faster by a command; its program is then one that no other step has.
    """

    __slots__ = ("program", "params", "grid", "bindings", "draw", "turned", "meaning", "moved")

    def __init__(
        self,
        program: Program,
        params: bytes,
        grid: tuple[int, int, int],
        bindings: tuple = (),
        draw: int | None = None,
        turned: bytes | None = None,
        meaning: Any = None,
        moved: tuple[int, int, int] | None = None,
    ):
        self.program = program
        self.params = params
        self.grid = grid
        self.bindings = bindings
        self.draw = draw
        self.turned = turned
        self.meaning = meaning
        self.moved = moved

    def followed(self, tail: bytes) -> "Step":
        """The step with more parameters behind its own."""
        turned = None if self.turned is None else self.turned + tail
        return Step(self.program, self.params + tail, self.grid, self.bindings, self.draw, turned, self.meaning)


class Plan:
    """What a call does, by metadata alone: steps over numbered buffers. First come those of the arguments, then those
    of the outputs, then what is needed in between.

    A kernel's planner gives `steps` and `scratch` (bytes of each buffer in between); the rest is known of a whole
    operator's plan: what to make, what is returned, which numbers and random draws each call brings along.
    """

    __slots__ = (
        "steps", "scratch", "outputs", "results", "packers", "packed", "draws", "written", "ends", "whole", "simple",
        "picks", "pick",
    )  # fmt: skip

    def __init__(self, steps: tuple[Step, ...], scratch: tuple = ()):
        self.steps = steps
        self.scratch = scratch
        self.outputs: tuple = ()  # descriptions of the tensors to make
        self.results: Any = ()
        self.packers: tuple[Callable[[object], bytes], ...] = ()  # of numbers that follow the parameters
        self.packed: dict = {}  # the parameters by the number seen, of a call that takes one
        self.draws: Any = None
        self.written: tuple[int, ...] = ()  # arguments whose memory changes
        self.ends: tuple[int, ...] = ()  # bytes of the storages that these had
        self.whole = True  # its arguments fit one binding each
        self.simple: Step | None = None  # the one step, from the arguments to one output
        self.picks: tuple = ()  # each step, and the function from all buffers to its own
        self.pick: Callable[[list], tuple] | None = None  # where one step makes one output: its buffers of all
