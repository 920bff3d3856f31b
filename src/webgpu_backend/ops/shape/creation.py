"""Tensors made from numbers: arange, linspace, logspace, eye, triangle indices. One dispatch each."""

import math
import warnings

import torch

from ... import tensor as T
from ...dtypes import carrier
from ...kernels.shape import creation
from ...plan import caps, launch
from ...plan.run import planning_here
from ..pointwise.elementwise import _scalar_name
from ..table import custom
from . import oversize
from .copy import device_copy, fill, like_strides

aten = torch.ops.aten
_COMPOSITE = torch._C.DispatchKey.CompositeExplicitAutograd


def _dtype(dtype, *values) -> torch.dtype:
    if dtype is not None:
        return dtype
    return torch.int64 if all(isinstance(v, int) for v in values) else torch.get_default_dtype()


def _make(name: str, shape, dtype: torch.dtype, compute: str, source: str, scalars: tuple[str, ...], values):
    out = T.empty(shape, dtype)
    if out.numel():
        launch(creation.plan(name, T.dtype_of(out), compute, source, scalars, values, out.numel(), caps()), out)
    return out


def _compute(dtype: torch.dtype) -> str:
    """The carrier to count in."""
    if dtype not in T.DTYPES or dtype is torch.bool or dtype.is_complex:
        raise NotImplementedError(f'"arange_cpu" not implemented for {_scalar_name(dtype)!r}')
    return carrier(T.DTYPES[dtype], caps())


# Before torch 2.14 int64 cuts bounds and step first, and then counts.
_CUT_FIRST = len(torch.arange(1, 10, 2.5, dtype=torch.int64, device="cpu")) > 4
_POSITION = {"f32": "float(i)", "i32": "int(i)", "n64": "long(i)", "i64": "long(i)", "u32": "i"}


def _position(compute: str) -> str:
    return _POSITION.get(compute, "i")


def _arange(start, end, step, dtype):
    if not _CUT_FIRST and not math.isfinite(step):
        raise RuntimeError(f"step must be finite but got {step:g}")
    if not (step > 0 or step < 0):  # NaN is neither
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (step > 0 and end < start) or (step < 0 and end > start):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is torch.int64 and (_CUT_FIRST or all(isinstance(x, int) for x in (start, end, step))):
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError("step must be nonzero")
        count = max(-(-(end - start) // step), 0)
    else:
        count = max(math.ceil((end - start) / step), 0)
        if not (dtype.is_floating_point or dtype.is_complex):  # counted as they are given, and then cut
            start, step = int(start), int(step)
    if count >= 1 << 63:
        raise RuntimeError("invalid size, possible overflow?")
    compute = _compute(dtype)
    source = f"start + {_position(compute)} * step"
    return _make("arange", (count,), dtype, compute, source, ("start", "step"), (start, step))


# -- one value


def _filled(size, dtype: torch.dtype, layout, device, value) -> torch.Tensor:
    check_layout(layout)
    return fill(T.empty(size, dtype), value)


def check_layout(layout) -> None:
    if layout is not None and layout is not torch.strided:
        raise NotImplementedError(f"webgpu: tensors of layout {layout} are not supported; use torch.strided")


@custom("zeros")
def zeros(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    if any([s < 0 for s in size]):
        raise RuntimeError("zeros: Dimension size must be non-negative.")
    return _filled(size, dtype or torch.get_default_dtype(), layout, device, 0)


@custom("ones")
def ones(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _filled(size, dtype or torch.get_default_dtype(), layout, device, 1)


@custom("full")
def full(size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None):
    if dtype is None:
        whole = {bool: torch.bool, int: torch.int64, complex: torch.get_default_dtype().to_complex()}
        dtype = whole.get(fill_value.__class__, torch.get_default_dtype())
    return _filled(size, dtype, layout, device, fill_value)


@custom("scalar_tensor", planned=False)
def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=None):
    """A number too large for its dtype is infinite here, as on the CPU, where `full` refuses it."""
    check_layout(layout)
    host = torch.scalar_tensor(s, dtype=dtype, device="cpu")
    return fill(T.empty((), host.dtype), host.item())


def _like(name: str, value) -> None:
    """`zeros_like` and `ones_like`: torch's own make the tensor and then call the operator that fills it."""
    composite = getattr(aten, name).default._op_dk

    @custom(name, conj="direct")
    def like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
        here = device is None or device.type == T.NAME
        if not here or layout not in (None, torch.strided) or not T.is_ours(self):
            if planning_here() is not None:
                raise T.Unplannable  # the result may have no memory of its own
            options = dict(dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
            return composite(_COMPOSITE, self, **options, memory_format=memory_format)
        return fill(T.empty(self.shape, dtype or self.dtype, like_strides(self, memory_format)), value)


_like("zeros_like", 0)
_like("ones_like", 1)


# -- ranges


@custom("arange", oversize=oversize.arange)
def arange(end, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _arange(0, end, 1, _dtype(dtype, end))


@custom("arange.start", oversize=oversize.arange)
def arange_start(start, end, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _arange(start, end, 1, _dtype(dtype, start, end))


@custom("arange.start_step", oversize=oversize.arange)
def arange_start_step(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _arange(start, end, step, _dtype(dtype, start, end, step))


@custom("arange.start_out")
def arange_out(start, end, step=1, *, out):
    made = _arange(start, end, step, out.dtype)
    before, filled = list(out.shape), out.numel()
    _into(out, made)  # first: while a plan is made this ends it, and the call that follows tells
    if filled not in (0, made.numel()):
        warnings.warn(
            f"The number of elements in the out tensor of shape {before} is {filled} which does not "
            f"match the computed number of elements {made.numel()}. Note that this may occur as a result of rounding "
            f"error. The out tensor will be resized to a tensor of shape ({made.numel()},).",
            stacklevel=2,
        )
    return out


@custom("range.out")
def range_out(start, end, step=1, *, out):
    """As arange, with its end."""
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (step > 0 and end < start) or (step < 0 and end > start):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if not out.dtype.is_floating_point:
        start, end, step = int(start), int(end), int(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    compute = _compute(out.dtype)
    source = f"start + {_position(compute)} * step"
    count = math.floor((end - start) / step) + 1
    return _into(out, _make("arange", (count,), out.dtype, compute, source, ("start", "step"), (start, step)))


def _linspace(start, end, steps, dtype, base=None):
    if steps is None or steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dtype.is_complex:
        part = torch.float64 if dtype is torch.complex128 else torch.float32
        real = _linspace(complex(start).real, complex(end).real, steps, part)
        imaginary = _linspace(complex(start).imag, complex(end).imag, steps, part)
        line = torch.complex(real, imaginary).to(dtype)
        return line if base is None else torch.pow(base, line)
    if dtype is torch.bool:
        raise NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")
    if not dtype.is_floating_point:
        start, end = int(start), int(end)
    # Integers are cut off from a sum in double precision on the CPU: as many bits as the adapter has.
    wide = (torch.float64, torch.int64, torch.int32) if base is None else (torch.float64,)
    compute = "f64" if caps().f64 and dtype in wide else "f32"
    if steps == 1:
        end = start
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    position = "i" if compute == "f64" else "float(i)"
    rest = "(last - i)" if compute == "f64" else "float(last - i)"
    source = f"where(i < half, start + step * {position}, end - step * {rest})"
    if base is not None:
        source = f"e = {source}\npow(base, e)"
    return _line(source, dtype, compute, steps, start, end, step, base)


def _line(source, dtype, compute, steps, start, end, step, base):
    out = T.empty((steps,), dtype)
    if not steps:
        return out
    scalars, values = ("start", "end", "step"), (start, end, step)
    if base is not None:
        scalars, values = (*scalars, "base"), (*values, base)
    launch(creation.plan_line(T.dtype_of(out), compute, source, scalars, values, steps, caps()), out)
    return out


@custom("linspace")
def linspace(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _linspace(start, end, steps, _line_dtype("linspace", dtype, start, end))


@custom("linspace.out")
def linspace_out(start, end, steps, *, out):
    return _into(out, _linspace(start, end, steps, out.dtype))


@custom("logspace")
def logspace(start, end, steps, base=10.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _logspace(start, end, steps, base, _line_dtype("logspace", dtype, start, end))


@custom("logspace.out")
def logspace_out(start, end, steps, base=10.0, *, out):
    return _into(out, _logspace(start, end, steps, base, out.dtype))


def _logspace(start, end, steps, base, dtype):
    if not dtype.is_floating_point and not dtype.is_complex:
        start, end = int(start), int(end)
        return _linspace(float(start), float(end), steps, torch.float32, base).to(dtype)
    return _linspace(start, end, steps, dtype, base)


def _line_dtype(name: str, dtype, start, end) -> torch.dtype:
    found = torch.get_default_dtype()
    if isinstance(start, complex) or isinstance(end, complex):
        found = torch.complex64 if found is torch.float32 else torch.complex128
        if dtype is not None and not dtype.is_complex:
            inferred = f"c10::complex<{'float' if found is torch.complex64 else 'double'}>"
            raise RuntimeError(
                f"torch.{name}(): inferred dtype {inferred} can't be safely cast to passed dtype {_scalar_name(dtype)}"
            )
    return dtype or found


def _into(out, result):
    """An output of as many elements keeps its shape."""
    if out.numel() != result.numel():
        out.resize_(result.shape)
    device_copy(result.view(out.shape), out)
    return out


@custom("eye", oversize=oversize.eye)
def eye(n, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _eye(n, n, dtype)


@custom("eye.m", oversize=oversize.eye)
def eye_m(n, m, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _eye(n, m, dtype)


def _eye_into(out, n, m):
    made = _eye(n, m, out.dtype)
    return _into(out.resize_(made.shape), made)


def _eye(n, m, dtype):
    for what, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"{what} must be greater or equal to 0, got {size}")
    dtype = dtype or torch.get_default_dtype()
    # The diagonal is every (m + 1)th position, down to where the columns end.
    source = "where(rem(i, across) == 0, where(i < last, 1, 0), 0)"
    return _make("eye", (n, m), dtype, "u32", source, ("across", "last"), (m + 1, m * m))


@custom("eye.out")
def eye_out(n, *, out):
    return _eye_into(out, n, n)


@custom("eye.m_out")
def eye_m_out(n, m, *, out):
    return _eye_into(out, n, m)


@custom("kaiser_window")
def kaiser_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _kaiser(window_length, True, 12.0, dtype, layout, device)


@custom("kaiser_window.periodic")
def kaiser_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _kaiser(window_length, periodic, 12.0, dtype, layout, device)


@custom("kaiser_window.beta")
def kaiser_window_beta(window_length, periodic, beta, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _kaiser(window_length, periodic, beta, dtype, layout, device)


def _kaiser(length: int, periodic: bool, beta: float, dtype, layout, device) -> torch.Tensor:
    """torch's own fills it by a kernel that it has for its own devices only."""
    dtype = dtype or torch.get_default_dtype()
    if length < 0:
        raise RuntimeError("kaiser_window requires non-negative window_length")
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"kaiser_window expects floating point dtypes, got: {dtype}")
    check_layout(layout)
    if length < 2:
        return fill(T.empty((length,), dtype), 1)
    last = length if periodic else length - 1
    wide = torch.float64 if dtype in (torch.float64, torch.complex128) and caps().f64 else torch.float32
    x = _arange(0, length, 1, wide).mul_(2 / last).sub_(1)
    inner = (1 - x * x).clamp_(min=0).sqrt_().mul_(beta)
    return torch.i0(inner).div_(torch.i0(torch.full((), beta, dtype=torch.float64, device="cpu")).item()).to(dtype)


def _triangle(rows: int, columns: int, offset: int, upper: bool, dtype) -> torch.Tensor:
    dtype = dtype or torch.int64
    if rows < 0 or columns < 0:
        raise RuntimeError(f"{'row' if rows < 0 else 'col'} must be non-negative, got{rows if rows < 0 else columns}")
    if dtype not in (torch.int64, torch.int32):
        name = "triu_indices" if upper else "tril_indices"
        raise NotImplementedError(f'"{name}" not implemented for {_scalar_name(dtype)!r}')
    far = max(rows, columns) + 1
    offset = max(-far, min(far, offset))

    def below(x: int) -> int:
        x = max(x, 0)
        return x * (x + 1) // 2 if x <= columns else columns * (columns + 1) // 2 + (x - columns) * columns

    count = below(rows + offset) - below(offset)
    if upper:
        count = rows * columns - (below(rows - 1 + offset) - below(offset - 1))
    out = T.empty((2, count), dtype)
    if count:
        launch(creation.plan_triangle(T.dtype_of(out), upper, count, columns, offset, rows, caps()), out)
    return out


@custom("tril_indices")
def tril_indices(row, col, offset=0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _triangle(row, col, offset, False, dtype)


@custom("triu_indices")
def triu_indices(row, col, offset=0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _triangle(row, col, offset, True, dtype)
