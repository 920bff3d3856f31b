"""Packages that keep a list of the devices they know, taught this one as they are imported, now or later or never."""

import functools
import importlib.abc
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Callable

import torch

from ... import tensor as T
from ...runtime.gpu import gpu
from ..device import module as ours
from ..device.constructors import is_ours
from ..graphs import compile as compiled
from . import lightning


def _chosen() -> bool:
    """Where nobody names a device: ours if it is a GPU. A software adapter is slower than torch on the same CPU."""
    try:
        return gpu().caps.kind == "gpu"
    except RuntimeError:  # no adapter at all
        return False


def _replace(module, name: str, new) -> None:
    """Also in the modules that have imported it by name already."""
    old = getattr(module, name)
    for other in list(sys.modules.values()):
        names = getattr(other, "__dict__", {})
        if names.get(name) is old:
            names[name] = new


# -- safetensors: its Rust code refuses names it does not know, and hands numbers to torch, whose device 0 is ours


def _safetensors(extension) -> None:
    base = extension.safe_open

    class ByDevice(type):
        def __call__(cls, filename, framework, device="cpu", **rest):
            named = isinstance(device, torch.device) or str(device).startswith(T.NAME)
            return base(filename, framework, 0 if named and is_ours(device) else device, **rest)

        def __instancecheck__(cls, instance):
            return isinstance(instance, base)

    _replace(extension, "safe_open", ByDevice(base.__name__, (), {"__doc__": base.__doc__}))


# -- accelerate and the transformers Trainer: the device of a script that names none


def _accelerate_state(module) -> None:
    original = module.PartialState.default_device.fget

    def default_device(self):
        device = original(self)
        return torch.device(T.NAME) if device.type == "cpu" and _chosen() else device

    module.PartialState.default_device = property(default_device, doc=original.__doc__)
    prepare = module.PartialState._prepare_backend

    @functools.wraps(prepare)
    def _prepare_backend(self, cpu=False, *args, **kwargs):
        """Several processes, which accelerate knows for its own devices: gloo's kind, with the tensors on ours."""
        backend, kind = prepare(self, cpu, *args, **kwargs)
        several = int(os.environ.get("LOCAL_RANK", -1)) != -1
        named = is_ours(self.device) if self.device is not None else several and _chosen()
        if kind == module.DistributedType.NO and several and not cpu and named:
            self.device = torch.device(T.NAME)
            return "gloo", module.DistributedType.MULTI_CPU
        return backend, kind

    module.PartialState._prepare_backend = _prepare_backend


def _accelerate_memory(module) -> None:
    original = module.get_max_memory

    def get_max_memory(max_memory=None):
        found = original(max_memory)
        if max_memory is None and not any(isinstance(k, int) for k in found) and "mps" not in found and _chosen():
            found = {0: ours.mem_get_info()[0], **found}
        return found

    _replace(module, "get_max_memory", get_max_memory)


def _accelerator(module) -> None:
    """float16 is for a fixed list of devices: where that stops us, it is made for bfloat16, then told otherwise."""
    original = module.Accelerator.__init__

    def __init__(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        except ValueError as error:
            state = module.AcceleratorState._shared_state
            if "fp16 mixed precision requires a device" not in str(error) or not is_ours(state.get("device")):
                raise
        bound = inspect.signature(original).bind(self, *args, **kwargs)
        bound.arguments["mixed_precision"] = state["_mixed_precision"] = "bf16"
        original(*bound.args, **bound.kwargs)
        state["_mixed_precision"] = "fp16"
        options = self.scaler_handler.to_kwargs() if self.scaler_handler is not None else {}
        self.scaler = torch.amp.GradScaler(T.NAME, **options)

    module.Accelerator.__init__ = functools.wraps(original)(__init__)


def _training_arguments(module) -> None:
    cached = vars(module.TrainingArguments)["_setup_devices"]
    original = cached.fget if hasattr(cached, "fget") else cached.func

    def _setup_devices(self):
        device = original(self)
        chosen = getattr(self.distributed_state, "device", device)
        return chosen if device.type == "cpu" and not self.use_cpu and is_ours(chosen) else device

    replacement = type(cached)(_setup_devices)
    if hasattr(replacement, "__set_name__"):
        replacement.__set_name__(module.TrainingArguments, "_setup_devices")
    module.TrainingArguments._setup_devices = replacement


def _transformers(module) -> None:
    original = module.is_torch_bf16_gpu_available

    def is_torch_bf16_gpu_available():
        return original() or is_ours(torch.accelerator.current_accelerator())

    _replace(module, "is_torch_bf16_gpu_available", is_torch_bf16_gpu_available)


# -- torch.compile: our backend by its name, and in the place of Inductor, which has no code generator for the device


def _backends(module) -> None:
    module.register_backend(compiled.compile, name=T.NAME)


def _trace_rules(module) -> None:
    module.add(__package__.partition(".")[0])  # kernels called between two graphs are no code to compile


def _inductor(module) -> None:
    original = module.compile_fx

    @functools.wraps(original)
    def compile_fx(model_, example_inputs_, *args, **kwargs):
        if isinstance(model_, torch.fx.GraphModule) and compiled.concerns(model_, example_inputs_):
            return compiled.compile(model_, example_inputs_)
        return original(model_, example_inputs_, *args, **kwargs)

    _replace(module, "compile_fx", compile_fx)


def _connect(module) -> None:
    lightning.connect(module, lambda: _chosen())


PATCHES: dict[str, Callable] = {
    "safetensors._safetensors_rust": _safetensors,
    "accelerate.state": _accelerate_state,
    "accelerate.accelerator": _accelerator,
    "accelerate.utils.modeling": _accelerate_memory,
    "transformers.training_args": _training_arguments,
    "transformers.utils.import_utils": _transformers,
    "torch._dynamo.backends.registry": _backends,
    "torch._dynamo.trace_rules": _trace_rules,
    "torch._inductor.compile_fx": _inductor,
}
for _package in ("lightning.pytorch", "pytorch_lightning"):
    PATCHES[f"{_package}.accelerators"] = lightning.register
    PATCHES[f"{_package}.trainer.connectors.accelerator_connector"] = _connect


def _apply(name: str, module) -> None:
    """Another release may have renamed what is patched: then it works as it does without us, and the user is told."""
    try:
        PATCHES[name](module)
    except (AttributeError, KeyError, TypeError) as error:
        message = f"webgpu_backend does not know this release of {name}, which may not find the device: {error!r}"
        warnings.warn(message, stacklevel=2)


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the modules to patch, and patches each as soon as it is loaded."""

    def __init__(self):
        self.waiting = set(PATCHES)

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        self.waiting.remove(name)  # the search below comes here again
        spec = importlib.util.find_spec(name)
        if spec is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                _apply(name, module)

            spec.loader.exec_module = exec_module
        return spec


def patch() -> None:
    finder = _Finder()
    for name in list(finder.waiting):
        if name in sys.modules:
            finder.waiting.remove(name)
            _apply(name, sys.modules[name])
    sys.meta_path.insert(0, finder)
