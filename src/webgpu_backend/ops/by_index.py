"""Recording kernels of `text.by_index` over tensors, and asking torch's meta kernels what an operator returns."""

import torch

from .. import tensor as T
from ..kernels.text.by_index import Kernel
from ..plan import caps, launch


def run(kernel: Kernel, reads: tuple, writes: tuple, *values) -> None:
    """One dispatch over the elements of the first output; `values` follow `n` in the parameters."""
    n = writes[0].numel()
    if n:
        launch(kernel.step(caps(), n, *values, *[t.storage_offset() for t in reads]), *reads, *writes)


def meta_results(op, *args, **kwargs) -> tuple[T.Meta, ...]:
    """What `op` returns for these arguments. Raises what torch raises for arguments that do not fit."""
    results = op(*[_meta(a) for a in args], **kwargs)
    results = results if isinstance(results, (tuple, list)) else (results,)
    return tuple(T.meta(r.shape, r.stride(), r.dtype) for r in results)


def _meta(x):
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
