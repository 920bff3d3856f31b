"""Attention of one query a head over not too many keys, as for the next token of a text: a workgroup has a head, and
all scores of that in its memory. Keys that are divided among workgroups would take a second dispatch, which takes
longer than to read a thousand keys."""

from functools import cache
from struct import pack
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import halvings, spread
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from .epilogue import After, Kind, given, texts, written
from .single import LOG2E, MAX_HEAD, Mask, Shape, Strides, interface, mask_kind, parameters

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
    held = 4 * KEYS + 8 * MAX_HEAD  # scores, and rows of a token
    fitting = [t for t in THREADS if t <= caps.workgroup_size and held + 18 * t <= caps.workgroup_bytes]
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
    program = _program(dtype, mask.dtype if mask else None, *_lay(shape, caps), kind, caps)
    return Step(program, params, spread(sequences, caps))


class Fresh(NamedTuple):
    """Where a token's row of queries, keys and values is, by groups of four elements: the first of each, and the
    distance of rows; of the angles that turn it (cosines, sines, distance); the element of its place; the site that a
    bad one is reported by."""

    q: int
    k: int
    v: int
    row: int
    cos: int
    sin: int
    angles: int
    place: int
    site: int


FRESH = ["fresh_q", "fresh_k", "fresh_v", "fresh_b", "cos_o", "sin_o", "angle_b", "place_o", "site"]
CACHED_BINDINGS = 9  # at most, with the one for reports


def plan_cached(
    shape: Shape, dtype: DType, fresh: Fresh, operands: dict[str, Strides], mask: Mask | None, scale: float, caps: Caps
) -> Step:
    """As plan, for a token whose key and value are put into the caches: over its row, the caches of keys and values,
    its place there, cosines, sines, the mask (if there is one) and the output."""
    sequences = shape.batch * shape.heads
    words = [1, shape.s, shape.e // 4, shape.v // 4, shape.heads, shape.heads // shape.shared, sequences, *fresh]
    words += [
        *operands["k"].words(),
        *operands["v"].words(),
        *operands["out"].words()[1:3],
        *(mask[1:] if mask else ()),
    ]
    params = packed(words) + pack("<f", scale * LOG2E)
    program = _cached_program(dtype, mask.dtype if mask else None, *_lay(shape, caps), caps)
    return Step(program, params, spread(sequences, caps))


def _lay(shape: Shape, caps: Caps) -> tuple[int, int, int, bool]:
    """Threads for an output's row and for a key, groups of four elements of a key for each of those, and whether they
    have all as many."""
    team = min(1 << (shape.e // 4 - 1).bit_length(), 32, caps.lanes)
    return 1 << (shape.v // 4 - 1).bit_length(), team, -(-shape.e // (4 * team)), shape.e % (4 * team) == 0


@cache
def _program(dtype, mask, lanes: int, team: int, quads: int, whole: bool, after: Kind | None, caps: Caps) -> Program:
    more, beside, functions, end = texts(after, caps)
    fields, bindings = interface("forward", dtype, mask, caps)
    bindings[-1:-1] = beside
    out = written(after, dtype)
    bindings.append(("out", "read_write", elements.array_type(out, "v", caps)))
    return render_program(
        f"attention_one_{_name(dtype, mask, lanes, team, quads, whole)}{end}", "attention/one_query.wgsl",
        fields + more, bindings, caps, declarations=[*elements.wideners((dtype,), caps), *functions],
        after=after is not None, cached=False, **_names(dtype, out, mask, lanes, team, quads, whole, caps),
    )  # fmt: skip


@cache
def _cached_program(dtype, mask, lanes: int, team: int, quads: int, whole: bool, caps: Caps) -> Program:
    vectors = elements.array_type(dtype, "v", caps)
    fields = ["l", "s", "e4", "v4", "heads", "ratio", "sequences", *FRESH]
    fields += [f"{name}_{part}" for name in "kv" for part in "obhr"] + ["out_b", "out_h"]
    bindings = [("fresh_in", "read", vectors), ("k_in", "read_write", vectors), ("v_in", "read_write", vectors)]
    bindings += [("place_in", "read", "array<vec2<u32>>"), ("cos_in", "read", vectors), ("sin_in", "read", vectors)]
    if mask:
        fields += [f"mask_{part}" for part in "obhrc"]
        bindings.append(("mask_in", "read", elements.array_type(mask, "e", caps)))
    bindings.append(("out", "read_write", vectors))
    rounding = {"float16": "f32_half({})", "bfloat16": "f32_brain({})"}.get(dtype.name, "{}")
    rounded = f"vec4<f32>({', '.join([rounding.format(f'v.{c}') for c in 'xyzw'])})"
    return render_program(
        f"attention_cached_{_name(dtype, mask, lanes, team, quads, whole)}", "attention/one_query.wgsl",
        [*fields, "factor: f32"], bindings, caps, guarded=True, declarations=elements.wideners((dtype,), caps),
        after=False, cached=True, rounded=rounded, most=MAX_HEAD // 4,
        write_key=" ".join(elements.write4(dtype, "k_in", "at", ["k.x", "k.y", "k.z", "k.w"], caps)),
        **_names(dtype, dtype, mask, lanes, team, quads, whole, caps),
    )  # fmt: skip


def _name(dtype, mask, lanes: int, team: int, quads: int, whole: bool) -> str:
    return f"{dtype.short}_{mask.short if mask else ''}{lanes}x{team}x{quads}{'' if whole else 'u'}"


def _names(dtype, out, mask, lanes: int, team: int, quads: int, whole: bool, caps: Caps) -> dict:
    """What the template asks for."""
    wide = min(32, caps.lanes)
    return dict(
        threads=_threads(caps), keys=KEYS, lanes=lanes, ahead=AHEAD, wide=wide, team=team, quads=quads, whole=whole,
        keys_ahead=max(AHEAD // quads, 1), masks=halvings(wide), team_masks=halvings(team),
        vector=elements.array_type(dtype, "v", caps).removeprefix("array<")[:-1],
        mask=mask_kind(mask), causal=False, packed=False, dropout=False,
        widened=lambda group: elements.widened(dtype, group, caps),
        read_mask=lambda at: elements.read(mask, "mask_in", at, caps),
        write4=" ".join(elements.write4(out, "out", "to", ["r.x", "r.y", "r.z", "r.w"], caps)),
    )  # fmt: skip
