"""Kernels over sorted data: bisection, runs of equal values, and scatters by sorted position."""

from functools import cache

from ...dtypes import INT32, INT64, UINT32, DType, carrier
from ...program import Caps, Program
from ..text import by_index as indexed
from ..text.render import render
from .sort import words


@cache
def searchsorted(dtype: DType, out: DType, right: bool, sorter: bool, caps: Caps) -> indexed.Kernel:
    c = carrier(dtype, caps)
    reached = indexed.function("reached", "a > b" if right else "a >= b", {"a": c, "b": c}, "bool", caps)
    reads = (("a", dtype), ("b", dtype)) + ((("s", INT64),) if sorter else ())
    names = (
        ("kind", "searchsorted"),
        ("functions", reached),
        ("right", right),
        ("sorter", sorter),
        ("index_dtype", out),
    )
    name = f"searchsorted{'_right' if right else ''}"
    return indexed.kernel(
        name, "sort/search.wgsl", reads, (("out", out),), ("values", "length", "rows"), caps, names=names
    )


@cache
def differs(dtype: DType, caps: Caps) -> indexed.Kernel:
    c = carrier(dtype, caps)
    unlike = indexed.function("unlike", "a != b", {"a": c, "b": c}, "bool", caps)
    names = (("kind", "differs"), ("functions", unlike))
    return indexed.kernel("differs", "sort/search.wgsl", (("a", dtype),), (("out", INT32),), (), caps, names=names)


@cache
def over_pairs(kind: str, dtype: DType, caps: Caps) -> indexed.Kernel:
    """`boundaries` or `runs` of the sorted pairs of a dtype."""
    floating = dtype.carrier in ("f32", "f64")
    names = (("kind", kind), ("functions", ""), ("words", words(dtype)), ("floating", floating))
    reads = (("pairs", UINT32),)
    return indexed.kernel(
        f"{kind}_{dtype.short}", "sort/search.wgsl", reads, (("out", INT32),), ("length",), caps, names=names
    )


@cache
def groups(caps: Caps) -> indexed.Kernel:
    names = (("kind", "groups"), ("functions", ""), ("index_dtype", INT64))
    writes = (("first", INT64), ("count", INT64))
    return indexed.kernel("groups", "sort/search.wgsl", (("a", INT32),), writes, ("length",), caps, names=names)


NEAR = 2048  # bins that a GPU's workgroup counts in its own memory


@cache
def scatter(kind: str, dtype: DType, caps: Caps, near: bool = False):
    """`inverse`: group numbers to where sorted elements came from. `histc`: counts of equal bins; `near`: at most
    NEAR of them."""
    per = 64 if near else 4 if caps.kind == "cpu" else 1
    workgroup = indexed.WORKGROUP[caps.kind]
    if kind == "inverse":
        reads, writes = (("a", INT32), ("pairs", UINT32)), (("out", INT64),)
        head, access, packer = indexed.operands(reads, writes, "e", ("n",), caps)
    else:
        reads, writes = (("a", dtype),), ()
        head, access, packer = indexed.operands(reads, writes, "", ("n", "bins", "low:f32", "high:f32"), caps)
        head += "@group(0) @binding(1) var<storage, read_write> b_out: array<atomic<u32>>;\n"
    text = render(
        "sort/search_scatter.wgsl", caps, head=head, kind=kind, words=words(dtype), index_dtype=INT64,
        workgroup=workgroup, near=NEAR if near else 0, per=per,
        index=lambda value, d: indexed.from_u32(value, d, caps), **access,
    )  # fmt: skip
    program = Program(f"{kind}{'_near' if near else ''}_{dtype.short}", text, "r" * len(reads) + "w", packer.size)
    return indexed.Kernel(program, packer, per, workgroup)
