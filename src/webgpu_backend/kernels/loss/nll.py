"""nll_loss: each sample's loss picked from its row, and its gradient put back there."""

from functools import cache
from struct import pack

from ...dtypes import FLOAT32, DType, carrier
from ...program import Caps, Program, Step
from ..layout import View, grid
from ..text import elements
from ..text.expression import convert
from ..text.numbers import packed
from ..text.render import Binding, render_program

_FORWARD = ("n", "classes", "places", "x_o", "x_n", "x_c", "x_s", "t_o", "t_n", "t_s", "w_o", "site", "ignore: i32")
_BACKWARD = ("n", "classes", "places", "g_o", "g_n", "g_s", "t_o", "t_n", "t_s", "w_o", "total_o", "ignore: i32")


def plan_forward(
    x: View, target: View, weight: View | None, out: DType, weigh: bool, ignore: int, site: int, caps: Caps
) -> Step:
    """x is [samples, classes, places], target [samples, places]; out and the weights are contiguous.

    A class that does not exist is reported as a fault at `site`.
    """
    n, classes, places = x.sizes
    program = _forward(x.dtype, target.dtype, weight and weight.dtype, out, weigh, caps)
    words = (
        n * places, classes, places, x.offset, *x.strides, target.offset, *target.strides,
        weight.offset if weight else 0, site,
    )  # fmt: skip
    return Step(program, packed(words) + _index(ignore), grid(n * places, caps))


def plan_backward(
    shape, grad: View, target: View, weight: View | None, total: View | None, out: DType, ignore: int, caps: Caps
) -> Step:
    """grad and target are [samples, places]; out is contiguous, of `shape`, and zero but for one element a sample."""
    n, classes, places = shape
    program = _backward(grad.dtype, target.dtype, weight and weight.dtype, total and total.dtype, out, caps)
    words = (
        n * places, classes, places, grad.offset, *grad.strides, target.offset, *target.strides,
        weight.offset if weight else 0, total.offset if total else 0,
    )  # fmt: skip
    return Step(program, packed(words) + _index(ignore), grid(n * places, caps))


def _index(ignore: int) -> bytes:
    """An index outside of i32 is no class, as is -1: classes are counted in i32."""
    return pack("<i", ignore if -(1 << 31) <= ignore < 1 << 31 else -1)


def _words(target: DType, caps: Caps) -> list[str]:
    """The low and the high word of a target, as u32."""
    value = elements.read(target, "wanted", "ti", caps)
    if target.name != "int64":
        return [f"u32({value})", "0u"]
    return [f"n64_lo({value})", f"n64_hi({value})"] if caps.i64 else [f"{value}.x", f"{value}.y"]


def _class_of(target: DType, caps: Caps) -> str:
    return convert(elements.read(target, "wanted", "ti", caps), carrier(target, caps), "i32")


def _weight_of(weight: DType | None, caps: Caps) -> str:
    return elements.read(weight, "weight", "(p.w_o + u32(c))", caps) if weight else "1.0"


def _bindings(reads: dict[str, DType | None], writes: dict[str, DType], caps: Caps) -> list[Binding]:
    """Of what is read (None: not there), and of what is written."""
    found = [(name, "read", elements.array_type(d, "e", caps)) for name, d in reads.items() if d]
    for name, dtype in writes.items():
        mode = elements.element_mode(dtype, caps, written=True)
        found.append((name, "read_write", elements.array_type(dtype, mode, caps)))
    return found


@cache
def _forward(x: DType, target: DType, weight: DType | None, out: DType, weigh: bool, caps: Caps) -> Program:
    writes = {"out": out} | ({"weights": FLOAT32} if weigh else {})
    return render_program(
        f"nll_loss_{x.short}_{target.short}_{out.short}",
        "loss/nll.wgsl",
        _FORWARD,
        _bindings({"x": x, "wanted": target, "weight": weight}, writes, caps),
        caps,
        guarded=True,
        backward=False,
        class_of=_class_of(target, caps),
        weight=_weight_of(weight, caps),
        words=_words(target, caps),
        picked=elements.read(x, "x", "xi", caps),
        store=elements.write(out, "out", "i", "loss", caps),
        weigh=weigh,
    )


@cache
def _backward(grad: DType, target: DType, weight: DType | None, total: DType | None, out: DType, caps: Caps) -> Program:
    reads = {"grad": grad, "wanted": target, "weight": weight, "total": total}
    return render_program(
        f"nll_loss_backward_{grad.short}_{target.short}_{out.short}",
        "loss/nll.wgsl",
        _BACKWARD,
        _bindings(reads, {"out": out}, caps),
        caps,
        backward=True,
        class_of=_class_of(target, caps),
        weight=_weight_of(weight, caps),
        grad=elements.read(grad, "grad", "gi", caps),
        total=elements.read(total, "total", "p.total_o", caps) if total else "1.0",
        store=elements.write(out, "out", "at", "v", caps),
    )
