"""Attention of one query a head over not too many keys, as for the next token of a text: a workgroup has a head, and
all scores of that in its memory. Keys that are divided among workgroups would take a second dispatch, which takes
longer than to read a thousand keys."""

from functools import cache

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import halvings, spread
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from .epilogue import After, Kind, given, texts
from .single import Mask, Shape, Strides, interface, mask_kind, parameters

KEYS = 1024
THREADS = (512, 256)
AHEAD = 16  # values that a thread reads before it knows their weights
# Bytes of keys and values that all heads read, those that share some too: from there on, sharing pays.
MOST = 8 << 20


def fits(shape: Shape, dtype: DType, causal: bool, dropout: float, caps: Caps) -> bool:
    read = shape.batch * shape.heads * shape.s * (shape.e + shape.v) * dtype.size
    few = shape.l == 1 and shape.s <= KEYS and read <= MOST
    able = caps.kind == "gpu" and caps.subgroups and _threads(caps) is not None
    return few and able and not causal and not dropout


def _threads(caps: Caps) -> int | None:
    fitting = [t for t in THREADS if t <= caps.workgroup_size and 4 * KEYS + 24 * t <= caps.workgroup_bytes]
    return fitting[0] if fitting else None


def plan(
    shape: Shape, dtype: DType, operands: dict[str, Strides], mask: Mask | None, scale: float, caps: Caps,
    after: After | None,
) -> Step:  # fmt: skip
    """Over q, k, v, the mask (if there is one), what `after` reads, the log-sum-exps and the output."""
    ratio, sequences = shape.heads // shape.shared, shape.batch * shape.heads
    kind, read = given(after)
    words = [1, 1, shape.s, shape.e // 4, shape.v // 4, shape.heads, ratio, 1, sequences]
    params = packed(words) + parameters("forward", shape, operands, mask, scale) + packed(read)
    lanes = 1 << (shape.v // 4 - 1).bit_length()
    team = min(1 << (shape.e // 4 - 1).bit_length(), 32, caps.lanes)
    quads, whole = -(-shape.e // (4 * team)), shape.e % (4 * team) == 0
    program = _program(dtype, mask.dtype if mask else None, lanes, team, quads, whole, kind, caps)
    return Step(program, params, spread(sequences, caps))


@cache
def _program(dtype, mask, lanes: int, team: int, quads: int, whole: bool, after: Kind | None, caps: Caps) -> Program:
    more, beside, functions, end = texts(after, caps)
    fields, bindings = interface("forward", dtype, mask, caps)
    bindings[-1:-1] = beside
    vector = elements.array_type(dtype, "v", caps)
    bindings.append(("out", "read_write", vector))
    threads = _threads(caps)
    wide = min(32, caps.lanes)
    return render_program(
        f"attention_one_{dtype.short}_{mask.short if mask else ''}{lanes}x{team}x{quads}{'' if whole else 'u'}{end}",
        "attention/one_query.wgsl", fields + more, bindings, caps,
        declarations=[*elements.wideners((dtype,), caps), *functions], after=after is not None, threads=threads,
        keys=KEYS, lanes=lanes, ahead=AHEAD, wide=wide, team=team, quads=quads, whole=whole,
        keys_ahead=max(AHEAD // quads, 1), masks=halvings(wide), team_masks=halvings(team),
        vector=vector.removeprefix("array<")[:-1],
        mask=mask_kind(mask), causal=False, packed=False, dropout=False,
        widened=lambda group: elements.widened(dtype, group, caps),
        read_mask=lambda at: elements.read(mask, "mask_in", at, caps),
        write4=" ".join(elements.write4(dtype, "out", "to", ["r.x", "r.y", "r.z", "r.w"], caps)),
    )  # fmt: skip
