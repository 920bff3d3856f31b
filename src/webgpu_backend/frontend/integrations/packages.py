"""Packages that keep a list of the devices they know, taught this one."""

import copy
import importlib
import inspect
import os
import sys
from functools import wraps

import torch

from ... import tensor as T
from ...runtime.gpu import gpu
from ..device import module as webgpu
from ..device.constructors import is_ours


def _chosen() -> bool:
    """Where nobody names a device: ours if it is a GPU. A software adapter is slower than torch on the same CPU."""
    try:
        return gpu().caps.kind == "gpu"
    except RuntimeError:  # no adapter at all
        return False


# -- safetensors: its Rust code refuses names it does not know, and hands numbers to torch, whose devices are ours


def safe_open(base: type) -> type:
    class ByDevice(type):
        def __call__(cls, filename, framework, device="cpu", **rest):
            named = isinstance(device, torch.device) or str(device).startswith(T.NAME)
            ours = named and is_ours(device)
            return base(filename, framework, webgpu._index(device) if ours else device, **rest)

        def __instancecheck__(cls, instance):
            return isinstance(instance, base)

    return ByDevice(base.__name__, (), {"__doc__": base.__doc__})


# -- accelerate and the transformers Trainer: the device of a script that names none


def default_device(original: property) -> property:
    def default_device(self):
        device = original.fget(self)
        return torch.device(T.NAME) if device.type == "cpu" and _chosen() else device

    return property(default_device, doc=original.__doc__)


def prepare_backend(original):
    """Several processes, which accelerate knows for its own devices: gloo's kind, with the tensors on ours."""
    kinds = sys.modules[original.__module__].DistributedType

    @wraps(original)
    def _prepare_backend(self, cpu=False, *args, **kwargs):
        backend, kind = original(self, cpu, *args, **kwargs)
        several = int(os.environ.get("LOCAL_RANK", -1)) != -1
        named = is_ours(self.device) if self.device is not None else several and _chosen()
        if kind == kinds.NO and several and not cpu and named:
            self.device = torch.device(T.NAME)
            return "gloo", kinds.MULTI_CPU
        return backend, kind

    return _prepare_backend


def sharded(original):
    """FSDP is for a fixed list of kinds, and gloo's is none of them: elsewhere the plugin would be left aside."""
    kinds, shared = sys.modules[original.__module__].DistributedType, sys.modules[original.__module__].PartialState

    @wraps(original)
    def __init__(self, *args, fsdp_plugin=None, **kwargs):
        original(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None and self.distributed_type == kinds.MULTI_CPU and is_ours(self.device):
            self.distributed_type = shared._shared_state["distributed_type"] = (
                kinds.FSDP
            )  # what later states begin with
            if self._mixed_precision != "no":
                fsdp_plugin.set_mixed_precision(self._mixed_precision)
            self.fsdp_plugin = fsdp_plugin

    return __init__


def sharding_plugin(original):
    """What processes but the first have no weights for is made on a device of a fixed list: here on the run's."""

    @wraps(original)
    def __post_init__(self):
        try:
            original(self)
        except RuntimeError as error:
            if "no available devices found" not in str(error):
                raise
            state = importlib.import_module("accelerate.state").PartialState
            self.param_init_fn = lambda module: module.to_empty(device=state().device, recurse=False)

    return __post_init__


def get_max_memory(original):
    @wraps(original)
    def get_max_memory(max_memory=None):
        found = original(max_memory)
        if max_memory is None and not any(isinstance(k, int) for k in found) and "mps" not in found and _chosen():
            found = {**{i: webgpu.mem_get_info(i)[0] for i in range(webgpu.device_count())}, **found}
        return found

    return get_max_memory


def accelerator(original):
    """float16 is for a fixed list of devices: where that stops us, it is made for bfloat16, then told otherwise."""
    shared = sys.modules[original.__module__].AcceleratorState

    @wraps(original)
    def __init__(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        except ValueError as error:
            state = shared._shared_state
            if "fp16 mixed precision requires a device" not in str(error) or not is_ours(state.get("device")):
                raise
        bound = inspect.signature(original).bind(self, *args, **kwargs)
        bound.arguments["mixed_precision"] = state["_mixed_precision"] = "bf16"
        original(*bound.args, **bound.kwargs)
        state["_mixed_precision"] = "fp16"
        options = self.scaler_handler.to_kwargs() if self.scaler_handler is not None else {}
        self.scaler = torch.amp.GradScaler(T.NAME, **options)

    return __init__


def is_cached_property(found) -> str | None:
    return None if hasattr(found, "fget") or hasattr(found, "func") else f"it is {type(found).__name__}, no property"


def setup_devices(cached):
    original = cached.fget if hasattr(cached, "fget") else cached.func

    def _setup_devices(self):
        device = original(self)
        chosen = getattr(self.distributed_state, "device", device)
        return chosen if device.type == "cpu" and not self.use_cpu and is_ours(chosen) else device

    replacement = type(cached)(_setup_devices)
    if hasattr(replacement, "__set_name__"):
        replacement.__set_name__(None, "_setup_devices")
    return replacement


def bf16_available(original):
    @wraps(original)
    def is_torch_bf16_gpu_available():
        return original() or is_ours(torch.accelerator.current_accelerator())

    return is_torch_bf16_gpu_available


def auto_compile(original):
    """`generate` with a cache of fixed size compiles the model for one token: here too."""

    @wraps(original)
    def _valid_auto_compile_criteria(self, model_kwargs, generation_config):
        cache = model_kwargs.get("past_key_values", model_kwargs.get("cache_params"))
        fixed = getattr(cache, "is_compileable", False) and type(cache).__name__ != "DynamicCache"
        if self.device.type != T.NAME or not fixed or generation_config.disable_compile:
            return original(self, model_kwargs, generation_config)
        given = generation_config.compile_config
        asked = copy.copy(given) if given is not None else importlib.import_module("transformers").CompileConfig()
        asked._compile_all_devices = True
        generation_config.compile_config = asked
        try:
            return original(self, model_kwargs, generation_config)
        finally:
            generation_config.compile_config = given

    return _valid_auto_compile_criteria
