"""Tensors of the device that go to other processes, by torch.multiprocessing's queues and pipes or as arguments.

No process can see another one's device memory: WebGPU has no handle for it. A tensor travels as a copy in shared host
memory, and the receiver copies it to its own device. What promises one memory for several processes is refused.
"""

from functools import wraps
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler

import torch

from ... import tensor as T
from ..device import module as webgpu


def _there(index: int) -> torch.device:
    """The sender's device; the current one where this process has none of that number."""
    return torch.device(T.NAME, index) if index < webgpu.device_count() else T.here()


def _received(host: torch.Tensor, requires_grad: bool, is_parameter: bool, index: int) -> torch.Tensor:
    tensor = host.to(_there(index))
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


def _kept(host: torch.Tensor) -> torch.Tensor:
    """Arguments of a process that is being started hand over a file that must be open until it has started."""
    starting = get_spawning_popen()
    if starting is not None:
        vars(starting).setdefault("webgpu_copies", []).append(host)
    return host


def reduce_tensor(original):
    @wraps(original)
    def reduce(tensor):
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != T.NAME or tensor.layout is not torch.strided:
            return original(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            return original(tensor)  # which says why not
        with torch.no_grad():
            host = _kept(tensor.detach().cpu())
        return _received, (host, tensor.requires_grad, isinstance(tensor, torch.nn.Parameter), tensor.device.index)

    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, reduce)
    return reduce


def _received_storage(host: torch.Tensor, index: int) -> torch.UntypedStorage:
    return host.to(_there(index)).untyped_storage()


def reduce_storage(original):
    @wraps(original)
    def reduce(storage):
        if storage.device.type != T.NAME:
            return original(storage)
        whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        return _received_storage, (_kept(whole.cpu()), storage.device.index)

    ForkingPickler.register(torch.UntypedStorage, reduce)
    return reduce


def share_memory(original):
    @wraps(original)
    def share_memory_(self, *args, **kwargs):
        if self.device.type == T.NAME:
            raise RuntimeError(
                "webgpu: the device's memory cannot be shared between processes. Queues and arguments of processes "
                "copy tensors of the device through host memory; to write to one memory from several processes, share "
                "host tensors: tensor.cpu().share_memory_()"
            )
        return original(self, *args, **kwargs)

    return share_memory_
