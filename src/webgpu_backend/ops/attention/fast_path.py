"""What PyTorch's fast path of transformer layers calls, and other small operators made of the table's."""

import threading

import torch

from ..reduce.operators import aminmax
from ..table import custom


@custom("_masked_softmax")
def masked_softmax(self, mask, dim=None, mask_type=None):
    """True in the mask leaves an element out. A mask of one dimension pair is [queries, keys] (type 0) or [batch, keys]
    (type 1)."""
    if mask.dtype != torch.bool:
        raise RuntimeError("Mask should be a boolean tensor")
    if mask.shape != self.shape:
        if mask_type is None:
            raise RuntimeError("Mask Type should be defined")
        batch, _, queries, keys = self.shape
        mask = mask.view(1, 1, queries, keys) if mask_type == 0 else mask.view(batch, 1, 1, keys)
    return self.masked_fill(mask, float("-inf")).softmax(self.dim() - 1 if dim is None else dim)


@custom("_masked_softmax_backward")
def masked_softmax_backward(grad_output, output, mask, dim=None):
    grad = torch._softmax_backward_data(grad_output, output, output.dim() - 1 if dim is None else dim, output.dtype)
    return grad.masked_fill(mask.expand(grad.shape) if mask.dim() == grad.dim() else mask, 0)


@custom("_transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(qkv, qkv_bias, num_heads):
    batch, length, width = qkv.shape
    each = width // (3 * num_heads)
    q, k, v = (qkv + qkv_bias).view(batch, length, 3, num_heads, each).permute(2, 0, 3, 1, 4).unbind()
    return (q * each**-0.5).contiguous(), k.contiguous(), v.contiguous()


class _Asked(threading.local):
    """What this thread's encoder asked last: see `frontend.integrations.encoder`."""

    keep: torch.Tensor | None = None


ASKED = _Asked()


@custom("_nested_tensor_from_mask_left_aligned", planned=False)
def nested_tensor_from_mask_left_aligned(t, mask):
    """No: there are no nested tensors here, and the encoder's layers see the padding, masked."""
    ASKED.keep = mask
    return False


@custom("_masked_scale")
def masked_scale(self, mask, scale):
    return self * (mask.to(self.dtype) * scale)


@custom("_aminmax")
def aminmax_all(self):
    return aminmax(self)


@custom("_aminmax.dim")
def aminmax_dim(self, dim, keepdim=False):
    return aminmax(self, dim=dim, keepdim=keepdim)


# -- assertions: the host waits for the value, as on the CPU


@custom("_assert_async")
def assert_async(self):
    assert_async_msg(self, "Expected Tensor with single nonzero value, but got zero")


@custom("_assert_async.msg")
def assert_async_msg(self, assert_msg):
    if self.numel() != 1:
        how = "no values" if not self.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {how} is ambiguous")
    if not self.item():
        raise RuntimeError(assert_msg)


@custom("_functional_assert_async.msg")
def functional_assert_async(self, assert_msg, dep_token):
    assert_async_msg(self, assert_msg)
    return dep_token.clone()


# -- forward-mode derivatives of glu


def _halves(x: torch.Tensor, dim: int):
    return x.chunk(2, dim)


@custom("glu_jvp")
def glu_jvp(glu, x, dx, dim):
    (_, b), (da, db) = _halves(x, dim), _halves(dx, dim)
    gate = b.sigmoid()
    return da * gate + glu * (db - gate * db)


@custom("glu_backward_jvp")
def glu_backward_jvp(grad_x, grad_glu, x, dgrad_glu, dx, dim):
    (a, b), (da, db) = _halves(x, dim), _halves(dx, dim)
    gate = b.sigmoid()
    slope = gate * (1 - gate)
    left = dgrad_glu * gate + grad_glu * slope * db
    right = dgrad_glu * a * slope + grad_glu * (da * slope + a * slope * (1 - 2 * gate) * db)
    return torch.cat([left, right], dim)
