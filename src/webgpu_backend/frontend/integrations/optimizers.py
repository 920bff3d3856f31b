"""Adam, AdamW and SGD as torch.optim takes them by default: one kernel where torch calls operators on lists."""

from functools import wraps

import torch

from ... import tensor as T
from ...ops.lists.optim import adam_step, sgd_step


def _in_one_kernel(step):
    def replacement(original):
        @wraps(original)
        def multi_tensor(params, *args, **kwargs):
            ours = len(params) > 0 and params[0].device.type == T.NAME and not torch.compiler.is_compiling()
            if not (ours and step(params, *args, **kwargs)):
                original(params, *args, **kwargs)

        return multi_tensor

    return replacement


adam, sgd = _in_one_kernel(adam_step), _in_one_kernel(sgd_step)
