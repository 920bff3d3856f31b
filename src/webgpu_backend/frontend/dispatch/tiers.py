"""Which tier each aten overload is served by."""

import torch
from torch._decomp import decomposition_table

from .. import first_use
from .fallback import DENIED, _functional_of

_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def tiers() -> dict[str, str]:
    """aten overload name -> native, composite (torch's own kernel made of other operators), decomposition, fallback."""
    first_use.complete()
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found: dict[str, str] = {}
    for full in torch._C._dispatch_get_all_op_names():
        if not full.startswith("aten::") or not _is_operator(full):
            continue
        if has(full, "PrivateUse1"):
            found[full] = "native"
        elif any(has(full, key) for key in _COMPOSITE):
            found[full] = "composite"
        else:
            found[full] = _boxed_tier(full)
    return found


def _is_operator(full: str) -> bool:
    base, _, overload = full.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return packet is not None and (overload or "default") in packet.overloads()


def _boxed_tier(full: str) -> str:
    base, _, overload = full.removeprefix("aten::").partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    if full in DENIED:
        return "fallback"
    if op in decomposition_table:
        return "decomposition"
    functional = _functional_of(op)
    if functional is not None:
        name = functional.name()
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1") or functional in decomposition_table:
            return "decomposition"
    return "fallback"
