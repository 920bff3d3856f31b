"""Rows of several lengths, one sequence after the other, as a batch that is padded, and back."""

import torch

from ...dtypes import Unsupported
from ..table import custom


def _starts(offsets: list[torch.Tensor], name: str) -> torch.Tensor:
    if len(offsets) != 1:
        raise Unsupported("webgpu: more than one jagged dimension")
    if offsets[0].dim() != 1:
        raise RuntimeError(f"{name}(): expected 1D offsets, but got offsets.dim() == {offsets[0].dim()}")
    return offsets[0]


@custom("_jagged_to_padded_dense_forward")
def padded(values, offsets, max_lengths, padding_value=0.0):
    """Sequences that are longer than the batch are cut."""
    starts, (length,) = _starts(offsets, "_jagged_to_padded_dense_forward"), max_lengths
    sizes = (starts.shape[0] - 1, length, *values.shape[1:])
    fill = padding_value if values.dtype.is_floating_point or values.dtype.is_complex else int(padding_value)
    if 0 in sizes or not values.shape[0]:
        return torch.full(sizes, fill, dtype=values.dtype, device=values.device)
    places = torch.arange(length, dtype=starts.dtype, device=starts.device)
    found = (starts[:-1, None] + places).clamp_(max=values.shape[0] - 1)
    out = values.index_select(0, found.view(-1)).view(sizes)
    outside = places >= starts.diff().unsqueeze(1)
    return out.masked_fill_(outside.view(*sizes[:2], *[1] * (len(sizes) - 2)), fill)


@custom("_padded_dense_to_jagged_forward")
def unpadded(dense, offsets, total_L=None):
    """A sequence that is longer than the batch is a bad index, and told as such."""
    starts = _starts(offsets, "_padded_dense_to_jagged_forward")
    rows = int(starts[-1]) if total_L is None else total_L
    if not rows or 0 in dense.shape:
        return dense.new_empty((rows, *dense.shape[2:]))
    batch, length = dense.shape[:2]
    places = torch.arange(rows, dtype=starts.dtype, device=starts.device)
    sequence = torch.searchsorted(starts[1:].contiguous(), places, right=True)
    place = places - starts.index_select(0, sequence)
    found = torch.where(place < length, sequence * length + place, batch * length)
    return dense.flatten(0, 1).index_select(0, found)
