"""Products of the same rows by several matrices of one size, as one of a batch. Compiled graphs are rewritten to this
operator where that should take less time."""

import torch

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define("alike_products(Tensor a, Tensor[] b, Tensor[] c) -> Tensor")


@torch.library.impl(_library, "alike_products", "PrivateUse1")
def _products(a, b, c):
    """The products of a with the transpose of each b, plus a row of c for each where there are any."""
    (m, k), (n, _), count = a.shape, b[0].shape, len(b)
    rows, columns = a.expand(count, m, k), torch.cat(b).view(count, n, k).mT
    return torch.baddbmm(torch.cat(c).view(count, 1, n), rows, columns) if c else torch.bmm(rows, columns)


@torch.library.register_fake("webgpu_backend::alike_products", lib=_library)
def _shape(a, b, c):
    return a.new_empty((len(b), a.shape[0], b[0].shape[0]))
