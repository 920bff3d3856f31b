"""torch.distributed on device tensors: PyTorch's own collectives over gloo, on copies in host memory.

c10d's operators choose a process group's backend by the tensors' dispatch key, and gloo knows host memory only. So ours
call the same operator on the CPU, and copy what it has written back to the device once its work is done.
"""

import warnings
from dataclasses import dataclass
from functools import wraps
from threading import Lock

import torch
from torch.utils._pytree import tree_map

from ... import tensor as T


@dataclass(frozen=True)
class Written:
    """The argument that an operator writes: what it only reads needs no way back, what it only writes no way there.
    `root`: the argument that names the one process that reads it (of "broadcast_") or writes it ("reduce_")."""

    argument: str
    read: bool = False
    root: str = ""
    flat: bool = False  # gloo compares shapes where only the count of elements matters


WRITTEN: dict[str, Written | None] = {
    "allreduce_": Written("tensors", read=True),
    "allreduce_coalesced_": Written("tensors", read=True),
    "broadcast_": Written("tensors", root="root_rank"),
    "reduce_": Written("tensors", read=True, root="root_rank"),
    "allgather_": Written("output_tensors"),
    "_allgather_base_": Written("output_tensor", flat=True),
    "allgather_coalesced_": Written("output_lists"),
    "allgather_into_tensor_coalesced_": Written("outputs", flat=True),
    "gather_": Written("output_tensors"),
    "scatter_": Written("output_tensors"),
    "reduce_scatter_": Written("output_tensors"),
    "_reduce_scatter_base_": Written("output_tensor", flat=True),
    "reduce_scatter_tensor_coalesced_": Written("outputs", flat=True),
    "alltoall_": Written("output_tensors"),
    "alltoall_base_": Written("output"),
    "recv_": Written("tensors"),
    "recv_any_source_": Written("tensors"),
    "send": None,
    "barrier": None,
}

_library: list[torch.library.Library] = []  # lives as long as its registrations


def _tensors(value) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [t for item in value for t in _tensors(item)]


class _Rooms:
    """Large host memory that collectives have used and the next may use: the system would hand it out page by page,
    which takes as long as filling it."""

    LARGE, MOST = 1 << 20, 512 << 20  # bytes of one, and of all that wait

    def __init__(self):
        self.free: dict[tuple, list[torch.Tensor]] = {}
        self.held = 0
        self.lock = Lock()  # works end on gloo's threads

    def take(self, tensor: torch.Tensor) -> torch.Tensor:
        """Room for a tensor of the device."""
        with self.lock:
            waiting = self.free.get((tensor.dtype, tensor.numel()))
            found = waiting.pop() if waiting else None
            if found is not None:
                self.held -= found.nbytes
        if found is None:
            with torch.inference_mode(False):  # it may be written in or outside that mode
                found = torch.empty(tensor.numel(), dtype=tensor.dtype, device="cpu")
        return found.view(tensor.shape)

    def give(self, room: torch.Tensor) -> None:
        """Nobody uses it any more."""
        with self.lock:
            if self.LARGE <= room.nbytes <= self.MOST - self.held:
                self.held += room.nbytes
                self.free.setdefault((room.dtype, room.numel()), []).append(room.view(-1))


_rooms = _Rooms()


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return _rooms.take(tensor).copy_(tensor.detach())


def _room(tensor: torch.Tensor) -> torch.Tensor:
    return _rooms.take(tensor)


def _is_root(args: tuple, names: list[str], written: Written | None) -> bool:
    if written is None or not written.root:
        return False
    from torch._C._distributed_c10d import ProcessGroup

    group = ProcessGroup.unbox(args[names.index("process_group")])
    return args[names.index(written.root)] == group.rank()


def _on_the_host(args: tuple, names: list[str], written: Written | None) -> list:
    """The arguments in host memory: copies of what is read, room for what is written."""
    found = []
    root = _is_root(args, names, written)
    for name, value in zip(names, args):
        only_written = written is not None and name == written.argument and not written.read and not root
        make = _room if only_written else _copy
        if written is not None and written.flat:
            place = tree_map(lambda v, make=make: make(v).view(-1) if isinstance(v, torch.Tensor) else v, value)
        else:
            place = tree_map(lambda v, make=make: make(v) if isinstance(v, torch.Tensor) else v, value)
        found.append(place)
    return found


def _implementation(name: str):
    call = getattr(torch.ops.c10d, name).default
    names = [argument.name for argument in call._schema.arguments]
    written = WRITTEN[name]
    several = len(call._schema.returns) > 1

    def collective(*args, **kwargs):
        if name == "recv_any_source_":
            raise NotImplementedError("webgpu: receive from any source by torch.distributed.recv or irecv")
        args = (*args, *[kwargs.pop(n) for n in names[len(args) :] if n in kwargs])
        host = _on_the_host(args, names, written)
        result = call(*host, **kwargs)
        if written is None:
            return result
        from torch._C._distributed_c10d import Work

        place = names.index(written.argument)
        ours, theirs = _tensors(args[place]), _tensors(host[place])
        if written.root and written.read and not _is_root(args, names, written):
            ours = []  # the others' tensors stay as they were
        boxed = _returned(Work.unbox(result[-1] if several else result), ours, theirs, name == "recv_").boxed()
        return (args[place], boxed) if several else boxed

    return collective


def _returned(work, ours: list[torch.Tensor], theirs: list[torch.Tensor], received: bool):
    """The work of gloo's, after which what it wrote is on the device."""
    from torch._C._distributed_c10d import PythonCallbackWork, _create_work_from_future

    def back() -> list[torch.Tensor]:
        with torch.no_grad():
            for to, source in zip(ours, theirs):
                to.copy_(source.view(to.shape))
        for room in theirs:
            _rooms.give(room)
        theirs.clear()
        return ours

    def reduced(done: torch.futures.Future) -> list[torch.Tensor]:
        done.value()  # raises what the collective did
        return back()

    waited = []

    def wait(timeout) -> bool:
        if not waited:  # gloo would wait for a second message
            work.wait(timeout)
            waited.append(back())
        return True

    try:
        future = None if received else work.get_future()
    except RuntimeError:  # some of gloo's works have none: the copy is the wait's
        future = None
    return PythonCallbackWork(wait) if future is None else _create_work_from_future(future.then(reduced))


class _Receipt:
    """A message from any process, on its way to the device. Gloo's work alone knows who sent it."""

    def __init__(self, work, host: torch.Tensor, tensor: torch.Tensor):
        self.work, self.host, self.tensor = work, host, tensor

    def wait(self, *timeout) -> bool:
        if self.host is not None:
            self.work.wait(*timeout)
            with torch.no_grad():
                self.tensor.copy_(self.host)
            self.host = None
        return True

    def __getattr__(self, name):
        return getattr(self.work, name)


def receive(original):
    """In the place of torch.distributed.irecv, for a source that is not named."""

    @wraps(original)
    def irecv(tensor, src=None, group=None, tag=0, group_src=None):
        if src is not None or group_src is not None or not isinstance(tensor, torch.Tensor) or not T.is_ours(tensor):
            return original(tensor, src, group, tag, group_src)
        host = _room(tensor)
        work = original(host, src, group, tag, group_src)
        return None if work is None else _Receipt(work, host, tensor)

    return irecv


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
