"""Dense linear algebra kernels over a batch of matrices: what each binds, its parameters, and how it is spread.

A kernel is either a team (one workgroup for each matrix, its threads meeting between steps) or has a thread for each
column. Matrices come with a row and a column stride, so that a transpose is an argument and not another kernel.
"""

from functools import cache
from struct import pack
from typing import NamedTuple

from ..dtypes import ALL, DType
from ..program import Caps, Program
from .layout import grid, spread
from .pointwise import WORKGROUP
from .render import render

# Software adapters stop an invocation after 65,535 loop trips in all: callers split what would pass this.
TRIPS = 50_000
LONGEST = 64  # rows of a matrix whose eigenvalues a workgroup finds
BLOCK = 64  # columns that one kernel factors; larger matrices go block by block, with matrix products between


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
    "cholesky": Kernel("linalg_cholesky.wgsl", True, (("a", "w"),), (("info", "w", "i32"),), ("n", "first")),
    "lu": Kernel(
        "linalg_lu.wgsl", True, (("a", "w"),), (("pivots", "w", "i32"), ("info", "w", "i32")),
        ("m", "n", "count", "first", "pivot"),
    ),
    "swap": Kernel(
        "linalg_swap.wgsl", False, (("a", "w"),), (("pivots", "r", "i32"),),
        ("columns", "rows", "count", "first", "last", "backwards"),
    ),
    "triangular": Kernel(
        "linalg_triangular.wgsl", False, (("a", "r"), ("x", "w")), (), ("columns", "n", "upper", "unit", "conjugate"),
    ),
    "householder": Kernel(
        "linalg_householder.wgsl", True, (("a", "w"),), (("tau", "w", "E"),), ("m", "n", "count", "first", "last"),
    ),
    "reflect": Kernel(
        "linalg_reflect.wgsl", False, (("a", "r"), ("x", "w")), (("tau", "r", "E"),),
        ("columns", "m", "count", "first", "last", "forwards", "conjugate", "conjugate_tau"),
    ),
    "ldl": Kernel(
        "linalg_ldl.wgsl", True, (("a", "w"),), (("pivots", "w", "i32"), ("info", "w", "i32"), ("state", "w", "u32")),
        ("n", "last", "hermitian"),
    ),
    "ldl_solve": Kernel(
        "linalg_ldl_solve.wgsl", False, (("a", "r"), ("x", "w")), (("pivots", "r", "i32"),),
        ("columns", "n", "hermitian"),
    ),
    "svd": Kernel("linalg_svd.wgsl", True, (("a", "w"), ("v", "w")), _STATE, _TURNS),
    "svdvals": Kernel("linalg_svd.wgsl", True, (("a", "w"),), _STATE, _TURNS),
    "eigh": Kernel("linalg_eigh.wgsl", True, (("a", "w"), ("v", "w")), _ROTATIONS + _STATE, _TURNS),
    "hessenberg": Kernel("linalg_hessenberg.wgsl", True, (("a", "w"), ("z", "w")), _STATE, ("n",)),
    "schur": Kernel("linalg_schur.wgsl", True, (("a", "w"), ("z", "w")), _STATE, ("n", "rounds", "fresh")),
    "eigenvectors": Kernel(
        "linalg_eigenvectors.wgsl", False, (("a", "r"),), (("x", "w", "vec2<f32>"), ("w", "w", "vec2<f32>")),
        ("columns",),
    ),
}  # fmt: skip


def team_size(work: int, caps: Caps) -> int:
    """Threads for a matrix of so many rows; few on a software adapter, where a barrier runs every thread in turn."""
    if caps.kind == "cpu":
        return 8 if work <= 16 else 64 if work <= 256 else 256
    return 64 if work <= 64 else 256


def plan(name: str, dtype: DType, matrices: tuple[Matrices, ...], batch: int, team: int, caps: Caps, **scalars):
    """The program, its parameters and grid; `team` is the team's size, ignored by kernels with a thread a column."""
    kernel = KERNELS[name]
    near = _near(name, dtype, caps)
    size = team if kernel.team and not near else WORKGROUP[caps.kind]
    words = [batch, *(scalars[s] for s in kernel.scalars)]
    for m in matrices:
        words.extend(m)
    params = pack(f"<{len(words)}I", *words)
    if kernel.team:
        groups = spread(batch, caps)
    elif near:
        groups = spread(batch * -(-scalars["columns"] // 32), caps)
    else:
        groups = grid(batch * scalars["columns"], size, caps)
    return _program(name, dtype.name, size, near, caps), params, groups


def _near(name: str, dtype: DType, caps: Caps) -> bool:
    """Whether a GPU's kernel copies its block into workgroup memory: what many steps read and write lies near then."""
    words = {"cholesky": BLOCK * (BLOCK + 1), "triangular": BLOCK * (BLOCK + 1 + 33)}.get(name)
    return caps.kind == "gpu" and words is not None and (words + 512) * dtype.size <= caps.workgroup_bytes


@cache
def _program(name: str, dtype_name: str, workgroup: int, near: bool, caps: Caps) -> Program:
    kernel, dtype = KERNELS[name], ALL[dtype_name]
    complex_ = dtype_name == "complex64"
    element = "vec2<f32>" if complex_ else "f32"
    fields = ["batch", *kernel.scalars]
    for matrix, _ in kernel.matrices:
        fields += [f"{matrix}_{f}" for f in "obrc"]
    access = "".join(a for _, a in kernel.matrices) + "".join(a for _, a, _ in kernel.vectors)
    word = {"r": "read", "w": "read_write"}
    bindings = [(n, word[a], element) for n, a in kernel.matrices]
    bindings += [(n, word[a], element if t == "E" else t) for n, a, t in kernel.vectors]
    text = render(
        kernel.template, caps, name=name, fields=fields, bindings=bindings, element=element, complex=complex_,
        workgroup=workgroup, longest=LONGEST, near=near, block=BLOCK, side=16 if workgroup >= 256 else 8,
    )  # fmt: skip
    return Program(f"{name}{'_near' if near else ''}_{dtype.short}_{workgroup}", text, access, 4 * len(fields))
