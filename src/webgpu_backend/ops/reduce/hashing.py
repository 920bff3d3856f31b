"""hash_tensor: the exclusive or of all elements as 64-bit words, a float's being the bits of its value as a double."""

import torch

from ...dtypes import Unsupported
from ...kernels.reduce.reduction import Spec
from ..table import custom
from .reduction import Reduction, normal_dims

XOR = Reduction(Spec("xor", "acc ^ a", "acc ^ o_acc"), 0)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _double_bits(x: torch.Tensor) -> torch.Tensor:
    """The bits that a float32 has as a double, as int64: adapters need not have doubles."""
    bits = x.view(torch.int32).to(torch.int64)
    fraction, exponent = bits & 0x7FFFFF, (bits >> 23) & 0xFF
    # A denormal is normal as a double: its leading one, found as the exponent of its digits, becomes implicit.
    lead = (fraction.to(torch.float32).view(torch.int32).to(torch.int64) >> 23) - 127
    denormal = ((lead + 874) << 52) | ((fraction << (52 - lead.clamp(0, 52))) & ((1 << 52) - 1))
    moved = torch.where(exponent == 0xFF, 0x7FF, exponent + 896)
    wide = torch.where(exponent == 0, torch.where(fraction == 0, 0, denormal), (moved << 52) | (fraction << 29))
    return wide | ((bits >> 63) << 63)


@custom("hash_tensor")
def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
    if mode:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if self.is_complex():
        raise NotImplementedError("\"xor_sum_cpu\" not implemented for 'ComplexFloat'")
    dim = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if not self.numel():
        if not dim:
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
        for d in normal_dims(dim, self.dim()):
            if self.shape[d] == 0:
                raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    if self.dtype in _FLOATS:
        words = _double_bits(self.to(torch.float32).contiguous())
    elif self.dtype.is_floating_point and self.dtype is not torch.float64:
        raise Unsupported(f"webgpu: hash_tensor of {self.dtype}")
    else:
        words = self.contiguous().view(torch.int64) if self.element_size() == 8 else self.to(torch.int64)
    return XOR((words,), dim, keepdim, torch.int64, (torch.int64,))[0].view(torch.uint64)
