"""What a compiled graph has a convolution do to its sums before they are stored."""

from typing import NamedTuple

import torch

from ...kernels.conv.epilogue import After
from ..matmul.product import matrix


class Ending(NamedTuple):
    """Statements over r, the sum; over d, an element of `other`, which has the result's shape or is broadcast to it;
    and over e0, e1, ..., which are the numbers of a channel: a row of `table`, contiguous."""

    act: str
    table: torch.Tensor | None
    other: torch.Tensor | None
    dtype: torch.dtype  # of the result

    @property
    def tensors(self) -> tuple:
        """As kernels bind them, with None for what is not there."""
        return self.other, self.table

    def placed(self, shape) -> "Ending":
        """With one stride from each place of a plane to the next."""
        if self.other is None:
            return self
        whole = self.other.expand(shape)
        sizes, strides = zip(*[(n, s) for n, s in zip(shape[2:], whole.stride()[2:]) if n > 1] or [(1, 0)])
        even = all([strides[i] == strides[i + 1] * sizes[i + 1] for i in range(len(sizes) - 1)])
        return self if even else self._replace(other=whole.contiguous())

    def after(self, shape, rows: int) -> After:
        """How it is read; `rows`: channels of a group."""
        d = e = None
        if self.other is not None:
            strides = self.other.expand(shape).stride()
            place = next((s for n, s in reversed([*zip(shape[2:], strides[2:])]) if n > 1), 0)
            d = matrix(self.other, strides[1], place, strides[0], rows * strides[1])
        if self.table is not None:
            each = self.table.shape[1]
            e = matrix(self.table, each, 0, 0, rows * each)
        return After(self.act, d, e)


def dtype_of(ending: Ending | None, image: torch.Tensor) -> torch.dtype:
    """What a convolution's result has."""
    return image.dtype if ending is None else ending.dtype
