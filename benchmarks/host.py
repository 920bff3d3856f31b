"""Host cost of one eager operation, in microseconds, beside CPU torch in the same run.

    python -m benchmarks.host [--device webgpu] [--profile]

Tensors are tiny, so the time is what Python, torch and wgpu-native take to launch the work. A software adapter waits
for the batch before at each submit, so there the figure holds the work itself too; `launch` leaves submits out.
"""

import argparse
import cProfile
import json
import pstats
import statistics
import time

import torch

import webgpu_backend  # noqa: F401


def measure(f, per_call: int, synchronize, rounds: int = 15) -> float:
    """Median microseconds per operation over rounds of a few milliseconds."""
    f()
    synchronize()
    start = time.perf_counter()
    f()
    once = max(time.perf_counter() - start, 1e-6)
    repeat = max(1, int(0.01 / once))
    samples = []
    for _ in range(rounds):
        synchronize()
        start = time.perf_counter()
        for _ in range(repeat):
            f()
        samples.append((time.perf_counter() - start) / repeat / per_call * 1e6)
    return statistics.median(samples)


def workloads(device: str) -> dict[str, tuple]:
    """name -> (function, operations per call)"""
    a, b = torch.rand(16).to(device), torch.rand(16).to(device)
    weight, bias, x = torch.rand(16, 16).to(device), torch.rand(16).to(device), torch.rand(4, 16).to(device)
    lists = [torch.rand(16).to(device) for _ in range(8)]
    grads = [torch.rand(16).to(device) for _ in range(8)]

    def chain():
        y = a
        for _ in range(100):
            y = y + b
        return y

    return {
        "add, 100 chained": (chain, 100),
        "add": (lambda: a + b, 1),
        "mul by a number": (lambda: a * 2.0, 1),
        "in-place add": (lambda: a.add_(b), 1),
        "relu": (lambda: a.relu(), 1),
        "view x[2:4]": (lambda: a[2:4], 1),
        "transpose": (lambda: weight.t(), 1),
        "linear 4x16x16": (lambda: torch.nn.functional.linear(x, weight, bias), 1),
        "foreach add, 8 tensors": (lambda: torch._foreach_add_(lists, grads), 8),
        "empty": (lambda: torch.empty(16, device=device), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--profile", action="store_true", help="where the time of 20,000 adds goes")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    module = torch.get_device_module(options.device)
    ours, cpu = workloads(options.device), workloads("cpu")
    print(f"{torch.get_device_module(options.device).get_device_name()}; torch {torch.__version__}")
    print(f"{'operation':26} {options.device + ' us':>12} {'cpu us':>10} {'ratio':>8}")
    rows = {}
    for name, (f, count) in ours.items():
        t = measure(f, count, module.synchronize)
        c = measure(*cpu[name], synchronize=lambda: None)
        rows[name] = {"device_us": t, "cpu_us": c}
        print(f"{name:26} {t:12.2f} {c:10.2f} {t / c:8.1f}")
    queue_only = _launch_only()
    rows["launch"] = {"device_us": queue_only}
    print(f"{'launch (record, no submit)':26} {queue_only:12.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    if options.profile:
        a, b = torch.rand(16).to(options.device), torch.rand(16).to(options.device)
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(20000):
            a + b
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(16)


def _launch_only() -> float:
    """Microseconds of Queue.record alone, between submits."""
    from webgpu_backend import tensor as T
    from webgpu_backend.runtime.gpu import gpu

    queue = gpu().queue
    a, b = torch.rand(16).to("webgpu"), torch.rand(16).to("webgpu")
    a + b
    recorded: list = []
    queue.recording = recorded
    c = a + b
    queue.recording = None
    dispatch = recorded[0]
    buffers = (T.block_of(a), T.block_of(b), T.block_of(c))
    best = float("inf")
    for _ in range(30):
        torch.webgpu.synchronize()
        queue.limit, queue.span = 1000, 1.0  # nothing is submitted meanwhile
        start = time.perf_counter()
        for _ in range(200):
            queue.record(dispatch.program, buffers, dispatch.params, dispatch.grid)
        best = min(best, (time.perf_counter() - start) / 200 * 1e6)
        torch.webgpu.synchronize()
    return best


if __name__ == "__main__":
    main()
