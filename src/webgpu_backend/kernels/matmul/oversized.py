"""Products whose operands pass one binding: where to cut them so that each part fits. Integers only."""

from dataclasses import replace
from typing import NamedTuple

from ..layout import contiguous_strides
from .product import Matrix, Product

# Which dimensions of a product each operand has, with the name of the stride that walks them.
_DIMENSIONS = {
    "a": {"m": "row", "k": "col", "outer": "outer", "inner": "inner"},
    "b": {"n": "row", "k": "col", "outer": "outer", "inner": "inner"},
    "c": {"m": "row", "n": "col", "outer": "outer", "inner": "inner"},
    "out": {"m": "row", "n": "col", "outer": "outer", "inner": "inner"},
}
ALIGN = 64  # cuts fall on whole vectors, and k keeps whole tiles


class Cut(NamedTuple):
    """Where a product falls in two. `adds`: the dimension is summed over, so the parts' results are added up."""

    dimension: str
    at: int
    adds: bool


def reach(product: Product, name: str) -> tuple[int, int]:
    """The first element of an operand that the product touches, and the one past the last."""
    x: Matrix = getattr(product, name)
    last = x.offset + sum(_spans(product, name).values())
    if name == "b" and product.gather:
        last += sum((size - 1) * stride for size, stride in zip(product.gather.sizes, product.gather.strides[1:]))
    return x.offset, last + 1


def _spans(product: Product, name: str) -> dict[str, int]:
    """How far an operand reaches along each dimension that may be cut, or that it has."""
    x = getattr(product, name)
    spans = {d: (getattr(product, d) - 1) * getattr(x, stride) for d, stride in _DIMENSIONS[name].items()}
    if name in ("c", "out") and product.summed:
        spans.pop("inner")
    if name == "b" and product.gather:  # the image, channel by channel
        d, taps = _channels(product)
        spans = {"outer": spans["outer"], "inner": spans["inner"]}
        spans[d] = (getattr(product, d) // taps - 1) * product.gather.strides[0]
    return spans


def _channels(product: Product) -> tuple[str, int]:
    """The dimension that counts (channel, tap) of a window over an image, and how many taps there are."""
    g = product.gather
    return "n" if g.kind == "w" else "k", g.window[0] * g.window[1] * g.window[2]


def cut(product: Product, limit: int) -> Cut | None:
    """The dimension to halve, so that what passes `limit` bytes comes nearer to it; None where everything fits.

    A ValueError: nothing that could be cut makes the operand smaller.
    """
    for name in ("a", "b", "c", "out"):
        x = getattr(product, name)
        if x is None:
            continue
        first, last = reach(product, name)
        if (last - first) * x.dtype.size + 512 <= limit:  # room for both ends of an aligned window
            continue
        spans, unit = _spans(product, name), 1
        if product.gather:  # a position's taps stay together
            channels, taps = _channels(product)
            spans.pop("k" if channels == "n" else "n", None)
        dimension = max(spans, key=spans.__getitem__)
        if product.gather and dimension == channels:
            unit = taps
        size = getattr(product, dimension) // unit
        if size < 2 or not spans[dimension]:
            raise ValueError(f"operand {name} of {(last - first) * x.dtype.size} bytes cannot be cut")
        half = (size + 1) // 2
        if size > 2 * ALIGN:
            half = -(-half // ALIGN) * ALIGN
        return Cut(dimension, half * unit, dimension == "k" or (product.summed and dimension == "inner"))
    return None


def halves(product: Product, where: Cut) -> tuple[Product, Product]:
    """The two parts. Their outputs keep no place: each is a matrix of its own."""
    d, at = where.dimension, where.at
    moved = {}
    for name in ("a", "b", "c"):
        x = getattr(product, name)
        if x is not None and d in _DIMENSIONS[name]:
            step = at * getattr(x, _DIMENSIONS[name][d])
            if name == "b" and product.gather and d in ("n", "k"):
                step = at // _channels(product)[1] * product.gather.strides[0]
            moved[name] = x._replace(offset=x.offset + step)
    first = replace(product, **{d: at})
    second = replace(product, **{d: getattr(product, d) - at}, **moved)
    return placed(first), placed(second)


def placed(product: Product) -> Product:
    """With an output that is contiguous from its own first element."""
    inner = 1 if product.summed else product.inner
    outer, one, row, col = contiguous_strides((product.outer, inner, product.m, product.n))
    return replace(product, out=Matrix(product.out.dtype, 0, row, col, outer, 0 if product.summed else one))


def bare(product: Product, dtype) -> Product:
    """The sums alone, in the dtype they are added up in."""
    return replace(product, c=None, alpha=1, beta=1, act="", out=product.out._replace(dtype=dtype))
