"""Products of narrow operands whose sums are kept as they are: `out_dtype`, which torch has for CUDA."""

import torch

from ..pointwise.elementwise import _scalar_name
from ..table import custom
from .operators import _addmm, _batched, _batches, _two
from .product import addend, matching, multiply, refuse, supported

aten = torch.ops.aten


def _check_wide(dtype: torch.dtype, a, b, added=None) -> None:
    narrow = a.dtype in (torch.float16, torch.bfloat16)
    if dtype != a.dtype and not (dtype is torch.float32 and narrow):
        raise RuntimeError("out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs")
    if not matching(a, b):
        kinds = _scalar_name(a.dtype), _scalar_name(b.dtype)
        raise RuntimeError("expected mat1 and mat2 to have the same dtype, but got: {} != {}".format(*kinds))
    if added is not None and added.dtype not in (dtype, a.dtype):
        raise RuntimeError("self dtype must match either out_dtype or mat1 dtype")


@custom("mm.dtype", conj="resolve")
def mm_wide(self, mat2, out_dtype):
    supported(self, mat2)
    _check_wide(out_dtype, self, mat2)
    if self.dim() != 2 or mat2.dim() != 2 or self.shape[1] != mat2.shape[0]:
        refuse(aten.mm.default, self, mat2)
    return multiply((self.shape[0], mat2.shape[1]), out_dtype, _two(self, mat2, out_dtype), self, mat2)


@custom("addmm.dtype", conj="resolve")
def addmm_wide(self, mat1, mat2, out_dtype, *, beta=1, alpha=1):
    _check_wide(out_dtype, mat1, mat2, self)
    return _addmm(self.to(out_dtype), mat1, mat2, beta, alpha, "", out_dtype)


@custom("bmm.dtype", conj="resolve")
def bmm_wide(self, mat2, out_dtype):
    supported(self, mat2)
    _check_wide(out_dtype, self, mat2)
    if not _batches(self, mat2):
        refuse(aten.bmm.default, self, mat2)
    return _batched(self, mat2, dtype=out_dtype)


@custom("baddbmm.dtype", conj="resolve")
def baddbmm_wide(self, batch1, batch2, out_dtype, *, beta=1, alpha=1):
    supported(self, batch1, batch2)
    _check_wide(out_dtype, batch1, batch2, self)
    if not _batches(batch1, batch2):
        refuse(aten.baddbmm.default, self, batch1, batch2, beta=beta, alpha=alpha)
    added = self.to(out_dtype) if beta != 0 else None
    c = None if added is None else addend(added, (batch1.shape[0], batch1.shape[1], batch2.shape[2]))
    return _batched(batch1, batch2, added, c=c, dtype=out_dtype, alpha=alpha, beta=beta)
