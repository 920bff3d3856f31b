"""PyTorch's operators over quantised weights: int8 by rows, int4 by groups, products of int8, of float8 with scales.

`_convert_weight_to_int4pack` takes bytes of two weights, the first in the high half, as CUDA and MPS do, and returns
the shape that they return; inside, rows of words lie one after the other, the first weight in the lowest bits.
"""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.matmul.product import Product
from ...kernels.quantized.formats import PIECE, Blocks
from ..matmul.product import matrix, output
from ..matmul.product import multiply as multiply_plain
from ..table import custom
from .product import Weight, dense, multiply

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_GROUPS = (32, 64, 128, 256)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


# -- int8, a scale a row


@custom("_weight_int8pack_mm")
def weight_int8pack_mm(self, mat2, scales):
    name = "_weight_int8pack_mm"
    _check(self.dtype in _FLOATS, f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    _check(self.dim() == 2, f"{name} : expect A to be 2D tensor.")
    _check(self.stride(1) == 1 or self.shape[1] < 2, f"{name} : A must be contiguous on the last dimension.")
    _check(mat2.dtype == torch.int8, f"{name} : expect B to be int8 tensor.")
    _check(mat2.is_contiguous(), f"{name} : expect B to be contiguous.")
    _check(mat2.dim() == 2 and mat2.shape[1] == self.shape[1], f"{name} : expect B.size(1) == {self.shape[1]}")
    n, k = mat2.shape
    _check(scales.dim() == 1 and scales.shape[0] == n, f"{name} : expect scales to be 1d tensor with size {n}")
    same = scales.dtype in (self.dtype, torch.float32)
    _check(same, f"{name} : expect scales to be {self.dtype} or float32, but found {scales.dtype}")
    if k % PIECE:
        wide = torch.mm(self.float(), mat2.t().float())
        return (wide * scales.float()).to(self.dtype)
    blocks = Blocks("int8", T.dtype_of(scales), scales.storage_offset(), scales.stride(0))
    return multiply(self, Weight(dense(mat2), scales, blocks, n, k))


# -- int4, a scale and an offset a group


@custom("_convert_weight_to_int4pack")
def convert_weight_to_int4pack(self, innerKTiles):
    name = "_convert_weight_to_int4pack"
    _check(self.dim() == 2, f"{name} : expect weight to be 2D tensor.")
    _check(self.dtype == torch.uint8, f"{name} : expect weight to be uint8 tensor of two int4 a byte.")
    _check(self.is_contiguous(), f"{name} : expect weight to be contiguous.")
    _check(innerKTiles in (2, 4, 8), f"{name} : innerKTiles need to be 2, 4, or 8, got {innerKTiles}")
    n, k = self.shape[0], self.shape[1] * 2
    _check(n % 8 == 0, f"{name} : expect N to be dividable by 8")
    _check(k % (innerKTiles * 16) == 0, f"{name} : expect K to be dividable by {innerKTiles * 16}")
    words = dense(self).view(torch.int32)
    turned = ((words >> 4) & 0x0F0F0F0F) | ((words & 0x0F0F0F0F) << 4)
    return turned.view(n // 8, k // (innerKTiles * 16), 32, innerKTiles // 2)


@custom("_weight_int4pack_mm")
def weight_int4pack_mm(self, mat2, qGroupSize, qScaleAndZeros):
    name = "_weight_int4pack_mm"
    _check(self.dtype in _FLOATS, f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    _check(self.dim() == 2, f"{name} : expect A to be 2D tensor.")
    _check(mat2.dtype == torch.int32, f"{name} : expect B to be int32 tensor.")
    _check(mat2.is_contiguous() and mat2.dim() == 4, f"{name} : expect B to be a contiguous 4D tensor.")
    _check(qGroupSize in _GROUPS, f"{name}: expect qGroupSize to be 32, 64, 128 or 256, got {qGroupSize}")
    n, k = mat2.shape[0] * 8, mat2.shape[1] * mat2.shape[3] * 32
    _check(self.shape[1] == k, f"{name} : expect A.size(1) == {k}, got {self.shape[1]}")
    _check(k % qGroupSize == 0, f"{name} : expect K to be dividable by qGroupSize {qGroupSize}, got {k}")
    expected = (k // qGroupSize, n, 2)
    _check(
        tuple(qScaleAndZeros.shape) == expected, f"{name}: expect qScaleAndZeros to be 3d tensor with sizes {expected}"
    )
    _check(qScaleAndZeros.dtype in _FLOATS, f"{name} : expect qScaleAndZeros to be a float tensor.")
    group, row, zero = qScaleAndZeros.stride()
    blocks = Blocks(
        "int4",
        T.dtype_of(qScaleAndZeros),
        qScaleAndZeros.storage_offset(),
        row,
        group,
        qGroupSize.bit_length() - 1,
        zero,
    )
    return multiply(self, Weight(dense(mat2.view(n, k // 8)), qScaleAndZeros, blocks, n, k, along=1))


# -- int8 by int8


@custom("_int_mm")
def int_mm(self, mat2):
    name = "int_mm_out_cpu"
    for which, x in (("self", self), ("mat2", mat2)):
        _check(x.dim() == 2, f"{name}: Expected {which} to be of dimension 2 but got {x.dim()}")
    sizes = f"{self.shape[1]} and {mat2.shape[0]}"
    _check(self.shape[1] == mat2.shape[0], f"{name}: self.size(1) needs to match mat2.size(0) but got {sizes}")
    bytes_ = (torch.int8, torch.uint8)
    _check(self.dtype in bytes_, f"{name}: Expected self dtype to be int8 or uint8 but got {self.dtype}")
    _check(mat2.dtype is torch.int8, f"{name}: Expected mat2 dtype to be int8 but got {mat2.dtype}")
    (m, k), n = self.shape, mat2.shape[1]
    product = Product(
        m, n, k, matrix(self, *self.stride()), matrix(mat2, mat2.stride(1), mat2.stride(0)), output(torch.int32, m, n)
    )
    return multiply_plain((m, n), torch.int32, product, self, mat2)


# -- float8 by float8, with scales


def _scaled(self, mat2, scale_a, scale_b, out_dtype):
    """The product in float32: its right operand is read as it is where its rows are whole pieces."""
    n, k = mat2.shape[1], mat2.shape[0]
    turned = mat2.t()
    if turned.is_contiguous() and k % PIECE == 0 and k:
        rows = 0 if scale_b.numel() == 1 else scale_b.flatten().stride(0)
        blocks = Blocks(str(mat2.dtype).removeprefix("torch."), T.dtype_of(scale_b), scale_b.storage_offset(), rows)
        weight = Weight(dense(turned.view(torch.uint8)), scale_b.flatten(), blocks, n, k)
        return multiply(self.float(), weight) * scale_a
    return torch.mm(self.float(), mat2.float()) * scale_a * scale_b


@custom("_scaled_mm")
def scaled_mm(
    self, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False
):  # fmt: skip
    _check(self.dim() == 2, "mat1 must be a matrix")
    _check(mat2.dim() == 2, "mat2 must be a matrix")
    (m, k), n = self.shape, mat2.shape[1]
    _check(k == mat2.shape[0], f"mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {mat2.shape[0]}x{n})")
    tensorwise = scale_a.numel() == 1 and scale_b.numel() == 1
    rowwise = tuple(scale_a.shape) == (m, 1) and tuple(scale_b.shape) == (1, n)
    same = scale_a.dtype == scale_b.dtype == torch.float32
    _check(
        same and (tensorwise or rowwise),
        "Invalid scaling configuration. For TensorWise scaling, both scales must be scalar. For RowWise scaling, "
        f"scale_a must be ({m}, 1) and scale_b must be (1, {n}). Got scale_a.size()={list(scale_a.shape)} and "
        f"scale_b.size()={list(scale_b.shape)}",
    )
    _check(
        self.element_size() == 1 and self.is_floating_point(), f"Expected mat_a to be Float8 matrix got {self.dtype}"
    )
    _check(
        mat2.element_size() == 1 and mat2.is_floating_point(), f"Expected mat_b to be Float8 matrix got {mat2.dtype}"
    )
    if tensorwise:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    out = _scaled(self, mat2, scale_a, scale_b, out_dtype)
    if bias is not None:
        out = out + bias.float()
    dtype = out_dtype or self.dtype
    if scale_result is not None and dtype.itemsize == 1:
        out = out * scale_result
    return out.to(dtype)


_TENSORWISE, _ROWWISE = [0], [1]  # of torch.nn.functional.ScalingType


@custom("_scaled_mm_v2")
def scaled_mm_v2(
    self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype, contraction_dim=(),
    use_fast_accum=False,
):  # fmt: skip
    """What `torch.nn.functional.scaled_mm` calls: scales of whole tensors or of rows; those of blocks are not here."""
    plain = not any([*swizzle_a, *swizzle_b, *contraction_dim]) and len(scale_a) == len(scale_b) == 1
    if not plain or list(recipe_a) != list(recipe_b) or list(recipe_a) not in (_TENSORWISE, _ROWWISE):
        raise Unsupported("webgpu: scaled_mm with scales of blocks")
    (a,), (b,) = scale_a, scale_b
    if list(recipe_a) == _ROWWISE:
        a, b = a.reshape(-1, 1), b.reshape(1, -1)
    return scaled_mm(self, mat2, a, b, bias, None, out_dtype, use_fast_accum)
