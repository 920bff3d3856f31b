"""The parts of a batch norm whose statistics are of several processes' batches: what nn.SyncBatchNorm calls."""

import torch

from ..table import custom
from .norm import _other_dims, _over

_HALVES = (torch.float16, torch.bfloat16)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in _HALVES else x


@custom("batch_norm_stats")
def batch_norm_stats(input, eps):
    var, mean = torch.var_mean(_wide(input), _other_dims(input), correction=0)
    return mean, torch.rsqrt(var + eps)


@custom("batch_norm_gather_stats_with_counts", writes=("running_mean", "running_var"))
def batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts):
    counts = counts.to(mean.dtype).unsqueeze(1)
    total = counts.sum()
    whole = (mean * counts).sum(0) / total
    squares = ((invstd.square().reciprocal() - eps + (mean - whole).square()) * counts).sum(0)
    if running_mean is not None:
        running_mean.lerp_(whole.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((squares / (total - 1)).to(running_var.dtype), momentum)
    return whole, torch.rsqrt(squares / total + eps)


@custom("batch_norm_gather_stats", writes=("running_mean", "running_var"))
def batch_norm_gather_stats(input, mean, invstd, running_mean, running_var, momentum, eps, count):
    counts = torch.full((mean.shape[0],), float(count), dtype=mean.dtype, device=mean.device)
    return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts)


@custom("batch_norm_elemt")
def batch_norm_elemt(input, weight, bias, mean, invstd, eps):
    scale = invstd if weight is None else invstd * _wide(weight)
    normal = (_wide(input) - _over(mean, input)) * _over(scale, input)
    return (normal if bias is None else normal + _over(_wide(bias), input)).to(input.dtype)


@custom("batch_norm_backward_reduce")
def batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g):
    dims, grad = _other_dims(input), _wide(grad_out)
    sums = grad.sum(dims)
    products = (grad * (_wide(input) - _over(mean, input))).sum(dims)
    kept = input.dtype if weight is None else weight.dtype
    dw = (products * invstd).to(kept) if weight_g else None
    db = sums.to(kept, copy=True) if bias_g else None
    return sums if input_g else None, products if input_g else None, dw, db


@custom("batch_norm_backward_elemt")
def batch_norm_backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    total = count.sum().to(mean.dtype)
    along = sum_dy_xmu / total * invstd.square()
    scale = invstd if weight is None else invstd * _wide(weight)
    centred = _wide(grad_out) - _over(sum_dy / total, input) - (_wide(input) - _over(mean, input)) * _over(along, input)
    return (centred * _over(scale, input)).to(input.dtype)
