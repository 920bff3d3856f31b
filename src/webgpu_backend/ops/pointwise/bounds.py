"""Bounds that are numbers, beside tensors of whole numbers: before torch 2.14 they must fit the dtype, since then they
are taken by what they mean."""

import torch

from .elementwise import _scalar_name


def _taken() -> bool:
    try:
        torch.ones(1, dtype=torch.uint8, device="cpu").clamp(max=256)
    except RuntimeError:
        return False
    return True


BY_MEANING = _taken()


def bounds(**ends: str) -> dict[str, str]:
    """Which operands of an entry are a "min" or a "max"."""
    return ends if BY_MEANING else {}


def ordered(of_tensors: str = ""):
    """Complex numbers have no order; `of_tensors` is the kernel of the CPU's that says so where no number is given."""

    def admit(inputs):
        found = next((x.dtype for x in inputs if torch.is_tensor(x) and x.is_complex()), None)
        if of_tensors and found is not None and all([torch.is_tensor(x) for x in inputs]):
            raise NotImplementedError(f'"{of_tensors}_cpu" not implemented for {_scalar_name(found)!r}')
        if found is not None or any([isinstance(x, complex) for x in inputs]):
            raise NotImplementedError("clamp is not supported for complex types")

    return admit
