"""scaled_dot_product_attention: the fused kernels where they apply, torch's own composite elsewhere."""

import math

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.attention import plans
from ...kernels.attention.epilogue import After
from ...kernels.attention.single import MAX_HEAD, Mask, Shape, Strides
from ...kernels.layout import strides_in
from ...plan import caps, launch, planned
from ..matmul.product import matrix
from ..random.streams import default
from ..shape.copy import fill, memory_order
from ..table import apart, custom, traced

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Scores up to this many are cheaper as products on a software adapter, which has no use for workgroup memory.
SMALL_SCORES = {"gpu": 0, "cpu": 1 << 24}


BY_HEADS = (0, 1, 2, 3)
_LAYOUTS = (BY_HEADS, (0, 2, 1, 3), (2, 0, 1, 3))  # that are looked for where sizes are symbols


def where_rows(x: torch.Tensor) -> Strides:
    return Strides(x.storage_offset(), *x.stride()[:3])


def grouped(x: torch.Tensor) -> bool:
    """Whether its rows can be read in groups of four elements as they lie."""
    *outer, inner = x.stride()
    return inner == 1 and not any([n % 4 for n in (x.storage_offset(), *outer)])


def ready(x: torch.Tensor) -> torch.Tensor:
    """Rows of four-element groups; a copy only where the layout forbids that."""
    if grouped(x):
        return x
    return x.clone(memory_format=torch.contiguous_format)  # contiguous() would leave a tensor where its storage has it


def where_mask(mask: torch.Tensor | None, shape: Shape) -> tuple[torch.Tensor | None, Mask | None]:
    if mask is None:
        return None, None
    full = (shape.batch, shape.heads, shape.l, shape.s)
    lead = (1,) * (4 - mask.dim())
    sizes, strides = (*lead, *mask.shape), (*lead, *mask.stride())
    if any(size not in (1, wanted) for size, wanted in zip(sizes, full)):
        mask.expand(full)  # raises
    strides = [0 if size == 1 else stride for size, stride in zip(sizes, strides)]
    return mask, Mask(T.dtype_of(mask), mask.storage_offset(), *strides)


def _shape(q, k, v) -> Shape:
    return Shape(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3])


@planned
def forward(
    q, k, v, mask, causal: bool, scale: float, dropout: float, draw, order: tuple = BY_HEADS, after: str = "",
    other=None, dtype: torch.dtype | None = None,
):  # fmt: skip
    """Four-dimensional operands; returns the output, whose dimensions lie in this order, and the rows' log-sum-exp, in
    powers of two. `after` is what a graph has done to the output: statements over an element r and one of `other`, d,
    which is broadcast; the output has this `dtype` then."""
    q, k, v = ready(q), ready(k), ready(v)
    shape = _shape(q, k, v)
    mask, how = where_mask(mask, shape)
    sizes = (*q.shape[:3], shape.v)
    out = T.empty(sizes, dtype or q.dtype, strides_in(sizes, order))
    operands = {"q": where_rows(q), "k": where_rows(k), "v": where_rows(v), "out": where_rows(out)}
    lse = T.empty(q.shape[:3], torch.float32)
    end = None
    if after:
        b, h, r, c = (0,) * 4 if other is None else other.expand(sizes).stride()
        end = After(after, T.dtype_of(out), None if other is None else matrix(other, r, c, b, h))
    plan = plans.plan_forward(shape, T.dtype_of(q), operands, how, causal, scale, dropout, caps(), end)
    launch(plan, q, k, v, mask, lse, out, other, draw=draw)
    return out, lse


@planned
def backward(
    grad, q, k, v, mask, out, lse, causal: bool, scale: float, dropout: float, draw, wanted: tuple, together: bool
):
    """Gradients of q, k and v; `wanted` says which. `together`: one kernel, in which dq is summed in any order."""
    q, k, v, grad, out = ready(q), ready(k), ready(v), ready(grad), ready(out)
    shape = _shape(q, k, v)
    mask, how = where_mask(mask, shape)
    dtype = T.dtype_of(q)
    operands = {
        "q": where_rows(q),
        "k": where_rows(k),
        "v": where_rows(v),
        "g": where_rows(grad),
        "out": where_rows(out),
    }
    dq = dk = dv = None
    both = wanted[1] or wanted[2]
    if both:
        dk, dv = T.empty(k.shape, k.dtype), T.empty(v.shape, v.dtype)
    fused = wanted[0] and both and together and not dropout and plans.fuses(shape, dtype, scale, caps())
    if fused:
        dq = fill(T.empty(q.shape, torch.float32), 0)
    elif wanted[0]:
        dq = T.empty(q.shape, q.dtype)
    plan = plans.plan_backward(shape, dtype, operands, how, causal, scale, dropout, (wanted[0], both), fused, caps())
    launch(plan, q, k, v, grad, mask, out, lse, dq, dk, dv, draw=draw)
    return dq.to(q.dtype) if fused else dq, dk, dv


class Attention(torch.autograd.Function):
    """The fused kernels with their gradient; a gradient of that is torch's, through the composed formula."""

    @staticmethod
    def forward(ctx, q, k, v, mask, *rest):
        out, lse = forward(q, k, v, mask, *rest)
        ctx.save_for_backward(q, k, v, mask, out, lse)
        ctx.causal, ctx.scale, ctx.dropout, ctx.draw, _ = rest
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    def backward(ctx, grad):
        if grad is None:  # nothing was asked of it: zeros would be NaN behind the root of 0
            return (None,) * len(ctx.needs_input_grad)
        q, k, v, mask, out, lse = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            if ctx.dropout:
                raise NotImplementedError("webgpu: the second derivative of attention with dropout")
            return (*_twice_differentiable(grad, q, k, v, mask, ctx.causal, ctx.scale, wanted), *[None] * 6)
        with torch.no_grad():
            together = not torch.are_deterministic_algorithms_enabled()
            rest = (ctx.causal, ctx.scale, ctx.dropout, ctx.draw, wanted, together)
            return (*backward(grad, q, k, v, mask, out, lse, *rest), *[None] * 6)


class Products(torch.autograd.Function):
    """Few scores of a narrow dtype, as products of float32 that round where PyTorch's fused kernel for the CPU does:
    weights, relative to their row's largest, before they meet v; the output before it meets its gradient."""

    @staticmethod
    def forward(ctx, q, k, v, mask, causal, scale):
        wide_q, wide_k, wide_v = _wide(q, k, v)
        scores = (wide_q * scale) @ wide_k.mT
        allowed = mask
        if causal:
            allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        if allowed is not None:
            narrow = allowed.dtype != torch.bool
            scores = scores + allowed.float() if narrow else scores.masked_fill(~allowed, -math.inf)
        weights = torch._safe_softmax(scores, -1)
        most = weights.amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        out = ((weights / most).to(q.dtype).float() @ wide_v).mul_(most).to(q.dtype)
        ctx.save_for_backward(q, k, v, mask, out, weights)
        ctx.causal, ctx.scale = causal, scale
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    def backward(ctx, grad):
        if grad is None:
            return (None,) * len(ctx.needs_input_grad)
        q, k, v, mask, out, weights = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            return (*_twice_differentiable(grad, q, k, v, mask, ctx.causal, ctx.scale, wanted), *[None] * 3)
        dtype, groups = q.dtype, q.shape[-3] // k.shape[-3]
        wide_q, wide_k, wide_v = _wide(q, k, v)
        grad = grad.float()
        dq = dk = dv = None
        if wanted[0] or wanted[1]:
            delta = (grad * out).sum(-1, keepdim=True)
            scores = (grad @ wide_v.mT).sub_(delta).mul_(weights)
        if wanted[0]:
            dq = (scores @ wide_k).mul_(ctx.scale).to(dtype)
        if wanted[1]:
            dk = _ungrouped(scores.mT @ wide_q, groups).mul_(ctx.scale).to(dtype)
        if wanted[2]:
            dv = _ungrouped(weights.mT @ grad, groups).to(dtype)
        return (dq, dk, dv, *[None] * 3)


def _wide(q, k, v) -> list[torch.Tensor]:
    groups = q.shape[-3] // k.shape[-3]
    return [q.float(), *[t.float().repeat_interleave(groups, -3) if groups > 1 else t.float() for t in (k, v)]]


def _ungrouped(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Gradients of heads that several queries' heads share."""
    return x.unflatten(-3, (-1, groups)).sum(-3) if groups > 1 else x


def _twice_differentiable(grad, q, k, v, mask, causal, scale, wanted) -> list[torch.Tensor | None]:
    """Gradients that have gradients."""
    q, k, v = (x.view_as(x) for x in (q, k, v))  # one tensor may be all three
    inputs = [x for x, w in zip((q, k, v), wanted) if w]
    grads = iter(torch.autograd.grad(_composed(q, k, v, mask, causal, scale), inputs, grad, create_graph=True))
    return [next(grads) if w else None for w in wanted]


def _composed(q, k, v, mask, causal, scale):
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask.logical_not(), -math.inf)
    shared = q.shape[-3] != k.shape[-3]
    return torch.ops.aten._scaled_dot_product_attention_math(
        q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=shared
    )[0]


def _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa) -> None:
    """Raises Unsupported for what torch's composite takes, which also words the errors."""
    q, k, v, dtype = query.shape, key.shape, value.shape, query.dtype
    same = dtype is key.dtype is value.dtype and dtype in _DTYPES
    if not same or min(len(q), len(k), len(v)) < 3 or not 0.0 <= dropout_p <= 1.0:
        raise Unsupported("webgpu: attention with mixed dtypes or fewer than three dimensions")
    if 0 in q or 0 in k or 0 in v or any([t.device.type != T.NAME for t in (query, key, value)]):
        raise Unsupported("webgpu: attention over nothing, or over two devices")
    e = q[-1]
    if e % 4 or v[-1] % 4 or max(e, v[-1]) > MAX_HEAD or k[-1] != e or k[-2] != v[-2]:
        raise Unsupported("webgpu: attention heads of this size")
    if k[:-3] != q[:-3] or v[:-3] != q[:-3]:
        raise Unsupported("webgpu: attention with broadcast batches")
    if k[-3] != v[-3] or (q[-3] != k[-3] and (not enable_gqa or q[-3] % k[-3])):
        raise Unsupported("webgpu: attention with these heads")
    if attn_mask is not None:
        known = attn_mask.dtype in (torch.bool, query.dtype) and attn_mask.device.type == T.NAME
        if not known or is_causal or attn_mask.requires_grad or attn_mask.dim() > 4 or query.dim() > 4:
            raise Unsupported("webgpu: attention with this mask")


def _order(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa) -> tuple[int, ...]:
    """Dimensions of the result, outermost first: torch's fused kernel for the CPU lays it out as the queries lie, and
    what that leaves to the composite lies by heads. Models take rows apart from heads without a copy then."""
    q, k, v, given = query.shape, key.shape, value.shape, (query, key, value)
    if dropout_p or any([t.dim() != 4 or t.dtype is not query.dtype or t.stride(-1) != 1 for t in given]):
        return BY_HEADS
    shared = q[1] == k[1] or (enable_gqa and q[1] % k[1] == 0)
    if 0 in q or 0 in k or not shared or k != v or q[0] != k[0] or q[3] != k[3] or not query.is_floating_point():
        return BY_HEADS
    if attn_mask is not None and (is_causal or attn_mask.requires_grad or attn_mask.dim() not in (2, 4)):
        return BY_HEADS
    if any([isinstance(s, torch.SymInt) for s in (*q, *query.stride())]):
        return next((order for order in _LAYOUTS if _lie(query, order)), BY_HEADS)
    single, lies = [d for d in range(4) if q[d] == 1], [d for d in memory_order(query) if q[d] != 1]
    return BY_HEADS if lies == sorted(lies) else (*single, *lies)


def _lie(query, order) -> bool:
    strides = [query.stride(d) for d in order]
    return all([a >= b for a, b in zip(strides, strides[1:])])


def _laid(out: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    if order == BY_HEADS:
        return out
    return out.permute(order).contiguous().permute([order.index(d) for d in range(4)])


def _small(query, key) -> bool:
    """Few scores, which are cheaper as products."""
    return query.numel() // query.shape[-1] * key.shape[-2] <= SMALL_SCORES[caps().kind]


def _have_kernels(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, order) -> bool:
    """False where the composite is to be laid out as the queries are; Unsupported where it is right as it comes."""
    try:
        _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        if _small(query, key) and (query.dtype == torch.float32 or dropout_p):
            raise Unsupported("webgpu: few scores are cheaper as products")
    except Unsupported:
        if order == BY_HEADS:
            raise
        return False
    return True


def _differentiable(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    order = _order(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if not _have_kernels(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, order):
        return _laid(_composed(query, key, value, attn_mask, is_causal, scale), order)
    e = query.shape[-1]
    wanted = 1.0 / math.sqrt(e) if scale is None else float(scale)
    flat = [_four(t) for t in (query, key, value)]
    if _small(query, key):
        if query.dim() == 4:
            return _laid(Products.apply(*flat, attn_mask, is_causal, wanted), order)
        return _wide_products(query, key, value, attn_mask, is_causal, scale)
    draw = _draw(dropout_p)
    out = Attention.apply(*flat, attn_mask, is_causal, wanted, dropout_p, draw, order)
    return out if query.dim() == 4 else out.reshape(*query.shape[:-1], value.shape[-1])


def _draw(dropout_p: float):
    """For one call alone: see DROPOUT in the kernels."""
    return default().take(4) if dropout_p else None


def _wide_products(query, key, value, attn_mask, is_causal, scale):
    """Products of narrow dtypes would round the scores: as wide as the fused kernels compute."""
    wide = [t.float() for t in (query, key, value)]
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        attn_mask = attn_mask.float()
    return _composed(*wide, attn_mask, is_causal, scale).to(query.dtype)


@custom("scaled_dot_product_attention", gradient=_differentiable, autocast="lower")
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    order = _order(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if not _have_kernels(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, order):
        return _laid(_composed(query, key, value, attn_mask, is_causal, scale), order)
    if _small(query, key):
        return _laid(_wide_products(query, key, value, attn_mask, is_causal, scale), order)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    flat = [_four(t) for t in (query, key, value)]
    out, _ = forward(*flat, attn_mask, is_causal, scale, dropout_p, _draw(dropout_p), order)
    return out if query.dim() == 4 else out.reshape(*query.shape[:-1], value.shape[-1])


def _four(t: torch.Tensor) -> torch.Tensor:
    if t.is_neg():
        t = t.resolve_neg()
    return t if t.dim() == 4 else t.reshape(-1, *t.shape[-3:])


# -- in graphs: operators of our own, with the kernels' outputs as they lie

_library = torch.library.Library("webgpu_backend", "DEF")
_ANY_STRIDES = (torch.Tag.flexible_layout,)
_library.define(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale, int[4] order) -> (Tensor, Tensor)",
    tags=_ANY_STRIDES,
)
_library.define(
    "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor out, Tensor lse, bool causal, "
    "float scale) -> (Tensor, Tensor, Tensor)",
    tags=_ANY_STRIDES,
)
_ours = torch.ops.webgpu_backend


@torch.library.impl(_library, "attention", "PrivateUse1")
def _attention(q, k, v, mask, causal, scale, order):
    return forward(q, k, v, mask, causal, scale, 0.0, None, tuple(order))


@torch.library.impl(_library, "attention_backward", "PrivateUse1")
def _attention_backward(grad, q, k, v, mask, out, lse, causal, scale):
    together = not torch.are_deterministic_algorithms_enabled()
    return backward(grad, q, k, v, mask, out, lse, causal, scale, 0.0, None, (True, True, True), together)


@torch.library.register_fake("webgpu_backend::attention", lib=_library)
def _attention_shapes(q, k, v, mask, causal, scale, order):
    sizes = (*q.shape[:3], v.shape[3])
    out = q.new_empty([sizes[d] for d in order]).permute([order.index(d) for d in range(4)])
    return out, q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.register_fake("webgpu_backend::attention_backward", lib=_library)
def _attention_backward_shapes(grad, q, k, v, mask, out, lse, causal, scale):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _attention_saves(ctx, inputs, output):
    q, k, v, mask, ctx.causal, ctx.scale, _ = inputs
    ctx.save_for_backward(q, k, v, mask, *output)


def _attention_gradient(ctx, grad, _):
    found = _ours.attention_backward(grad, *ctx.saved_tensors, ctx.causal, ctx.scale)
    return (*found, None, None, None, None)


torch.library.register_autograd(
    "webgpu_backend::attention", _attention_gradient, setup_context=_attention_saves, lib=_library
)


@traced("scaled_dot_product_attention")
def traced_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if dropout_p or query.dim() != 4 or _small(query, key):
        raise Unsupported("webgpu: a graph has torch's own attention here")
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    order = _order(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    return _ours.attention(query, key, value, attn_mask, is_causal, scale, order)[0]


@apart("scaled_dot_product_attention")
def attention_apart(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    symbols = [s for t in (query, key, value) for s in t.shape if isinstance(s, torch.SymInt)]
    if any([not s.node.has_hint() for s in symbols]):
        raise Unsupported("webgpu: attention over sizes that follow from values")
    order = _order(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if order == BY_HEADS:
        raise Unsupported("webgpu: torch's composite lies by heads")
    return _laid(_composed(query, key, value, attn_mask, is_causal, scale), order)
