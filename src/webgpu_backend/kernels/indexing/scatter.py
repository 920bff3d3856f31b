"""Writing through indices: scatter, index_put, index_add, index_copy, put and their reductions are one kernel.

Stores that several threads may aim at the same word go through compare-exchange, which every adapter has; sums of
32-bit and 64-bit integers use atomic additions. What no atomic can do (products of 64-bit numbers and the like) goes
through per-element lists, see `link`.
"""

from functools import cache

from ...dtypes import DType, Unsupported, carrier
from ...program import Caps, Program, Step
from ..layout import collapse, grid, numel
from ..text import bits, elements
from ..text.expression import Emitter, wgsl_type
from ..text.numbers import packed
from ..text.render import render_program
from .read import (
    MAX_BINDINGS,
    MAX_WORDS,
    Axis,
    coordinates,
    dot,
    index_bindings,
    index_lines,
    index_tag,
    index_words,
    walk_fields,
)

EACH = {"gpu": 1, "cpu": 8}  # elements per thread
COMBINE = {"sum": "a + b", "prod": "a * b", "amax": "max(a, b)", "amin": "min(a, b)"}
_F64 = {
    "amax": "where(a != a, a, where(b != b, b, where(a > b, a, b)))",
    "amin": "where(a != a, a, where(b != b, b, where(a < b, a, b)))",
}
_BOOL = {"sum": "a or b", "amax": "a or b", "prod": "a and b", "amin": "a and b"}


def atomic(how: str, dtype: DType) -> bool:
    """Atomics can do it; else it takes lists."""
    return how == "set" or dtype.size <= 4 or (how == "sum" and dtype.name in ("int64", "uint64"))


def plan(shape, dtype: DType, how: str, target, value, axes: list[Axis], caps: Caps, windowed: bool = False) -> Step:
    """target[offset + c . strides + sum of index * step] (how)= value[c], for every c in `shape`.

    `target` and `value` are (strides, offset); a value of None is one element whose bits end the parameters.
    `windowed`: as for reading, of the target; the window's bounds come before those bits.
    """
    lists = [target[0], *(a.strides for a in axes)] + ([] if value is None else [value[0]])
    dims, walked = collapse(shape, lists)
    rank, n = len(dims), numel(dims)
    into = walked[0]
    source = walked[-1] if value is not None else None
    vector = (
        how == "set"
        and dims[0] % 4 == 0
        and into[0] == 1
        and target[1] % 4 == 0
        and all(s % 4 == 0 for s in into[1:])
        and all(st[0] == 0 and a.step % 4 == 0 for st, a in zip(walked[1:], axes))
        and (source is None or (source[0] == 1 and value[1] % 4 == 0 and all(s % 4 == 0 for s in source[1:])))
    )
    words = [n, *dims[:-1], target[1], *into, *index_words(axes, walked[1 : 1 + len(axes)])]
    if source is not None:
        words += [value[1], *source]
    if len(words) + 4 > MAX_WORDS or len(axes) + 3 > MAX_BINDINGS:
        raise Unsupported("webgpu: too many index tensors for one kernel")
    kind = bits.bits_of(dtype.size) if how == "set" else dtype
    sizes = tuple(a.size for a in axes)
    program = _program(kind, how, rank, sizes, source is not None, vector, windowed, caps)
    return Step(program, packed(words), grid(-(-n // (4 if vector else EACH[caps.kind])), caps))


@cache
def _program(
    dtype: DType, how: str, rank: int, sizes, tensor: bool, vector: bool, windowed: bool, caps: Caps
) -> Program:
    bare = bits.plain(caps)
    fields = walk_fields("dst", rank, len(sizes))
    fields += ["val_o", *(f"val_s{d}" for d in range(rank))] if tensor else []
    fields += ["window", "window_end"] if windowed else []
    fields += [] if tensor else bits.fields("value", dtype.size)
    main = coordinates(rank)
    bindings = []
    combine = None
    lanes = ["v"] * 4
    # The value is read before the indices are looked at: both are on their way at the same time.
    if not tensor:
        main.append(f"let v = {bits.text('value', dtype.size)};")
    else:
        bindings.append(("b_val", "read", elements.array_type(dtype, "v" if vector else "e", bare)))
        main.append(f"let vi = {dot('val', rank)};")
        if vector:
            lines, lanes = elements.read4(dtype, "b_val", "vi / 4u", "v", bare)
            main += lines
        else:
            main.append(f"let v = {elements.read(dtype, 'b_val', 'vi', bare)};")
    main += [f"var at = {dot('dst', rank)};", "bad = false;", *index_lines(rank, sizes)]
    if windowed:
        main += ["bad = bad || at < p.window || at >= p.window_end;", "at -= p.window;"]
    bindings += index_bindings(sizes)
    if vector:
        kind = elements.array_type(dtype, "v", bare)
        store = elements.write4(dtype, "b_dst", "at / 4u", lanes, bare)
    else:
        store, kind, combine = _store(dtype, how, bare)
    bindings.append(("b_dst", "read_write", kind))
    tag = index_tag(sizes) + "c" * (not tensor) + "_window" * windowed
    return render_program(
        f"scatter_{how}_{dtype.short}{'v' if vector else ''}{rank}{tag}",
        "indexing/scatter.wgsl",
        fields,
        bindings,
        caps,
        guarded=True,
        combine=combine,
        main=main,
        store=store,
        each=1 if vector else EACH[caps.kind],
        lanes=4 if vector else 1,
    )


def combiner(how: str, dtype: DType, caps: Caps) -> tuple[str, list[str]]:
    """(WGSL type, body) of the function that joins two values of a dtype."""
    c = carrier(dtype, caps)
    emitter = Emitter({"a": c, "b": c}, {}, caps.i64)
    source = _BOOL[how] if c == "bool" else (_F64.get(how) if c == "f64" else None) or COMBINE[how]
    body = emitter.program(source, [("joined", c)])
    return wgsl_type(c), [*body, "return joined;"]


def _store(dtype: DType, how: str, caps: Caps):
    """Statements that put `v` at element `at`, the type of the array, and the joining function they need."""
    if how == "set" and not dtype.packed:
        return [elements.write(dtype, "b_dst", "at", "v", caps)], elements.array_type(dtype, "e", caps), None
    if how == "sum" and dtype.name in ("int64", "uint64"):
        lines = [
            "let old = atomicAdd(&b_dst[2u * at], v.x);",
            "atomicAdd(&b_dst[2u * at + 1u], v.y + select(0u, 1u, old + v.x < old));",
        ]
        return lines, "array<atomic<u32>>", None
    if how == "sum" and dtype.name in ("int32", "uint32"):
        return ["atomicAdd(&b_dst[at], bitcast<u32>(v));"], "array<atomic<u32>>", None
    if how == "sum" and dtype.name == "float32" and caps.f32_atomic:
        # Zeros often share a place (what lies outside an image does), where they would wait for each other.
        return ["if (!(v == 0.0)) {", "    atomicAdd(&b_dst[at], v);", "}"], "array<atomic<f32>>", None
    if dtype.size > 4:
        raise Unsupported(f"webgpu: no atomic {how} of {dtype.name}")
    combine = None if how == "set" else combiner(how, dtype, caps)
    if dtype.packed:
        per, shift = elements.per_word(dtype)
        mask = "0xffffu" if dtype.size == 2 else "0xffu"
        joined = "v" if combine is None else f"combine({elements.read_word(dtype, 'now', 'at')}, v)"
        lines = [f"let shift = (at % {per}u) * {shift}u;"]
        place = f"b_dst[at / {per}u]"
        next_ = f"(now & ~({mask} << shift)) | ({elements.bits(dtype, joined)} << shift)"
    else:
        lines = []
        place = "b_dst[at]"
        next_ = _to_bits(dtype, f"combine({_from_bits(dtype)}, v)")
    lines += [
        f"var now = atomicLoad(&{place});",
        "loop {",
        f"    let next = {next_};",
        "    if (next == now) { break; }",
        f"    let seen = atomicCompareExchangeWeak(&{place}, now, next);",
        "    if (seen.exchanged) { break; }",
        "    now = seen.old_value;",
        "}",
    ]
    return lines, "array<atomic<u32>>", combine


def atomic_add(dtype: DType, caps: Caps):
    """The array type by which elements of a dtype are added to, the statements that add `v` to element `at` of
    `b_dst`, and the joining function `combine` they need, if any. 64-bit integers are two words."""
    lines, kind, combine = _store(dtype, "sum", bits.plain(caps))
    return kind, lines, combine


def _from_bits(dtype: DType) -> str:
    if dtype.name == "complex32":
        return "unpack2x16float(now)"
    return "now" if dtype.carrier == "u32" else f"bitcast<{dtype.carrier}>(now)"


def _to_bits(dtype: DType, value: str) -> str:
    if dtype.name == "complex32":
        return elements.bits(dtype, f"({value})")
    return value if dtype.carrier == "u32" else f"bitcast<u32>({value})"


# -- lists: for what no atomic can do


def plan_link(shape, target, axes: list[Axis], caps: Caps) -> Step:
    """Every element of `shape` is put at the head of the list of the target element it indexes.

    Binds the index tensors, head (an int32 per element of a contiguous target, -1: none) and next (an int32 per
    element of shape).
    """
    dims, walked = collapse(shape, [target[0], *(a.strides for a in axes)])
    rank, n = len(dims), numel(dims)
    words = [n, *dims[:-1], target[1], *walked[0], *index_words(axes, walked[1:])]
    if len(words) > MAX_WORDS or len(axes) + 3 > MAX_BINDINGS:
        raise Unsupported("webgpu: too many index tensors for one kernel")
    program = _link_program(rank, tuple(a.size for a in axes), caps)
    return Step(program, packed(words), grid(-(-n // EACH[caps.kind]), caps))


@cache
def _link_program(rank: int, sizes, caps: Caps) -> Program:
    return render_program(
        f"scatter_link_{rank}{index_tag(sizes)}",
        "indexing/scatter.wgsl",
        walk_fields("dst", rank, len(sizes)),
        [
            *index_bindings(sizes),
            ("b_head", "read_write", "array<atomic<i32>>"),
            ("b_next", "read_write", "array<i32>"),
        ],
        caps,
        guarded=True,
        combine=None,
        main=[
            "let own = r;",
            *coordinates(rank),
            f"var at = {dot('dst', rank)};",
            "bad = false;",
            *index_lines(rank, sizes),
        ],
        store=["b_next[own] = atomicExchange(&b_head[at], i32(own));"],
        each=EACH[caps.kind],
        lanes=1,
    )


WALK = 32768  # list elements per dispatch: a software driver stops silently after 65,535 loop trips


def plan_walk(dtype: DType, how: str, n: int, caps: Caps) -> Step:
    """Joins up to WALK more elements of each list into a contiguous target of n elements: binds value, next, head,
    target."""
    return Step(_walk_program(dtype, how, caps), packed([n]), grid(n, caps))


@cache
def _walk_program(dtype: DType, how: str, caps: Caps) -> Program:
    type_, body = combiner(how, dtype, caps)
    kind = elements.array_type(dtype, "e", caps)
    return render_program(
        f"scatter_walk_{how}_{dtype.short}",
        "indexing/scatter_walk.wgsl",
        ["n"],
        [
            ("b_val", "read", kind),
            ("b_next", "read", "array<i32>"),
            ("b_head", "read_write", "array<i32>"),
            ("b_dst", "read_write", kind),
        ],
        caps,
        read_value=elements.read(dtype, "b_val", "u32(cursor)", caps),
        read_target=elements.read(dtype, "b_dst", "at", caps),
        write_target=elements.write(dtype, "b_dst", "at", "acc", caps),
        type=type_,
        combine=body,
        steps=WALK,
    )
