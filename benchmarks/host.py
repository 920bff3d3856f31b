"""Host cost of one eager call, in microseconds, on several devices that take turns.

    python -m benchmarks.host [--devices cpu,webgpu | cuda,webgpu] [--only PATTERN] [--json FILE] [--profile NAME]

Tensors are tiny, so the time is what Python, torch and the driver take to launch the work. Each device has a process of
its own, and all of them are asked for one operation after the other, on one core that they take turns on: a processor
that changes its speed, or has cores of several, is the same for all. The last row, `pace`, is a loop in Python that
knows no device: where its ratio is not near 1, the others are off by as much. A software adapter waits for the batch
before at each submit, so there the figure holds the work itself too; the row `launch` is recording alone.
"""

import argparse
import cProfile
import json
import os
import pstats
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from .lockstep import Child, serve

CALLS = 60  # between two waits
ROUNDS = 7


class Setting:
    """The tensors that operations work on."""

    def __init__(self, device: str):
        def make(*shape):
            return torch.rand(shape).to(device)

        self.device = device
        self.a, self.b, self.c, self.flags = make(16), make(16), make(16), make(16).to(device) > 0.5
        self.matrix, self.weight, self.bias, self.x = make(16, 16), make(16, 16), make(16), make(4, 16)
        self.leaves = [t.clone().requires_grad_() for t in (self.x, self.weight, self.bias)]
        self.image, self.window, self.depthwise = make(1, 4, 8, 8), make(4, 4, 3, 3), make(4, 1, 3, 3)
        self.channels = [make(4), make(4) + 1, make(4), make(4)]
        self.heads = make(1, 2, 8, 16)
        self.index, self.table, self.rows = torch.tensor([3, 1, 0, 2]).to(device), make(16, 4), make(4, 4)
        self.classes, self.logits = torch.tensor([1, 4, 0, 9]).to(device), make(4, 10)
        self.lists = [[make(16) for _ in range(8)] for _ in range(2)]


def linear_both_ways(s: Setting) -> None:
    F.linear(*s.leaves).sum().backward()


def chain(s: Setting) -> torch.Tensor:
    y = s.a
    for _ in range(100):
        y = y + s.b
    return y


# name -> (function, operations per call)
OPERATIONS = {
    "add, 100 chained": (chain, 100),
    "add": (lambda s: s.a + s.b, 1),
    "add_": (lambda s: s.a.add_(s.b), 1),
    "mul by a number": (lambda s: s.a * 2.0, 1),
    "relu": (lambda s: s.a.relu(), 1),
    "gelu": (lambda s: F.gelu(s.a), 1),
    "silu": (lambda s: F.silu(s.a), 1),
    "gt": (lambda s: s.a > s.b, 1),
    "pow": (lambda s: s.a**2, 1),
    "where": (lambda s: torch.where(s.flags, s.a, s.b), 1),
    "cast to half": (lambda s: s.a.half(), 1),
    "clamp": (lambda s: s.a.clamp(0, 1), 1),
    "lerp": (lambda s: torch.lerp(s.a, s.b, 0.5), 1),
    "addcmul": (lambda s: torch.addcmul(s.a, s.b, s.c, value=0.5), 1),
    "masked_fill": (lambda s: s.a.masked_fill(s.flags, 0.0), 1),
    "sum": (lambda s: s.a.sum(), 1),
    "mean": (lambda s: s.matrix.mean(-1), 1),
    "argmax": (lambda s: s.matrix.argmax(-1), 1),
    "softmax": (lambda s: F.softmax(s.matrix, -1), 1),
    "cumsum": (lambda s: s.a.cumsum(0), 1),
    "topk": (lambda s: torch.topk(s.a, 4), 1),
    "mm": (lambda s: s.matrix @ s.weight, 1),
    "bmm": (lambda s: torch.bmm(s.heads[0], s.heads[0].mT), 1),
    "linear": (lambda s: F.linear(s.x, s.weight, s.bias), 1),
    "linear, both passes": (linear_both_ways, 1),
    "conv2d": (lambda s: F.conv2d(s.image, s.window), 1),
    "depthwise conv2d": (lambda s: F.conv2d(s.image, s.depthwise, groups=4), 1),
    "max_pool2d": (lambda s: F.max_pool2d(s.image, 2), 1),
    "layer_norm": (lambda s: F.layer_norm(s.x, (16,), s.bias, s.bias), 1),
    "rms_norm": (lambda s: F.rms_norm(s.x, (16,), s.bias), 1),
    "batch_norm": (lambda s: F.batch_norm(s.image, *s.channels), 1),
    "sdpa": (lambda s: F.scaled_dot_product_attention(s.heads, s.heads, s.heads), 1),
    "cross_entropy": (lambda s: F.cross_entropy(s.logits, s.classes), 1),
    "dropout": (lambda s: F.dropout(s.a, 0.5), 1),
    "gather": (lambda s: torch.gather(s.table, 0, s.index.view(1, 4)), 1),
    "embedding": (lambda s: F.embedding(s.index, s.table), 1),
    "index": (lambda s: s.table[s.index], 1),
    "index_copy_": (lambda s: s.table.index_copy_(0, s.index, s.rows), 1),
    "cat": (lambda s: torch.cat([s.a, s.b]), 1),
    "stack": (lambda s: torch.stack([s.a, s.b]), 1),
    "slice": (lambda s: s.a[2:4], 1),
    "transpose": (lambda s: s.weight.t(), 1),
    "contiguous": (lambda s: s.matrix.t().contiguous(), 1),
    "copy_": (lambda s: s.a.copy_(s.b), 1),
    "zeros": (lambda s: torch.zeros(16, device=s.device), 1),
    "empty": (lambda s: torch.empty(16, device=s.device), 1),
    "arange": (lambda s: torch.arange(16, device=s.device), 1),
    "foreach add_, 8 tensors": (lambda s: torch._foreach_add_(*s.lists), 8),
    "item": (lambda s: s.a[0].item(), 1),
}


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.get_device_module(device).synchronize()


def measured(f, setting: Setting, count: int) -> float:
    """Microseconds of one operation, the least of a few batches of calls."""
    calls = max(1, CALLS // count)
    found = []
    for _ in range(4):
        synchronize(setting.device)
        start = time.perf_counter()
        for _ in range(calls):
            f(setting)
        found.append((time.perf_counter() - start) / calls / count * 1e6)
    return min(found)


def launch_only() -> float:
    """Microseconds of Queue.record alone, between submits."""
    from webgpu_backend import tensor as T
    from webgpu_backend.runtime.gpu import gpu

    queue = gpu().queue
    a, b = torch.rand(16).to("webgpu"), torch.rand(16).to("webgpu")
    a + b
    queue.recording = recorded = []
    c = a + b
    queue.recording = None
    step, _, params = recorded[0]
    buffers = (T.block_of(a), T.block_of(b), T.block_of(c))
    best = float("inf")
    for _ in range(30):
        torch.webgpu.synchronize()
        queue.limit, queue.span = 1000, 1.0  # nothing is submitted meanwhile
        start = time.perf_counter()
        for _ in range(200):
            queue.record(step, buffers, params)
        best = min(best, (time.perf_counter() - start) / 200 * 1e6)
        torch.webgpu.synchronize()
    return best


def pace() -> float:
    """Microseconds of a loop that knows no device: how fast this process runs now."""
    found = []
    for _ in range(20):
        start, counted = time.perf_counter(), {}
        for i in range(1000):
            counted[i & 15, "x"] = (i, i + 1)
        found.append((time.perf_counter() - start) * 1e6)
    return min(found)


def child(device: str, core: int) -> None:
    if device == "webgpu":
        import webgpu_backend  # noqa: F401
    setting = Setting(device)
    synchronize(device)
    if core >= 0:  # this thread alone: the driver's own have started and may run elsewhere
        os.sched_setaffinity(0, {core})

    def answer(request: dict) -> dict:
        if request.get("hello"):
            name = "cpu" if device == "cpu" else torch.get_device_module(device).get_device_name()
            return {"name": f"{name}, torch {torch.__version__}"}
        if request["name"] == "pace":
            return {"us": pace()}
        if request["name"] == "launch":
            return {"us": launch_only()} if device == "webgpu" else {"us": None}
        f, count = OPERATIONS[request["name"]]
        if request.get("prepare"):
            for _ in range(3):
                f(setting)
            synchronize(device)
            return {}
        return {"us": measured(f, setting, count)}

    serve(answer)


def profile(name: str) -> None:
    import webgpu_backend  # noqa: F401

    setting, (f, _) = Setting("webgpu"), OPERATIONS[name]
    for _ in range(20):
        f(setting)
    recorder = cProfile.Profile()
    recorder.enable()
    for _ in range(3000):
        f(setting)
    recorder.disable()
    pstats.Stats(recorder).sort_stats("tottime").print_stats(24)


def compare(devices: list[str], pattern: str, rounds: int) -> dict[str, dict[str, float]]:
    core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else -1
    command = [sys.executable, "-m", "benchmarks.host", "--core", str(core), "--child"]
    children = {d: Child([*command, d]) for d in devices}
    print("; ".join(f"{d}: {c.ask(hello=True).get('name', 'lost')}" for d, c in children.items()))
    print(f"{'operation':26}" + "".join(f"{d + ' us':>12}" for d in devices) + f"{'ratio':>8}")
    rows = {}
    for name in [n for n in (*OPERATIONS, "launch", "pace") if re.search(pattern, n)]:
        if name in OPERATIONS:
            for c in children.values():
                c.ask(name=name, prepare=True)
        samples: dict[str, list] = {d: [] for d in devices}
        for _ in range(rounds):
            for d, c in children.items():
                answer = c.ask(name=name)
                samples[d].append(answer.get("us"))
        found = {d: None if None in s else statistics.median(s) for d, s in samples.items()}
        rows[name] = found
        first, last = found[devices[0]], found[devices[-1]]
        ratio = f"{last / first:8.2f}" if first and last and len(devices) > 1 else ""
        print(
            f"{name:26}" + "".join(f"{'' if t is None else f'{t:.2f}':>12}" for t in found.values()) + ratio, flush=True
        )
    for c in children.values():
        c.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cpu,webgpu", help="the last is compared with the first")
    parser.add_argument("--only", default="", metavar="PATTERN", help="operations whose name it is found in")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", metavar="FILE", help="write the figures to this file")
    parser.add_argument("--profile", metavar="NAME", help="where the time of 3,000 calls goes")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.core)
    elif options.profile:
        profile(options.profile)
    else:
        rows = compare(options.devices.split(","), options.only, options.rounds)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
