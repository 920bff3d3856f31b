"""DistributedDataParallel with `find_unused_parameters` or `static_graph`, for parameters on the device.

Torch's reducer keeps its map of used parameters in pinned memory, whose allocator only C++ can register. Here the
reducer runs in its plain mode, in which every parameter must become ready: the output depends on all of them, with no
gradient for those that the module did not use. What no process used keeps the gradient it had, as torch promises.
"""

from functools import wraps

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ... import tensor as T


class _Joined(torch.autograd.Function):
    """The outputs as they are; in the graph, of every parameter."""

    @staticmethod
    def forward(ctx, watch, count, *tensors):
        ctx.watch, ctx.count = watch, len(tensors)
        ctx.set_materialize_grads(False)
        return tuple([t.clone() for t in tensors[:count]])  # a view could not be changed in place

    @staticmethod
    def backward(ctx, *grads):
        ctx.watch.begin()
        return (None, None, *grads, *[None] * (ctx.count - len(grads)))


class _Watch:
    """Which parameters had a gradient in this backward, here and in the other processes."""

    def __init__(self, parameters: list[torch.Tensor], group):
        self.parameters, self.group = parameters, group
        self.used: torch.Tensor | None = None
        self.before: list[torch.Tensor | None] = []
        for place, p in enumerate(parameters):
            p.register_hook(lambda grad, place=place: self._seen(place, grad))

    def _seen(self, place: int, grad: torch.Tensor | None) -> None:
        if self.used is not None and grad is not None:
            self.used[place] = 1

    def begin(self) -> None:
        if self.used is not None:  # a second output of the same forward
            return
        self.used = torch.zeros(len(self.parameters), dtype=torch.int32, device="cpu")
        self.before = [None if p.grad is None else p.grad.clone() for p in self.parameters]
        # The reducer's own callback is queued in between: the gradients are in place when ours runs.
        queue = torch.autograd.Variable._execution_engine.queue_callback
        queue(lambda: queue(self._end))

    def _end(self) -> None:
        used, before = self.used, self.before
        self.used, self.before = None, []
        torch.distributed.all_reduce(used, op=torch.distributed.ReduceOp.MAX, group=self.group)
        for p, kept, count in zip(self.parameters, before, used.tolist()):
            if not count:
                p.grad = kept


def init(original):
    @wraps(original)
    def __init__(self, module, *args, find_unused_parameters=False, static_graph=False, **kwargs):
        ours = any(p.device.type == T.NAME for p in module.parameters() if p.requires_grad)
        wanted = ours and (find_unused_parameters or static_graph)
        if not wanted:
            kwargs |= {"find_unused_parameters": find_unused_parameters, "static_graph": static_graph}
        original(self, module, *args, **kwargs)
        if wanted:
            skipped = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
            named = module.named_parameters()
            parameters = [p for name, p in named if p.requires_grad and name not in skipped]
            self._webgpu_watch = _Watch(parameters, self.process_group)

    return __init__


def forward(original):
    @wraps(original)
    def _run_ddp_forward(self, *inputs, **kwargs):
        output = original(self, *inputs, **kwargs)
        watch = getattr(self, "_webgpu_watch", None)
        if watch is None or not torch.is_grad_enabled() or not self.require_backward_grad_sync:
            return output
        leaves, structure = tree_flatten(output)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None]
        joined = _Joined.apply(watch, len(places), *[leaves[i] for i in places], *watch.parameters)
        for i, tensor in zip(places, joined):
            leaves[i] = tensor
        return tree_unflatten(leaves, structure)

    return _run_ddp_forward
