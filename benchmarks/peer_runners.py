"""How each peer runs the cases of `peer_cases`: case -> function that computes on the device and waits for it.

Results are numpy arrays or have `.numpy()`; a case that a peer has no way to run is left out.
"""

import importlib.util
import os
import platform
import sys
from pathlib import Path

import numpy as np

from .peer_cases import BLOCKS, HEADS, LENGTH, RATE, WIDTH, arrays, torch_cases


def ours() -> dict:
    import torch

    import webgpu_backend  # noqa: F401

    return torch_cases("webgpu", lambda *results: torch.webgpu.synchronize())


def cpu() -> dict:
    return torch_cases("cpu", lambda *results: None)


def _dawn() -> None:
    """tinygrad takes Dawn from the path in WEBGPU_PATH; the wheel dawn-python holds one."""
    os.environ["DEV"] = "WEBGPU"
    spec = importlib.util.find_spec("pydawn")
    if "WEBGPU_PATH" not in os.environ and spec is not None:
        names = {"Darwin": f"libwebgpu_dawn_{platform.machine()}.dylib", "Windows": "libwebgpu_dawn.dll"}
        name = names.get(platform.system(), f"libwebgpu_dawn_{platform.machine()}.so")
        os.environ["WEBGPU_PATH"] = str(Path(spec.origin).parent / "lib" / name)


def tinygrad() -> dict:
    """tinygrad's WEBGPU device, every case under its JIT."""
    _dawn()
    from tinygrad import Context, Device, Tensor, TinyJit
    from tinygrad import nn as tiny

    t = {name: Tensor(array).realize() for name, array in arrays().items()}
    device = Device[Device.DEFAULT]

    def linear(x, name, weights=t):
        return x.linear(weights[f"{name}.weight"].T, weights[f"{name}.bias"])

    def mlp(x, weights=t):
        return linear(linear(linear(x, "mlp0", weights).relu(), "mlp1", weights).relu(), "mlp2", weights)

    def conv(x):
        x = x.conv2d(t["conv0.weight"], t["conv0.bias"], padding=1).relu()
        x = x.conv2d(t["conv1.weight"], t["conv1.bias"], stride=2, padding=1).relu()
        return linear(x.mean((2, 3)), "head")

    def transformer(x):
        for b in range(BLOCKS):
            y = x.layernorm() * t[f"{b}.norm1.weight"] + t[f"{b}.norm1.bias"]
            q, k, v = (
                part.reshape(1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
                for part in linear(y, f"{b}.qkv").chunk(3, dim=-1)
            )
            y = (q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5).softmax() @ v
            x = x + linear(y.transpose(1, 2).reshape(1, LENGTH, WIDTH), f"{b}.out")
            y = x.layernorm() * t[f"{b}.norm2.weight"] + t[f"{b}.norm2.bias"]
            x = x + linear(linear(y, f"{b}.up").gelu(), f"{b}.down")
        return x

    def jitted(f, *inputs):
        compiled = TinyJit(lambda *args: f(*args).realize())

        def g():
            found = compiled(*inputs)
            device.synchronize()
            return found

        return g

    trained = {name: Tensor(arrays()[name]).realize() for name in t if name.startswith("mlp")}
    for weight in trained.values():
        weight.requires_grad = True
    optimizer = tiny.optim.SGD(list(trained.values()), lr=RATE)

    @TinyJit
    def step(x, y):
        optimizer.zero_grad()
        loss = mlp(x, trained).sparse_categorical_crossentropy(y)
        loss.backward()
        return loss.realize(*optimizer.schedule_step())

    def train():
        with Context(TRAINING=1):
            found = step(t["digits"], t["labels"])
        device.synchronize()
        return found

    return {
        "add": jitted(lambda a, b: a + b, t["a"], t["b"]),
        "softmax": jitted(lambda a: a.softmax(1), t["rows"]),
        "matmul512": jitted(lambda a, b: a @ b, t["left512"], t["right512"]),
        "matmul1024": jitted(lambda a, b: a @ b, t["left1024"], t["right1024"]),
        "mlp": jitted(mlp, t["digits"]),
        "step": train,
        "conv": jitted(conv, t["images"]),
        "transformer": jitted(transformer, t["sequence"]),
    }


def tinygrad_torch() -> dict:
    """tinygrad's torch device on its WEBGPU one. It is not in the wheel: TINYGRAD names a checkout of the project."""
    if "TINYGRAD" in os.environ:
        sys.path.insert(0, os.environ["TINYGRAD"])
    _dawn()
    try:
        from extra.torch_backend import backend
    except ImportError as error:
        raise ImportError(
            f"--tinygrad must name a checkout of tinygrad, which holds its torch backend ({error})"
        ) from None
    from tinygrad import Device, Tensor

    def wait(*results):
        Tensor.realize(*(backend.unwrap(result) for result in results))
        Device[Device.DEFAULT].synchronize()

    return torch_cases("tiny", wait)


def onnxruntime() -> dict:
    """ONNX Runtime's WebGPU provider, inputs and outputs kept on the device; it has no training."""
    import onnxruntime as runtime

    provider = "WebGpuExecutionProvider"
    if provider not in runtime.get_available_providers():
        raise ImportError(f"this onnxruntime has no {provider} (pip install onnxruntime-webgpu)")
    from .peer_onnx import graphs, one_element

    options = runtime.SessionOptions()
    options.log_severity_level = 3
    alive = []  # a session freed before its bindings faults

    def session(model):
        alive.append(runtime.InferenceSession(model, options, providers=[provider]))
        if provider not in alive[-1].get_providers():  # it takes the CPU instead, and says nothing
            raise ImportError(f"onnxruntime found no adapter for its {provider}")
        return alive[-1]

    def on_device(array):
        """There is no upload call that leaves a value on this provider's device: a graph that adds zero is one."""
        upload = session(graphs()["upload"](array.shape))
        binding = upload.io_binding()
        binding.bind_cpu_input("x", array)
        binding.bind_output("y", "webgpu", 0)
        upload.run_with_iobinding(binding)
        alive.append(binding)
        return binding.get_outputs()[0]

    def prepared(model, *inputs):
        run = session(model)
        binding = run.io_binding()
        for name, array in zip("ab", inputs):
            binding.bind_ortvalue_input(name, on_device(array))
        binding.bind_output("y", "webgpu", 0)
        run.run_with_iobinding(binding)
        found = binding.get_outputs()[0]
        binding.bind_ortvalue_output("y", found)
        probe = session(one_element(found.shape()))  # the wait: four bytes read back of what was computed last
        read = probe.io_binding()
        read.bind_ortvalue_input("x", found)
        read.bind_output("y", "cpu")
        alive.extend((binding, read, found))

        def f():
            run.run_with_iobinding(binding)
            probe.run_with_iobinding(read)
            return found

        return f

    data = arrays()
    inputs = {
        "add": ("a", "b"), "softmax": ("rows",), "matmul512": ("left512", "right512"),
        "matmul1024": ("left1024", "right1024"), "mlp": ("digits",), "conv": ("images",), "transformer": ("sequence",),
    }  # fmt: skip
    return {case: prepared(graphs()[case](), *(data[name] for name in names)) for case, names in inputs.items()}


def values(result) -> np.ndarray:
    if hasattr(result, "cpu"):
        result = result.detach().cpu()
    return np.asarray(result.numpy(), dtype=np.float32)


RUNNERS = {
    "webgpu_backend": ours,
    "onnxruntime": onnxruntime,
    "tinygrad": tinygrad,
    "tinygrad torch": tinygrad_torch,
    "torch cpu": cpu,
}
