"""segment_reduce and its gradient, made of scatters by segment."""

import torch

from ... import tensor as T
from ..indexing.read import INDEX_SIZE
from ..pointwise.elementwise import _scalar_name
from ..shape.copy import fill
from ..shape.rearrange import constant_pad_nd
from ..table import custom

_HOW = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}
_SAME = {"amax": "max", "amin": "min"}  # other names, which `torch.masked` gives
_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def _segments(data, lengths, offsets, axis):
    """(segment of each element laid over data, lengths laid over the output); past the last segment comes one more."""
    bounds = lengths if lengths is not None else offsets
    if bounds is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if bounds.dtype not in INDEX_SIZE:
        raise RuntimeError(f"segment_reduce(): Expected dtype int32/int64, but got {_scalar_name(bounds.dtype)}")
    if axis != bounds.dim() - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.")
    if lengths is None:
        ends = offsets.narrow(axis, 1, offsets.shape[axis] - 1)
        lengths = ends - offsets.narrow(axis, 0, offsets.shape[axis] - 1)
    else:
        ends = lengths.cumsum(axis)
    count = data.shape[axis]
    marks = fill(T.empty((*ends.shape[:-1], count + 1), torch.int64), 0)
    ones = fill(T.empty((), torch.int64), 1).expand(ends.shape)
    marks.scatter_add_(axis, ends.to(torch.int64), ones)
    index = marks.narrow(axis, 0, count).cumsum(axis)
    more = [1] * (data.dim() - axis - 1)
    return index.reshape([*index.shape, *more]).expand(data.shape), lengths.reshape([*lengths.shape, *more])


def _into(start, data, index, axis, segments, how):
    out = fill(T.empty((*data.shape[:axis], segments + 1, *data.shape[axis + 1 :]), data.dtype), start)
    return out.scatter_reduce_(axis, index, data, how)


@custom("segment_reduce")
def segment_reduce(
    data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):  # fmt: skip
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    reduce = _SAME.get(reduce, reduce)
    if reduce not in _HOW:
        raise RuntimeError(f"segment_reduce(): Unsupported reduction type {reduce}")
    axis %= data.dim()
    if not unsafe and lengths is not None:
        wrong = (lengths.sum(-1) != data.shape[axis]).any() | (lengths < 0).any()
        if wrong.item():
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                "!unsafe."
            )
    index, sizes = _segments(data, lengths, offsets, axis)
    segments = sizes.shape[axis]
    start = _START[reduce] if initial is None else initial
    if not data.numel():
        start = float("nan") if reduce == "mean" and initial is None else start
        return fill(T.empty((*data.shape[:axis], segments, *data.shape[axis + 1 :]), data.dtype), start)
    out = _into(start, data, index, axis, segments, _HOW[reduce]).narrow(axis, 0, segments)
    if reduce == "mean":
        empty = out if initial is not None else torch.full_like(out, float("nan"))
        out = torch.where(sizes > 0, out / sizes, empty)
    return out.to(data.dtype).contiguous()


@custom("_segment_reduce_backward")
def segment_reduce_backward(grad, output, data, reduce, *, lengths=None, offsets=None, axis=0, initial=None):
    reduce = _SAME.get(reduce, reduce)
    axis %= data.dim()
    if not data.numel():
        return T.empty(data.shape, data.dtype)
    index, sizes = _segments(data, lengths, offsets, axis)
    segments = sizes.shape[axis]

    def back(values):
        """Each element's segment's value; nothing past the last segment."""
        pad = [0, 0] * (values.dim() - axis - 1) + [0, 1]
        return constant_pad_nd(values, pad).gather(axis, index)

    if reduce == "mean":
        grad = grad / sizes
    if reduce in ("sum", "mean"):
        return back(grad).to(data.dtype)
    if reduce == "prod":
        start = 1.0 if initial is None else initial
        # What the output cannot be divided by is left out of a product of the others.
        zero, nan = data == 0, data.isnan()
        others = _into(start, torch.where(zero | nan, torch.ones_like(data), data), index, axis, segments, "prod")

        def beside(which):
            """How many of the others of its segment are such."""
            which = which.to(data.dtype)
            return _into(0, which, index, axis, segments, "sum").gather(axis, index) - which

        rest = others.gather(axis, index)
        alone = torch.where(beside(zero) > 0, rest * 0, rest)
        alone = torch.where(beside(nan) > 0, torch.full_like(data, float("nan")), alone)
        return torch.where(zero | nan, back(grad) * alone, back(grad * output) / data).to(data.dtype)
    own = back(output)
    match = (data == own) | (data.isnan() & own.isnan())
    counts = _into(0, match.to(data.dtype), index, axis, segments, "sum").gather(axis, index)
    return torch.where(match, back(grad) / counts, torch.zeros_like(data)).to(data.dtype)
