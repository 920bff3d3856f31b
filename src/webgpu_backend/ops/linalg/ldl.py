"""Symmetric and Hermitian indefinite systems by Bunch and Kaufman's pivoting."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.linalg.batches import TRIPS, team_size
from ...plan import caps
from ..table import custom
from .batches import aten, copied, flat, like, ranges, run, shaped, work, zeros
from .lu import check


@custom("linalg_ldl_factor_ex")
def linalg_ldl_factor_ex(self, *, hermitian=False, check_errors=False):
    meta, pivots_meta, info_meta = shaped(aten.linalg_ldl_factor_ex.default, self, hermitian=hermitian)
    out, pivots, info = like(meta), T.empty(pivots_meta.shape, torch.int32), zeros(info_meta.shape, torch.int32)
    if out.numel():
        copied(self.tril(), out)
        a = flat(out)
        n = a.shape[-1]
        state = zeros((a.shape[0],), torch.int32)
        team = team_size(n, caps())
        for _, last in ranges(n, lambda i: -(-((n - i) ** 2) // team) + 8 * (-(-n // team)) + 24):
            run("ldl", a.dtype, (a,), (pivots, info, state), n, n=n, last=last, hermitian=hermitian)
    if check_errors:
        check(info, "torch.linalg.ldl_factor_ex", self.dim() == 2)
    return out, pivots, info


@custom("linalg_ldl_solve")
def linalg_ldl_solve(LD, pivots, B, *, hermitian=False):
    shaped(aten.linalg_ldl_solve.default, LD, pivots, B, hermitian=hermitian)
    n = LD.shape[-1]
    if caps().kind == "cpu" and n * n > TRIPS:
        raise Unsupported("webgpu: a software adapter cannot loop over so many rows")
    batch = torch.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    x = work(B.expand(*batch, *B.shape[-2:]))
    if x.numel():
        a, columns = flat(LD.expand(*batch, n, n)), flat(x)
        own = pivots.expand(*batch, n).contiguous()
        run("ldl_solve", x.dtype, (a, columns), (own,), columns=x.shape[-1], n=n, hermitian=hermitian)
    return x
