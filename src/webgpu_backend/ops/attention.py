"""scaled_dot_product_attention: the fused kernels where they apply, torch's own composite elsewhere."""

import math

import torch

from .. import tensor as T
from ..dtypes import Unsupported
from ..kernels.attention import MAX_HEAD, Mask, Shape, Strides, plan, plan_delta
from ..launch import caps, launch
from .table import custom

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Scores up to this many are cheaper as products on a software adapter, which has no use for workgroup memory.
SMALL_SCORES = {"gpu": 0, "cpu": 1 << 24}
_steps: dict[tuple, tuple] = {}


def _planned(key: tuple, make):
    found = _steps.get(key)
    if found is None:
        if len(_steps) > 4096:
            _steps.clear()
        found = _steps[key] = make()
    return found


def _strides(x: torch.Tensor) -> Strides:
    return Strides(x.storage_offset(), *x.stride()[:3])


def _ready(x: torch.Tensor) -> torch.Tensor:
    """Rows of four-element groups; a copy only where the layout forbids that."""
    b, h, r, e = x.stride()
    if e == 1 and not (b % 4 or h % 4 or r % 4 or x.storage_offset() % 4):
        return x
    return x.contiguous()


def _mask(mask: torch.Tensor | None, shape: Shape) -> tuple[torch.Tensor | None, Mask | None]:
    if mask is None:
        return None, None
    wide = mask.expand(shape.batch, shape.heads, shape.l, shape.s)
    return mask, Mask(T.dtype_of(mask), mask.storage_offset(), *wide.stride())


def _shape(q, k, v) -> Shape:
    return Shape(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3])


def forward(q, k, v, mask, causal: bool, scale: float):
    """Four-dimensional operands; returns the output and the rows' log-sum-exp."""
    q, k, v = _ready(q), _ready(k), _ready(v)
    shape = _shape(q, k, v)
    mask, how = _mask(mask, shape)
    operands = {"q": _strides(q), "k": _strides(k), "v": _strides(v)}
    key = ("forward", q.dtype, shape, *operands.values(), how, causal, scale)
    step = _planned(key, lambda: plan("forward", shape, T.dtype_of(q), operands, how, causal, scale, caps()))
    out = T.empty((*q.shape[:3], shape.v), q.dtype)
    lse = T.empty(q.shape[:3], torch.float32)
    tensors = (q, k, v, lse, out) if mask is None else (q, k, v, mask, lse, out)
    launch(step.program, tensors, step.params, step.grid)
    return out, lse


def backward(grad, q, k, v, mask, out, lse, causal: bool, scale: float, wanted):
    """Gradients of q, k and v; `wanted` says which."""
    q, k, v, grad = _ready(q), _ready(k), _ready(v), _ready(grad)
    shape = _shape(q, k, v)
    mask, how = _mask(mask, shape)
    dtype = T.dtype_of(q)
    operands = {"q": _strides(q), "k": _strides(k), "v": _strides(v), "g": _strides(grad)}
    key = (q.dtype, shape, *operands.values(), how, causal, scale)
    stats = T.empty((2, *lse.shape), torch.float32)
    step = _planned(("delta", *key), lambda: plan_delta(shape, dtype, operands["g"], caps()))
    launch(step.program, (grad, out, lse, stats), step.params, step.grid)
    inputs = (q, k, v, grad, stats) if mask is None else (q, k, v, grad, mask, stats)
    dq = dk = dv = None
    if wanted[0]:
        step = _planned(("queries", *key), lambda: plan("queries", shape, dtype, operands, how, causal, scale, caps()))
        dq = T.empty(q.shape, q.dtype)
        launch(step.program, (*inputs, dq), step.params, step.grid)
    if wanted[1] or wanted[2]:
        step = _planned(("keys", *key), lambda: plan("keys", shape, dtype, operands, how, causal, scale, caps()))
        dk, dv = T.empty(k.shape, k.dtype), T.empty(v.shape, v.dtype)
        launch(step.program, (*inputs, dk, dv), step.params, step.grid)
    return dq, dk, dv


class Attention(torch.autograd.Function):
    """The fused kernels with their gradient; a gradient of that is torch's, through the composed formula."""

    @staticmethod
    def forward(ctx, q, k, v, mask, causal, scale):
        out, lse = forward(q.detach(), k.detach(), v.detach(), mask, causal, scale)
        ctx.save_for_backward(q, k, v, mask, out, lse)
        ctx.causal, ctx.scale = causal, scale
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, mask, out, lse = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            inputs = [x for x, w in zip((q, k, v), wanted) if w]
            grads = iter(torch.autograd.grad(_composed(q, k, v, mask, ctx.causal, ctx.scale), inputs, grad,
                                             create_graph=True))  # fmt: skip
            return (*[next(grads) if w else None for w in wanted], None, None, None)
        with torch.no_grad():
            return (*backward(grad, q, k, v, mask, out, lse, ctx.causal, ctx.scale, wanted), None, None, None)


def _composed(q, k, v, mask, causal, scale):
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask.logical_not(), -math.inf)
    shared = q.shape[-3] != k.shape[-3]
    return torch.ops.aten._scaled_dot_product_attention_math(
        q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=shared
    )[0]


def _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa) -> None:
    """Raises Unsupported for what torch's composite takes, which also words the errors."""
    tensors = (query, key, value)
    if torch._C._are_functorch_transforms_active():
        raise Unsupported("webgpu: transforms see torch's composite")
    if dropout_p or any(t.dtype not in _DTYPES or t.dtype != query.dtype or t.dim() < 3 for t in tensors):
        raise Unsupported("webgpu: attention with dropout, mixed dtypes or fewer than three dimensions")
    if any(t.device.type != T.NAME or t.numel() == 0 for t in tensors):
        raise Unsupported("webgpu: attention over nothing, or over two devices")
    e, v = query.shape[-1], value.shape[-1]
    if e % 4 or v % 4 or max(e, v) > MAX_HEAD or key.shape[-1] != e or key.shape[-2] != value.shape[-2]:
        raise Unsupported("webgpu: attention heads of this size")
    lead = query.shape[:-3]
    if key.shape[:-3] != lead or value.shape[:-3] != lead or query.dim() < 3:
        raise Unsupported("webgpu: attention with broadcast batches")
    heads = [t.shape[-3] for t in tensors]
    if heads[1] != heads[2] or (heads[0] != heads[1] and (not enable_gqa or heads[0] % heads[1])):
        raise Unsupported("webgpu: attention with these heads")
    if attn_mask is not None:
        known = attn_mask.dtype in (torch.bool, query.dtype) and attn_mask.device.type == T.NAME
        if not known or is_causal or attn_mask.requires_grad or attn_mask.dim() > 4 or query.dim() > 4:
            raise Unsupported("webgpu: attention with this mask")


@custom("scaled_dot_product_attention")
@custom("scaled_dot_product_attention", key="AutogradPrivateUse1")
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    e = query.shape[-1]
    if query.numel() // e * key.shape[-2] <= SMALL_SCORES[caps().kind]:
        if query.dtype == torch.float32:
            raise Unsupported("webgpu: few scores are cheaper as products")
        # Products of narrow dtypes would round the scores: as wide as the fused kernels compute.
        wide = [t.float() for t in (query, key, value)]
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            attn_mask = attn_mask.float()
        return _composed(*wide, attn_mask, is_causal, scale).to(query.dtype)
    scale = 1.0 / math.sqrt(e) if scale is None else float(scale)
    flat = [t.resolve_neg().reshape(-1, *t.shape[-3:]) for t in (query, key, value)]
    needs = torch.is_grad_enabled() and any(t.requires_grad for t in flat)
    if needs:
        out = Attention.apply(*flat, attn_mask, is_causal, scale)
    else:
        out, _ = forward(*flat, attn_mask, is_causal, scale)
    return out.reshape(*query.shape[:-1], value.shape[-1])
