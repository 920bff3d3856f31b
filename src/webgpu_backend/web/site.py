"""`webgpu_backend.export`: the folder of a web page, written whole or not at all."""

import copy
import inspect
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from importlib import resources
from itertools import zip_longest
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from .. import tensor as T
from ..plan import faults
from ..plan.places import on
from ..program import Caps, Program
from ..runtime.blocks import Block
from .memory import aligned, extents, spaces
from .recording import UPLOAD, ExportError, Recording, block_of, contents, record
from .sizes import Merged, Sizes
from .surroundings import Surroundings

FORMAT = 1
SHARD = 16 << 20  # bytes of a file of weights
# What every browser with WebGPU has, and what some have: the page takes the last plan that its adapter can run.
_BASE = Caps(
    kind="gpu", f16=False, i64=False, f64=False, subgroups=False, immediate_bytes=0, max_binding=128 << 20,
    max_buffer=256 << 20, max_bindings=8, workgroup_bytes=16384, workgroup_size=256,
)  # fmt: skip
LANES = 8  # that a browser's subgroups must have at least

ADAPTERS: list[tuple[str, tuple[str, ...], Caps]] = [
    ("gpu", (), _BASE),
    ("gpu", ("shader-f16",), replace(_BASE, f16=True)),
    ("gpu", ("subgroups",), replace(_BASE, subgroups=True, lanes=LANES)),
    ("gpu", ("shader-f16", "subgroups"), replace(_BASE, f16=True, subgroups=True, lanes=LANES)),
    ("cpu", (), replace(_BASE, kind="cpu")),
]
_DTYPES = frozenset(
    ("float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "bool",
     "complex64")
)  # fmt: skip


def export(
    module_or_function,
    example_args,
    folder,
    dynamic_shapes=None,
    *,
    name: str | None = None,
    files: Mapping | None = None,
) -> dict:
    """Writes a static web page that runs a module or a function in any browser with WebGPU.

    `module_or_function` is a module, a function over tensors of the device (a training step with its optimizer is
    one), or a program of torch.export; or a dictionary of several by name, which then share their weights and state,
    with a dictionary of example arguments. Of the examples only dtypes and shapes count; numbers stay as they are.
    Tensors that a call writes (parameters, moments, caches, arguments written in place) stay on the GPU between calls.
    `dynamic_shapes` names dimensions that the page chooses, as torch.export has it: {"x": {0: Dim("batch", max=64)}}.

    `files` are put beside the model, by name: paths or bytes. An `index.html` among them takes the place of ours.

    `folder` is replaced. Returns what is printed: bytes of the weights, of the download and of the page's memory at
    its largest.
    """
    with on(_device_of(module_or_function, example_args)):
        functions = _functions(module_or_function, example_args, dynamic_shapes)
        around = Surroundings({f.name: f.call for f in functions})
        around.prepare()
        writer = _Writer(name or _title(module_or_function), around)
        for function in functions:
            writer.add(function)
        report = writer.write(Path(folder), files or {})
    print(
        f"{folder}: {report['programs']} kernels, {_mib(report['weights'])} of weights, {_mib(report['download'])} to "
        f"download, {_mib(report['peak'])} of GPU memory at most"
    )
    return report


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f} MiB"


# -- what is exported


class _Function:
    """A function and its inputs by name; `call` takes tensors of the device."""

    def __init__(self, name: str, call, args, sizes):
        self.name = name
        self.call, args = _on_device(call, args)
        self.args, self.kwargs = _arguments(args)
        names = _names(self.call, self.args, self.kwargs)
        leaves, self.tree = pytree.tree_flatten((self.args, self.kwargs))
        self.leaves = list(zip(names, leaves))
        self.inputs = {n: x for n, x in self.leaves if isinstance(x, torch.Tensor)}
        self.sizes = Sizes(list(self.inputs), self.inputs, sizes)
        self.example = self.sizes.example(self.inputs)

    def results(self, function: Callable, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        leaves = [given.get(n, x) if isinstance(x, torch.Tensor) else x for n, x in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        if isinstance(function, torch.nn.Module):
            with torch.no_grad():
                return _named_results(function(*args, **kwargs))
        return _named_results(function(*args, **kwargs))


def _device_of(what, example_args) -> int:
    """The number of the device that modules and examples are on, or of the current one: a page has one GPU."""
    modules = [m for m in (what.values() if isinstance(what, Mapping) else (what,)) if isinstance(m, torch.nn.Module)]
    state = [t for m in modules for t in (*m.parameters(), *m.buffers())]
    found = {t.device.index for t in (*state, *pytree.tree_leaves(example_args)) if T.is_ours(t)}
    if len(found) > 1:
        named = " and ".join([f"{T.NAME}:{i}" for i in sorted(found)])
        raise ExportError(f"webgpu export: a page has one GPU, and what is to be exported is on {named}")
    return found.pop() if found else T.here().index


def _functions(what, example_args, sizes) -> list[_Function]:
    if not isinstance(what, Mapping):
        return [_Function("forward", what, example_args, sizes or {})]
    if not isinstance(example_args, Mapping) or set(example_args) != set(what):
        raise ExportError(
            f"webgpu export: for the functions {sorted(what)}, example_args must be a dictionary with the same names"
        )
    sizes = sizes or {}
    return [_Function(n, f, example_args[n], sizes.get(n, {})) for n, f in what.items()]


def _on_device(call, args):
    """A module that is elsewhere is copied to the device; a program of torch.export becomes a module."""
    if isinstance(call, torch.export.ExportedProgram):
        from torch.export.passes import move_to_device_pass

        args = call.example_inputs if args is None else args
        return move_to_device_pass(call, T.here()).module(), args
    if isinstance(call, torch.nn.Module):
        state = [*call.parameters(), *call.buffers()]
        if any(t.device.type != T.NAME for t in state):
            call = copy.deepcopy(call).to(T.here())
    elif not callable(call):
        raise ExportError(f"webgpu export: a {type(call).__name__} is neither a module nor a function")
    return call, args


def _arguments(args) -> tuple[tuple, dict]:
    """Positional arguments and named ones: (a, b), {"x": a}, ((a,), {"x": b}) as torch.export has them, or a tensor."""
    if isinstance(args, torch.Tensor):
        return (args,), {}
    if isinstance(args, Mapping):
        return (), dict(args)
    if isinstance(args, tuple) and len(args) == 2 and isinstance(args[0], tuple) and isinstance(args[1], dict):
        return args
    return tuple(args or ()), {}


def _names(call, args: tuple, kwargs: dict) -> list[str]:
    """A name for every leaf of the arguments: the parameter's, with the place within it."""
    function = call.forward if isinstance(call, torch.nn.Module) else call
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
        parameters = list(bound.signature.parameters.values())
    except (TypeError, ValueError) as error:
        raise ExportError(f"webgpu export: the example arguments do not fit: {error}") from None
    names: list[str] = []
    for i in range(len(args)):
        p = parameters[min(i, len(parameters) - 1)]
        variadic = p.kind is inspect.Parameter.VAR_POSITIONAL
        names.append(f"{p.name}{i - parameters.index(p)}" if variadic else p.name)
    pairs, _ = pytree.tree_flatten_with_path((args, kwargs))
    found = []
    for path, _ in pairs:
        first = names[path[1].idx] if path[0].idx == 0 else str(path[1].key)
        found.append(".".join([first, *(str(getattr(k, "idx", getattr(k, "key", k))) for k in path[2:])]))
    return found


def _named_results(result) -> dict:
    if isinstance(result, torch.Tensor):
        return {"output": result}
    if result is None:
        return {}
    if isinstance(result, Mapping):
        return {str(k): v for k, v in result.items() if v is not None}
    if hasattr(result, "_asdict"):
        return result._asdict()
    if isinstance(result, (list, tuple)):
        return {f"output{i}": v for i, v in enumerate(result) if v is not None}
    raise ExportError(f"webgpu export: a result of {type(result).__name__} is no tensor and no collection of tensors")


def _title(what) -> str:
    if isinstance(what, Mapping):
        return " and ".join(what)
    if isinstance(what, torch.nn.Module):
        return type(what).__name__
    return getattr(what, "__name__", type(what).__name__)


# -- model.json


class _Writer:
    """Collects programs, weights and functions, then writes them."""

    def __init__(self, title: str, around: Surroundings):
        self.title = title
        self.around = around
        self.names: dict[Block, str] = {}
        for name, tensor in around.named():
            if tensor.numel():
                self.names.setdefault(T.block_of(tensor), name)
        self.programs: dict[tuple, int] = {}
        self.weights: dict[object, dict] = {}  # by block, by bytes of an upload, or by the argument that is written
        self.functions: dict[str, dict] = {}
        self.scratch: list[int] = []  # bytes of the spaces that all functions share

    def add(self, function: _Function) -> None:
        sizes = function.sizes
        points = sorted(sizes.points(), key=lambda p: p != function.example)  # the example's own first
        given = [sizes.inputs(function.inputs, point) for point in points]
        plans, seen = [], []
        for kind, features, caps in ADAPTERS:
            found = record(function.name, function.call, given[:1], function.results, caps, self.around)
            text = found[0].numbered()
            if (kind, text) in seen:
                continue
            seen.append((kind, text))
            if len(given) > 1:
                found = record(function.name, function.call, given, function.results, caps, self.around)
            groups: dict[tuple, list] = {}
            for point, recording in zip(points, found):
                groups.setdefault(recording.structure(), []).append((point, recording))
            for group in groups.values():
                group.sort(key=lambda pair: pair[0])
                plans.append({"class": kind, "features": list(features), **self._plan(function, *zip(*group))})
            first = found[0]
        state = first.written
        self.functions[function.name] = {
            "inputs": [
                {**_described(v), "shape": sizes.shape(v.name, v.shape)} for v in first.inputs if v.block not in state
            ],
            "outputs": [_described(v) for v in first.outputs],
            "plans": plans,
        }
        if sizes.ranges:
            self.functions[function.name]["sizes"] = {name: list(range_) for name, range_ in sizes.ranges.items()}

    def _plan(self, function: _Function, points: tuple, recordings: tuple[Recording, ...]) -> dict:
        """One description of the same steps at these sizes."""
        first = recordings[0]
        numbers = self._weights_of(function, first)
        extent = extents(recordings)
        homes, scratch = spaces(first, extent, set(numbers))
        self.scratch = [max(pair) for pair in zip_longest(self.scratch, scratch, fillvalue=0)]
        places = {**numbers, **{place: [home] for place, home in homes.items()}}
        merged = Merged(list(points))
        found = {"scratch": scratch, **merged.of([self._described(recording, places) for recording in recordings])}
        if function.sizes.ranges:
            found.update({"of": [function.sizes.index(point) for point in points], "numbers": merged.numbers})
        return found

    def _described(self, recording: Recording, places: dict) -> dict:
        named = {block: places[place] for block, place in recording.places().items() if place in places}
        written = recording.written
        found = {
            "inputs": [named[v.block] for v in recording.inputs if v.block not in written],
            "outputs": [None if v.block is None else [named[v.block], v.offset] for v in recording.outputs],
            "shapes": [list(v.shape) for v in recording.outputs],
            "steps": [self._step(recording, i, named) for i in range(len(recording.steps))],
        }
        if recording.draws and recording.drawn:
            found["draws"] = _draws(recording)
        return found

    def _weights_of(self, function: _Function, recording: Recording) -> dict[object, int]:
        """The number of the weight that each place is which is none of the call's own."""
        places, written = recording.places(), recording.written
        found: dict[object, int] = {}
        for value in recording.inputs:
            if value.block in written:
                found[places[value.block]] = self._argument(value.name, function.inputs[value.name])
        for data in recording.uploads.values():
            found[data] = self._weight(data, f"constant{len(self.weights)}", data, False)
        bound = [block_of(b) for _, buffers in recording.steps for b in buffers]
        for block in (*bound, *[v.block for v in recording.outputs if v.block is not None]):
            if block.handle is not None:
                found[block] = self._weight(block, self._name(block), None, block in written)
        return found

    def _name(self, block: Block) -> str:
        return self.names.get(block, f"constant{len(self.weights)}")

    def _argument(self, name: str, tensor: torch.Tensor) -> int:
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return self._weight(id(tensor), name, data, True)

    def _weight(self, key, name: str, data: bytes | None, state: bool) -> int:
        found = self.weights.get(key)
        if found is None:
            data = contents(key) if data is None else data
            found = self.weights[key] = {"number": len(self.weights), "name": name, "data": data, "state": False}
        found["state"] |= state
        return found["number"]

    def _step(self, recording: Recording, i: int, places: dict) -> dict:
        step, buffers = recording.steps[i]
        bound = [_bound(b, places) for b in buffers]
        words = [int.from_bytes(step.params[k : k + 4], "little") for k in range(0, len(step.params), 4)]
        if step.program is UPLOAD:
            return {"copy": [*bound, *words]}
        found = {"p": self._program(step.program), "u": words, "g": list(step.grid), "b": bound}
        if i in recording.drawn:
            number, elements = recording.drawn[i]
            found["d"] = [step.draw // 4, number, elements // 4]
        return found

    def _program(self, program: Program) -> int:
        return self.programs.setdefault(
            (text_of(program), program.name, program.entry, program.access, program.param_bytes, program.guarded),
            len(self.programs),
        )

    # -- files

    def write(self, folder: Path, more: Mapping) -> dict:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            report = self._write_files(made, more)
            made.chmod(0o755)
            if folder.exists():
                old = made.with_name(made.name + ".old")
                folder.rename(old)
                made.rename(folder)
                shutil.rmtree(old)
            else:
                made.rename(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        return report

    def _write_files(self, folder: Path, more: Mapping) -> dict:
        from .. import __version__

        weights, shards = self._write_weights(folder)
        programs = [
            {"name": n, "entry": e, "access": a, "params": p, **({"guarded": True} if g else {})}
            for _, n, e, a, p, g in self.programs
        ]
        kernels = "".join(f"//// {i} {key[1]}\n{key[0].rstrip()}\n" for i, key in enumerate(self.programs))
        (folder / "kernels.wgsl").write_bytes(kernels.encode())  # as text, Windows would end its lines otherwise
        model = {
            "format": FORMAT, "producer": f"webgpu_backend {__version__}", "name": self.title,
            "kernels": {"file": "kernels.wgsl", "sha256": sha256(kernels.encode()).hexdigest()},
            "programs": programs, "weights": weights, "shards": shards, "operators": faults.operators(),
            "functions": self.functions,
        }  # fmt: skip
        (folder / "model.json").write_bytes(json.dumps(model, separators=(",", ":")).encode())
        for file in resources.files(__package__).joinpath("page").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        for name, content in more.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else Path(content).read_bytes())
        held = sum(aligned(w["bytes"]) for w in weights)
        return {
            "weights": held,
            "download": sum(f.stat().st_size for f in folder.iterdir()),
            "peak": held + sum(self.scratch),
            "programs": len(programs),
        }

    def _write_weights(self, folder: Path) -> tuple[list, list]:
        """All weights as one stream of bytes, cut into files; zeros are not written."""
        stream, weights = bytearray(), []
        for w in self.weights.values():
            found = {"name": w["name"], "bytes": len(w["data"])}
            if w["state"]:
                found["state"] = True
            if any(w["data"]):
                found["at"] = len(stream)
                stream += w["data"]
                stream += bytes(-len(stream) % 16)
            weights.append(found)
        shards = []
        for at in range(0, len(stream), SHARD):
            data = bytes(stream[at : at + SHARD])
            digest = sha256(data).hexdigest()
            file = f"weights-{len(shards)}-{digest[:8]}.bin"
            (folder / file).write_bytes(data)
            shards.append({"file": file, "bytes": len(data), "sha256": digest})
        return weights, shards


def text_of(program: Program) -> str:
    """A program as browsers take it: parameters in a uniform, and the features that it uses enabled."""
    text = program.wgsl
    head = re.match(r"(\s*enable [^;]+;)*\s*", text).end()
    enabled, body = text[:head].strip(), text[head:]
    if "subgroup" in re.sub(r"//[^\n]*", "", body) and "subgroups" not in enabled:
        enabled = f"{enabled}\nenable subgroups;".strip()
    where = "@group(1) @binding(0) var<uniform> p: P;\n" if program.param_bytes else ""
    return (enabled + "\n" if enabled else "") + where + body


def _bound(buffer, places: dict):
    place = places[block_of(buffer)]
    return place if isinstance(buffer, Block) else {"of": place, "at": buffer.offset, "bytes": buffer.size}


def _described(value) -> dict:
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise ExportError(f"webgpu export: {value.name!r} is of dtype {dtype}, which a page has no arrays for")
    return {"name": value.name, "dtype": dtype, "shape": list(value.shape)}


def _draws(recording: Recording) -> dict:
    """Where each draw begins in its stream, counted from the stream's place at the start of a call."""
    streams: list = []
    used: list[int] = []
    at = []
    for stream, elements in recording.draws:
        if stream not in streams:
            streams.append(stream)
            used.append(0)
        k = streams.index(stream)
        at.append([k, used[k]])
        used[k] += -(-elements // 4)
    return {
        "streams": [{"seed": str(s.seed), "offset": str(s.offset), "used": n} for s, n in zip(streams, used)],
        "at": at,
    }
