"""Indices of compressed sparse tensors: whether they are sound, as coordinates, and of sorted coordinates."""

import torch

from ...dtypes import Unsupported
from ..table import custom

aten = torch.ops.aten


@custom("_validate_compressed_sparse_indices", planned=False)
def validate(is_crow, compressed_idx, plain_idx, cdim, dim, nnz):
    """What torch asks of indices before it trusts them, as one number that is read; the CPU has the words for it."""
    between = compressed_idx.diff(dim=-1)
    wrong = (compressed_idx[..., 0] != 0).any() | (compressed_idx[..., -1] != nnz).any()
    wrong = wrong | ((between < 0) | (between > dim)).any()
    if nnz:
        wrong = wrong | ((plain_idx < 0) | (plain_idx >= dim)).any()
    if nnz > 1:  # in order within a row, and after a first one of a row in any
        starts = torch.zeros((*plain_idx.shape[:-1], nnz + 1), dtype=torch.bool, device=plain_idx.device)
        starts.scatter_(-1, compressed_idx.long().clamp(0, nnz), True)
        wrong = wrong | ((plain_idx[..., 1:] <= plain_idx[..., :-1]) & ~starts[..., 1:nnz]).any()
    if wrong.item():
        aten._validate_compressed_sparse_indices(is_crow, compressed_idx.cpu(), plain_idx.cpu(), cdim, dim, nnz)


@custom("_convert_indices_from_csr_to_coo")
def to_coordinates(crow_indices, col_indices, *, out_int32=False, transpose=False):
    if crow_indices.dim() != 1:
        raise Unsupported("webgpu: coordinates of batches of compressed rows")
    places = torch.arange(col_indices.shape[0], dtype=crow_indices.dtype, device=crow_indices.device)
    rows = torch.searchsorted(crow_indices[1:].contiguous(), places, right=True, out_int32=out_int32)
    pair = (rows, col_indices.to(rows.dtype))
    return torch.stack(pair[::-1] if transpose else pair)


@custom("_convert_indices_from_coo_to_csr")
def to_compressed(self, size, *, out_int32=False):
    """How many of the sorted rows lie before each; torch_geometric asks for it by this name."""
    if self.dim() > 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {self.dim()} dimensional tensor.")
    found = self.reshape(-1).contiguous()
    if found.dtype not in (torch.int32, torch.int64):  # there may be more rows than the dtype of their numbers counts
        found = found.long()
    rows = torch.arange(size + 1, dtype=found.dtype, device=self.device)
    return torch.searchsorted(found, rows, out_int32=out_int32)
