"""Adam, AdamW and SGD as torch.optim takes them by default: one kernel where torch calls operators on lists."""

from functools import wraps
from importlib import import_module

import torch

from ... import tensor as T
from ...ops.lists.optim import adam_step, sgd_step


def patch() -> None:
    for name, step in (("adam", adam_step), ("sgd", sgd_step)):
        place = import_module(f"torch.optim.{name}")  # torch.optim has no such attribute
        function = f"_multi_tensor_{name}"
        setattr(place, function, _chosen(getattr(place, function), step))


def _chosen(original, step):
    @wraps(original)
    def multi_tensor(params, *args, **kwargs):
        ours = len(params) > 0 and params[0].device.type == T.NAME and not torch.compiler.is_compiling()
        if not (ours and step(params, *args, **kwargs)):
            original(params, *args, **kwargs)

    return multi_tensor
