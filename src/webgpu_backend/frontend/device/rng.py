"""`torch.Generator(device="webgpu")` and the seed functions of `torch.webgpu`.

torch makes generators in C++ for its own devices only, so ours is a CPU generator whose stream is a Philox state.
"""

from struct import pack, unpack

import torch

from ... import tensor as T
from ...ops.random.streams import DEFAULT, STREAMS, fresh_seed
from ...plan import Philox
from .constructors import by_device, is_ours

_Base = torch._C.Generator


class WebGPUGenerator(_Base):
    """A generator of the device. Its state is 16 bytes: the seed, and how many Philox counters have been used."""

    def __init__(self, device=None, philox: Philox | None = None):
        self.philox = philox or Philox()
        STREAMS[self._cdata] = self.philox

    def __new__(cls, device=None, philox=None):
        return super().__new__(cls)

    @property
    def device(self) -> torch.device:
        return T.DEVICE

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
        return WebGPUGenerator().set_state(self.get_state())

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, other: "WebGPUGenerator") -> "WebGPUGenerator":
        return self.set_state(other.get_state())

    def cpu_twin(self) -> torch.Generator:
        return cpu_twin(self.philox)

    def __reduce__(self):
        return _restore, (self.get_state(),)

    def __repr__(self):
        return "<torch.Generator device=webgpu:0>"


def _restore(state: torch.Tensor) -> WebGPUGenerator:
    return WebGPUGenerator().set_state(state)


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
    return WebGPUGenerator() if is_ours(device) else NotImplemented


# -- torch.webgpu

default_generator = WebGPUGenerator(philox=DEFAULT)
default_generators = (default_generator,)


def manual_seed(seed: int) -> None:
    """Seeds the device's generator; `torch.manual_seed` does so too."""
    default_generator.manual_seed(seed)


def seed() -> None:
    """Seeds the device's generator with a random number."""
    default_generator.seed()


def initial_seed() -> int:
    return default_generator.initial_seed()


def get_rng_state(device=T.NAME) -> torch.Tensor:
    return default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device=T.NAME) -> None:
    default_generator.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state()]


def set_rng_state_all(new_states) -> None:
    for state in new_states:
        set_rng_state(state)


def fork_rng(devices=None, enabled: bool = True):
    """Context manager: the generator's state is what it was, afterwards."""
    return torch.random.fork_rng([0] if devices is None else devices, enabled, device_type=T.NAME)


PUBLIC = {
    each.__name__: each
    for each in (
        manual_seed, seed, initial_seed, get_rng_state, set_rng_state, get_rng_state_all, set_rng_state_all, fork_rng,
    )
} | {"default_generators": default_generators, "manual_seed_all": manual_seed, "seed_all": seed}  # fmt: skip


def generator(base: type) -> type:
    """In the place of torch.Generator: ours for our device."""
    return by_device(base, _make)
