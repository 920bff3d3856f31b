"""Views: torch computes sizes, strides and offset once for each layout, and a repeated call costs a look-up.

Without this, every view goes through torch's composite kernel to `as_strided`, with two lists to convert.
"""

import torch

from ... import tensor as T
from ...plan import cache
from ...plan.cache import Table
from ...program import Plan
from ..table import custom

aten = torch.ops.aten
_COMPOSITE = torch._C.DispatchKey.CompositeExplicitAutograd
_CPU = torch._C.DispatchKey.CPU
_inference = torch.is_inference_mode_enabled
_reinterpret = T.reinterpret


def _remember(plans: Table, key: tuple, source: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """A plan without steps, whose result is a view of its argument."""
    plan = Plan(())
    plan.results = (tuple(view.shape), view.stride(), view.storage_offset() - source.storage_offset())
    cache.keep(plans, key, plan)
    return view


def _view(tensor: torch.Tensor, sizes: tuple, strides: tuple, by: int) -> torch.Tensor:
    if _inference() and not tensor.is_inference():
        return T.as_strided(tensor, sizes, strides, tensor.storage_offset() + by)  # which says why
    return _reinterpret(tensor, sizes, strides, by)


def _by_numbers(overload, defaults: tuple):
    """A view that numbers describe."""
    plans = cache.table(overload.name())
    torchs = overload._op_dk
    most = len(defaults)

    def kernel(self, *args):
        key = (self.shape, self.stride(), args)
        found = plans.get(key)
        if found is None:
            return _remember(plans, key, self, torchs(_COMPOSITE, self, *args, *defaults[len(args) : most]))
        return _view(self, *found.results)

    return kernel


def _by_list(overload, key):
    """A view that a list of numbers describes."""
    plans = cache.table(overload.name())
    torchs = overload._op_dk

    def kernel(self, numbers, *rest, **named):
        sought = (self.shape, self.stride(), *numbers)
        found = plans.get(sought)
        if found is None:
            return _remember(plans, sought, self, torchs(key, self, numbers, *rest, **named))
        return _view(self, *found.results)

    return kernel


for _name, _defaults in (
    ("t", ()),
    ("transpose.int", ()),
    ("slice.Tensor", (0, None, None, 1)),
    ("select.int", ()),
    ("unsqueeze", ()),
    ("squeeze.dim", ()),
    ("squeeze", ()),
):
    _base, _, _overload = _name.partition(".")
    custom(_name, refuses=False)(_by_numbers(getattr(getattr(aten, _base), _overload or "default"), _defaults))
for _name, _key in (("view", _CPU), ("expand", _COMPOSITE), ("permute", _COMPOSITE)):
    custom(_name, refuses=False)(_by_list(getattr(aten, _name).default, _key))


@custom("unbind.int", refuses=False)
def unbind(self, dim=0):
    """All at once: a plan for each would take the places of others, and who walks a tensor takes each but once."""
    rank = self.dim()
    if not -rank <= dim < rank:
        return aten.unbind.int._op_dk(_COMPOSITE, self, dim)  # which says why not
    dim %= rank
    sizes, strides = tuple(self.shape), self.stride()
    step, kept = strides[dim], sizes[:dim] + sizes[dim + 1 :]
    return [_view(self, kept, strides[:dim] + strides[dim + 1 :], k * step) for k in range(sizes[dim])]
