"""Type promotion: the dtype that operands of several dtypes are computed in, and that of the result.

torch's own Python code for this imports a computer algebra system at its first call, which takes as long as opening the
device.
"""

import torch

_Tensor = torch.Tensor
_NARROW = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def _of_number(x) -> torch.dtype:
    if isinstance(x, bool):
        return torch.bool
    if isinstance(x, int):
        return torch.int64
    default = torch.get_default_dtype()
    return default if isinstance(x, float) else default.to_complex()


def _joined(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    """What operands of a category that counts more make of those that count less: only the kind of number, whole,
    floating or complex, is taken over."""
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return higher.to_complex() if lower.is_complex else higher
    if higher is torch.bool or lower.is_floating_point or lower.is_complex:
        return torch.promote_types(higher, lower)
    return higher


def common_dtype(*operands) -> torch.dtype:
    """Tensors with dimensions count more than those without, and these more than numbers."""
    found: list[torch.dtype | None] = [None, None, None]
    for x in operands:
        tensor = isinstance(x, _Tensor)
        category = (0 if x.dim() else 1) if tensor else 2
        dtype = x.dtype if tensor else _of_number(x)
        have = found[category]
        found[category] = dtype if have is None else torch.promote_types(have, dtype)
    return _joined(_joined(found[0], found[1]), found[2])


def promoted(rule: str, *operands) -> tuple[torch.dtype, torch.dtype]:
    """(compute, result) dtypes by an entry's rule: default, none (compute as stored), int_to_float, always_bool,
    complex_to_float, bool_to_long."""
    common = common_dtype(*operands)
    if rule == "int_to_float" and not (common.is_floating_point or common.is_complex):
        common = torch.get_default_dtype()
    elif rule == "bool_to_long" and common is torch.bool:
        common = torch.int64
    compute = common if rule == "none" else _NARROW.get(common, common)
    if rule == "always_bool":
        return compute, torch.bool
    if rule == "complex_to_float" and common.is_complex:
        return compute, common.to_real()
    return compute, common
