"""Kernels over sorted data: bisection, runs of equal values, and scatters by sorted position."""

from functools import cache

from ...dtypes import INT32, INT64, UINT32, DType, carrier
from ...program import Caps, Step
from ..layout import WORKGROUP
from ..text import by_index
from ..text.by_index import Kernel
from ..text.render import render_program
from .sort import words


@cache
def searchsorted(dtype: DType, out: DType, right: bool, sorter: bool, caps: Caps) -> Kernel:
    c = carrier(dtype, caps)
    reached = by_index.function("reached", "a > b" if right else "a >= b", {"a": c, "b": c}, "bool", caps)
    reads = (("a", dtype), ("b", dtype)) + ((("s", INT64),) if sorter else ())
    names = (
        ("kind", "searchsorted"),
        ("functions", reached),
        ("right", right),
        ("sorter", sorter),
        ("index_dtype", out),
    )
    name = f"searchsorted{'_right' if right else ''}"
    return by_index.kernel(
        name, "sort/search.wgsl", reads, (("out", out),), ("values", "length", "rows"), caps, names=names
    )


@cache
def differs(dtype: DType, caps: Caps) -> Kernel:
    c = carrier(dtype, caps)
    unlike = by_index.function("unlike", "a != b", {"a": c, "b": c}, "bool", caps)
    names = (("kind", "differs"), ("functions", unlike))
    return by_index.kernel("differs", "sort/search.wgsl", (("a", dtype),), (("out", INT32),), (), caps, names=names)


@cache
def over_pairs(kind: str, dtype: DType, caps: Caps) -> Kernel:
    """`boundaries` or `runs` of the sorted pairs of a dtype."""
    floating = dtype.carrier in ("f32", "f64")
    names = (("kind", kind), ("functions", ""), ("words", words(dtype)), ("floating", floating))
    reads = (("pairs", UINT32),)
    return by_index.kernel(
        f"{kind}_{dtype.short}", "sort/search.wgsl", reads, (("out", INT32),), ("length",), caps, names=names
    )


@cache
def groups(caps: Caps) -> Kernel:
    names = (("kind", "groups"), ("functions", ""), ("index_dtype", INT64))
    writes = (("first", INT64), ("count", INT64))
    return by_index.kernel("groups", "sort/search.wgsl", (("a", INT32),), writes, ("length",), caps, names=names)


NEAR = 2048  # bins that a GPU's workgroup counts in its own memory


def plan_inverse(dtype: DType, n: int, caps: Caps) -> Step:
    """Group numbers (int32, from one) to where sorted elements of a dtype came from. Binds the numbers, the pairs and
    the inverse."""
    return _scatter("inverse", dtype, False, caps).step(caps, n, 0, 0)


def plan_histc(dtype: DType, n: int, bins: int, low: float, high: float, offset: int, caps: Caps) -> Step:
    """Counts of `n` elements in equal bins. Binds the elements and the counts (u32), which are zero before."""
    near = caps.kind == "gpu" and bins <= NEAR
    return _scatter("histc", dtype, near, caps).step(caps, n, bins, low, high, offset)


@cache
def _scatter(kind: str, dtype: DType, near: bool, caps: Caps) -> Kernel:
    per, double = 64 if near else 4 if caps.kind == "cpu" else 1, kind == "histc" and dtype.name == "float64"
    if kind == "inverse":
        face = by_index.interface((("a", INT32), ("pairs", UINT32)), (("out", INT64),), "e", ("n",), caps)
        bindings = face.bindings
    else:
        face = by_index.interface((("a", dtype),), (), "", ("n", "bins", "low: f32", "high: f32"), caps, double=double)
        bindings = [*face.bindings, ("b_out", "read_write", "array<atomic<u32>>")]
    program = render_program(
        f"{kind}{'_near' if near else ''}_{dtype.short}", "sort/search_scatter.wgsl", face.fields, bindings, caps,
        double=double, kind=kind, words=words(dtype), index_dtype=INT64, near=NEAR if near else 0, per=per,
        index=lambda value, d: by_index.from_u32(value, d, caps), **face.accessors,
    )  # fmt: skip
    return Kernel(program, face.pack, per * WORKGROUP[caps.kind])
