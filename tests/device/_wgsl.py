"""Runs functions of the WGSL maths library on raw arrays, through the wgpu package alone.

Used by the tests of the library itself, which must not depend on the renderer or the torch device.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import wgpu

FOLDER = Path(__file__).parents[2] / "src" / "webgpu_backend" / "kernels" / "lib"
FUNCTION = re.compile(r"^fn (\w+)\(.*?^}\n", re.M | re.S)
CONSTANT = re.compile(r"^const (\w+)\b[^;]*;", re.M)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")

# How a value of each type lies in a buffer of words: (words, load from `b[k..]`, words of the result `v`).
TYPES = {
    "u32": (1, "{b}[{k}]", ["v"]),
    "i32": (1, "bitcast<i32>({b}[{k}])", ["bitcast<u32>(v)"]),
    "f32": (1, "bitcast<f32>({b}[{k}])", ["bitcast<u32>(v)"]),
    "bool": (1, "({b}[{k}] != 0u)", ["u32(v)"]),
    "vec2<u32>": (2, "vec2<u32>({b}[{k}], {b}[{k} + 1u])", ["v.x", "v.y"]),
    "vec2<f32>": (
        2,
        "bitcast<vec2<f32>>(vec2<u32>({b}[{k}], {b}[{k} + 1u]))",
        ["bitcast<u32>(v.x)", "bitcast<u32>(v.y)"],
    ),
    "vec4<u32>": (4, "vec4<u32>({b}[{k}], {b}[{k} + 1u], {b}[{k} + 2u], {b}[{k} + 3u])", ["v.x", "v.y", "v.z", "v.w"]),
    "i64": (2, "n64_load({b}[{k}], {b}[{k} + 1u])", ["n64_lo(v)", "n64_hi(v)"]),
}
HELPERS = {"i64": {"n64_load", "n64_lo", "n64_hi"}}


@functools.cache
def library() -> dict[str, str]:
    """Every function and constant of the library, by name."""
    parts: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.wgsl")):
        text = path.read_text()
        if "{{" in text or "{%" in text or "@compute" in text:
            continue
        for pattern in (FUNCTION, CONSTANT):
            for match in pattern.finditer(text):
                name = match.group(1)
                assert name not in parts, f"{name} is defined twice"
                parts[name] = match.group(0)
    return parts


def closure(names: set[str]) -> str:
    """The text of the named parts and of everything they use."""
    parts = library()
    found: dict[str, str] = {}
    pending = sorted(names)
    while pending:
        name = pending.pop()
        if name in parts and name not in found:
            found[name] = parts[name]
            pending += WORD.findall(parts[name])
    return "\n".join(found[name] for name in sorted(found))


@functools.cache
def device() -> wgpu.GPUDevice:
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    features = [name for name in ("shader-int64", "shader-f64") if name in adapter.features]
    return adapter.request_device_sync(required_features=features)


def shader(expression: str, arguments: list[str], result: str) -> str:
    wanted = set(WORD.findall(expression))
    for kind in [*arguments, result]:
        wanted |= HELPERS.get(kind, set())
    loads, bindings = [], []
    for k, kind in enumerate(arguments):
        words, load, _ = TYPES[kind]
        bindings.append(f"@group(0) @binding({k + 1}) var<storage, read_write> in{k}: array<u32>;")
        loads.append(f"    let {'abcd'[k]} = {load.format(b=f'in{k}', k=f'(i * {words}u)')};")
    words, _, stores = TYPES[result]
    writes = [f"    out[i * {words}u + {k}u] = {store};" for k, store in enumerate(stores)]
    lines = [
        closure(wanted),
        "@group(0) @binding(0) var<storage, read_write> out: array<u32>;",
        *bindings,
        "@compute @workgroup_size(64)",
        "fn main(@builtin(global_invocation_id) id: vec3<u32>) {",
        "    let i = id.x;",
        f"    if (i * {words}u >= arrayLength(&out)) {{ return; }}",
        *loads,
        f"    let v: {result} = {expression};",
        *writes,
        "}",
    ]
    return "\n".join(lines)


def call(expression: str, result: str, *arguments: tuple[str, np.ndarray]) -> np.ndarray:
    """Evaluates `expression` of `a b c d` elementwise; arrays go in by their bytes, words (n, k) or (n,) come out."""
    gpu = device()
    text = shader(expression, [kind for kind, _ in arguments], result)
    kind, first = arguments[0]
    count = first.nbytes // 4 // TYPES[kind][0]
    assert count <= 65535 * 64
    words = TYPES[result][0]
    module = gpu.create_shader_module(code=text)
    pipeline = gpu.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    storage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    out = gpu.create_buffer(size=count * words * 4, usage=storage)
    buffers = [out]
    for kind, data in arguments:
        assert data.nbytes == count * TYPES[kind][0] * 4, "arguments differ in length"
        buffers.append(gpu.create_buffer_with_data(data=np.ascontiguousarray(data).view(np.uint8), usage=storage))
    entries = [{"binding": k, "resource": {"buffer": b, "offset": 0, "size": b.size}} for k, b in enumerate(buffers)]
    group = gpu.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = gpu.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups((count + 63) // 64)
    work.end()
    gpu.queue.submit([encoder.finish()])
    data = np.frombuffer(gpu.queue.read_buffer(out), dtype=np.uint32).copy()
    return data if words == 1 else data.reshape(count, words)


def has_int64() -> bool:
    return "shader-int64" in device().features


@functools.cache
def keeps_denormals() -> bool:
    """WebGPU allows flushing to zero; most GPUs do, the software driver does not."""
    tiny = np.array([1e-40], np.float32)
    return bool(call("a * b", "f32", ("f32", tiny), ("f32", np.ones(1, np.float32))).view(np.float32)[0] != 0)
