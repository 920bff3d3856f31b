"""Prefix scans along one dimension of an (outer, length, inner) block: in one pass, or in chunks with their totals
scanned first. The order of combination depends on the shape alone, so results repeat exactly."""

from functools import cache
from typing import NamedTuple

from ...dtypes import INT32, WGSL_TYPE, DType, carrier
from ...program import Caps, Step
from ..text import elements
from ..text.by_index import Kernel, from_u32, function, interface
from ..text.expression import convert
from ..text.render import render_program

# Short chunks keep rounding errors small (chunk totals are summed separately) and threads busy.
CHUNK = 1024
ROW_GROUPS = 1024  # workgroups that fill a GPU
WORKGROUP = {"serial": {"gpu": 64, "cpu": 16}, "row": {"gpu": 256, "cpu": 64}}
PER_THREAD = 4  # neighbours

COMBINE = {
    "cumsum": "a + b",
    "cumprod": "a * b",
    "complex_logcumsumexp": """
behind = a.real < b.real
top = where(behind, b, a)
low = where(behind, a, b)
where(low.real == -inf, top, log(exp(low - top) + 1) + top)
""",
}
LATER = {"cummax": "b >= a", "cummin": "b <= a"}
FIELDS = ("threads", "length", "inner", "chunk", "chunks")


class Cut(NamedTuple):
    """How a scan is cut: `row` has workgroups walk along rows, `serial` a thread a line."""

    kind: str
    chunk: int
    chunks: int
    threads: int  # or workgroups, of rows
    parts: int = 1


def cut(outer: int, length: int, inner: int, caps: Caps) -> Cut:
    """More than one chunk: totals first, then their scan, then this pass again with carries."""
    if caps.kind == "gpu" and inner == 1 and length >= 256:
        tile = WORKGROUP["row"]["gpu"] * PER_THREAD
        # Parts of a tile are each as wide as the workgroup, and share its barriers.
        parts = 4 if length >= 4 * tile else 2 if length >= 2 * tile else 1
        tile *= parts
        chunk = length
        if outer < ROW_GROUPS or length > 65536:
            # Few or long rows: as many chunks as fill the adapter, each a few tiles.
            chunks = max(1, min(-(-length // tile), -(-ROW_GROUPS // outer), 4096))
            tiles = -(-length // (chunks * tile))
            chunk = min(tiles, 64) * tile
        chunks = -(-length // chunk)
        return Cut("row", chunk, chunks, outer * chunks, parts)
    lines = outer * inner
    wanted = 65536 if caps.kind == "gpu" else 64
    chunk = CHUNK
    if caps.kind == "gpu" and lines * (length // CHUNK) < wanted:
        chunk = max(32, min(CHUNK, lines * length // wanted))
    chunk = length if length <= 2 * chunk else chunk
    chunks = -(-length // chunk)
    return Cut("serial", chunk, chunks, lines * chunks)


def plan(
    op: str, how: Cut, length: int, inner: int, source: DType, out: DType, index: DType | None, carried: DType | None,
    indexed: bool, total: bool, offsets: tuple[int, ...], caps: Caps,
) -> Step:  # fmt: skip
    """One pass. `index`: dtype of the index output of cummax and cummin. `carried`: dtype of the scanned totals to
    start from. `indexed`: the input comes with indices of its own. `total`: the chunks' totals are wanted, not the
    scan. `offsets` are those of what is read; binds that, then the outputs."""
    vector = length % 4 == 0 and offsets[0] % 4 == 0  # rows are whole groups of four
    kernel = _kernel(op, how.kind, source, out, index, carried, indexed, total, how.parts, vector, caps)
    return kernel.step(caps, how.threads, length, inner, how.chunk, how.chunks, *offsets)


@cache
def _kernel(
    op: str, kind: str, source: DType, out: DType, index: DType | None, carried: DType | None, indexed: bool,
    total: bool, parts: int, vector: bool, caps: Caps,
) -> Kernel:  # fmt: skip
    """`vector`: groups of four may be read and (but for totals) written."""
    c = carrier(out, caps)
    paired = op in LATER
    reads = [("a", source)] + ([("ai", INT32)] if indexed else [])
    if carried is not None:
        reads += [("c", carried)] + ([("ci", INT32)] if paired else [])
    writes = [("out", out)] + ([("outi", index)] if paired else [])
    vector = vector and kind == "row" and op in ("cumsum", "cumprod")
    modes = "v" if vector and not total else "e" * len(writes)
    face = interface(tuple(reads), tuple(writes), modes, FIELDS, caps, "a" if vector else "")
    load4, store4 = [], []
    if vector:
        load4, lanes = elements.read4(source, "b_a", "g", "v", caps)
        load4 = load4, [convert(x, carrier(source, caps), c) for x in lanes]
        store4 = elements.write4(out, "b_out", "g", [convert(f"y{k}", c, carrier(out, caps)) for k in range(4)], caps)
    logs = op == "logcumsumexp" and ("inside" if source.name.startswith("complex") else "first")
    double = logs and source.carrier in ("f64", "c128")
    if logs:
        c = "c128" if double else "c64"
    workgroup = WORKGROUP[kind][caps.kind]
    tags = "_".join(d.short for _, d in (*reads, *writes))
    program = render_program(
        f"{op}_{kind}{parts if parts > 1 else ''}{'v' if vector else ''}{'_total' if total else ''}_{tags}",
        "sort/scan.wgsl", face.fields, face.bindings, caps,
        combine="" if logs else _combine(op, c, caps), kind=kind, paired=paired, indexed=indexed, total=total,
        carried=carried is not None, C=c, T=WGSL_TYPE[c], workgroup=workgroup, per=PER_THREAD, index_dtype=index,
        index=lambda value, dtype: from_u32(value, dtype, caps), steps=_steps(workgroup),
        logs=logs, double=double, raw=out.name.startswith("complex"), parts=parts, vector=vector, load4=load4,
        store4=store4, **face.accessors,
    )  # fmt: skip
    return Kernel(program, face.pack, 1 if kind == "row" else workgroup)


def _combine(op: str, c: str, caps: Caps) -> str:
    """The function that joins two values of a carrier, or says which of two is taken."""
    if op not in LATER:
        return function("combine", COMBINE[op], {"a": c, "b": c}, c, caps)
    later = LATER[op]
    if c == "f32":
        later = f"isnan(b) or (not isnan(a) and {later})"
    elif c == "f64":
        later = f"not (b == b) or ((a == a) and {later})"
    return function("later", later, {"a": c, "b": c}, "bool", caps)


def _steps(workgroup: int) -> list[int]:
    steps, step = [], 1
    while step < workgroup:
        steps.append(step)
        step *= 2
    return steps
