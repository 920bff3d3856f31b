"""`nn.DataParallel` and the functions it is made of, over several devices of one process.

Torch scatters, gathers and broadcasts between the devices of a process by C++ that it has for CUDA alone. Here a part
goes from device to device as any copy does, by way of the host. Complex tensors come and go as pairs of numbers, which
is how torch's own functions hand them over.
"""

from functools import wraps

import torch

from ... import tensor as T
from ..device import module as webgpu


def _device(device) -> torch.device:
    """A device by its number, of which -1 is the CPU, or in another spelling; None is the current one."""
    if device == -1 or (isinstance(device, (str, torch.device)) and torch.device(device).type == "cpu"):
        return torch.device("cpu")
    return torch.device(T.NAME, webgpu._index(device))


def _ours(*tensors: torch.Tensor) -> bool:
    """Tensors of the device, or the CPU's in a process whose accelerator it is."""
    kinds = {t.device.type for t in tensors}
    accelerator = torch.accelerator.current_accelerator()
    return kinds <= {"cpu", T.NAME} and accelerator is not None and accelerator.type == T.NAME


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _own(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy there; what is there already stands for itself."""
    return tensor.detach().to(device)


def broadcast(original):
    @wraps(original)
    def broadcast(tensor, devices=None, *, out=None):
        if not _ours(tensor) or (devices is None) == (out is None):
            return original(tensor, devices, out=out)
        if out is None:
            return tuple([_own(_real(tensor), _device(d)) for d in devices])
        return tuple([o.copy_(tensor) for o in out])

    return broadcast


def broadcast_coalesced(original):
    @wraps(original)
    def broadcast_coalesced(tensors, devices, *rest, **named):
        if not _ours(*tensors):
            return original(tensors, devices, *rest, **named)
        return [[_own(_real(t), _device(d)) for t in tensors] for d in devices]

    return broadcast_coalesced


def reduce_add(original):
    """Torch's own asks NCCL first, which warns that it is not there."""

    @wraps(original)
    def reduce_add(inputs, destination=None):
        inputs = list(inputs)
        if not _ours(*inputs) or any(t.is_cpu or t.shape != inputs[0].shape for t in inputs):
            return original(inputs, destination)
        there = _device(destination)
        first = next((t for t in inputs if t.device == there), None)
        if first is None:
            raise RuntimeError("reduce_add expects destination to be on the same GPU with one of the tensors")
        for other in inputs:
            first = first if other is first else first + other.to(there)
        return first

    return reduce_add


def scatter(original):
    @wraps(original)
    def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
        if not _ours(tensor) or (devices is None) == (out is None):
            return original(tensor, devices, chunk_sizes, dim, streams, out=out)
        tensor = _real(tensor)
        if out is not None:
            parts = tensor.split([o.shape[dim] for o in out], dim)
            return tuple([o.copy_(part) for o, part in zip(out, parts, strict=True)])
        parts = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
        return tuple([_own(part, _device(d)).contiguous() for part, d in zip(parts, devices)])

    return scatter


def gather(original):
    @wraps(original)
    def gather(tensors, dim=0, destination=None, *, out=None):
        tensors = [_real(t) for t in tensors]
        if not _ours(*tensors):
            return original(tensors, dim, destination, out=out)
        there = _device(destination) if out is None else out.device
        found = torch.cat([t.to(there) for t in tensors], dim)
        return found if out is None else out.copy_(found)

    return gather
