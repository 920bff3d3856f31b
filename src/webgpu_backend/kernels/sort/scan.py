"""Prefix scans along one dimension of an (outer, length, inner) block: in one pass, or in chunks with their totals
scanned first. The order of combination depends on the shape alone, so results repeat exactly."""

from functools import cache
from struct import Struct
from typing import NamedTuple

from ...dtypes import INT32, WGSL_TYPE, DType, Unsupported, carrier
from ...program import Caps, Program
from ..layout import spread
from ..text import elements
from ..text.by_index import from_u32, function, operands
from ..text.expression import convert
from ..text.render import render

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


class Step(NamedTuple):
    kind: str
    chunk: int
    chunks: int
    threads: int
    grid: tuple[int, int, int]
    parts: int = 1


def plan(outer: int, length: int, inner: int, caps: Caps) -> Step:
    """How one scan is cut. More than one chunk: totals first, then their scan, then this step again with carries."""
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
        return Step("row", chunk, chunks, outer * chunks, spread(outer * chunks, caps), parts)
    lines = outer * inner
    wanted = 65536 if caps.kind == "gpu" else 64
    chunk = CHUNK
    if caps.kind == "gpu" and lines * (length // CHUNK) < wanted:
        chunk = max(32, min(CHUNK, lines * length // wanted))
    chunk = length if length <= 2 * chunk else chunk
    chunks = -(-length // chunk)
    threads = lines * chunks
    return Step("serial", chunk, chunks, threads, spread(-(-threads // WORKGROUP["serial"][caps.kind]), caps))


@cache
def program(
    op: str, kind: str, source: DType, out: DType, index: DType | None, carried: DType | None, indexed: bool,
    total: bool, parts: int, vector: bool, caps: Caps,
) -> tuple[Program, Struct]:  # fmt: skip
    """`index`: dtype of the index output of cummax and cummin. `carried`: dtype of the scanned totals to start from.
    `indexed`: the input comes with indices of its own. `vector`: rows are whole groups of four, read and (but for
    totals) written so."""
    c = carrier(out, caps)
    paired = op in LATER
    reads = [("a", source)] + ([("ai", INT32)] if indexed else [])
    if carried is not None:
        reads += [("c", carried)] + ([("ci", INT32)] if paired else [])
    writes = [("out", out)] + ([("outi", index)] if paired else [])
    vector = vector and kind == "row" and op in ("cumsum", "cumprod")
    modes = "v" if vector and not total else "e" * len(writes)
    head, access, packer = operands(tuple(reads), tuple(writes), modes, FIELDS, caps, "a" if vector else "")
    load4, store4 = [], []
    if vector:
        load4, lanes = elements.read4(source, "b_a", "g", "v", caps)
        load4 = load4, [convert(x, carrier(source, caps), c) for x in lanes]
        store4 = elements.write4(out, "b_out", "g", [convert(f"y{k}", c, carrier(out, caps)) for k in range(4)], caps)
    logs = op == "logcumsumexp" and ("inside" if source.name == "complex64" else "first")
    if logs:
        if carrier(source, caps) == "f64":
            raise Unsupported("webgpu: logcumsumexp has no kernel for float64")
        c, combine = "c64", ""
    elif not paired:
        combine = function("combine", COMBINE[op], {"a": c, "b": c}, c, caps)
    else:
        later = LATER[op]
        if c in ("f32", "f64"):
            later = f"not (b == b) or ((a == a) and {later})"
        if c == "f32":
            later = f"isnan(b) or (not isnan(a) and {LATER[op]})"
        combine = function("later", later, {"a": c, "b": c}, "bool", caps)
    workgroup = WORKGROUP[kind][caps.kind]
    text = render(
        "sort/scan.wgsl", caps, head=head, combine=combine, kind=kind, paired=paired, indexed=indexed, total=total,
        carried=carried is not None, C=c, T=WGSL_TYPE[c], workgroup=workgroup, per=PER_THREAD, index_dtype=index,
        index=lambda value, dtype: from_u32(value, dtype, caps), steps=_steps(workgroup),
        logs=logs, raw=out.name == "complex64", parts=parts, vector=vector, load4=load4, store4=store4, **access,
    )  # fmt: skip
    tags = "_".join(d.short for _, d in (*reads, *writes))
    name = f"{op}_{kind}{parts if parts > 1 else ''}{'v' if vector else ''}{'_total' if total else ''}_{tags}"
    return Program(name, text, "r" * len(reads) + "w" * len(writes), packer.size), packer


def _steps(workgroup: int) -> list[int]:
    steps, step = [], 1
    while step < workgroup:
        steps.append(step)
        step *= 2
    return steps
