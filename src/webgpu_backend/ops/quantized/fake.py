"""Fake quantisation: values rounded to those that codes could hold, with their gradients, for training that knows."""

import torch

from ..pointwise.elementwise import runner
from ..table import custom, expression
from .affine import along

# q is the code: NaN is below all of them, as where the CPU makes an integer of it.
_CODE = "q = round(a * (1 / b)) + c\nk = where(isnan(q), low - 1, q)\n"
_GIVEN = dict(arity=3, scalars=("low", "high"), types={"b": "f32", "c": "f32"})
_FAKE = expression("fake_quantize", _CODE + "(min(max(k, low), high) - c) * b", **_GIVEN)
_WITHIN = expression("within_codes", _CODE + "(k >= low) and (k <= high)", promote="always_bool", **_GIVEN)


def _check_range(low: int, high: int) -> None:
    if low > high:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


def _fake(x, scale, zero, low: int, high: int):
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise RuntimeError(f"fake_quantize: expected a float tensor, got {x.dtype}")
    given = x, scale, zero, float(low), float(high)
    return runner(_FAKE)(*given), runner(_WITHIN)(*given)


def _along(values: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    if values.dim() != 1 or values.shape[0] != x.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    return along(values.float(), x, axis)


@custom("fake_quantize_per_tensor_affine_cachemask")
def per_tensor(self, scale, zero_point, quant_min, quant_max):
    _check_range(quant_min, quant_max)
    if not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return _fake(self, float(scale), float(zero_point), quant_min, quant_max)


@custom("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def per_tensor_of_tensors(self, scale, zero_point, fake_quant_enabled, quant_min, quant_max):
    _check_range(quant_min, quant_max)
    made, mask = _fake(self, scale.reshape(()).float(), zero_point.reshape(()).float(), quant_min, quant_max)
    on = fake_quant_enabled.reshape(()) != 0
    return torch.where(on, made, self), mask | ~on


@custom("fake_quantize_per_channel_affine_cachemask")
def per_channel(self, scale, zero_point, axis, quant_min, quant_max):
    _check_range(quant_min, quant_max)
    scales, zeros = _along(scale, self, axis), _along(zero_point, self, axis)
    return _fake(self, scales, zeros, quant_min, quant_max)


# -- with gradients of the scale and of the zero point


def _learnt(zero: torch.Tensor, low: int, high: int) -> torch.Tensor:
    return zero.float().round().clamp(low, high)


def _gradients(grad, x, scale, zero, low: int, high: int, factor: float, dims: list[int], shape):
    """Of the input, the scale and the zero point, the last two summed over dimensions."""
    made, mask = _fake(x, scale, zero, low, high)
    wide = grad.float()
    inside = (made.float() - x.float()) / scale
    outside = made.float() / scale  # the lowest or highest code, less the zero point
    of_scale = (torch.where(mask, inside, outside) * wide * factor).sum(dims).reshape(shape)
    of_zero = (torch.where(mask, 0.0, -scale) * wide * factor).sum(dims).reshape(shape)
    return grad * mask, of_scale, of_zero


@custom("_fake_quantize_learnable_per_tensor_affine")
def learnable_per_tensor(self, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    zero = _learnt(zero_point.reshape(()), quant_min, quant_max)
    return _fake(self, scale.reshape(()).float(), zero, quant_min, quant_max)[0]


@custom("_fake_quantize_learnable_per_tensor_affine_backward")
def learnable_per_tensor_backward(grad, self, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    zero = _learnt(zero_point.reshape(()), quant_min, quant_max)
    dims = list(range(self.dim()))
    return _gradients(grad, self, scale.reshape(()).float(), zero, quant_min, quant_max, grad_factor, dims, (1,))


@custom("_fake_quantize_learnable_per_channel_affine")
def learnable_per_channel(self, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    zero = _learnt(_along(zero_point, self, axis), quant_min, quant_max)
    return _fake(self, _along(scale, self, axis), zero, quant_min, quant_max)[0]


@custom("_fake_quantize_learnable_per_channel_affine_backward")
def learnable_per_channel_backward(grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    zero = _learnt(_along(zero_point, self, axis), quant_min, quant_max)
    dims = [d for d in range(self.dim()) if d != axis % self.dim()]
    scales = _along(scale, self, axis)
    return _gradients(grad, self, scales, zero, quant_min, quant_max, grad_factor, dims, scale.shape)


# -- observed and rounded in one, for training

_LEAST_SCALE = 6.1e-5  # of codes that torch chooses


def _averaged(running: torch.Tensor, now: torch.Tensor, share: float, on: torch.Tensor) -> None:
    """The moving average of an extreme; an infinite one is none yet."""
    moved = torch.where(running.isinf(), now, running + share * (now - running))
    running.copy_(torch.where(on, moved, running))


def _chosen(least: torch.Tensor, most: torch.Tensor, low: int, high: int, symmetric: bool):
    """Scales and zero points for values between extremes, as torch chooses them: zero has a code of its own."""
    steps = high - low
    if symmetric:
        both = (least < 0) & (most > 0)
        half = steps // 2
        size = torch.maximum((least / -(half + 1)).abs(), (most / half).abs())
        least, most = torch.where(both, -(half + 1) * size, least), torch.where(both, half * size, most)
    least, most = least.clamp(max=0), most.clamp(min=0)
    scale = (most - least) / steps
    scale = torch.where((scale == 0) | (1 / scale).isinf(), 0.1, scale)
    few = scale < _LEAST_SCALE  # then the extremes are moved apart with the scale
    from_least, from_most = (
        torch.where(few & ((least == 0) | (most == 0)), torch.where(x == 0, 0.0, float(side)), x / scale)
        for x, side in ((least, -steps), (most, steps))
    )
    nearer = abs(low) + from_least.abs() < abs(high) + from_most.abs()
    zero = torch.where(nearer, low - from_least, high - from_most)
    if symmetric:
        zero = torch.where((least < 0) & (most > 0), (low + high) / 2, zero)
    return torch.where(few, _LEAST_SCALE, scale), zero.clamp(low, high).round()


@custom("_fused_moving_avg_obs_fq_helper")
def moving_average(
    self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, averaging_const, quant_min,
    quant_max, ch_axis, per_row_fake_quant=False, symmetric_quant=False,
):  # fmt: skip
    if ch_axis >= self.dim():
        raise RuntimeError("Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()")
    if per_row_fake_quant and ch_axis != 0:
        name = "fused_moving_avg_obs_fake_quant"
        raise RuntimeError(f"Per-channel FakeQuant in {name} is only supported on axis == 0")
    if not self.numel():
        return self.clone(), torch.ones_like(self, dtype=torch.bool)
    if per_row_fake_quant and not running_min.numel():
        rows = self.shape[:1]
        running_min.resize_(rows).fill_(torch.inf)
        running_max.resize_(rows).fill_(-torch.inf)
        scale.resize_(rows)
        zero_point.resize_(rows)
    wide = self.float()
    extremes = wide.flatten(1).aminmax(dim=1) if per_row_fake_quant and self.dim() > 1 else wide.aminmax()
    observed, rounded = observer_on.reshape(()) != 0, fake_quant_on.reshape(()) != 0
    for running, now in zip((running_min, running_max), extremes):
        _averaged(running, now.reshape(running.shape), averaging_const, observed)
    for old, new in zip((scale, zero_point), _chosen(running_min, running_max, quant_min, quant_max, symmetric_quant)):
        old.copy_(torch.where(rounded, new.to(old.dtype), old))
    along = _along if per_row_fake_quant else lambda x, *_: x.reshape(()).float()
    made, mask = _fake(self, along(scale, self, 0), along(zero_point, self, 0), quant_min, quant_max)
    return torch.where(rounded, made, self), mask | ~rounded


# -- torch's quantised dtypes, which frontend/dispatch/quantized.py makes


@custom("dequantize.self")
def dequantize(self):
    return self.to(torch.float32, copy=True)
