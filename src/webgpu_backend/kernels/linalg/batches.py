"""Dense linear algebra kernels over a batch of matrices: what each binds, its parameters, and how it is spread.

A kernel is a team (one workgroup for each matrix, its threads meeting between steps), or has a thread for each column.
A GPU's factorisations keep rows in registers, a thread one or a few, and its Jacobi methods small matrices in workgroup
memory. Matrices come with a row and a column stride, so that a transpose is an argument and not another kernel.
"""

from functools import cache
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import WORKGROUP, grid, spread
from ..text.numbers import packed
from ..text.render import render_program

# Software adapters stop an invocation after 65,535 loop trips in all: callers split what would pass this.
TRIPS = 50_000
LONGEST = 64  # rows of a matrix whose eigenvalues a workgroup finds
BLOCK = 64  # columns that one kernel factors; larger matrices go block by block, with matrix products between
TILE = 32  # rows and columns of the rest that a workgroup of cholesky_panel has
PANEL = 32  # columns of a panel of Householder's
COLUMNS = 16  # of the rest, or of x, that a workgroup of the other kernels with rows in registers has
TRIANGLE = 256  # rows of a triangle that a workgroup solves
NUMBERED = 2048  # rows whose exchanges are found in workgroup memory
TEAM = 256  # threads of a panel, at most
HELD = 64  # floats of its rows that a thread keeps, at most: where registers ran out, an H200's results were wrong


class Matrices(NamedTuple):
    """Where a batch of matrices lies; strides in elements."""

    offset: int
    batch: int
    row: int
    col: int


class Kernel(NamedTuple):
    template: str
    team: bool
    matrices: tuple[tuple[str, str], ...]  # name, access
    vectors: tuple[tuple[str, str, str], ...]  # name, access, type; E is the element type
    scalars: tuple[str, ...]


_TURNS = ("m", "n", "first", "last", "sweeps", "complete")
_STATE = (("state", "w", "u32"),)
_ROTATIONS = (("rotations", "w", "f32"),)
KERNELS = {
    "cholesky": Kernel("linalg/cholesky.wgsl", True, (("a", "w"),), (("info", "w", "i32"),), ("n", "first")),
    "lu": Kernel(
        "linalg/lu.wgsl", True, (("a", "w"),), (("pivots", "w", "i32"), ("info", "w", "i32")),
        ("m", "n", "count", "first", "pivot"),
    ),
    "cholesky_panel": Kernel(
        "linalg/cholesky_panel.wgsl", False, (("a", "w"), ("out", "w")), (("info", "w", "i32"),),
        ("n", "first", "tiles"),
    ),
    "lu_panel": Kernel(
        "linalg/lu_panel.wgsl", False, (("a", "w"),),
        (("pivots", "w", "i32"), ("info", "w", "i32"), ("moves", "w", "vec2<u32>")),
        ("m", "n", "steps", "count", "first", "pivot"),
    ),
    "lu_rest": Kernel(
        "linalg/lu_rest.wgsl", False, (("a", "w"),), (("moves", "r", "vec2<u32>"),), ("m", "columns", "first", "width"),
    ),
    "permutation": Kernel(
        "linalg/permutation.wgsl", False, (), (("pivots", "r", "i32"), ("numbers", "w", "vec2<u32>")),
        ("rows", "count", "backwards"),
    ),
    "triangular_rows": Kernel(
        "linalg/triangular_rows.wgsl", False, (("a", "r"), ("x", "w")), (),
        ("columns", "n", "upper", "unit", "conjugate"),
    ),
    "swap": Kernel(
        "linalg/swap.wgsl", False, (("a", "w"),), (("pivots", "r", "i32"),),
        ("columns", "rows", "count", "first", "last", "backwards"),
    ),
    "triangular": Kernel(
        "linalg/triangular.wgsl", False, (("a", "r"), ("x", "w")), (), ("columns", "n", "upper", "unit", "conjugate"),
    ),
    "householder": Kernel(
        "linalg/householder.wgsl", True, (("a", "w"),), (("tau", "w", "E"),), ("m", "n", "count", "first", "last"),
    ),
    "householder_panel": Kernel(
        "linalg/householder_panel.wgsl", False, (("a", "w"),), (("tau", "w", "E"), ("rows", "w", "E")),
        ("m", "n", "count", "first"),
    ),
    "reflect": Kernel(
        "linalg/reflect.wgsl", False, (("a", "r"), ("x", "w")), (("tau", "r", "E"),),
        ("columns", "m", "count", "first", "last", "forwards", "conjugate", "conjugate_tau"),
    ),
    "ldl": Kernel(
        "linalg/ldl.wgsl", True, (("a", "w"),), (("pivots", "w", "i32"), ("info", "w", "i32"), ("state", "w", "u32")),
        ("n", "last", "hermitian"),
    ),
    "ldl_solve": Kernel(
        "linalg/ldl_solve.wgsl", False, (("a", "r"), ("x", "w")), (("pivots", "r", "i32"),),
        ("columns", "n", "hermitian"),
    ),
    "svd": Kernel("linalg/svd.wgsl", True, (("a", "w"), ("v", "w")), _STATE, _TURNS),
    "svdvals": Kernel("linalg/svd.wgsl", True, (("a", "w"),), _STATE, _TURNS),
    "eigh": Kernel("linalg/eigh.wgsl", True, (("a", "w"), ("v", "w")), _ROTATIONS + _STATE, _TURNS),
    "svd_near": Kernel("linalg/svd_near.wgsl", True, (("a", "w"), ("v", "w")), (), ("n", "sweeps")),
    "svdvals_near": Kernel("linalg/svd_near.wgsl", True, (("a", "w"),), (), ("n", "sweeps")),
    "eigh_near": Kernel("linalg/eigh_near.wgsl", True, (("a", "r"), ("v", "w")), (), ("n", "sweeps")),
    "gram_block": Kernel(
        "linalg/eigh_near.wgsl", True, (("a", "r"), ("v", "w")),
        (("state", "w", "atomic<u32>"), ("norm", "r", "f32")), ("n", "sweeps", "each"),
    ),
    "hessenberg": Kernel("linalg/hessenberg.wgsl", True, (("a", "w"), ("z", "w")), _STATE, ("n",)),
    "schur": Kernel("linalg/schur.wgsl", True, (("a", "w"), ("z", "w")), _STATE, ("n", "rounds", "fresh")),
    "eigenvectors": Kernel(
        "linalg/eigenvectors.wgsl", False, (("a", "r"),), (("x", "w", "vec2<f32>"), ("w", "w", "vec2<f32>")),
        ("columns",),
    ),
}  # fmt: skip


def is_double(dtype: DType) -> bool:
    return dtype.carrier in ("f64", "c128")


def team_size(work: int, caps: Caps) -> int:
    """Threads for a matrix of so many rows; few on a software adapter, where a barrier runs every thread in turn."""
    if caps.kind == "cpu":
        return 8 if work <= 16 else 64 if work <= 256 else 256
    return 64 if work <= 64 else 256


def rows_of(rows: int, dtype: DType, caps: Caps) -> tuple[int, int, int] | None:
    """How a GPU keeps the rows of a panel in registers: threads, columns, and rows of each; None where they are too
    many."""
    held = HELD * 4 // dtype.size
    team = next((t for t in (32, 128, TEAM) if rows <= t <= caps.workgroup_size), min(TEAM, caps.workgroup_size))
    each = next((r for r in (1, 2, 4, 8) if rows <= r * team), 0)
    return (team, min(held // 2, held // each), each) if each else None


def plan(
    name: str, dtype: DType, matrices: tuple[Matrices, ...], batch: int, team: int, caps: Caps, **scalars: int
) -> Step:
    """Binds the kernel's matrices and vectors. `team` is the team's size, ignored by kernels with a thread a column."""
    kernel = KERNELS[name]
    size = team if kernel.team else WORKGROUP[caps.kind]
    groups = spread(batch, caps) if kernel.team else grid(batch * scalars["columns"], caps)
    return Step(_program(name, dtype, size, 0, 1, caps), _params(kernel, batch, matrices, scalars), groups)


def near_of(name: str, n: int, dtype: DType, caps: Caps) -> tuple[int, int] | None:
    """Rows for which a GPU's `name` has room in workgroup memory, and its threads, for matrices of n rows."""
    width = next((w for w in (16, 32, 64) if n <= w), 0)
    fits = caps.kind == "gpu" and width and _near_bytes(name, width, dtype) <= caps.workgroup_bytes
    return (width, _near_threads(width)) if fits else None


def near_size(name: str, dtype: DType, caps: Caps) -> tuple[int, int]:
    """The most rows for which `name` has room in workgroup memory, up to 64, and its threads."""
    width = next(w for w in (64, 32, 16) if _near_bytes(name, w, dtype) <= caps.workgroup_bytes)
    return width, min(_near_threads(width), caps.workgroup_size)


def _near_threads(width: int) -> int:
    return min(width * width // 4, 256)


def _near_bytes(name: str, width: int, dtype: DType) -> int:
    sums = _near_threads(width) * (32 if is_double(dtype) else 16)
    return width * (width + 1) * dtype.size * (1 if name == "svdvals_near" else 2) + sums + 64


def plan_panel(
    name: str, dtype: DType, matrices: tuple[Matrices, ...], batch: int, groups: int, size: tuple[int, int, int],
    caps: Caps, **scalars: int,
) -> Step:  # fmt: skip
    """As plan, for kernels of registers or workgroup memory: every matrix has `groups` workgroups. `size` is their
    threads, the columns (or rows) for which there is room, and the rows of a thread."""
    params = _params(KERNELS[name], batch, matrices, scalars)
    return Step(_program(name, dtype, *size, caps), params, spread(batch * groups, caps))


def _params(kernel: Kernel, batch: int, matrices: tuple[Matrices, ...], scalars: dict[str, int]) -> bytes:
    return packed([batch, *(scalars[s] for s in kernel.scalars), *(word for m in matrices for word in m)])


@cache
def _program(name: str, dtype: DType, workgroup: int, width: int, rows: int, caps: Caps) -> Program:
    kernel, complex_ = KERNELS[name], dtype.name.startswith("complex")
    double = is_double(dtype)
    element = "vec2<f32>" if complex_ else "f32"
    word = {"r": "read", "w": "read_write"}
    bindings = [(n, word[a], f"array<{element}>") for n, a in kernel.matrices]
    bindings += [(n, word[a], f"array<{element if t == 'E' else t}>") for n, a, t in kernel.vectors]
    kept = f"_{width}x{rows}" if width else ""
    return render_program(
        f"{name}_{dtype.short}_{workgroup}{kept}", kernel.template,
        ["batch", *kernel.scalars, *(f"{matrix}_{f}" for matrix, _ in kernel.matrices for f in "obrc")], bindings, caps,
        double=double, ulp=2.0**-52 if double else 2.0**-23, least=2.0**-1022 if double else 2.0**-126,
        name=name, element=element, complex=complex_, workgroup=workgroup, longest=LONGEST,
        side=16 if workgroup >= 256 else 8, width=width, rows=rows, columns=COLUMNS, tile=TILE,
    )  # fmt: skip
