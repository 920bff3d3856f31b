"""Random numbers on the device: a kernel per distribution."""

import math
import warnings
from struct import pack

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.random import distributions
from ...kernels.reduce.reduction import Spec
from ...plan import caps, launch, launch_ranges
from ...plan.draws import MASK
from ...plan.run import planning_here
from ...runtime.errors import BindingTooLarge
from ..admitted import scalar_name as _scalar_name
from ..pointwise.operators import DTYPE_WORDS
from ..reduce.reduction import Reduction
from ..shape.copy import dense, device_copy
from ..table import binary, custom
from .streams import default, stream


def _whole(tensor: torch.Tensor) -> bool:
    """Kernels may write it four elements at a time, from the first to the padding behind the last."""
    return (
        tensor.is_contiguous()
        and tensor.storage_offset() % 4 == 0
        and (tensor.numel() % 4 == 0 or T.owns_tail(tensor))
        and not tensor.is_neg()
    )


def draw(name: str, out: torch.Tensor, generator, params: bytes = b"", inputs: tuple = ()) -> torch.Tensor:
    """Fills `out` from a distribution. Float32 `inputs` of its shape give each element its parameters."""
    n = out.numel()
    if not n:
        return out
    target = out if _whole(out) else T.empty(out.shape, out.dtype)
    dtype, taken = T.dtype_of(target), stream(generator).take(n)
    try:
        launch(distributions.plan(name, dtype, n, target.storage_offset(), params, caps()), *inputs, target, draw=taken)
    except BindingTooLarge:

        def part(first, count, offsets):
            return distributions.plan(name, dtype, count, offsets[-1], params, caps()), taken.after(first)

        launch_ranges((*inputs, target), n, part)
    if target is not out:
        device_copy(target, out)
    return out


def _each(parameter: torch.Tensor, shape) -> torch.Tensor:
    """A parameter per element as kernels read it: float32, contiguous, from the start of a buffer."""
    parameter = parameter.to(T.here(), torch.float32).expand(shape).contiguous()
    return parameter.clone() if parameter.storage_offset() else parameter


def _refuse(op: str, self: torch.Tensor, *args) -> torch.Tensor:
    """Raises the CPU's error; some checks are made of elements, and pass where there are none."""
    getattr(torch.empty(min(self.numel(), 1), dtype=self.dtype, device="cpu"), op)(*args)
    if self.numel():
        raise Unsupported(f"webgpu: {op} has no kernel for {self.dtype} and {args}")
    return self


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point


# -- filling in place


def _within(dtype: torch.dtype, *numbers: float) -> bool:
    most = torch.finfo(dtype).max
    return all([-most <= x <= most for x in numbers])


@custom("uniform_")
def uniform_(self, from_=0.0, to=1.0, *, generator=None, **named):
    low = named.get("from", from_)
    if self.is_complex():  # the real and the imaginary part each
        uniform_(torch.view_as_real(self), low, to, generator=generator)
        return self
    if not _is_float(self) or not low <= to or not _within(self.dtype, low, to, to - low):
        return _refuse("uniform_", self, low, to)
    if self.dtype == torch.float64:
        draw("uniform64", self, generator)
        return self if (low, to) == (0, 1) else self.mul_(to - low).add_(low)
    return draw("uniform", self, generator, pack("<ff", low, to))


@custom("normal_")
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    if not (_is_float(self) or self.is_complex()) or not std >= 0:
        return _refuse("normal_", self, mean, std)
    if self.is_complex():
        draw("normal", torch.view_as_real(self), generator, pack("<ff", 0.0, std * math.sqrt(0.5)))
        return self.add_(mean) if mean else self
    if self.dtype == torch.float64 and (mean, std) != (0, 1):  # numbers that float32 may not have
        return draw("normal", self, generator, pack("<ff", 0.0, 1.0)).mul_(std).add_(mean)
    return draw("normal", self, generator, pack("<ff", mean, std))


@custom("log_normal_")
def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    if not _is_float(self) or not std > 0:
        return _refuse("log_normal_", self, mean, std)
    return draw("log_normal", self, generator, pack("<ff", mean, std))


@custom("cauchy_")
def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    if not _is_float(self) or not sigma > 0:
        return _refuse("cauchy_", self, median, sigma)
    return draw("cauchy", self, generator, pack("<ff", median, sigma))


@custom("exponential_")
def exponential_(self, lambd=1.0, *, generator=None):
    if not _is_float(self) or not lambd > 0:
        return _refuse("exponential_", self, lambd)
    return draw("exponential", self, generator, pack("<f", lambd))


@custom("geometric_")
def geometric_(self, p, *, generator=None):
    if not 0 < p < 1 or self.is_complex() or self.dtype == torch.bool:
        return _refuse("geometric_", self, p)
    return draw("geometric", self, generator, pack("<f", p))


@custom("bernoulli_.float")
def bernoulli_float_(self, p=0.5, *, generator=None):
    if not 0 <= p <= 1 or self.is_complex():
        return _refuse("bernoulli_", self, p)
    return draw("bernoulli", self, generator, pack("<f", p))


@custom("bernoulli_.Tensor")
def bernoulli_tensor_(self, p, *, generator=None):
    if not _is_float(p):
        return _refuse("bernoulli_", self, torch.zeros(1, dtype=p.dtype, device="cpu"))
    return draw("bernoulli_each", self, generator, inputs=(_each(p, self.shape),)) if self.numel() else self


@custom("bernoulli")
def bernoulli(self, *, generator=None):
    if not _is_float(self):
        torch.bernoulli(torch.zeros(1, dtype=self.dtype, device="cpu"))
    out = T.empty(self.shape, self.dtype)
    return bernoulli_tensor_(out, self, generator=generator)


@custom("bernoulli.p")
def bernoulli_p(self, p, *, generator=None):
    return bernoulli_float_(T.empty(self.shape, self.dtype), p, generator=generator)


# The largest whole number below which every one is exact; `random_()` draws from 0 to there.
_EXACT = {torch.float32: 1 << 24, torch.float64: 1 << 53, torch.float16: 1 << 11, torch.bfloat16: 1 << 8}


def _top(dtype: torch.dtype) -> int:
    if dtype == torch.bool:
        return 1
    return _EXACT[dtype] if dtype in _EXACT else torch.iinfo(dtype).max


def _whole_numbers(self, low: int, count: int, generator):
    """low to low + count - 1, each as likely."""
    if self.is_complex():
        return _refuse("random_", self)
    if count > MASK:
        return draw("any64", self, generator)
    name = "below" if count < 1 << 28 else "below64"  # 32 bits would favour some numbers visibly from there on
    return draw(name, self, generator, pack("<QQ", low & MASK, count))


@custom("random_")
def random_(self, *, generator=None):
    if self.is_complex():
        return _refuse("random_", self)
    return _whole_numbers(self, 0, _top(self.dtype) + 1, generator)


@custom("random_.to")
def random_to_(self, to, *, generator=None):
    return random_from_(self, 0, to, generator=generator)


def _tell_of_inexact(dtype: torch.dtype, low: int, to: int) -> None:
    exact = _EXACT.get(dtype)
    for name, value in (("from", low), ("to - 1", to - 1)):
        if exact is not None and not -exact <= value <= exact:
            if planning_here() is not None:
                raise T.Unplannable  # it is told at every call
            bits = exact.bit_length() - 1
            warnings.warn(
                f"{name} is out of bounds [-(2^{bits}), 2^{bits}]. Due to precision limitations {DTYPE_WORDS[dtype]} "
                "can support discrete uniform distribution only within this range. This warning will become an error "
                "in version 1.7 release, please fix the code in advance",
                stacklevel=3,
            )


@custom("random_.from")
def random_from_(self, from_=None, to=None, *, generator=None, **named):
    low = named.get("from", from_)
    if self.is_complex():
        return _refuse("random_", self, low, to)
    if to is None:
        return _whole_numbers(self, low, _top(self.dtype) - low + 1, generator)
    if self.dtype.is_floating_point:
        limit = torch.finfo(self.dtype).max
        inside = -limit <= low and to - 1 <= limit
    else:
        least = 0 if self.dtype == torch.bool else torch.iinfo(self.dtype).min
        inside = least <= low and to - 1 <= _top(self.dtype)
    if low >= to or not inside:
        return _refuse("random_", self, low, to)
    _tell_of_inexact(self.dtype, low, to)
    return _whole_numbers(self, low, to - low, generator)


# -- new tensors


@custom("poisson")
def poisson(self, generator=None):
    if not _is_float(self):
        torch.poisson(torch.zeros(1, dtype=self.dtype, device="cpu"))
    return draw("poisson", T.empty(self.shape, self.dtype), generator, inputs=(_each(self, self.shape),))


@custom("binomial")
def binomial(count, prob, generator=None):
    if not _is_float(count) or count.dtype != prob.dtype:
        torch.binomial(torch.zeros(1, dtype=count.dtype, device="cpu"), torch.zeros(1, dtype=prob.dtype, device="cpu"))
    shape = torch.broadcast_shapes(count.shape, prob.shape)
    inputs = (_each(count, shape), _each(prob, shape))
    if T.block_of(inputs[0]) is T.block_of(inputs[1]):
        inputs = (inputs[0], inputs[1].clone())
    return draw("binomial", T.empty(shape, count.dtype), generator, inputs=inputs)


@custom("_standard_gamma")
def standard_gamma(self, generator=None):
    if not _is_float(self):
        torch._standard_gamma(torch.zeros(1, dtype=self.dtype, device="cpu"))
    return draw("gamma", T.empty(self.shape, self.dtype), generator, inputs=(_each(self, self.shape),))


@custom("_sample_dirichlet")
def sample_dirichlet(self, generator=None):
    logs = T.empty(self.shape, torch.float32)
    draw("log_gamma", logs, generator, inputs=(_each(self, self.shape),))
    return torch.softmax(logs, -1).to(self.dtype)


@custom("normal.Tensor_float")
def normal_mean(mean, std=1.0, *, generator=None):
    return normal_(torch.empty_like(mean), 0.0, std, generator=generator).add_(mean)


@custom("normal.float_Tensor", planned=False)
def normal_std(mean, std, *, generator=None):
    _check_std(std)
    return normal_(torch.empty_like(std), 0.0, 1.0, generator=generator).mul_(std).add_(mean)


@custom("normal.Tensor_Tensor", planned=False)
def normal_both(mean, std, *, generator=None):
    _check_std(std)
    shape = torch.broadcast_shapes(mean.shape, std.shape)
    return normal_(T.empty(shape, mean.dtype), 0.0, 1.0, generator=generator).mul_(std).add_(mean)


def _check_std(std: torch.Tensor) -> None:
    if std.is_complex():
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if std.numel() and not std.min().ge(0).item():
        raise RuntimeError("normal expects all elements of std >= 0.0")


@custom("randperm.generator_out")
def randperm_out(n, *, generator=None, out):
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got{n}")
    if not (out.dtype in _EXACT and n <= _EXACT[out.dtype]) and n - 1 > _top(out.dtype):
        torch.randperm(n, dtype=out.dtype, device="cpu")
    # Equal keys would keep their order: 63 bits make that as unlikely as it needs to be.
    keys = random_(T.empty((n,), torch.int32 if n <= 4096 else torch.int64), generator=generator)
    order = torch.sort(keys, stable=True)[1]
    if out.shape != order.shape:
        out.resize_(order.shape)
    device_copy(order, out)
    return out


@custom("multinomial", planned=False)
def multinomial(self, num_samples, replacement=False, *, generator=None):
    if not (self.dim() in (1, 2) and _is_float(self) and num_samples > 0 and self.shape[-1] > 0) or (
        not replacement and num_samples > self.shape[-1]
    ):
        torch.multinomial(torch.ones(self.shape, dtype=self.dtype, device="cpu"), num_samples, replacement)
    if self.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    _check_weights(self, replacement and num_samples > 1)
    weights = self.float()
    if not replacement or num_samples == 1:
        race = weights / draw("exponential", T.empty(self.shape, torch.float32), generator, pack("<f", 1.0))
        return race.argmax(-1, keepdim=True) if num_samples == 1 else race.topk(num_samples, -1)[1]
    sums = weights.cumsum(-1)
    total = sums[..., -1:]
    at = draw("uniform", T.empty((*self.shape[:-1], num_samples), torch.float32), generator, pack("<ff", 0.0, 1.0))
    # Rounding must not reach the total: the entry found there may have weight 0.
    at = torch.minimum(at * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(sums, at, right=True)


_PROPER = Reduction(
    Spec(
        "proper_weights",
        "total1 = total + a\nfit1 = fit and a >= 0 and not isinf(a)",
        "total1 = total + o_total\nfit1 = fit and o_fit",
        (0, 1),
        (("total", "T"), ("fit", "bool")),
        "fit and total > 0",
        (("out", "bool"),),
    )
)


def _check_weights(self: torch.Tensor, several: bool) -> None:
    if not self.numel():
        return
    proper = _PROPER((self,), (self.dim() - 1,), False, self.dtype, (torch.bool,))[0]
    if (proper.all() if proper.dim() else proper).item():
        return
    low, high = torch.aminmax(self)
    finite, positive = (high < math.inf) & (low >= 0), (self.sum(-1) > 0).all()
    if several:
        if not (low >= 0).item():
            raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
        if not positive.item():
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        raise RuntimeError("invalid multinomial distribution (encountering probability entry = infinity or NaN)")
    if not finite.item():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


# -- dropout

binary("native_dropout_backward", "a * where(b, scale, 0)", scalars=("scale",), types={"b": "bool"},
       promote="int_to_float")  # fmt: skip


@custom("rrelu_with_noise")
def rrelu_with_noise(self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    if not training:
        return torch.nn.functional.leaky_relu(self, (lower + upper) / 2)
    slopes = uniform_(T.empty(self.shape, self.dtype), lower, upper, generator=generator)
    device_copy(torch.where(self <= 0, slopes, 1.0), noise)
    return self * noise


@custom("rrelu_with_noise_")
def rrelu_with_noise_(self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    return self.copy_(rrelu_with_noise(self, noise, lower, upper, training, generator))


@custom("native_dropout")
def native_dropout(input, p, train):
    if train is False or p == 0 or not input.numel():
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    if p == 1:
        return input * 0.0, torch.zeros_like(input, dtype=torch.bool)  # NaN stays
    if input.is_complex():
        raise NotImplementedError(f"\"bernoulli_scalar_cpu_\" not implemented for '{_scalar_name(input.dtype)}'")
    if not input.is_floating_point():
        name = _scalar_name(input.dtype)
        raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")
    if input.storage_offset() % 4 or not dense(input) or input.is_neg():
        input = input.clone()  # its dimensions stay in their order
    strides = input.stride()
    out, mask = T.empty(input.shape, input.dtype, strides), T.empty(input.shape, torch.bool, strides)
    n, dtype, taken = input.numel(), T.dtype_of(input), default().take(input.numel())
    try:
        launch(distributions.plan_dropout(dtype, n, input.storage_offset(), p, caps()), input, out, mask, draw=taken)
    except BindingTooLarge:

        def part(first, count, offsets):
            return distributions.plan_dropout(dtype, count, offsets[0], p, caps()), taken.after(first)

        launch_ranges((input, out, mask), n, part)
    return out, mask
