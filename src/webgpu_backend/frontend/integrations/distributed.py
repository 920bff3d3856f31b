"""torch.distributed on device tensors: PyTorch's own collectives over gloo, on copies in host memory.

c10d's operators choose a process group's backend by the tensors' dispatch key, and gloo knows host memory only. So ours
call the same operator on the CPU, and copy what it has written back to the device once its work is done.
"""

import warnings
from functools import wraps

import torch
from torch.utils._pytree import tree_map

from ... import tensor as T

# What each operator writes; what it only reads needs no way back.
WRITTEN = {
    "allreduce_": "tensors",
    "allreduce_coalesced_": "tensors",
    "broadcast_": "tensors",
    "reduce_": "tensors",
    "allgather_": "output_tensors",
    "_allgather_base_": "output_tensor",
    "allgather_coalesced_": "output_lists",
    "allgather_into_tensor_coalesced_": "outputs",
    "gather_": "output_tensors",
    "scatter_": "output_tensors",
    "reduce_scatter_": "output_tensors",
    "_reduce_scatter_base_": "output_tensor",
    "reduce_scatter_tensor_coalesced_": "outputs",
    "alltoall_": "output_tensors",
    "alltoall_base_": "output",
    "recv_": "tensors",
    "recv_any_source_": "tensors",
    "send": None,
    "barrier": None,
}

_library: list[torch.library.Library] = []  # lives as long as its registrations


def _tensors(value) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [t for item in value for t in _tensors(item)]


def _implementation(name: str):
    call = getattr(torch.ops.c10d, name).default
    names = [argument.name for argument in call._schema.arguments]
    written = WRITTEN[name]
    place = names.index(written) if written is not None else None
    several = len(call._schema.returns) > 1

    def collective(*args, **kwargs):
        if name == "recv_any_source_":  # gloo's work alone knows who sent, and cannot be waited for twice
            raise NotImplementedError("receiving a webgpu tensor needs its source: recv(tensor, src=...)")
        from torch._C._distributed_c10d import PythonCallbackWork, Work, _create_work_from_future

        # A copy of every tensor, outputs too: reduce leaves the other ranks' as they were.
        host = tree_map(lambda v: v.detach().cpu() if isinstance(v, torch.Tensor) else v, list(args))
        result = call(*host, **kwargs)
        work = Work.unbox(result[-1] if several else result)
        if place is None:
            return result
        ours, theirs = _tensors(args[place]), _tensors(host[place])

        def back() -> list[torch.Tensor]:
            with torch.no_grad():
                for to, source in zip(ours, theirs):
                    to.copy_(source)
            return ours

        waited = []

        def received(timeout) -> bool:
            if not waited:  # gloo would wait for a second message
                work.wait(timeout)
                waited.append(back())
            return True

        def reduced(done: torch.futures.Future) -> list[torch.Tensor]:
            done.value()  # raises what the collective did
            return back()

        if name == "recv_":  # gloo's work has no future: the copy is the wait's
            return PythonCallbackWork(received).boxed()
        boxed = _create_work_from_future(work.get_future().then(reduced)).boxed()
        return (args[place], boxed) if several else boxed

    return collective


def register() -> None:
    """The collectives' kernels."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return
    library = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        # That torch's own kernel for the key is replaced: it looks for a backend in C++, which we have none of.
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for name in WRITTEN:
            if hasattr(torch.ops.c10d, name):
                library.impl(name, _implementation(name), "PrivateUse1")
    _library.append(library)


# -- in c10d's lists of backends


def capability(original: dict) -> dict:
    """A group made with "gloo" says that it serves the device."""
    return {**original, "gloo": [*original.get("gloo", ()), T.NAME]}


def default_backend(original: dict) -> dict:
    """A group that names no backend gets gloo for the device."""
    return {**original, T.NAME: "gloo"}


def backend_config(original):
    """A group made for the device serves the CPU too."""

    @wraps(original)
    def __init__(self, backend):
        original(self, backend)
        if set(self.device_backend_map) == {T.NAME}:
            self.device_backend_map = {"cpu": self.device_backend_map[T.NAME], **self.device_backend_map}

    return __init__
