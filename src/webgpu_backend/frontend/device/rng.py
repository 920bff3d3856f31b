"""`torch.Generator(device="webgpu")` and the seed functions of `torch.webgpu`.

torch makes generators in C++ for its own devices only, so ours is a CPU generator whose stream is a Philox state.
"""

from collections.abc import Sequence
from struct import pack, unpack

import torch

from ... import tensor as T
from ...ops.random.streams import STREAMS, default, fresh_seed, restart_all
from ...plan import Philox
from ...runtime import gpu as runtime
from .constructors import by_device, is_ours

_Base = torch._C.Generator


class WebGPUGenerator(_Base):
    """A generator of the device. Its state is 16 bytes: the seed, and how many Philox counters have been used."""

    def __init__(self, device=None, philox: Philox | None = None):
        self.philox = philox or Philox()
        index = None if device is None else torch.device(device).index
        self.index = runtime.current() if index is None else index
        STREAMS[self._cdata] = self.philox

    def __new__(cls, device=None, philox=None):
        return super().__new__(cls)

    @property
    def device(self) -> torch.device:
        return torch.device(T.NAME, self.index)

    def manual_seed(self, seed: int) -> "WebGPUGenerator":
        self.philox.restart(_checked(seed))
        super().manual_seed(seed)  # for an operator on CPU tensors, which torch does not refuse this generator
        return self

    def seed(self) -> int:
        self.philox.restart(fresh_seed())
        return self.philox.seed

    def initial_seed(self) -> int:
        return self.philox.seed

    def get_offset(self) -> int:
        return self.philox.offset

    def set_offset(self, offset: int) -> "WebGPUGenerator":
        self.philox.offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(pack("<QQ", self.philox.seed, self.philox.offset)), dtype=torch.uint8)

    def set_state(self, state: torch.Tensor) -> "WebGPUGenerator":
        if not isinstance(state, torch.Tensor) or state.dtype != torch.uint8:
            raise TypeError("expected a torch.ByteTensor, as get_state() returns it")
        data = bytes(state.cpu().flatten().tolist())
        if len(data) != 16:
            raise RuntimeError(f"RNG state is wrong size: expected 16 bytes, got {len(data)}")
        self.philox.seed, self.philox.offset = unpack("<QQ", data)
        return self

    def clone_state(self) -> "WebGPUGenerator":
        return WebGPUGenerator(self.device).set_state(self.get_state())

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, other: "WebGPUGenerator") -> "WebGPUGenerator":
        return self.set_state(other.get_state())

    def cpu_twin(self) -> torch.Generator:
        return cpu_twin(self.philox)

    def __reduce__(self):
        return _restore, (self.get_state(), self.index)

    def __repr__(self):
        return f"<torch.Generator device={self.device}>"


def _restore(state: torch.Tensor, index: int = 0) -> WebGPUGenerator:
    return WebGPUGenerator(torch.device(T.NAME, index)).set_state(state)


def cpu_twin(philox: Philox) -> torch.Generator:
    """A CPU generator for one fallback call, decided by the stream's state, which moves on."""
    draw = philox.take(4)
    return _Base().manual_seed((draw.seed ^ (draw.offset * 0x9E3779B97F4A7C15)) & ((1 << 63) - 1))


def _checked(seed) -> int:
    seed = int(seed)
    if not -(1 << 63) <= seed < 1 << 64:
        raise RuntimeError(f"Overflow when unpacking long long: {seed}")
    return seed


def _make(device="cpu"):
    return WebGPUGenerator(device) if is_ours(device) else NotImplemented


# -- torch.webgpu


class _Generators(Sequence):
    """The generators of the devices, each made when it is asked for."""

    def __init__(self):
        self._made: dict[int, WebGPUGenerator] = {}

    def __len__(self) -> int:
        from . import module

        return module.device_count()

    def __getitem__(self, index: int) -> WebGPUGenerator:
        if index not in self._made:
            if not 0 <= index < len(self):
                raise IndexError(f"webgpu: there are {len(self)} devices, no device {index}")
            self._made[index] = WebGPUGenerator(torch.device(T.NAME, index), default(index))
        return self._made[index]


default_generators = _Generators()


def _generator(device) -> WebGPUGenerator:
    """Of a device in any of its spellings."""
    index = device if isinstance(device, int) else torch.device(device).index
    return default_generators[runtime.current() if index in (None, -1) else index]


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device."""
    _generator(T.NAME).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; `torch.manual_seed` does so too."""
    restart_all(_checked(seed))
    for generator in list(default_generators._made.values()):
        generator.manual_seed(seed)


def seed() -> None:
    """Seeds the current device's generator with a random number."""
    _generator(T.NAME).seed()


def seed_all() -> None:
    """Seeds the generators of all devices with one random number."""
    manual_seed_all(fresh_seed())


def initial_seed() -> int:
    return _generator(T.NAME).initial_seed()


def get_rng_state(device=T.NAME) -> torch.Tensor:
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device=T.NAME) -> None:
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def fork_rng(devices=None, enabled: bool = True):
    """Context manager: the generators' states are what they were, afterwards; all of them, or those of the devices that
    are named."""
    devices = range(len(default_generators)) if devices is None else devices
    return torch.random.fork_rng(devices, enabled, device_type=T.NAME)


PUBLIC = {
    each.__name__: each
    for each in (
        manual_seed, manual_seed_all, seed, seed_all, initial_seed, get_rng_state, set_rng_state, get_rng_state_all,
        set_rng_state_all, fork_rng,
    )
} | {"default_generators": default_generators}  # fmt: skip


def generator(base: type) -> type:
    """In the place of torch.Generator: ours for our device."""
    return by_device(base, _make)
