"""Reading through indices: gather, index_select, take, embedding and advanced indexing are one kernel.

Every output coordinate has a stride in the source and in each index tensor; an index adds its own step. Operators
differ only in those numbers.
"""

from functools import cache
from struct import pack
from typing import NamedTuple

from ...dtypes import Unsupported
from ...program import Caps, Program, Step
from ..layout import collapse, grid, numel
from ..pointwise.elementwise import GROUPS, WORKGROUP
from ..text import bits as raw
from ..text import elements
from ..text.render import render

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
        fields += [f"i{k}_o: u32", *(f"i{k}_s{d}: u32" for d in range(rank))]
        fields += [f"i{k}_limit: u32", f"i{k}_step: u32", f"i{k}_site: u32"]
    return fields


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


def index_bindings(sizes: tuple[int, ...]) -> list[tuple[str, str, str]]:
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
    threads = -(-n // (4 * GROUPS[caps.kind]))
    return Step(program, pack(f"<{len(words)}I", *words), grid(threads, WORKGROUP[caps.kind], caps))


@cache
def _program(item: int, rank: int, sizes: tuple[int, ...], vector: bool, windowed: bool, caps: Caps) -> Program:
    dtype, bare = raw.bits_of(item), raw.plain(caps)
    fields = ["n: u32", *(f"d{d}: u32" for d in range(rank - 1)), "src_o: u32"]
    fields += [f"src_s{d}: u32" for d in range(rank)] + index_fields(rank, len(sizes))
    address = [*coordinates(rank), f"var at = {dot('src', rank)};", *index_lines(rank, sizes), "return at;"]
    mode = "v" if vector else "e"
    # A GPU's threads take neighbours, a workgroup's width apart four times, where no two of them share a word.
    spread = caps.kind == "gpu" and item >= 4 and not vector and not windowed
    out = "v" if vector or not (windowed or spread) else elements.element_mode(dtype, bare, written=True)
    bindings = [("b_src", "read", elements.array_type(dtype, mode, bare)), *index_bindings(sizes)]
    bindings.append(("b_out", "read_write", elements.array_type(dtype, out, bare)))
    if windowed:
        fields += ["window: u32", "window_end: u32"]
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
    text = render(
        "indexing/read.wgsl",
        caps,
        fields=fields,
        bindings=bindings,
        guarded=True,
        spread=spread,
        private=[],
        address=address,
        main=main,
        workgroup=WORKGROUP[caps.kind],
        groups=GROUPS[caps.kind],
    )
    access = "r" * (1 + len(sizes)) + "w"
    tag = "".join("li"[s == 4] for s in sizes)
    name = f"index_{item}{mode}{rank}{tag}{'_window' if windowed else ''}"
    return Program(name, text, access, 4 * len(fields), guarded=True)


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
