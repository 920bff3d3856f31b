"""What the linear algebra families share: dtypes, shapes checked by torch's own shape functions, matrices as kernels
see them, and the factorisations themselves on [batch, m, n] tensors, in place."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.linalg.batches import (
    BLOCK,
    COLUMNS,
    HELD,
    NUMBERED,
    PANEL,
    TEAM,
    TILE,
    TRIANGLE,
    TRIPS,
    Matrices,
    is_double,
    plan,
    plan_panel,
    rows_of,
    team_size,
)
from ...plan import caps, launch
from ..shape.copy import device_copy, fill

aten = torch.ops.aten
REAL = {
    torch.float32: torch.float32, torch.complex64: torch.float32, torch.float64: torch.float64,
    torch.complex128: torch.float64,
}  # fmt: skip
_shapes: dict[tuple, tuple] = {}


def shaped(op, *args, **kwargs) -> tuple:
    """The results' metadata from torch's shape function, which raises what torch raises for bad arguments."""
    key = (op, *(_key(a) for a in args), *(_key(v) for v in kwargs.values()))
    found = _shapes.get(key)
    if found is None:
        try:
            result = on("meta", op, args, kwargs)
        except (RuntimeError, ValueError, NotImplementedError, AssertionError):
            on("cpu", op, args, kwargs)  # refused for the same reason, in the words people know
            raise
        found = result if isinstance(result, tuple) else (result,)
        if len(_shapes) > 4096:
            _shapes.clear()
        _shapes[key] = found
    supported(*args)  # after torch's own checks, so that a wrong dtype gets torch's words
    return found


def supported(*args) -> None:
    for a in args:
        if not isinstance(a, torch.Tensor):
            continue
        if a.device.type != T.NAME:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {T.here()} and "
                f"{a.device}!"
            )
        if a.dtype not in REAL and a.dtype is not torch.int32:
            raise Unsupported(f"webgpu: linear algebra has no kernels for {a.dtype}")


def _key(x):
    return (x.dtype, tuple(x.shape), x.stride(), x.is_conj()) if isinstance(x, torch.Tensor) else x


def on(device: str, op, args, kwargs):
    """op for tensors of the same shapes elsewhere: for its result's shapes, or for its complaints."""

    def twin(x):
        if not isinstance(x, torch.Tensor):
            return x
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)

    return op(*(twin(a) for a in args), **{k: twin(v) for k, v in kwargs.items()})


def like(meta: torch.Tensor) -> torch.Tensor:
    return T.empty(meta.shape, meta.dtype, meta.stride())


def zeros(sizes, dtype: torch.dtype) -> torch.Tensor:
    return fill(T.empty(sizes, dtype), 0)


def columns_first(sizes) -> tuple[int, ...]:
    """Strides of matrices stored column after column, as LAPACK and torch's results have them."""
    *lead, m, n = sizes
    strides, step = [1, max(m, 1)], max(m, 1) * max(n, 1)
    for s in reversed(lead):
        strides.insert(0, step)
        step *= max(s, 1)
    return tuple(strides)


def copied(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    device_copy(source, target)
    return target


def work(x: torch.Tensor) -> torch.Tensor:
    """A copy of x to factor in place, column after column."""
    return copied(x, T.empty(x.shape, x.dtype, columns_first(x.shape)))


def eye(batch, n: int, m: int, dtype: torch.dtype) -> torch.Tensor:
    out = zeros((*batch, n, m), dtype)
    if out.numel():
        fill(out.diagonal(dim1=-2, dim2=-1), 1)
    return out


def flat(x: torch.Tensor) -> torch.Tensor:
    """[batch, m, n]; a view where the batch dimensions lie evenly, else a copy."""
    if x.dim() == 3:
        return x
    count = 1
    for s in x.shape[:-2]:
        count *= s
    return x.reshape(count, *x.shape[-2:])


def flat_vector(x: torch.Tensor) -> torch.Tensor:
    """[batch, n], contiguous."""
    count = 1
    for s in x.shape[:-1]:
        count *= s
    return x.reshape(count, x.shape[-1]).contiguous()


def matrices(x: torch.Tensor) -> Matrices:
    return Matrices(x.storage_offset(), *x.stride())


def run(name: str, dtype: torch.dtype, operands: tuple, vectors: tuple, length: int = 1, **scalars) -> None:
    """One dispatch over [batch, m, n] operands and contiguous vectors; a team's size is by `length`."""
    c = caps()
    batch = operands[0].shape[0]
    step = plan(
        name, T.DTYPES[dtype], tuple(matrices(x) for x in operands), batch, team_size(length, c), c,
        **{k: int(v) for k, v in scalars.items()},
    )  # fmt: skip
    # Kernels read vectors from their storage's start: a view of another (pivots[1:]) is copied.
    vectors = [v.clone() if v.storage_offset() else v for v in vectors]
    launch(step, *operands, *vectors)


def run_panel(name: str, operands: tuple, vectors: tuple, groups: int, size: tuple, **scalars) -> None:
    """As run, for kernels of registers or workgroup memory; `size`: threads, columns and rows there."""
    first = operands[0]
    step = plan_panel(
        name, T.dtype_of(first), tuple(matrices(x) for x in operands), first.shape[0], groups, size, caps(),
        **{k: int(v) for k, v in scalars.items()},
    )  # fmt: skip
    launch(step, *operands, *vectors)


def subtract_product(target: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """target -= a b, for views of larger matrices."""
    if target.numel():
        device_copy(torch.baddbmm(target, a, b, alpha=-1), target)


def solve_triangular_(a, x, upper: bool, unit: bool = False, conjugate: bool = False) -> None:
    """x = op(a)^-1 x in place, both [batch, ...]; `conjugate` takes a's conjugate."""
    n = a.shape[-1]
    if not x.numel():
        return
    own = caps().kind == "gpu"
    size = min(TRIANGLE, caps().workgroup_size) if own else BLOCK
    starts = range(0, n, size)
    shared = T.block_of(a) is T.block_of(x)
    for start in reversed(starts) if upper else starts:
        stop = min(start + size, n)
        block, diagonal = x[:, start:stop], a[:, start:stop, start:stop]
        diagonal = diagonal.clone() if shared else diagonal  # a dispatch must not read and write one buffer
        options = {"columns": x.shape[-1], "n": stop - start, "upper": upper, "unit": unit, "conjugate": conjugate}
        if own:
            threads = next(t for t in (32, 128, size) if stop - start <= t)
            run_panel("triangular_rows", (diagonal, block), (), -(-x.shape[-1] // COLUMNS), (threads, 0, 1), **options)
        else:
            run("triangular", x.dtype, (diagonal, block), (), **options)
        rest = slice(0, start) if upper else slice(stop, n)
        column = a[:, rest, start:stop]
        subtract_product(x[:, rest], column.conj() if conjugate else column, block)


def cholesky_(a, info) -> None:
    """The lower triangle becomes L; the upper one is garbage where n passes the block size."""
    n = a.shape[-1]
    if not a.numel():
        return
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        diagonal = a[:, start:stop, start:stop]
        run("cholesky", a.dtype, (diagonal,), (info,), stop - start, n=stop - start, first=start)
        if stop < n:
            below = a[:, stop:, start:stop]
            # below L^-H: the transposed problem is conj(L) x^T = below^T
            solve_triangular_(diagonal, below.mT, upper=False, conjugate=True)
            subtract_product(a[:, stop:, stop:], below, below.mH)


def cholesky_panels(a, out, info) -> None:
    """A GPU's way: the lower triangle of `out` becomes L, out of that of `a`, which is worked in."""
    n, width = a.shape[-1], HELD // 2 * 4 // a.element_size()
    for first in range(0, n, width):
        tiles = max(-(-(n - first - width) // TILE), 1)
        run_panel("cholesky_panel", (a, out), (info,), tiles * tiles, (128, width, 1), n=n, first=first, tiles=tiles)


def swap_rows_(a, pivots, first: int, last: int, backwards: bool = False) -> None:
    """Row exchanges of an LU factorisation; pivots are [batch, count], counted from 1, as LAPACK does."""
    if not a.numel() or first == last:
        return
    batch, rows, _ = a.shape
    count = pivots.shape[-1]
    if caps().kind == "gpu" and rows <= NUMBERED and (first, last) == (0, count):
        numbers = T.empty((batch, rows), torch.int64)
        step = plan_panel(
            "permutation", T.dtype_of(a), (), batch, 1, (256, NUMBERED, 1), caps(), rows=rows, count=count,
            backwards=int(backwards),
        )  # fmt: skip
        launch(step, pivots.clone() if pivots.storage_offset() else pivots, numbers)
        device_copy(a.gather(1, numbers.unsqueeze(-1).expand(a.shape)), a)
        return
    # A software adapter bounds the trips of a thread.
    parts = [(s, min(s + TRIPS, last)) for s in range(first, last, TRIPS)]
    for start, stop in reversed(parts) if backwards else parts:
        run(
            "swap", a.dtype, (a,), (pivots,), columns=a.shape[-1], rows=a.shape[-2], count=count, first=start,
            last=stop, backwards=backwards,
        )  # fmt: skip


def lu_panels(a, pivots, info, pivot: bool) -> bool:
    """A GPU's way to factor the first columns of `a`, as many as there are pivots, which takes the others along: they
    become U, or L^-1 P times what they were. False where the rows are too many for it, or pivots are chosen by more
    than a word of each."""
    batch, m, columns = a.shape
    count = pivots.shape[-1]
    kind, dtype = caps().kind, T.dtype_of(a)
    if kind != "gpu" or is_double(dtype) or rows_of(m, dtype, caps()) is None:
        return False
    moves = T.empty((batch, HELD + 1), torch.int64)
    first = 0
    while first < count:
        size = rows_of(m - first, dtype, caps())
        width = size[1]
        wide = min(width, count - first)
        run_panel(
            "lu_panel", (a,), (pivots, info, moves), 1, size, m=m - first, n=wide, steps=wide, count=count, first=first,
            pivot=pivot,
        )  # fmt: skip
        groups = -(-first // COLUMNS) + -(-(columns - first - wide) // COLUMNS)
        if groups:
            threads = min(TEAM, caps().workgroup_size)
            run_panel(
                "lu_rest", (a,), (moves,), groups, (threads, width, 1), m=m - first, columns=columns, first=first,
                width=wide,
            )  # fmt: skip
        first += wide
    return True


def lu_(a, pivots, info, pivot: bool = True) -> None:
    """a = P L U in place; pivots [batch, min(m, n)] and info [batch] are int32."""
    batch, m, n = a.shape
    k = min(m, n)
    if not batch * k or lu_panels(a, pivots, info, pivot):
        return
    team = team_size(m, caps())
    block = BLOCK
    while block > 1 and block * (-(-m * block // team) // 2 + 2 * (-(-m // team)) + 16) > TRIPS:
        block //= 2
    for start in range(0, k, block):
        stop = min(start + block, k)
        panel = a[:, start:, start:stop]
        run(
            "lu", a.dtype, (panel,), (pivots, info), m - start, m=m - start, n=stop - start, count=k, first=start,
            pivot=pivot,
        )  # fmt: skip
        if pivot and start:
            swap_rows_(a[:, :, :start], pivots, start, stop)
        if stop < n:
            right = a[:, :, stop:]
            if pivot:
                swap_rows_(right, pivots, start, stop)
            solve_triangular_(a[:, start:stop, start:stop], right[:, start:stop], upper=False, unit=True)
            subtract_product(right[:, stop:], a[:, stop:, start:stop], right[:, start:stop])


def householder_(a, tau) -> None:
    """a = Q R in place as geqrf leaves it; tau is [batch, min(m, n)]."""
    batch, m, n = a.shape
    k = min(m, n)
    if not batch * k:
        return
    if caps().kind == "gpu":
        rows = T.empty((batch, m, PANEL), a.dtype)
        threads = 256 if m <= 256 else min(512, caps().workgroup_size)
        for first in range(0, k, PANEL):
            last = min(first + PANEL, k)
            run_panel(
                "householder_panel", (a,), (tau, rows), 1, (threads, PANEL, 1), m=m - first, n=last - first, count=k,
                first=first,
            )  # fmt: skip
            if last < n:
                reflect_block(a, tau, a[:, :, last:], first, last, adjoint=True)
        return
    within_trips(m)
    team = team_size(max(m, n), caps())

    def trips(i):
        return 2 * (m - i) * (-(-(n - i) // team)) + 3 * (-(-(m - i) // team)) + 20

    for first, last in ranges(k, trips):
        run("householder", a.dtype, (a,), (tau,), max(m, n), m=m, n=n, count=k, first=first, last=last)


def reflect_block(a, tau, x, first: int, last: int, adjoint: bool) -> None:
    """x = H(first) .. H(last - 1) x as products: the reflectors' product is 1 - V T V^H, where T^-1 is triangular."""
    v = a[:, first:, first:last].tril(-1)
    fill(v.diagonal(dim1=-2, dim2=-1), 1)
    rows, turned = x[:, first:], v.mH.resolve_conj()
    factor = tau.reshape(a.shape[0], -1)[:, first:last]
    inner = torch.bmm(turned, v).triu(1)
    product = torch.bmm(turned, rows)
    if adjoint:
        factor = factor.conj().resolve_conj()
        inner = (inner * factor.conj().unsqueeze(-2)).mH.resolve_conj()
    else:
        inner = inner * factor.unsqueeze(-1)
    product = product * factor.unsqueeze(-1)
    solve_triangular_(inner, product, upper=not adjoint, unit=True)
    subtract_product(rows, v, product)


def reflect_(a, tau, x, forwards: bool, conjugate: bool = False, conjugate_tau: bool = False) -> None:
    """x = H(1) .. H(k) x, or with `forwards` the reflectors in the order H(k) .. H(1), i.e. H(1) first."""
    m, k = a.shape[-2], tau.shape[-1]
    if not x.numel() or not k:
        return
    if caps().kind == "gpu" and (not x.is_complex() or (not conjugate and forwards == conjugate_tau)):
        starts = range(0, k, PANEL)
        for first in starts if forwards else reversed(starts):
            reflect_block(a, tau, x, first, min(first + PANEL, k), adjoint=forwards)
        return
    within_trips(m)
    parts = ranges(k, lambda i: 2 * (m - i) + 2)
    for first, last in parts if forwards else reversed(parts):
        run(
            "reflect", x.dtype, (a, x), (tau,), columns=x.shape[-1], m=m, count=k, first=first, last=last,
            forwards=forwards, conjugate=conjugate, conjugate_tau=conjugate_tau,
        )  # fmt: skip


def within_trips(rows: int) -> None:
    """Refuses what one thread of a software adapter cannot walk twice."""
    if caps().kind == "cpu" and 2 * rows > TRIPS:
        raise Unsupported("webgpu: a software adapter cannot loop over so many rows")


def ranges(count: int, trips) -> list[tuple[int, int]]:
    """Steps 0..count in parts that stay within the trips one invocation has; trips(i) is what step i takes."""
    parts, first, used = [], 0, 0
    for i in range(count):
        need = trips(i)
        if used and used + need > TRIPS:
            parts.append((first, i))
            first, used = i, 0
        used += need
    parts.append((first, count))
    return parts
