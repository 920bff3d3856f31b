"""Side by side on every device given: medians, ratios, the floor and the share of it reached.

    python -m benchmarks --devices cuda,webgpu [--only softmax,conv] [--json out.json] [--plot out.png]

The ratio is the last device's time over the first's; the aim, where there is one, is the ratio to CUDA wanted or, on a
GPU, that to the floor. The floor is the bytes a workload must move or the operations it must do at the rates that a
copy and a multiply-add kernel reach on the adapter in the same run; what fits the caches can pass it. "kernels" is GPU
time, by timestamps, and its ratio to the first device's whole time.

Each device has its own process and they take turns, workload by workload. Whole models come last (`--only model`);
`--only operators` is for many more operators, without aims.
"""

import argparse
import json
import sys
import time

from . import report
from .lockstep import Child
from .models import MODELS
from .operators import GROUP as OPERATORS
from .workloads import Workload, all_workloads

# Our time over CUDA's that a whole model may take.
MODEL_AIM = {"generate": 2.0, "": 3.0}


def start(device: str, seconds: float) -> Child:
    command = [sys.executable, "-m", "benchmarks", "--worker", device, "--seconds", str(seconds)]
    # An installed webgpu_backend is loaded by `import torch`, and CUDA's autograd fails beside it.
    return Child(command, {} if device == "webgpu" else {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})


def models() -> list[Workload]:
    aims = {name: next(aim for part, aim in MODEL_AIM.items() if part in name) for name in MODELS}
    return [Workload(name, None, group="model", target=aims[name]) for name in MODELS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cpu,webgpu")
    parser.add_argument("--scale", type=int, default=0, help="divide sizes; 0 chooses by adapter")
    parser.add_argument("--only", default="", help="comma-separated parts of names, or groups")
    parser.add_argument("--skip", default="", help="groups to leave out")
    parser.add_argument("--seconds", type=float, default=0.3, help="a workload and device")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds in all; what is left then is named")
    parser.add_argument("--json")
    parser.add_argument("--markdown", help="write the tables to this file")
    parser.add_argument("--plot", help="write a plot of the ratios to this PNG file; needs matplotlib")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        from . import worker

        worker.main(options.worker, options.seconds)
        return
    devices, stop = options.devices.split(","), time.monotonic() + options.budget
    children = {device: start(device, options.seconds) for device in devices}
    found = {device: child.ask(what="hello") for device, child in children.items()}
    for device, answer in found.items():
        if "error" in answer:
            sys.exit(f"{device}: {answer['error']}")
    last = found[devices[-1]]
    name, scale = "; ".join(answer["name"] for answer in found.values()), options.scale or last["scale"]
    ceilings = children["webgpu"].ask(what="ceilings", scale=scale) if "webgpu" in devices else {}
    if "error" in ceilings:
        sys.exit(f"the ceilings could not be measured: {ceilings['error']}")
    print(f"{name}; sizes divided by {scale}" if scale > 1 else name)
    if ceilings:
        print(f"copy {ceilings['bytes'] / 1e9:.0f} GB/s, multiply-add {ceilings['flops'] / 1e12:.2f} TFLOP/s")
    print(report.text(report.head(devices)), flush=True)
    rows = []
    only, skip = options.only.split(",") if options.only else [], options.skip.split(",")
    left = []
    for work in chosen([*all_workloads(scale), *models()], only, skip):
        if time.monotonic() > stop:
            left.append(work.name)
            continue
        row = measured(work, scale, children, devices, ceilings)
        rows.append(row)
        notes = [row.get("mismatch"), row.get("error"), "slow" if row["slow"] else None]
        print(report.text(report.cells(row, devices)), "; ".join(filter(None, notes)), flush=True)
        if options.json:
            save(options.json, name, scale, devices, ceilings, rows)
    for child in children.values():
        child.close()
    if left:
        print(f"out of time, not run: {'; '.join(left)}")
    print(f"{sum(r['slow'] for r in rows)} of {sum(map(report.has_aim, rows))} over the aim")
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write(report.markdown(rows, devices))
    if options.plot:
        print(report.plot(rows, devices, options.plot))


def chosen(works: list[Workload], only: list[str], skip: list[str]) -> list[Workload]:
    """In the order asked for: a run that is cut short has the first ones."""
    works = [w for w in works if w.group not in skip]
    if not only:
        return [w for w in works if w.group != OPERATORS]
    found = [w for part in only for w in works if (part in w.name and w.group != OPERATORS) or part == w.group]
    return list(dict.fromkeys(found))


def measured(work: Workload, scale: int, children: dict[str, Child], devices: list[str], ceilings: dict) -> dict:
    row = {"name": work.name, "group": work.group, "bytes": work.bytes, "flops": work.flops}
    row["target"] = work.target if devices[0] == "cuda" else None
    row["floor_target"] = work.floor_target if scale == 1 else None
    request = {"name": work.name, "scale": scale}
    for device in devices:
        children[device].send(what="prepare", **request)
    answers = {device: children[device].receive() for device in devices}
    for device, answer in answers.items():
        if "error" not in answer:
            answer |= children[device].ask(what="measured")
    for device, answer in answers.items():
        row[device] = answer.get("ms")
        row |= {key: answer[key] for key in ("kernel_ms", "dispatches", "source") if key in answer}
        if "peak_mib" in answer:
            row[f"{device} peak MiB"] = answer["peak_mib"]
    errors = [f"{device}: {answer['error']}" for device, answer in answers.items() if "error" in answer]
    digests = {device: answer["digest"] for device, answer in answers.items() if "digest" in answer}
    row["error"] = "; ".join(errors) or None
    if len(digests) > 1:
        row["mismatch"] = report.differ(digests[devices[-1]], digests[devices[0]])
    return report.finish(row, devices, ceilings)


def save(path: str, name: str, scale: int, devices: list[str], ceilings: dict, rows: list[dict]) -> None:
    with open(path, "w") as file:
        json.dump(
            {"webgpu": name, "scale": scale, "devices": devices, "ceilings": ceilings, "rows": rows}, file, indent=1
        )


if __name__ == "__main__":
    main()
