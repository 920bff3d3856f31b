"""Putting tensors together and moving elements by coordinates: cat, stack, pads, roll, flip, tril, triu."""

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from ...kernels.layout import numel
from ...kernels.shape import cat as cat_kernel
from ...kernels.shape import rearrange
from ...plan import caps, launch, planned
from ...runtime.errors import BindingTooLarge
from ..indexing.scatter import bits, duplicate
from ..overlap import no_internal_overlap, no_overlap
from ..oversize import by_batch
from ..pointwise.elementwise import _scalar_name, resize_output
from ..table import custom
from . import oversize
from .copy import clone, device_copy, fill, image_format, laid, memory_order

_LARGE = 1 << 18  # bytes from which an input is worth a dispatch of its own
_WIDE = 128  # and bytes of a row


# -- cat and stack


def _legacy(tensor: torch.Tensor) -> bool:
    """Empty vectors join anything: torch keeps that from the time when there were no other empty tensors."""
    return tensor.dim() == 1 and tensor.shape[0] == 0


def _cat_shape(tensors, dim: int) -> tuple[list[torch.Tensor], int, list[int]]:
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for k, t in enumerate(tensors):
        if not t.dim():
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    kept = [t for t in tensors if not _legacy(t)]
    if not kept:
        return [], 0, [0]  # whatever dimension is named
    first = kept[0]
    dim = canonicalize_dim(first.dim(), dim)
    shape = list(first.shape)
    shape[dim] = 0
    for k, t in enumerate(tensors):
        if _legacy(t):
            continue
        if t.dim() != first.dim():
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.dim()} and {t.dim()}")
        for d, s in enumerate(t.shape):
            if d != dim and s != shape[d]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {shape[d]} but got size {s} "
                    f"for tensor number {k} in the list."
                )
        shape[dim] += t.shape[dim]
    return [t for t in kept if t.numel()], dim, shape


@custom("cat", oversize=oversize.cat)
def cat(tensors, dim=0):
    if any([t.is_neg() or t.is_conj() for t in tensors]):
        tensors = [t.resolve_conj().resolve_neg() for t in tensors]
    for t in tensors:
        if t.device.type != T.NAME and t.numel():
            raise T.two_devices("when checking argument for argument tensors in method wrapper_cat", t.device)
    dtype = tensors[0].dtype if tensors else torch.float32
    if any(t.dtype != dtype for t in tensors):
        dtype = _common_dtype(tensors)
    parts, dim, shape = _cat_shape(tensors, dim)
    out = T.empty(shape, dtype, _cat_strides(tensors, shape))
    if len(parts) > 1 and not out.is_contiguous():
        _copy_parts(parts, dim, out)
        return out
    _join([t if t.dtype == dtype else t.to(dtype) for t in parts], dim, out)
    return out


def _cat_strides(tensors, shape):
    """torch keeps channels_last where the strides of every input are like that."""
    forms = {image_format(t) for t in tensors}
    if len(forms) == 1 and (form := forms.pop()) is not torch.contiguous_format and len(shape) == tensors[0].dim():
        return torch.empty(shape, device="meta", memory_format=form).stride()
    return None


@custom("cat.out")
def cat_out(tensors, dim=0, *, out):
    result = cat(tensors, dim)
    if not torch.can_cast(result.dtype, out.dtype):
        name = _scalar_name(out.dtype)
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {name}")
    if out.device != result.device:
        raise T.two_devices("aten::cat", out.device, result.device)
    resize_output(out, result.shape)
    no_internal_overlap(out)
    no_overlap(out, *tensors)
    device_copy(result, out)
    return out


def _common_dtype(tensors) -> torch.dtype:
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    return dtype


def _copy_parts(parts, dim: int, out: torch.Tensor) -> None:
    at = 0
    for t in parts:
        device_copy(t, out.narrow(dim, at, t.shape[dim]))
        at += t.shape[dim]


def _join(parts, dim: int, out: torch.Tensor) -> None:
    """A dispatch for up to sixteen inputs. More of them take their turns where each turn's result is one run of the
    output, else they are joined in rounds, unless they are large enough for a copy each."""
    if not parts:
        return
    if len(parts) == 1 or out.element_size() > 8:
        _copy_parts(parts, dim, out)
        return
    rows = numel(out.shape[:dim])
    most = cat_kernel.most([_part(t, dim) for t in parts], rows, caps())
    if len(parts) > most and rows == 1 and caps().kind == "gpu" and _in_turns(parts, dim, out, most):
        return
    row, item = numel(out.shape[dim:]), out.element_size()
    wide = most == cat_kernel.MOST or row * item >= _WIDE * len(parts)
    if len(parts) > most and wide and rows * row * item >= _LARGE * len(parts):
        _copy_parts(parts, dim, out)
        return
    while len(parts) > most:
        rounds = []
        for k in range(0, len(parts), most):
            some = parts[k : k + most]
            if len(some) == 1:
                rounds += some
                continue
            shape = list(some[0].shape)
            shape[dim] = sum(t.shape[dim] for t in some)
            rounds.append(T.empty(shape, out.dtype))
            _join_few(some, dim, rounds[-1])
        parts = rounds
    _join_few(parts, dim, out)


def _in_turns(parts, dim: int, out: torch.Tensor, most: int) -> bool:
    """Each turn writes whole groups of four elements, the last of which may reach into the next turn's."""
    turns, at = [], 0
    for k in range(0, len(parts), most):
        if at % 4:
            return False
        turns.append((parts[k : k + most], at // 4))
        at += sum(t.numel() for t in turns[-1][0])
    for some, to in turns:
        _join_few(some, dim, out, to)
    return True


def _join_few(parts, dim: int, out: torch.Tensor, to: int = 0) -> None:
    read = [_part(t, dim) for t in parts]
    if None in read:
        parts = [t if found else t.contiguous() for t, found in zip(parts, read)]
        read = [_part(t, dim) for t in parts]
    plan = cat_kernel.plan(out.element_size(), read, numel(out.shape[:dim]), caps(), to)
    try:
        launch(plan, *parts, out)
    except BindingTooLarge:  # a copy knows how to split
        first = 4 * to // numel(out.shape[dim + 1 :])
        _copy_parts(parts, dim, out.narrow(dim, first, out.shape[dim] - first))


def _part(t: torch.Tensor, dim: int) -> cat_kernel.Part | None:
    return cat_kernel.part(t.shape, t.stride(), t.storage_offset(), dim)


@planned
def _stack(tensors, dim: int):
    return cat([t.unsqueeze(dim) for t in tensors], dim)


@custom("stack", planned=False, oversize=oversize.stack)
def stack(tensors, dim=0):
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0].shape
    for k, t in enumerate(tensors):
        if t.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(t.shape)} at "
                f"entry {k}"
            )
    dim = canonicalize_dim(len(first) + 1, dim)
    if not first and _neighbours(tensors):
        return duplicate(T.reinterpret(tensors[0], (len(tensors),), (1,), 0))
    return _stack(tensors, dim)


def _neighbours(numbers) -> bool:
    one = numbers[0]
    plain = not one.is_complex() and all([t.dtype is one.dtype and not t.is_neg() for t in numbers])
    return plain and T.neighbours(numbers)


# -- channels and places


def _shuffled(op: str, split, lead: int = -3, factor: str = ""):
    """An operator that moves channels and places of images; `split` gives the sizes and the order of its parts, from
    dimension `lead` on. Its argument is called `factor` where torch's shape function divides by it unseen."""

    def run(self, *args):
        if factor and self.dim() >= 3 and args[0] <= 0:
            raise RuntimeError(f"{op} expects a positive {factor}, but got {args[0]}")
        meta = torch.empty(self.shape, dtype=self.dtype, device="meta")
        shape = getattr(torch.ops.aten, op)(meta, *args).shape  # torch's other checks
        sizes, order = split(self, *args)
        first = lead % self.dim()
        parts = self.reshape([*self.shape[:first], *sizes])
        parts = parts.permute([*range(first), *[first + d for d in order]])
        moved = parts.reshape(shape)
        if T.share_memory(moved, self):  # by a factor of one nothing moves
            moved = moved.clone(memory_format=torch.contiguous_format)
        return laid(moved, image_format(self))

    return run


def _upscaled(self, factor):
    c, h, w = self.shape[-3:]
    return (c // factor**2, factor, factor, h, w), (0, 3, 1, 4, 2)


def _downscaled(self, factor):
    c, h, w = self.shape[-3:]
    return (c, h // factor, factor, w // factor, factor), (0, 2, 4, 1, 3)


def _across_groups(self, groups):
    return (groups, self.shape[1] // groups, *self.shape[2:]), (1, 0, *range(2, self.dim()))


custom("channel_shuffle")(_shuffled("channel_shuffle", _across_groups, 1))
custom("pixel_shuffle")(_shuffled("pixel_shuffle", _upscaled, factor="upscale_factor"))
custom("pixel_unshuffle")(_shuffled("pixel_unshuffle", _downscaled, factor="downscale_factor"))


# -- moving by coordinates


def _move(self, shape, strides, extra, rules, shifts, sizes, keep="", diagonal=0, outside=0):
    """A new tensor of `shape` from elements of self, by its strides over it, or `outside`: see `rearrange.plan`."""
    out = T.empty(shape, self.dtype)
    if not out.numel():
        return out
    if not self.numel():
        return fill(out, outside)
    offset = self.storage_offset() + extra
    step = rearrange.plan(
        tuple(shape), self.element_size(), strides, offset, rules, shifts, sizes, keep, diagonal, caps()
    )
    zero = outside.__class__ is int and not outside  # not -0.0
    launch(step.followed(bytes(max(self.element_size(), 4)) if zero else bits(outside, self.dtype)), self, out)
    return out


def _pads(self, pad):
    """Shape after padding, and (low, high) by dimension."""
    rank = self.dim()
    sides = [(0, 0)] * rank
    for k in range(len(pad) // 2):
        sides[rank - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return [s + low + high for s, (low, high) in zip(self.shape, sides)], sides


@custom("constant_pad_nd", oversize=oversize.pad)
def constant_pad_nd(self, pad, value=0):
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) // 2 > self.dim():
        raise RuntimeError(
            f"Length of pad should be no more than twice the number of dimensions of the input. Pad length is "
            f"{len(pad)} while the input has {self.dim()} dimensions."
        )
    shape, sides = _pads(self, pad)
    if all(low <= 0 and high <= 0 for low, high in sides):
        for d, (low, _) in enumerate(sides):
            self = self.narrow(d, -low, shape[d])
        return clone(self)
    for d, size in enumerate(shape):
        if size < 0:
            low, high = sides[d]
            raise RuntimeError(
                f"The input size {self.shape[d]}, plus negative padding {low} and {high} resulted in a negative output "
                f"size, which is invalid. Check dimension {d} of your input."
            )
    return laid(padded(self, pad, value), image_format(self))


def padded(self, pad, value=0):
    """As constant_pad_nd, contiguous."""
    shape, sides = _pads(self, pad)
    self = self.resolve_conj().resolve_neg()
    rules, lows = "".join("c" if side != (0, 0) else "n" for side in sides), [low for low, _ in sides]
    return _move(self, shape, self.stride(), 0, rules, lows, list(self.shape), outside=value)


def _edge_pad(op: str, spatial: int, rule: str):
    def run(self, padding):
        if len(padding) == 2 * spatial and self.dim() - spatial not in (1, 2):
            raise RuntimeError(
                f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor with possibly 0 batch size and other "
                f"non-zero dimensions for input, but got: {list(self.shape)}"
            )
        # torch's other checks, on the meta device.
        like = torch.empty(self.shape, dtype=self.dtype, device="meta")
        shape = list(getattr(torch.ops.aten, op)(like, padding).shape)
        self = self.resolve_conj().resolve_neg()
        _, sides = _pads(self, padding)
        rules = "n" * (self.dim() - spatial) + rule * spatial
        moved = _move(self, shape, self.stride(), 0, rules, [low for low, _ in sides], list(self.shape))
        return laid(moved, image_format(self))

    custom(op, oversize=by_batch)(run)


for _spatial in (1, 2, 3):
    _edge_pad(f"reflection_pad{_spatial}d", _spatial, "r")
    _edge_pad(f"replication_pad{_spatial}d", _spatial, "e")


def _fold_reflected(grad, d, low, high, size):
    """What reflection copied to the borders of dimension d, added back to where it came from."""
    out = duplicate(grad.narrow(d, low, size))
    if low:
        out.narrow(d, 1, low).add_(grad.narrow(d, 0, low).flip(d))
    if high:
        out.narrow(d, size - 1 - high, high).add_(grad.narrow(d, low + size, high).flip(d))
    return out


def _fold_repeated(grad, d, low, high, size):
    """As above, for a repeated edge."""
    out = duplicate(grad.narrow(d, low, size))
    if low:
        out.narrow(d, 0, 1).add_(grad.narrow(d, 0, low).sum(d, keepdim=True))
    if high:
        out.narrow(d, size - 1, 1).add_(grad.narrow(d, low + size, high).sum(d, keepdim=True))
    return out


def _edge_pad_backward(op: str, fold):
    def run(grad_output, self, padding):
        like = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in (grad_output, self)]
        getattr(torch.ops.aten, op)(*like, padding)
        grad = grad_output
        _, sides = _pads(self, padding)
        for d, (low, high) in enumerate(sides):
            if low < 0 or high < 0:  # what was cut away has no gradient
                cut = [0] * (2 * (self.dim() - d))
                cut[-2:] = max(-low, 0), max(-high, 0)
                grad = constant_pad_nd(grad, cut)
            if low > 0 or high > 0:
                grad = fold(grad, d, max(low, 0), max(high, 0), self.shape[d])
        return laid(grad if grad is not grad_output else duplicate(grad), image_format(self))

    custom(op)(run)


for _spatial in (1, 2, 3):
    _edge_pad_backward(f"reflection_pad{_spatial}d_backward", _fold_reflected)
    _edge_pad_backward(f"replication_pad{_spatial}d_backward", _fold_repeated)


@custom("flip", oversize=oversize.flip)
def flip(self, dims):
    wanted = [canonicalize_dim(max(self.dim(), 1), d) for d in dims]
    if len(set(wanted)) != len(wanted):
        repeated = next(d for d in wanted if wanted.count(d) > 1)
        raise RuntimeError(f"dim {repeated} appears multiple times in the list of dims")
    if not self.dim() or not wanted:
        return duplicate(self)
    self = self.resolve_conj().resolve_neg()
    if not self.is_contiguous():
        order = memory_order(self)
        if order != list(range(self.dim())):
            there = flip(self.permute(order), [order.index(d) for d in wanted])
            return there.permute([order.index(d) for d in range(self.dim())])
    strides = [-st if d in wanted else st for d, st in enumerate(self.stride())]
    extra = sum((self.shape[d] - 1) * self.stride(d) for d in wanted)
    return _move(self, self.shape, strides, extra, "n" * self.dim(), [0] * self.dim(), list(self.shape))


@custom("roll", oversize=oversize.roll)
def roll(self, shifts, dims=()):
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims:
        if len(shifts) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
        return roll(self.contiguous().view(-1), shifts, [0]).view(self.shape)
    if len(dims) != len(shifts):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if not self.numel():
        return duplicate(self)
    if not self.dim():
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    total = [0] * self.dim()
    for s, d in zip(shifts, dims):
        total[canonicalize_dim(self.dim(), d)] += s
    if image_format(self) is not torch.contiguous_format:  # which stays, as where torch joins the two parts
        last = [0, *range(2, self.dim()), 1]
        rolled = roll(self.permute(last), [total[d] for d in last], [*range(self.dim())])
        return rolled.permute([last.index(d) for d in range(self.dim())])
    back = [-s % size for s, size in zip(total, self.shape)]
    self = self.resolve_conj().resolve_neg()
    rules = "".join("w" if s else "n" for s in back)
    return _move(self, self.shape, self.stride(), 0, rules, back, list(self.shape))


def _triangle(self, diagonal: int, keep: str, op: str):
    if self.dim() < 2:
        raise RuntimeError(f"{op}: input tensor must have at least 2 dimensions")
    self = self.resolve_conj().resolve_neg()
    far = max(self.shape[-2:]) + 1
    diagonal = max(-far, min(far, diagonal))
    rank = self.dim()
    return _move(self, self.shape, self.stride(), 0, "n" * rank, [0] * rank, list(self.shape), keep, diagonal)


@custom("tril", oversize=oversize.triangle)
def tril(self, diagonal=0):
    return _triangle(self, diagonal, "l", "tril")


@custom("triu", oversize=oversize.triangle)
def triu(self, diagonal=0):
    return _triangle(self, diagonal, "u", "triu")


@custom("tensor_split.tensor_indices_or_sections", key="AutogradPrivateUse1")
def tensor_split(self, tensor_indices_or_sections, dim=0):
    """Where to split must be known on the host: sections given on the device are read back."""
    given = tensor_indices_or_sections
    if given.dtype is not torch.int64:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{_scalar_name(given.dtype)}"
        )
    if given.dim() > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
            f"got a tensor with {given.dim()} dims"
        )
    return torch.tensor_split(self, given.tolist(), dim)
