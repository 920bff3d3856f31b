"""`torch.webgpu.compile_shader`: a user's own WGSL as functions of tensors and numbers."""

import re
from operator import ge
from struct import pack

import torch

from ... import tensor as T
from ...kernels.layout import spread
from ...plan import launch
from ...plan.places import elsewhere, moved
from ...program import Program, Step, Window
from ...runtime import gpu as runtime
from ...runtime.gpu import gpu

_BINDING = re.compile(r"@group\((\d+)\)\s*@binding\((\d+)\)\s*var\s*<\s*(\w+)\s*(?:,\s*(\w+)\s*)?>\s*(\w+)")
_ENTRY = re.compile(
    r"@compute\s*@workgroup_size\(\s*(\d+)u?\s*(?:,\s*(\d+)u?\s*)?(?:,\s*(\d+)u?\s*)?,?\s*\)\s*fn\s+(\w+)"
)
_STRUCT = re.compile(r"struct\s+P\s*\{([^}]*)\}")
_FIELD = re.compile(r"(\w+)\s*:\s*(\w+)")
_FORMATS = {"f32": "f", "i32": "i", "u32": "I"}


class Kernel:
    """One entry point. Call it with its tensors, in binding order, then its numbers, in the order of `struct P`."""

    def __init__(self, program: Program, names: list[str], fields: list[tuple[str, str]], size: tuple[int, int, int]):
        self.program = program
        self.names = names
        self.fields = fields
        self.workgroup_size = size
        self.__name__ = program.entry
        self._accepted = (1 << 62,) * len(names)  # bytes that were enough for each tensor

    def __call__(self, *args, threads: int | tuple[int, ...] | None = None) -> None:
        """`threads`: how many invocations are wanted, at least, per dimension; by default the elements of the first
        tensor. Whole workgroups run, so the shader checks its bounds."""
        if runtime.several and (other := elsewhere(args, {}, self.__name__)) is not None:
            return moved(self, other, args, {"threads": threads})
        tensors, numbers = args[: len(self.names)], args[len(self.names) :]
        if len(args) != len(self.names) + len(self.fields):
            raise TypeError(
                f"{self.__name__}() takes {len(self.names)} tensors ({', '.join(self.names)}) and {len(self.fields)} "
                f"numbers ({', '.join(n for n, _ in self.fields) or 'none'}), got {len(args)} arguments"
            )
        buffers = []
        for name, access, tensor in zip(self.names, self.program.access, tensors):
            buffers.append(self._buffer(name, access, tensor))
        params = b""
        for (name, kind), value in zip(self.fields, numbers):
            try:
                params += pack("<" + _FORMATS[kind], float(value) if kind == "f32" else int(value))
            except Exception as error:
                raise TypeError(f"{self.__name__}(): {name} must be a number that fits {kind}: {error}") from None
        if any(b is None for b in buffers):
            return
        self._check_aliases(buffers)
        groups = self._groups(threads if threads is not None else tensors[0].numel())
        if 0 not in groups:
            self._launch(Step(self.program, params, groups), buffers)

    def _check_aliases(self, buffers: list[Window]) -> None:
        """A dispatch that reads and writes one buffer by two bindings would be refused, with all that is recorded."""
        written = {b.block: name for name, a, b in zip(self.names, self.program.access, buffers) if a == "w"}
        for name, access, buffer in zip(self.names, self.program.access, buffers):
            if access == "r" and buffer.block in written:
                raise ValueError(
                    f"{self.__name__}(): {name} is read and {written[buffer.block]} is written, but both lie in the "
                    f"same storage; pass {name}.clone()"
                )

    def _launch(self, step: Step, buffers: list[Window]) -> None:
        """A text may want more bytes of a binding than are there, which only the adapter knows: the smallest buffers
        so far are tried alone, so that nothing else is refused with them."""
        sizes = tuple([b.size for b in buffers])
        if all(map(ge, sizes, self._accepted)) or any(b.block.handle is None for b in buffers):
            launch(step, *buffers)
            return
        gpu().queue.attempt(step, tuple(buffers), step.params)
        self._accepted = tuple(map(min, sizes, self._accepted))

    def _buffer(self, name: str, access: str, tensor) -> Window | None:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{self.__name__}(): {name} must be a tensor, got {type(tensor).__name__}")
        if tensor.device.type != T.NAME:
            raise RuntimeError(f"{self.__name__}(): {name} is on {tensor.device}, expected {T.here()}")
        if not tensor.numel():
            return None
        if not tensor.is_contiguous() or tensor.storage_offset():
            if access == "w":
                raise ValueError(
                    f"{self.__name__}(): {name} is written, so it must be contiguous and start its storage; got "
                    f"strides {tuple(tensor.stride())} and offset {tensor.storage_offset()}"
                )
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        return Window(T.block_of(tensor), 0, (tensor.numel() * tensor.element_size() + 3) & ~3)

    def _groups(self, threads) -> tuple[int, int, int]:
        if isinstance(threads, int):
            threads = (threads,)
        counts = [-(-t // s) for t, s in zip((*threads, 1, 1)[:3], self.workgroup_size)]
        limit = gpu().caps.max_groups
        if max(counts) > limit:
            if len(threads) > 1:
                raise ValueError(f"{self.__name__}(): {counts} workgroups; a dimension holds {limit}")
            return spread(counts[0], gpu().caps)
        return tuple(counts)


class ShaderLibrary:
    """The entry points of a compiled text, as attributes."""

    def __init__(self, kernels: dict[str, Kernel]):
        self._kernels = kernels

    def __getattr__(self, name: str) -> Kernel:
        try:
            return self._kernels[name]
        except KeyError:
            raise AttributeError(f"the shader has no entry point {name!r}; it has {', '.join(self._kernels)}") from None

    def __dir__(self):
        return list(self._kernels)


def compile_shader(source: str, *, trusted: bool = False) -> ShaderLibrary:
    """Compiles WGSL and returns its entry points as functions.

    Tensors are storage bindings of group 0, numbered from 0. Numbers are the fields (f32, i32, u32) of a `struct P`,
    read as `p.name`; where `p` lives is added for you. `trusted=True` drops the driver's bounds checks and loop guards:
    only for text that proves its indices.

        lib = torch.webgpu.compile_shader('''
            @group(0) @binding(0) var<storage, read> x: array<f32>;
            @group(0) @binding(1) var<storage, read_write> y: array<f32>;
            struct P { n: u32, scale: f32 }
            @compute @workgroup_size(64)
            fn scaled(@builtin(global_invocation_id) id: vec3<u32>) {
                if (id.x < p.n) { y[id.x] = x[id.x] * p.scale; }
            }''')
        lib.scaled(x, y, x.numel(), 2.0)

    A one-dimensional call of more than 65,535 workgroups is spread over two dimensions: use `workgroup_id.y` then.
    """
    text = re.sub(r"//[^\n]*", "", source)
    bindings = sorted(
        (int(i), access or "read", name) for g, i, space, access, name in _BINDING.findall(text) if g == "0"
    )
    if [i for i, _, _ in bindings] != list(range(len(bindings))):
        raise ValueError(f"bindings of group 0 must be numbered from 0 without gaps, got {[i for i, _, _ in bindings]}")
    struct = _STRUCT.search(text)
    fields = _FIELD.findall(struct.group(1)) if struct else []
    for name, kind in fields:
        if kind not in _FORMATS:
            raise ValueError(f"struct P: {name} is {kind}; only f32, i32 and u32 fields can be passed")
    entries = _ENTRY.findall(text)
    if not entries:
        raise ValueError("the shader has no entry point: '@compute @workgroup_size(...) fn name' was not found")
    access = "".join("w" if a == "read_write" else "r" for _, a, _ in bindings)
    queue = gpu().queue
    kernels = {}
    for x, y, z, name in entries:
        program = Program(f"user_{name}", source, access, 4 * len(fields), trusted, name)
        queue.compile(program)
        size = (int(x), int(y or 1), int(z or 1))
        kernels[name] = Kernel(program, [n for _, _, n in bindings], fields, size)
    return ShaderLibrary(kernels)
