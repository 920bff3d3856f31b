"""Places in random streams as tensors: compiled kernels make their numbers of them."""

import torch

from ... import tensor as T
from ...kernels.random.distributions import plan_place
from ...plan import caps, launch
from .streams import default

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define("drawn(int elements) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


@torch.library.impl(_library, "drawn", "CompositeExplicitAutograd")
def _drawn(elements: int) -> torch.Tensor:
    """The key of the default stream and the place of so many elements in it, which are now used."""
    out = T.empty((4,), torch.int32)
    launch(plan_place(caps()), out, draw=default().take(elements))
    return out


@torch.library.register_fake("webgpu_backend::drawn", lib=_library)
def _shape(elements: int) -> torch.Tensor:
    return torch.empty(4, dtype=torch.int32, device=T.here())
