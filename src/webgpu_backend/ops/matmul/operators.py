"""Matrix products: mm, bmm and their relatives, linear and its backward, all through one planned product."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.layout import View, broadcast_strides, collapse
from ...kernels.matmul.product import Matrix, Product
from ...plan import constant, planned
from ..by_index import meta_results
from ..pointwise.elementwise import _scalar_name, broadcast_shape, resize_output
from ..shape.copy import device_copy, fill
from ..table import autocast, custom
from .product import addend, check_factors, matching, matrix, multiply, output, refuse, supported

aten = torch.ops.aten
_COMPOSITE = torch._C.DispatchKey.CompositeExplicitAutograd


# -- two matrices


@custom("mm", conj="resolve", autocast="lower")
def mm(self, mat2):
    supported(self, mat2)
    if self.dim() != 2 or mat2.dim() != 2 or self.shape[1] != mat2.shape[0] or not matching(self, mat2):
        refuse(aten.mm.default, self, mat2)
    return multiply((self.shape[0], mat2.shape[1]), self.dtype, _two(self, mat2), self, mat2)


def _two(a, b, dtype: torch.dtype | None = None, **rest) -> Product:
    (m, k), n, dtype = a.shape, b.shape[1], dtype or a.dtype
    return Product(m, n, k, matrix(a, *a.stride()), matrix(b, b.stride(1), b.stride(0)), output(dtype, m, n), **rest)


@custom("addmm", conj="resolve", autocast="lower")
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    return _addmm(self, mat1, mat2, beta, alpha, "")


@custom("_addmm_activation")
def addmm_activation(self, mat1, mat2, *, beta=1, alpha=1, use_gelu=False):
    return _addmm(self, mat1, mat2, beta, alpha, "gelu" if use_gelu else "relu")


def _addmm(self, mat1, mat2, beta, alpha, act, dtype: torch.dtype | None = None):
    supported(self, mat1, mat2)
    fits = mat1.dim() == 2 and mat2.dim() == 2 and mat1.shape[1] == mat2.shape[0]
    dtype = dtype or mat1.dtype
    if not fits or not matching(mat1, mat2) or self.dtype != dtype:
        refuse(aten.addmm.default, self, mat1, mat2, beta=beta, alpha=alpha)
    shape = (mat1.shape[0], mat2.shape[1])
    if self.dim() > 2:
        refuse(aten.addmm.default, self, mat1, mat2, beta=beta, alpha=alpha)
    c = addend(self, shape) if beta != 0 else None
    product = _two(mat1, mat2, dtype, c=c, alpha=alpha, beta=beta, act=act)
    out = multiply(shape, dtype, product, mat1, mat2, self if beta != 0 else None)
    if act and not product.k:
        return torch.relu(out) if act == "relu" else torch.nn.functional.gelu(out)
    return out


# -- batches


@custom("bmm", conj="resolve", autocast="lower")
def bmm(self, mat2):
    supported(self, mat2)
    if not _batches(self, mat2):
        refuse(aten.bmm.default, self, mat2)
    return _batched(self, mat2)


@custom("baddbmm", conj="resolve", autocast="lower")
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    supported(self, batch1, batch2)
    if not _batches(batch1, batch2) or not matching(self, batch1):
        refuse(aten.baddbmm.default, self, batch1, batch2, beta=beta, alpha=alpha)
    shape = (batch1.shape[0], batch1.shape[1], batch2.shape[2])
    c = addend(self, shape) if beta != 0 else None
    return _batched(batch1, batch2, self, c=c, alpha=alpha, beta=beta)


@custom("addbmm", autocast="lower")
def addbmm(self, batch1, batch2, *, beta=1, alpha=1):
    supported(self, batch1, batch2)
    if not _batches(batch1, batch2) or not matching(self, batch1):
        refuse(aten.addbmm.default, self, batch1, batch2, beta=beta, alpha=alpha)
    shape = (batch1.shape[1], batch2.shape[2])
    if self.dtype in (torch.float16, torch.bfloat16):
        return _add_each(self.expand(shape), batch1, batch2, beta, alpha)
    c = addend(self, shape) if beta != 0 else None
    return _batched(batch1, batch2, self, c=c, alpha=alpha, beta=beta, summed=True)


def _add_each(c, a, b, beta, alpha):
    """As torch defines it for narrow dtypes: the sum is rounded after every matrix."""
    for x, y in zip(a.unbind(), b.unbind()):
        c, beta = addmm(c, x, y, beta=beta, alpha=alpha), 1
    if len(a):
        return c
    return c * beta if beta else torch.zeros_like(c)


def _batches(a, b) -> bool:
    return (
        a.dim() == 3 and b.dim() == 3 and a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1] and a.dtype == b.dtype
    )


def _batched(a, b, added=None, c=None, summed=False, dtype: torch.dtype | None = None, **rest) -> torch.Tensor:
    """`added` is the tensor that `c` describes."""
    (batch, m, k), n, dtype = a.shape, b.shape[2], dtype or a.dtype
    (a0, a1, a2), (b0, b1, b2) = a.stride(), b.stride()
    product = Product(
        m, n, k, matrix(a, a1, a2, 0, a0), matrix(b, b2, b1, 0, b0), output(dtype, m, n, batch),
        c=c, inner=batch, summed=summed, **rest,
    )  # fmt: skip
    return multiply((m, n) if summed else (batch, m, n), dtype, product, a, b, None if c is None else added)


# -- vectors


@custom("mv", autocast="lower")
def mv(self, vec):
    supported(self, vec)
    if self.dim() != 2 or vec.dim() != 1 or self.shape[1] != vec.shape[0] or not matching(self, vec):
        refuse(aten.mv.default, self, vec)
    return multiply((self.shape[0],), self.dtype, _row(self, vec), self, vec)


def _row(a, v, **rest) -> Product:
    m, k = a.shape
    return Product(m, 1, k, matrix(a, *a.stride()), matrix(v, 0, v.stride(0)), output(a.dtype, m, 1), **rest)


@custom("addmv", autocast="lower")
def addmv(self, mat, vec, *, beta=1, alpha=1):
    supported(self, mat, vec)
    fits = mat.dim() == 2 and vec.dim() == 1 and mat.shape[1] == vec.shape[0] and self.dim() <= 1
    if not fits or not matching(mat, vec) or not matching(self, mat):
        refuse(aten.addmv.default, self, mat, vec, beta=beta, alpha=alpha)
    c = None
    if beta != 0:
        c = matrix(self, self.expand((mat.shape[0],)).stride(0), 0)
    product = _row(mat, vec, c=c, alpha=alpha, beta=beta)
    return multiply((mat.shape[0],), mat.dtype, product, mat, vec, self if beta != 0 else None)


@custom("dot", conj="resolve", autocast="widest")
def dot(self, tensor):
    supported(self, tensor, kernel="dot")
    _check_dot(self, tensor)
    product = Product(
        1, 1, self.shape[0], matrix(self, 0, self.stride(0)), matrix(tensor, 0, tensor.stride(0)),
        output(self.dtype, 1, 1),
    )  # fmt: skip
    return multiply((), self.dtype, product, self, tensor)


@custom("vdot", conj="resolve", autocast="widest")
def vdot(self, other):
    if self.dtype.is_complex:
        supported(self, other)
        _check_dot(self, other)
    return dot(_conj(self), other)


def _conj(x: torch.Tensor) -> torch.Tensor:
    """The conjugate in memory of its own; a real tensor is its own conjugate."""
    if not x.dtype.is_complex:
        return x
    plain = T.empty(x.shape, x.dtype)
    device_copy(x.conj(), plain)
    return plain


def _check_dot(a, b) -> None:
    if a.dim() != 1 or b.dim() != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.dim()}D and {b.dim()}D tensors")
    if a.dtype != b.dtype:
        names = [
            str(torch.tensor([], dtype=x.dtype, device="cpu").type()).rsplit(".", 1)[-1].removesuffix("Tensor")
            for x in (a, b)
        ]
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {names[0]} and {names[1]}")
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.numel()}] and src [{b.numel()}] to have the same number of "
            f"elements, but got {a.numel()} and {b.numel()} elements respectively"
        )


# -- any ranks


@planned
def _broadcast(a, b):
    supported(a, b)
    if a.shape[-1] != b.shape[-2] or a.dtype != b.dtype:
        raise Unsupported("webgpu: torch's composite words this error")
    shape = broadcast_shape([a.shape[:-2], b.shape[:-2]])
    (m, k), n = a.shape[-2:], b.shape[-1]
    wide = [broadcast_strides(View(None, tuple(x.shape[:-2]), x.stride()[:-2]), shape) for x in (a, b)]
    dims, (sa, sb) = collapse(shape, wide)
    if len(dims) > 2:
        raise Unsupported("webgpu: batches that no two strides describe")
    dims, sa, sb = dims + [1], sa + [0], sb + [0]
    product = Product(
        m, n, k, matrix(a, *a.stride()[-2:], sa[1], sa[0]), matrix(b, b.stride(-1), b.stride(-2), sb[1], sb[0]),
        output(a.dtype, m, n, dims[0]), outer=dims[1], inner=dims[0],
    )  # fmt: skip
    if 0 in shape:
        product = None
    return multiply((*shape, m, n), a.dtype, product, a, b)


def _check_ranks(left: int, right: int) -> None:
    if not left or not right:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {left}D and {right}D")


def differentiable_matmul(self, other):
    """Torch's own formula refuses complex numbers, so the gradient of batches is ours. That of linear's gradient is
    torch's, and refuses them: a complex product with one matrix is left to the composite."""
    left, right = self.dim(), other.dim()
    _check_ranks(left, right)
    if left == 2 and right == 2:
        return torch.mm(self, other)
    if left >= 3 and right >= 3:
        return Batches.apply(*[x.resolve_conj().resolve_neg() for x in (self, other)])
    fits = left >= 3 and right == 2 and self.shape[-1] == other.shape[0] and self.dtype == other.dtype
    if fits and not self.is_complex():
        return torch.nn.functional.linear(self, other.t())
    raise Unsupported("webgpu: matmul of these ranks is torch's composite")


class Batches(torch.autograd.Function):
    """The product of broadcast batches; its gradient is made of such products, so it has one as well."""

    @staticmethod
    def forward(ctx, a, b):
        for_a, for_b = ctx.needs_input_grad  # what is not kept may be written
        ctx.save_for_backward(a if for_b else None, b if for_a else None)
        ctx.sizes = a.shape, b.shape
        ctx.set_materialize_grads(False)
        return _broadcast(a, b)

    @staticmethod
    def backward(ctx, grad):
        if grad is None:
            return None, None
        a, b = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        grad_a = torch.matmul(grad, b.mH).sum_to_size(ctx.sizes[0]) if wanted[0] else None
        grad_b = torch.matmul(a.mH, grad).sum_to_size(ctx.sizes[1]) if wanted[1] else None
        return grad_a, grad_b


@custom("matmul", conj="resolve", gradient=differentiable_matmul, autocast="lower")
def matmul(self, other):
    """Broadcast batches as strides: torch's composite would copy an operand whose batch dimensions do not merge."""
    left, right = self.dim(), other.dim()
    _check_ranks(left, right)
    if left == 2 and right == 2:
        return mm(self, other)
    if left >= 3 and right >= 3:
        return _broadcast(self, other)
    if left >= 3 and right == 2:
        if self.shape[-1] == other.shape[0] and self.dtype == other.dtype:
            return linear(self, other.t())
    elif left == 1 and right == 1:
        return dot(self, other)
    elif left == 2 and right == 1:
        return mv(self, other)
    elif left == 1 and right == 2:
        if self.shape[0] == other.shape[0] and self.dtype == other.dtype:
            return mv(other.t(), self)
    raise Unsupported("webgpu: matmul of these ranks is torch's composite")


# -- linear


def rows_of(x: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int, int], tuple[int, int, int]] | None:
    """All but the last dimension as (outer, inner, rows) with their strides; None where that takes a copy."""
    dims, (strides,) = collapse(x.shape[:-1], [x.stride()[:-1]])
    if len(dims) > 3:
        return None
    dims, strides = dims + [1] * (3 - len(dims)), strides + [0] * (3 - len(strides))
    return (dims[2], dims[1], dims[0]), (strides[2], strides[1], strides[0])


@custom("linear", conj="resolve", autocast="lower")
def linear(input, weight, bias=None):
    supported(input, weight, bias)
    k = weight.shape[-1] if weight.dim() in (1, 2) else -1
    fits = input.dim() > 0 and input.shape[-1] == k and matching(input, weight)
    if not fits or (bias is not None and (bias.dtype != input.dtype or bias.dim() > 1)) or weight.dim() == 1:
        return _composite_linear(input, weight, bias)
    rows = rows_of(input)
    if rows is None:
        return linear(input.contiguous(), weight, bias)
    (outer, inner, m), (so, si, sm) = rows
    n = weight.shape[0]
    c = matrix(bias, 0, bias.expand((n,)).stride(0)) if bias is not None else None
    product = Product(
        m, n, k, matrix(input, sm, input.stride(-1), so, si), matrix(weight, *weight.stride()),
        output(input.dtype, m, n, inner), c, outer, inner,
    )  # fmt: skip
    return multiply((*input.shape[:-1], n), input.dtype, product, input, weight, bias)


def _composite_linear(input, weight, bias):
    """What torch's own linear does, with its errors."""
    if not input.dim() or not weight.dim():
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {input.dim()}D and {weight.dim()}D"
        )
    if bias is not None and (input.dim() == 2 or (input.dim() > 2 and input.is_contiguous())):
        rows = torch.addmm(bias, input.reshape(-1, input.shape[-1]), weight.t())
        return rows.view(*input.shape[:-1], rows.shape[1])
    if input.dim() == 2 and weight.dim() == 2:
        return torch.mm(input, weight.t())
    product = torch.matmul(input, weight.t())
    return product if bias is None else product.add_(bias)


_ones: dict[tuple, torch.Tensor] = {}  # by device and dtype


def column_sums(grad: torch.Tensor) -> torch.Tensor:
    """Sum over all but the last dimension: a product with a row of ones."""
    n = grad.shape[-1]
    rows = rows_of(grad)
    if rows is None:
        return column_sums(grad.contiguous())
    (outer, inner, m), (so, si, sm) = rows
    if outer > 1:
        return column_sums(grad.contiguous())
    one = Matrix(T.dtype_of(grad), 0, 0, 0)
    product = Product(
        1, n, m, one, matrix(grad, grad.stride(-1), sm, so, si), output(grad.dtype, 1, n),
        inner=inner, summed=inner > 1,
    )  # fmt: skip
    return multiply((n,), grad.dtype, product, one_of(grad.dtype), grad)


def one_of(dtype: torch.dtype) -> torch.Tensor:
    """A single one, read with stride 0 as a vector of ones."""
    key = (T.here().index, dtype)
    found = _ones.get(key)
    if found is None:
        found = _ones[key] = constant(lambda: fill(T.empty((1,), dtype), 1))
    return found


@custom("linear_backward", conj="resolve")
def linear_backward(self, grad_output, weight, output_mask):
    supported(self, grad_output, weight)
    grad_input = grad_weight = grad_bias = None
    if weight.dim() == 1:  # a row, whose dimension the result has not; autograd sums the bias' gradient to its size
        wanted = (*output_mask[:2], False)
        grad_input, grad_weight, _ = linear_backward(self, grad_output.unsqueeze(-1), weight.unsqueeze(0), wanted)
        return grad_input, grad_weight.squeeze(0) if output_mask[1] else None, grad_output if output_mask[2] else None
    if output_mask[0]:
        grad_input = linear(grad_output, _conj(weight).t())
    if output_mask[1]:
        grad_weight = weight_gradient(_conj(self), grad_output)
    if output_mask[2]:
        grad_bias = column_sums(grad_output)
    return grad_input, grad_weight, grad_bias


def weight_gradient(x, grad) -> torch.Tensor:
    left, right = rows_of(grad), rows_of(x)
    if left is None or right is None or left[0] != right[0] or left[0][0] > 1:
        return mm(torch.atleast_2d(grad).flatten(0, -2).t(), torch.atleast_2d(x).flatten(0, -2))
    (_, inner, m), (_, gi, gm), (_, xi, xm) = left[0], left[1], right[1]
    n, k = grad.shape[-1], x.shape[-1]
    product = Product(
        n, k, m, matrix(grad, grad.stride(-1), gm, 0, gi), matrix(x, x.stride(-1), xm, 0, xi),
        output(x.dtype, n, k), inner=inner, summed=inner > 1,
    )  # fmt: skip
    return multiply((n, k), x.dtype, product, grad, x)


@custom("addr", autocast="lower")
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    for k, vector in enumerate((vec1, vec2), 1):
        if vector.dim() != 1:
            raise RuntimeError(f"addr: Expected 1-D argument vec{k}, but got {vector.dim()}-D")
    out = torch.promote_types(torch.promote_types(self.dtype, vec1.dtype), vec2.dtype)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, bool) and out is not torch.bool:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if isinstance(factor, (float, complex)) and not (out.is_floating_point or out.is_complex):
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
        if isinstance(factor, complex) and not out.is_complex:
            raise RuntimeError("value cannot be converted to type float without overflow")
    check_factors(out, beta, alpha)
    self.expand(len(vec1), len(vec2))  # or torch says what is wrong with it
    return aten.addr.default._op_dk(_COMPOSITE, self, vec1, vec2, beta=beta, alpha=alpha)


@custom("addr.out")
def addr_out(self, vec1, vec2, *, beta=1, alpha=1, out):
    """Registered because torch's own copies to whatever device `out` is on."""
    result = addr(self, vec1, vec2, beta=beta, alpha=alpha)
    if out.device != result.device:
        raise T.two_devices("aten::addr", out.device, result.device)
    if not torch.can_cast(result.dtype, out.dtype):
        kinds = _scalar_name(result.dtype), _scalar_name(out.dtype)
        raise RuntimeError("result type {} can't be cast to the desired output type {}".format(*kinds))
    resize_output(out, result.shape)
    return device_copy(result, out)


@custom("addr_")
def addr_(self, vec1, vec2, *, beta=1, alpha=1):
    if self.dim() != 2:
        raise RuntimeError(f"2D tensor expected, got {self.dim()}D tensor for input")
    return self.copy_(addr(self, vec1, vec2, beta=beta, alpha=alpha))


@custom("linalg_cross")
def linalg_cross(self, other, *, dim=-1):
    if self.dtype != other.dtype:
        raise RuntimeError(f"expected scalar type {_scalar_name(self.dtype)} but found {_scalar_name(other.dtype)}")
    (meta,) = meta_results(aten.linalg_cross.default, self, other, dim=dim)  # or what torch says to these sizes
    a, b = self.expand(meta.sizes), other.expand(meta.sizes)
    return a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)


autocast("lower", "einsum", "linalg_vecdot", "chain_matmul", "linalg_multi_dot")
autocast("widest", "bilinear", "tensordot")
