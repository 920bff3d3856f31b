"""Recording kernels of `kernels.indexed` over tensors."""

from ..kernels.indexed import Kernel
from ..launch import caps, launch


def run(kernel: Kernel, reads: tuple, writes: tuple, *values) -> None:
    """One dispatch over the elements of the first output; `values` follow `n` in the parameters."""
    n = writes[0].numel()
    if n:
        params = kernel.pack.pack(n, *values, *[t.storage_offset() for t in reads])
        launch(kernel.program, (*reads, *writes), params, kernel.grid(n, caps()))
