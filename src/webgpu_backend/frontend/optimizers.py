"""Adam and AdamW as torch.optim takes them by default: one kernel where torch would call eight operators on lists."""

from functools import wraps
from importlib import import_module

import torch

from .. import tensor as T
from ..ops.optim import adam_step


def patch() -> None:
    place = import_module("torch.optim.adam")  # torch.optim has no such attribute
    original = place._multi_tensor_adam

    @wraps(original)
    def multi_tensor_adam(params, *args, **kwargs):
        ours = len(params) > 0 and params[0].device.type == T.NAME and not torch.compiler.is_compiling()
        if not (ours and adam_step(params, *args, **kwargs)):
            original(params, *args, **kwargs)

    place._multi_tensor_adam = multi_tensor_adam
