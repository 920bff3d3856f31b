"""Plans of attention: which kernels its passes take, in which order."""

from ...dtypes import DType
from ...program import Caps, Plan, Step
from ..matmul.product import numbered
from . import halves, matrices, one_query, single
from .epilogue import After
from .single import FEW, Mask, Shape, Strides

FORWARD = ("q", "k", "v", "mask", "lse", "out", "d")
BACKWARD = ("q", "k", "v", "g", "mask", "out", "lse", "dq", "dk", "dv")


def plan_forward(
    shape: Shape, dtype: DType, operands: dict[str, Strides], mask: Mask | None, causal: bool, scale: float,
    dropout: float, caps: Caps, after: After | None = None,
) -> Plan:  # fmt: skip
    """Over q, k, v, the mask (if there is one), the rows' log-sum-exps, the output and what `after` reads beside it."""
    inputs = ("q", "k", "v") if mask is None else ("q", "k", "v", "mask")
    beside = ("d",) if after is not None and after.d is not None else ()
    if one_query.fits(shape, dtype, causal, dropout, caps):
        step = one_query.plan(shape, dtype, operands, mask, scale, caps, after)
        return numbered(Plan((_named(step, *inputs, *beside, "lse", "out"),), {}), FORWARD)
    few = shape.l * (shape.heads // shape.shared) <= FEW
    if not few and not dropout and matrices.fits(shape, dtype, caps):
        step = matrices.plan(shape, dtype, operands, mask, causal, scale, caps, after)
        if not matrices.bounded(dtype):
            return numbered(Plan((_named(step, *inputs, *beside, "lse", "out"),), {}), FORWARD)
        first, tiles = halves.plan_bounds("qkv", shape, dtype, operands, caps)
        steps = (_named(first, "q", "k", "v", "sizes"), _named(step, *inputs, *beside, "sizes", "lse", "out"))
        return numbered(Plan(steps, {"sizes": 32 * tiles}), FORWARD)
    if not few and not dropout and halves.fits("forward", shape, dtype, scale, caps):
        first, tiles = halves.plan_bounds("qkv", shape, dtype, operands, caps)
        step = halves.plan("forward", shape, dtype, operands, mask, causal, scale, caps, after=after)
        steps = (_named(first, "q", "k", "v", "sizes"), _named(step, *inputs, *beside, "sizes", "lse", "out"))
        return numbered(Plan(steps, {"sizes": 32 * tiles}), FORWARD)
    step, splits = single.plan("forward", shape, dtype, operands, mask, causal, scale, caps, dropout, after=after)
    if splits == 1:
        return numbered(Plan((_named(step, *inputs, *beside, "lse", "out"),), {}), FORWARD)
    rows = shape.batch * shape.heads * shape.l
    merge = single.plan_merge(shape, dtype, operands["out"], splits, caps, after)
    join = _named(merge, "stats", "parts", *beside, "lse", "out")
    scratch = {"stats": 8 * rows * splits, "parts": 4 * rows * splits * shape.v}
    return numbered(Plan((_named(step, *inputs, "stats", "parts"), join), scratch), FORWARD)


def fuses(shape: Shape, dtype: DType, scale: float, caps: Caps) -> bool:
    """Whether one kernel finds all gradients."""
    if 4 * shape.batch * shape.heads * shape.l * shape.e > caps.max_binding:
        return False
    return (halves if halves.fits("keys", shape, dtype, scale, caps) else single).fuses(shape, caps)


def plan_backward(
    shape: Shape, dtype: DType, operands: dict[str, Strides], mask: Mask | None, causal: bool, scale: float,
    dropout: float, wanted: tuple[bool, bool], fused: bool, caps: Caps,
) -> Plan:  # fmt: skip
    """Over q, k, v, the gradient, the mask (if there is one), the output, the log-sum-exps and the gradients, of which
    `wanted` says whether dq, and dk with dv, are. `fused`: one kernel, which adds to dq: float32, and zero before."""
    inputs = ("q", "k", "v", "g") if mask is None else ("q", "k", "v", "g", "mask")
    steps = [_named(single.plan_delta(shape, dtype, operands["g"], operands["out"], caps), "g", "out", "lse", "stats")]
    scratch = {"stats": 8 * shape.batch * shape.heads * shape.l}
    modes = [("keys", ("dk", "dv", "dq"))] if fused else []
    if not fused:
        modes += [("queries", ("dq",))] if wanted[0] else []
        modes += [("keys", ("dk", "dv"))] if wanted[1] else []
    for mode, outputs in modes:
        if not dropout and halves.fits(mode, shape, dtype, scale, caps):
            if "sizes" not in scratch:
                first, tiles = halves.plan_bounds("qkvg", shape, dtype, operands, caps)
                steps.append(_named(first, "q", "k", "v", "g", "stats", "sizes"))
                scratch["sizes"] = 32 * tiles
            step = halves.plan(mode, shape, dtype, operands, mask, causal, scale, caps, fused)
            steps.append(_named(step, *inputs, "sizes", "stats", *outputs))
        else:
            step, _ = single.plan(mode, shape, dtype, operands, mask, causal, scale, caps, dropout, fused)
            steps.append(_named(step, *inputs, "stats", *outputs))
    return numbered(Plan(tuple(steps), scratch), BACKWARD)


def _named(step: Step, *names: str) -> Step:
    step.bindings = names
    return step
