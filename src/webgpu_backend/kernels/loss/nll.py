"""nll_loss: each sample's loss picked from its row, and its gradient put back there."""

from functools import cache
from struct import pack

from ...dtypes import ALL, DType, carrier
from ...program import Caps, Program, Step
from ..layout import View, grid
from ..pointwise.elementwise import WORKGROUP
from ..text import elements
from ..text.expression import convert
from ..text.render import render


def forward(
    x: View, target: View, weight: View | None, out: DType, weigh: bool, ignore: int, site: int, caps: Caps
) -> Step:
    """x is [samples, classes, places], target [samples, places]; out and the weights are contiguous.

    A class that does not exist is reported as a fault at `site`.
    """
    n, classes, places = x.sizes
    program = _forward(x.dtype.name, target.dtype.name, weight and weight.dtype.name, out.name, weigh, caps)
    words = (
        n * places,
        classes,
        places,
        x.offset,
        *x.strides,
        target.offset,
        *target.strides,
        weight.offset if weight else 0,
        site,
    )
    return Step(program, pack("<12Ii", *words, _index(ignore)), grid(n * places, WORKGROUP[caps.kind], caps))


def backward(
    shape, grad: View, target: View, weight: View | None, total: View | None, out: DType, ignore: int, caps: Caps
) -> Step:
    """grad and target are [samples, places]; out is contiguous, of `shape`, and zero but for one element a sample."""
    n, classes, places = shape
    program = _backward(
        grad.dtype.name, target.dtype.name, weight and weight.dtype.name, total and total.dtype.name, out.name, caps
    )
    words = (
        n * places, classes, places, grad.offset, *grad.strides, target.offset, *target.strides,
        weight.offset if weight else 0, total.offset if total else 0,
    )  # fmt: skip
    return Step(program, pack("<11Ii", *words, _index(ignore)), grid(n * places, WORKGROUP[caps.kind], caps))


def _index(ignore: int) -> int:
    """An index outside of i32 is no class, as is -1: classes are counted in i32."""
    return ignore if -(1 << 31) <= ignore < 1 << 31 else -1


def _words(target: DType, caps: Caps) -> list[str]:
    """The low and the high word of a target, as u32."""
    value = elements.read(target, "wanted", "ti", caps)
    if target.name != "int64":
        return [f"u32({value})", "0u"]
    return [f"n64_lo({value})", f"n64_hi({value})"] if caps.i64 else [f"{value}.x", f"{value}.y"]


def _bind(names: list[tuple[str, DType, str, bool]], caps: Caps) -> list[tuple[str, str, str]]:
    return [(n, "read_write" if w else "read", elements.array_type(d, mode, caps)) for n, d, mode, w in names]


@cache
def _forward(x, target, weight, out, weigh, caps) -> Program:
    x, target, out = ALL[x], ALL[target], ALL[out]
    mode = elements.element_mode(out, caps, True)
    names = [("x", x, "e", False), ("wanted", target, "e", False)]
    names += [("weight", ALL[weight], "e", False)] if weight else []
    names += [("out", out, mode, True)] + ([("weights", ALL["float32"], "e", True)] if weigh else [])
    bindings = _bind(names, caps)
    text = render(
        "loss/nll.wgsl",
        caps,
        backward=False,
        fields=["n", "classes", "places", "x_o", "x_n", "x_c", "x_s", "t_o", "t_n", "t_s", "w_o", "site"],
        bindings=bindings,
        class_of=convert(elements.read(target, "wanted", "ti", caps), carrier(target, caps), "i32"),
        weight=elements.read(ALL[weight], "weight", "(p.w_o + u32(c))", caps) if weight else "1.0",
        words=_words(target, caps),
        picked=elements.read(x, "x", "xi", caps),
        store=elements.write(out, "out", "i", "loss", caps),
        weigh=weigh,
        workgroup=WORKGROUP[caps.kind],
    )
    access = "".join("w" if w else "r" for *_, w in names)
    return Program(f"nll_loss_{x.short}_{target.short}_{out.short}", text, access, 52, guarded=True)


@cache
def _backward(grad, target, weight, total, out, caps) -> Program:
    grad, target, out = ALL[grad], ALL[target], ALL[out]
    names = [("grad", grad, "e", False), ("wanted", target, "e", False)]
    names += [("weight", ALL[weight], "e", False)] if weight else []
    names += [("total", ALL[total], "e", False)] if total else []
    names += [("out", out, elements.element_mode(out, caps, True), True)]
    text = render(
        "loss/nll.wgsl",
        caps,
        backward=True,
        fields=["n", "classes", "places", "g_o", "g_n", "g_s", "t_o", "t_n", "t_s", "w_o", "total_o"],
        bindings=_bind(names, caps),
        class_of=convert(elements.read(target, "wanted", "ti", caps), carrier(target, caps), "i32"),
        weight=elements.read(ALL[weight], "weight", "(p.w_o + u32(c))", caps) if weight else "1.0",
        grad=elements.read(grad, "grad", "gi", caps),
        total=elements.read(ALL[total], "total", "p.total_o", caps) if total else "1.0",
        store=elements.write(out, "out", "at", "v", caps),
        workgroup=WORKGROUP[caps.kind],
    )
    access = "".join("w" if w else "r" for *_, w in names)
    return Program(f"nll_loss_backward_{grad.short}_{target.short}_{out.short}", text, access, 48)
