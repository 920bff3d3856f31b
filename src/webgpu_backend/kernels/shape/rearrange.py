"""Moving elements by coordinates alone: pads, rolls, flips and triangles are one kernel with a rule per dimension.

Rules: "n" the coordinate as it is; "c" shifted, nothing outside (constant padding); "r" reflected; "e" clamped to the
edge; "w" wrapped around. Strides may be negative: addresses are sums modulo 2^32.
"""

from functools import cache

from ...dtypes import DType, Unsupported
from ...program import Caps, Program, Step
from ..indexing.read import MAX_WORDS, coordinates
from ..layout import grid_of_fours, numel
from ..text import bits, elements
from ..text.numbers import packed
from ..text.render import render_program

_U32 = 0xFFFFFFFF


def plan(
    shape, item: int, strides, offset: int, rules: str, shifts, sizes, keep: str, diagonal: int, caps: Caps
) -> Step:
    """out[c] = source[offset + rule(c) . strides] for a fresh contiguous output; `shifts` and `sizes` are the rules'
    parameters; `keep` is "", "l" or "u": the triangle kept of the last two dimensions. The element's bits that stand
    for "outside" end the parameters.
    """
    fixed = 2 if keep else 0
    dims, strides, rules, shifts, sizes = _merge(shape, strides, rules, shifts, sizes, fixed)
    words = [numel(dims), *dims[:-1], offset & _U32]
    for d, rule in enumerate(rules):
        words.append(strides[d] & _U32)
        if rule != "n":
            words += [shifts[d] & _U32, sizes[d]]
    if keep:
        words.append(diagonal & _U32)
    if len(words) + 2 > MAX_WORDS:
        raise Unsupported("webgpu: too many dimensions")
    # Four neighbours of a row move together where the row itself is untouched (a triangle cuts lane by lane), or where
    # what is outside begins and ends between groups of four.
    whole = rules[0] == "n" or (rules[0] == "c" and not keep and shifts[0] % 4 == 0 and sizes[0] % 4 == 0)
    vector = whole and strides[0] == 1 and dims[0] % 4 == 0 and offset % 4 == 0
    vector = vector and all(s % 4 == 0 for s in strides[1:])
    program = _program(item, "".join(rules), keep, vector, caps)
    return Step(program, packed(words), grid_of_fours(words[0], caps))


def _merge(shape, strides, rules, shifts, sizes, fixed: int):
    """Innermost first, joining neighbours that need no rule; the `fixed` innermost stay as they are."""
    result: list[list] = [[], [], [], [], []]
    for k, d in enumerate(range(len(shape) - 1, -1, -1)):
        if k >= fixed and shape[d] == 1 and rules[d] == "n":
            continue
        if len(result[0]) > fixed and rules[d] == "n" == result[2][-1]:
            if strides[d] == result[1][-1] * result[0][-1]:
                result[0][-1] *= shape[d]
                continue
        for into, what in zip(result, (shape[d], strides[d], rules[d], shifts[d], sizes[d])):
            into.append(what)
    if not result[0]:
        return [1], [0], ["n"], [0], [1]
    return result


_RULES = {
    "c": ["let t{d} = c{d} - p.shift{d};", "inside = inside && t{d} < p.size{d};"],
    # i32: reflection passes through negative coordinates.
    "r": [
        "let s{d} = abs(i32(c{d}) - i32(p.shift{d}));",
        "let t{d} = u32(i32(p.size{d}) - 1 - abs(i32(p.size{d}) - 1 - s{d}));",
    ],
    "e": ["let t{d} = u32(clamp(i32(c{d}) - i32(p.shift{d}), 0, i32(p.size{d}) - 1));"],
    "w": ["let s{d} = c{d} + p.shift{d};", "let t{d} = select(s{d}, s{d} - p.size{d}, s{d} >= p.size{d});"],
    "n": ["let t{d} = c{d};"],
}


@cache
def _program(item: int, rules: str, keep: str, vector: bool, caps: Caps) -> Program:
    dtype, bare = bits.bits_of(item), bits.plain(caps)
    rank = len(rules)
    fields = ["n", *(f"d{d}" for d in range(rank - 1)), "src_o"]
    lines = [*coordinates(rank), "inside = true;"]
    for d, rule in enumerate(rules):
        fields.append(f"src_s{d}")
        if rule != "n":
            fields += [f"shift{d}", f"size{d}"]
        lines += [line.format(d=d) for line in _RULES[rule]]
    if keep:
        fields.append("diagonal")
        lines.append("distance = i32(c0) - i32(c1) - bitcast<i32>(p.diagonal);")
    fields += bits.fields("outside", item)
    lines.append("return " + " + ".join(["p.src_o"] + [f"t{d} * p.src_s{d}" for d in range(rank)]) + ";")
    main = _main(dtype, keep, "c" in rules, vector, bare)
    return render_program(
        f"move_{item}_{rules}{keep}{'v' if vector else ''}",
        "indexing/read.wgsl",
        fields,
        [
            ("b_src", "read", elements.array_type(dtype, "v" if vector else "e", bare)),
            ("b_out", "read_write", elements.array_type(dtype, "v", bare)),
        ],
        caps,
        spread=False,
        # distance: columns to the right of the diagonal.
        declarations=["var<private> inside: bool = true;", "var<private> distance: i32 = 0;"],
        address=lines,
        main=main,
    )


def _main(dtype: DType, keep: str, cuts: bool, vector: bool, bare: Caps) -> list[str]:
    """Statements that move group `g`. `cuts`: there may be no element at an address."""
    blank = bits.text("outside", dtype.size)
    compare = "<=" if keep == "l" else ">="
    if vector:
        # Outside there may be no element at the address: element 0 is read instead and not used.
        load, lanes = elements.read4(dtype, "b_src", "select(0u, there, inside) / 4u", "v", bare)
        main = ["let there = address(g * 4u);", *load]
        if keep:
            lanes = [f"select({blank}, {lane}, distance + {k} {compare} 0)" for k, lane in enumerate(lanes)]
        elif cuts:
            lanes = [f"select({blank}, {lane}, inside)" for lane in lanes]
    else:
        main, lanes = [], [f"v{lane}" for lane in range(4)]
        for lane in range(4):
            main.append(f"let at{lane} = address(min(g * 4u + {lane}u, p.n - 1u));")
            if keep:
                main.append(f"inside = distance {compare} 0;")
            main.append(f"var v{lane} = {blank};")
            main.append(f"if (inside) {{ v{lane} = {elements.read(dtype, 'b_src', f'at{lane}', bare)}; }}")
    return main + elements.write4(dtype, "b_out", "g", lanes, bare)
