"""One device's side of `python -m benchmarks`: measures a workload or a model when it is asked to."""

import statistics
import time
from functools import cache

import torch

from . import models
from .ceilings import measure
from .lockstep import serve
from .workloads import all_workloads


def timed(f, device: str, seconds: float) -> float:
    """Median milliseconds per call: batches of calls between two waits, the wait's own cost divided among them."""
    for _ in range(2):
        f()
    models.synchronize(device)
    start = time.perf_counter()
    f()
    models.synchronize(device)
    once = max(time.perf_counter() - start, 1e-6)
    # A wait costs tens of microseconds and lets the clocks fall: calls share it with up to 49 others, as long as a
    # tenth of a second is enough for them, however few the seconds.
    repeat = max(1, min(50, int(0.1 / once)), min(200, int(seconds / 6 / once)))
    samples = []
    stop = time.perf_counter() + seconds
    while len(samples) < 3 or (time.perf_counter() < stop and len(samples) < 50):
        start = time.perf_counter()
        for _ in range(repeat):
            f()
        models.synchronize(device)
        samples.append((time.perf_counter() - start) / repeat * 1e3)
        if once > 5:
            break
    return statistics.median(samples)


def digest(result) -> list[float]:
    """Up to 64 of the values, to compare devices by."""
    result = result[0] if isinstance(result, (tuple, list)) else result
    if not isinstance(result, torch.Tensor):
        return [float(result)]
    flat = result.detach().reshape(-1)
    return flat[:: flat.numel() // 64 | 1][:64].float().cpu().tolist()  # an odd step: not the same place of every row


def kernel_ms(f) -> float | None:
    """GPU milliseconds of one call by the timestamps of its kernels."""
    if not torch.webgpu.profiler.is_available():
        return None
    with torch.webgpu.profiler.profile() as profile:
        for _ in range(3):
            f()
    return sum(event.duration for event in profile) / 3e6


def hello(device: str) -> dict:
    """What this is, and by how much it wants sizes divided: a software adapter or a CPU does a fraction of the work."""
    if device == "cpu":
        return {"name": f"cpu, {torch.get_num_threads()} threads, torch {torch.__version__}", "scale": 8}
    module = torch.get_device_module(device)
    software = device == "webgpu" and module.get_device_properties().adapter_type == "CPU"
    return {"name": f"{device}: {module.get_device_name()}, torch {torch.__version__}", "scale": 8 if software else 1}


def main(device: str, seconds: float) -> None:
    if device == "webgpu":
        import webgpu_backend  # noqa: F401
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    module = None if device == "cpu" else torch.get_device_module(device)

    @cache
    def workloads(scale: int) -> dict:
        return {work.name: work for work in all_workloads(scale)}

    prepared: list = []

    def prepare(name: str, scale: int) -> dict:
        """Makes the tensors, compiles, and answers with values to compare; slow, so the devices do it at once."""
        prepared.clear()
        if module and module.memory_reserved() > 8 << 30:
            module.empty_cache()
        if name in models.MODELS:
            f, found = models.prepare(name, models.Setting(device, scale > 1, False))
            prepared.extend((f, found))
            return {"digest": [found.value], "source": found.source}
        work = workloads(scale)[name]
        f = work.make(device)
        found = digest(f())
        prepared.extend((f, work))
        return {"digest": found}

    def measured() -> dict:
        f, work = prepared
        if isinstance(work, models.Result):
            found = models.finish(f, work, 3 * seconds)
            return {k: getattr(found, k) for k in ("ms", "host_ms", "peak_mib", "dispatches")}
        found = {"ms": timed(f, device, seconds) / work.calls}
        if device == "webgpu" and work.group != "host":
            found["kernel_ms"] = kernel_ms(f)
        return found

    parts = {"ceilings": measure, "prepare": prepare, "measured": measured}

    def answer(request: dict) -> dict:
        what = request.pop("what")
        return hello(device) if what == "hello" else parts[what](**request)

    serve(answer)
