"""Reading through indices: gather, index_select, take, embedding and advanced indexing are one kernel.

Every output coordinate has a stride in the source and in each index tensor; an index adds its own step. Operators
differ only in those numbers.
"""

from functools import cache
from typing import NamedTuple

from ...dtypes import Unsupported
from ...program import Caps, Program, Step
from ..layout import WORKGROUP, collapse, grid_of_fours, numel
from ..text import bits, elements
from ..text.numbers import packed
from ..text.render import Binding, render_program

MAX_WORDS = 64
MAX_BINDINGS = 8


class Axis(NamedTuple):
    """An index tensor laid over the walked shape, and what it indexes."""

    size: int  # bytes per index: 4 or 8
    strides: tuple[int, ...]
    offset: int
    limit: int  # indices are below this
    step: int  # elements of the indexed tensor per index
    site: int  # names operator and dimension in an error


def index_fields(rank: int, count: int) -> list[str]:
    fields = []
    for k in range(count):
        fields += [f"i{k}_o", *(f"i{k}_s{d}" for d in range(rank))]
        fields += [f"i{k}_limit", f"i{k}_step", f"i{k}_site"]
    return fields


def walk_fields(name: str, rank: int, count: int) -> list[str]:
    """Of a walk over `rank` dimensions, through a tensor and `count` index tensors."""
    fields = ["n", *(f"d{d}" for d in range(rank - 1)), f"{name}_o", *(f"{name}_s{d}" for d in range(rank))]
    return fields + index_fields(rank, count)


def index_words(axes, strides) -> list[int]:
    words = []
    for axis, st in zip(axes, strides):
        words += [axis.offset, *st, axis.limit, axis.step, axis.site]
    return words


def coordinates(rank: int) -> list[str]:
    """Statements splitting a linear index `r` into c0 (innermost) and on."""
    lines = []
    for d in range(rank - 1):
        lines += [f"let c{d} = r % p.d{d};", f"r = r / p.d{d};"]
    return [*lines, f"let c{rank - 1} = r;"]


def dot(name: str, rank: int) -> str:
    return " + ".join([f"p.{name}_o"] + [f"c{d} * p.{name}_s{d}" for d in range(rank)])


def index_lines(rank: int, sizes: tuple[int, ...]) -> list[str]:
    """Statements that add each index's step to `at`."""
    lines = []
    for k, size in enumerate(sizes):
        lines.append(f"let w{k} = b_i{k}[{dot(f'i{k}', rank)}];")
        low, high = (f"w{k}.x", f"w{k}.y") if size == 8 else (f"w{k}", f"select(0u, 0xffffffffu, w{k} > 0x7fffffffu)")
        lines.append(f"at += placed({low}, {high}, p.i{k}_limit, p.i{k}_site) * p.i{k}_step;")
    return lines


def index_tag(sizes: tuple[int, ...]) -> str:
    """A letter for each index tensor in the name of a program."""
    return "".join(["li"[size == 4] for size in sizes])


def index_bindings(sizes: tuple[int, ...]) -> list[Binding]:
    return [(f"b_i{k}", "read", "array<vec2<u32>>" if s == 8 else "array<u32>") for k, s in enumerate(sizes)]


def plan(shape, item: int, strides, offset: int, axes: list[Axis], caps: Caps, windowed: bool = False) -> Step:
    """out[c] = source[offset + c . strides + sum of index * step], for a fresh contiguous output of `shape`.

    `windowed`: the source is bound in part, and only what lies in that part is written; its first element and the
    one past its last end the parameters.
    """
    dims, walked = collapse(shape, [strides, *(a.strides for a in axes)])
    rank, n = len(dims), numel(dims)
    source = walked[0]
    vector = (
        dims[0] % 4 == 0
        and source[0] == 1
        and offset % 4 == 0
        and all(s % 4 == 0 for s in source[1:])
        and all(st[0] == 0 and a.step % 4 == 0 for st, a in zip(walked[1:], axes))
    )
    words = [n, *dims[:-1], offset, *source, *index_words(axes, walked[1:])]
    if len(words) + 2 * windowed > MAX_WORDS or len(axes) + 3 > MAX_BINDINGS:
        raise Unsupported("webgpu: too many index tensors for one kernel")
    program = _program(item, rank, tuple(a.size for a in axes), vector, windowed, caps)
    return Step(program, packed(words), grid_of_fours(n, caps))


@cache
def _program(item: int, rank: int, sizes: tuple[int, ...], vector: bool, windowed: bool, caps: Caps) -> Program:
    dtype, bare = bits.bits_of(item), bits.plain(caps)
    mode = "v" if vector else "e"
    # A GPU's threads take neighbours, a workgroup's width apart four times, where no two of them share a word.
    spread = caps.kind == "gpu" and item >= 4 and not vector and not windowed
    out = "v" if vector or not (windowed or spread) else elements.element_mode(dtype, bare, written=True)
    if windowed:
        main = _windowed(dtype, vector, bare)
    elif spread:
        main = _spread(dtype, WORKGROUP[caps.kind], bare)
    elif vector:
        lines, lanes = elements.read4(dtype, "b_src", "at / 4u", "v", bare)
        main = ["let at = address(g * 4u);", *lines, *elements.write4(dtype, "b_out", "g", lanes, bare)]
    else:
        main, lanes = [], []
        for lane in range(4):
            main.append(f"let at{lane} = address(min(g * 4u + {lane}u, p.n - 1u));")
            main.append(f"let v{lane} = {elements.read(dtype, 'b_src', f'at{lane}', bare)};")
            lanes.append(f"v{lane}")
        main += elements.write4(dtype, "b_out", "g", lanes, bare)
    return render_program(
        f"index_{item}{mode}{rank}{index_tag(sizes)}{'_window' if windowed else ''}",
        "indexing/read.wgsl",
        walk_fields("src", rank, len(sizes)) + (["window", "window_end"] if windowed else []),
        [
            ("b_src", "read", elements.array_type(dtype, mode, bare)),
            *index_bindings(sizes),
            ("b_out", "read_write", elements.array_type(dtype, out, bare)),
        ],
        caps,
        guarded=True,
        spread=spread,
        address=[*coordinates(rank), f"var at = {dot('src', rank)};", *index_lines(rank, sizes), "return at;"],
        main=main,
    )


def _spread(dtype, workgroup: int, caps: Caps) -> list[str]:
    main = [f"let first = thread / {workgroup}u * {4 * workgroup}u + thread % {workgroup}u;"]
    for lane in range(4):
        main.append(f"let e{lane} = first + {lane * workgroup}u;")
        main.append(f"let at{lane} = address(min(e{lane}, p.n - 1u));")
        main.append(f"let v{lane} = {elements.read(dtype, 'b_src', f'at{lane}', caps)};")
    for lane in range(4):
        main.append(f"if (e{lane} < p.n) {{ {elements.write(dtype, 'b_out', f'e{lane}', f'v{lane}', caps)} }}")
    return main


def _windowed(dtype, vector: bool, caps: Caps) -> list[str]:
    """Only what lies in the bound part of the source is moved; other dispatches write the rest."""
    inside = "at >= p.window && at < p.window_end"
    if vector:
        lines, lanes = elements.read4(dtype, "b_src", "(at - p.window) / 4u", "v", caps)
        body = lines + elements.write4(dtype, "b_out", "g", lanes, caps)
        return ["let at = address(g * 4u);", f"if ({inside}) {{", *body, "}"]
    main = []
    for lane in range(4):
        value = elements.read(dtype, "b_src", "(at - p.window)", caps)
        main += [
            f"if (g * 4u + {lane}u < p.n) {{",
            f"    let at = address(g * 4u + {lane}u);",
            f"    if ({inside}) {{",
            f"        let v = {value};",
            f"        {elements.write(dtype, 'b_out', f'(g * 4u + {lane}u)', 'v', caps)}",
            "    }",
            "}",
        ]
    return main
