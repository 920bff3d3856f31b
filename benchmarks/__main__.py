"""Side by side on every device given, in one process: medians, ratios, share of the floor.

    python -m benchmarks --devices cuda,webgpu [--scale 1] [--only softmax] [--json out.json]

The ratio is the last device's time over the first's. The floor is the bytes a kernel must move at the rate of a copy,
measured in the same run, or the operations at the rate of the largest f32 product.
"""

import argparse
import json
import statistics
import time

import torch

import webgpu_backend

from .workloads import all_workloads


def module_of(device: str):
    return torch.get_device_module(device)


def synchronize(device: str) -> None:
    if device != "cpu":
        module_of(device).synchronize()


def timed(f, device: str, seconds: float) -> float:
    """Median milliseconds per call: batches of calls between two waits, the wait's own cost divided among them."""
    f()
    synchronize(device)
    start = time.perf_counter()
    f()
    synchronize(device)
    once = max(time.perf_counter() - start, 1e-6)
    repeat = max(1, min(200, int(seconds / 6 / once)))
    samples = []
    stop = time.perf_counter() + seconds
    while len(samples) < 5 or (time.perf_counter() < stop and len(samples) < 50):
        start = time.perf_counter()
        for _ in range(repeat):
            result = f()
        synchronize(device)
        samples.append((time.perf_counter() - start) / repeat * 1e3)
        del result
        if once > 5:
            break
    return statistics.median(samples)


def check(got, want) -> str:
    """'' when the two devices agree."""
    got, want = (x[0] if isinstance(x, (tuple, list)) else x for x in (got, want))
    if not isinstance(got, torch.Tensor):
        return "" if abs(got - want) <= 1e-3 * max(abs(want), 1) else f"{got} is not {want}"
    got, want = got.detach().cpu().float(), want.detach().cpu().float()
    error = (got - want).abs().max().item() if got.numel() else 0.0
    scale = max(want.abs().max().item() if want.numel() else 1.0, 1e-6)
    return "" if error <= 2e-2 * scale else f"differs by {error:.3g} of {scale:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cpu,webgpu")
    parser.add_argument("--scale", type=int, default=0, help="divide sizes; 0 chooses by adapter")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--json")
    options = parser.parse_args()
    devices = options.devices.split(",")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    software = torch.webgpu.get_device_properties().adapter_type == "CPU"
    scale = options.scale or (8 if software else 1)
    print(f"webgpu: {torch.webgpu.get_device_name()}; torch {torch.__version__}; sizes divided by {scale}")
    print(f"{'workload':34} " + " ".join(f"{d + ' ms':>12}" for d in devices) + f" {'ratio':>7} {'rate':>16}")
    rows = []
    for work in all_workloads(scale):
        if options.only and not any(part in work.name for part in options.only.split(",")):
            continue
        row = {"name": work.name, "group": work.group}
        results = {}
        for device in devices:
            try:
                f = work.make(device)
                results[device] = f()
                row[device] = timed(f, device, options.seconds) / work.calls
            except Exception as error:
                row[device] = None
                row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        ours, theirs = row[devices[-1]], row[devices[0]]
        row["ratio"] = ours / theirs if ours and theirs else None
        if len(results) == len(devices) > 1:
            row["mismatch"] = check(results[devices[-1]], results[devices[0]])
        rate = ""
        if ours and work.bytes:
            rate = f"{work.bytes / ours / 1e6:.0f} GB/s"
        elif ours and work.flops:
            rate = f"{work.flops / ours / 1e9:.2f} TFLOP/s"
        row["rate"] = rate
        rows.append(row)
        times = " ".join(f"{row[d]:12.4f}" if row[d] is not None else f"{'-':>12}" for d in devices)
        ratio = f"{row['ratio']:7.2f}" if row["ratio"] else f"{'-':>7}"
        print(f"{work.name:34} {times} {ratio} {rate:>16} {row.get('mismatch') or row.get('error') or ''}", flush=True)
        del results
        webgpu_backend.stats()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
