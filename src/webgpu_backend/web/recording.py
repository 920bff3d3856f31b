"""A call of a function over outlines, as a page can repeat it: its steps, and every buffer that they name.

Unlike the plan of an operator, a recording may use memory that is none of its arguments: parameters, caches and
moments are the page's weights, and those that a step writes are its state.
"""

import ctypes
import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

import torch

from .. import tensor as T
from ..dtypes import Unsupported
from ..frontend import first_use
from ..frontend.dispatch import fallback
from ..kernels.pointwise.fuse import fuse
from ..plan.outline import Planning
from ..program import Caps, Program, Step, Window
from ..runtime.blocks import Block
from ..runtime.gpu import gpu
from .surroundings import Surroundings

OURS, TORCHS = str(Path(__file__).parents[1]), str(Path(torch.__file__).parent)
UPLOAD = Program("upload", "", "rw", 8)  # no shader: bytes of a constant, copied to a place in a buffer
_OVERLOAD = type(torch.ops.aten.add.Tensor)
_place = Struct("<II")


class ExportError(RuntimeError):
    """What a function does cannot be done in a page."""


@dataclass(frozen=True)
class Value:
    """An input or an output: where it lies and what it looks like."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    block: Block | None  # None: it has no elements
    offset: int = 0  # bytes

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * torch.Size(self.shape).numel()


@dataclass
class Recording:
    """What a call does. Blocks with a handle are real: they outlive the call."""

    caps: Caps
    steps: list[tuple[Step, tuple]]
    drawn: dict[int, tuple[int, int]]  # by step: which draw, and how many elements into it
    draws: list[tuple[object, int]]  # stream and elements of each
    inputs: list[Value]
    outputs: list[Value]
    nbytes: dict[Block, int]  # of each buffer: blocks without memory serve other recordings, of other sizes, again
    uploads: dict[Block, bytes] = field(default_factory=dict)

    @property
    def written(self) -> set[Block]:
        return {
            block_of(b) for step, buffers in self.steps for b, a in zip(buffers, step.program.access) if a == "w"
        }  # fmt: skip

    def places(self) -> dict[Block, object]:
        """A name for each buffer that is the same in another call: what outlives the call is itself, what the host
        uploads is its bytes, what is made in the call has its place in it."""
        found: dict[Block, object] = dict(self.uploads)
        bound = [block_of(b) for _, buffers in self.steps for b in buffers]
        count = 0
        for block in (*[v.block for v in self.inputs], *bound, *[v.block for v in self.outputs]):
            if block is None or block in found:
                continue
            if block.handle is not None:
                found[block] = block
            else:
                found[block] = count
                count += 1
        return found

    def structure(self) -> tuple:
        """What this call has in common with one over other sizes that takes the same steps."""
        places = self.places()
        steps = [
            (s.program.name, s.program.wgsl, tuple([_named(b, places) for b in buffers]), len(s.params), s.draw)
            for s, buffers in self.steps
        ]
        drawn = tuple([(i, number) for i, (number, _) in self.drawn.items()])
        ends = [(v.name, v.dtype, len(v.shape), places.get(v.block)) for v in (*self.inputs, *self.outputs)]
        return (tuple(steps), drawn, tuple(ends), len(self.draws))

    def numbered(self) -> list[tuple]:
        """The steps with their numbers, comparable with those of another call."""
        places = self.places()
        return [
            (s.program.name, s.program.wgsl, s.params, s.grid, tuple([_named(b, places) for b in buffers]))
            for s, buffers in self.steps
        ]


def _named(buffer, places: dict):
    return (places[buffer.block], *buffer[1:]) if type(buffer) is Window else places[buffer]


def block_of(buffer) -> Block:
    return buffer.block if type(buffer) is Window else buffer


class _Recorder(Planning):
    """Planning that also takes what the host uploads, knows which real blocks it has looked into, and refuses memory
    that an earlier call made."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        self.uploads: dict[Block, bytes] = {}
        self.looked: set[Block] = set()
        self.own: set[Block] = set()

    def __enter__(self):
        self.queue, self.read_real = gpu().queue, gpu().queue.read
        self.queue.read = self.read
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.queue.read = self.read_real

    def take(self, nbytes: int, size: int) -> Block:
        block = super().take(nbytes, size)
        self.own.add(block)
        return block

    def record(self, step: Step, buffers: tuple, *rest) -> None:
        for buffer in buffers:
            self.check(block_of(buffer), step.program.name)
        super().record(step, buffers, *rest)

    def check(self, block: Block | None, where: str) -> None:
        """Asked at once: a block of the call before may serve this one after its tensor has gone."""
        if block is not None and block.handle is None and block not in self.own:
            raise ExportError(
                f"webgpu export: {self.name} uses memory that its call before made (in {where}). Make what outlives "
                "a call before the export, as a tensor or a buffer of a module, and write to it in place"
            )

    def read(self, block: Block, *rest) -> None:
        """A value of a constant is as good as a number in the program; of state, it would be wrong in the next call."""
        self.looked.add(block)
        self.read_real(block, *rest)

    def upload(self, block: Block, offset: int, address: int, nbytes: int) -> None:
        data = ctypes.string_at(address, nbytes)
        source = next((b for b, known in self.uploads.items() if known == data), None)
        if source is None:
            source = Block(None, -(-nbytes // 256) * 256)
            source.nbytes = nbytes
            self.uploads[source] = data
        self.steps.append((Step(UPLOAD, _place.pack(offset, nbytes), (1, 1, 1)), (source, block)))


class _Capabilities:
    """Inside, kernels are planned for another adapter."""

    def __init__(self, caps: Caps):
        self.caps = caps

    def __enter__(self):
        self.before = gpu().caps
        gpu().caps = self.caps

    def __exit__(self, *_):
        gpu().caps = self.before


def record(
    name: str,
    function: Callable,
    inputs: list[dict[str, torch.Tensor]],
    call: Callable,
    caps: Caps,
    around: Surroundings,
) -> list[Recording]:
    """What `call(function, outlines of the inputs by name)`, a dictionary of tensors by name, does for these
    capabilities, for each of several inputs. It is first called once more: a page does the same at every call, so a
    function must, too."""
    first_use.complete()
    with _Capabilities(caps), around.kept():
        first, *found = [_record_once(name, function, given, call) for given in (inputs[0], *inputs)]
    _compare(name, first.numbered(), found[0].numbered())
    return found


def _record_once(name: str, function, inputs: dict, call) -> Recording:
    with _Recorder(name) as recorder:
        mode, fallback.mode = fallback.mode, "error"
        try:
            outlines = {key: _outline(key, t) for key, t in inputs.items()}
            given = [_value(key, t) for key, t in outlines.items()]
            results = call(function, outlines)
            outputs = [_output(key, t) for key, t in results.items()]
            for value in outputs:
                recorder.check(value.block, f"the output {value.name!r}")
            recording = _finished(recorder, given, outputs)
            if recorder.looked & recording.written:
                raise ExportError(
                    f"webgpu export: {name} reads the values of a tensor that it also writes: a page plans without them"
                )
            return recording
        except (T.Unplannable, Unsupported, fallback.FallbackError, NotImplementedError, TypeError) as error:
            raise _refusal(name, error) from error
        finally:
            fallback.mode = mode
            recorder.release()


def _outline(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel():
        raise ExportError(f"webgpu export: the input {name!r} has no elements (shape {list(tensor.shape)})")
    outline = T.empty(tensor.shape, tensor.dtype)
    return outline.requires_grad_() if tensor.requires_grad else outline


def _value(name: str, t: torch.Tensor) -> Value:
    block = T.block_of(t) if t.numel() else None
    return Value(name, t.dtype, tuple(t.shape), block, t.storage_offset() * t.element_size())


def _output(name: str, t) -> Value:
    """A result as the page reads it: dense, from a multiple of four bytes on."""
    if not isinstance(t, torch.Tensor):
        raise ExportError(f"webgpu export: the output {name!r} is a {type(t).__name__}; only tensors can be returned")
    if t.device.type != T.NAME:
        raise ExportError(f"webgpu export: the output {name!r} is on {t.device}, not on the device")
    t = t.detach().resolve_conj().resolve_neg()
    if not t.is_contiguous() or t.storage_offset() * t.element_size() % 4:
        t = t.clone(memory_format=torch.contiguous_format)
    return _value(name, t)


def _finished(recorder: _Recorder, inputs: list[Value], outputs: list[Value]) -> Recording:
    """With elementwise steps fused; what a result or an input lies in stays."""
    seen = {v.block for v in (*inputs, *outputs)}
    passing = set(recorder.made) - seen
    steps, drawn = fuse(list(recorder.steps), dict(recorder.drawn), passing, recorder.caps)
    bound = {block_of(b) for _, buffers in steps for b in buffers} | seen - {None}
    nbytes = {block: block.nbytes for block in bound}
    return Recording(recorder.caps, steps, drawn, list(recorder.sources), inputs, outputs, nbytes, recorder.uploads)


def _compare(name: str, first: list[tuple], second: list[tuple]) -> None:
    if len(first) != len(second):
        raise ExportError(
            f"webgpu export: the first call of {name} makes {len(first)} dispatches and the second {len(second)}; a "
            "page does the same at every call"
        )
    for a, b in zip(first, second):
        if a != b:
            raise ExportError(
                f"webgpu export: the second call of {name} gives {b[0]} other numbers than the first. A number of "
                "Python's, or a tensor on the CPU, changes from call to call: keep it in a tensor on the device. The "
                "step counts of torch's optimizers are there with fused=True or capturable=True"
            )


# -- refusals


def _refusal(name: str, error: BaseException) -> ExportError:
    """Names the operator and the line of the model."""
    frames = list(traceback.walk_tb(error.__traceback__))
    users = [i for i, (frame, _) in enumerate(frames) if not _is_library(frame.f_code.co_filename)]
    at = users[-1] if users else 0
    frame, line = frames[at]
    path = frame.f_code.co_filename
    operator, on_cpu = _operator(frames[at + 1 :])
    if on_cpu:
        why = f"{operator} has no kernel for the device and would run on the CPU"
    elif isinstance(error, T.Unplannable):
        why = f"{operator} needs {error}: a page plans without values (shapes and branches that depend on data)"
    else:
        why = f"{operator}: {error}"
    source = linecache.getline(path, line).strip()
    return ExportError(f'webgpu export: {name} cannot be exported. {why}\n  File "{path}", line {line}\n    {source}')


def _is_library(path: str) -> bool:
    return path.startswith((OURS, TORCHS, "<")) or "site-packages" in path and "torch" in path


def _operator(frames: list) -> tuple[str, bool]:
    """The operator that was called, and whether the CPU was to run it."""
    name, on_cpu = "", False
    for frame, _ in frames:
        for local in ("op", "overload", "operator"):
            value = frame.f_locals.get(local)
            found = value.name() if isinstance(value, _OVERLOAD) else getattr(value, "name", None)
            if isinstance(found, str) and not name:
                name = found if "::" in found else f"aten::{found}"
        on_cpu = on_cpu or frame.f_code is fallback.on_cpu.__code__
    if not name:
        inner = [f for f, _ in frames if f.f_code.co_filename.startswith(str(Path(OURS) / "ops"))]
        name = f"aten::{inner[0].f_code.co_name}" if inner else "an operator"
    return name, on_cpu


def contents(block: Block) -> bytes:
    """The bytes of a real block, after all recorded work."""
    size = -(-block.nbytes // 4) * 4
    memory = (ctypes.c_char * size)()
    block.pool.queue.read(block, 0, ctypes.addressof(memory), size)
    return memory.raw[: block.nbytes]
