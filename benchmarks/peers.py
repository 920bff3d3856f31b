"""Ours beside other WebGPU runtimes on the same adapter: tinygrad, its torch backend, ONNX Runtime's WebGPU provider.

    python -m benchmarks.peers [--python peers/bin/python] [--tinygrad checkout] [--rounds 5] [--json out.json]

Install the peers apart from torch's own environment:

    python -m venv peers && peers/bin/pip install tinygrad dawn-python onnxruntime-webgpu onnx numpy torch

`--tinygrad` is a checkout of the tinygrad project, which alone holds its torch backend (compiled at first use).
`VK_ICD_FILENAMES` chooses the Vulkan driver; Dawn refuses software ones older than Mesa 23.

Every runtime has a process; they take turns, workload by workload and round by round, one working at a time. Inputs
are on the device and results stay there; a call is timed with its wait. A peer that is not installed has a line that
says so.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from .lockstep import Child, serve
from .peer_cases import CASES


def work(name: str) -> None:
    """A runtime's process: {"case"} -> the values once, {"case", "seconds"} -> milliseconds of each call."""
    from .peer_runners import RUNNERS, values

    cases: dict = {}

    def answer(request: dict) -> dict:
        if not cases:
            cases.update(RUNNERS[name]())
        f = cases.get(request["case"])
        if f is None:
            return {"missing": True}
        if "seconds" not in request:
            found = values(f()).reshape(-1)
            for _ in range(4):  # a JIT records at the second call
                f()
            return {"values": found[:: max(1, found.size // 64)][:64].tolist()}
        samples = []
        stop = time.perf_counter() + request["seconds"]
        while len(samples) < 3 or (time.perf_counter() < stop and len(samples) < 200):
            start = time.perf_counter()
            f()
            samples.append((time.perf_counter() - start) * 1e3)
        return {"ms": samples}

    serve(answer)


def start(name: str, options) -> Child:
    own = name in ("webgpu_backend", "torch cpu")
    python = sys.executable if own else options.python
    root = Path(__file__).resolve().parent.parent
    env = {"PYTHONPATH": os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))}
    env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    if options.tinygrad:
        env["TINYGRAD"] = options.tinygrad
    return Child([python, "-m", "benchmarks.peers", "--worker", name], env)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--tinygrad", help="a checkout of tinygrad, for its torch backend")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="a workload, runtime and round")
    parser.add_argument("--only", default="", help="comma-separated parts of workloads' names")
    parser.add_argument("--json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    names = ["webgpu_backend", "onnxruntime", "tinygrad", "tinygrad torch", "torch cpu"]
    children = {name: start(name, options) for name in names}
    chosen = {t: c for t, c in CASES.items() if not options.only or any(p in t for p in options.only.split(","))}
    runs = {title: prepare(case, children) for title, case in chosen.items()}
    for name, child in children.items():
        if child.lost:
            print(f"{name}: {child.lost}")
    times: dict = {title: {name: [] for name in names} for title in chosen}
    for _ in range(options.rounds):
        for title, case in chosen.items():
            for name, note in runs[title].items():
                if note == "":
                    found = children[name].ask(case=case, seconds=options.seconds)
                    times[title][name] += found.get("ms", [])
    for child in children.values():
        child.close()
    rows = [row(title, runs[title], times[title]) for title in chosen]
    print("medians\n" + table(rows, names) + "\n\nthe quickest call of each\n" + table(rows, names, "least"))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"load": os.getloadavg(), "rows": rows}, file, indent=1)


def prepare(case: str, children: dict[str, Child]) -> dict[str, str]:
    """Compiles and warms one workload everywhere; a note for each runtime that cannot run it or runs it wrong."""
    answers = {name: child.ask(timeout=600, case=case) for name, child in children.items()}
    want = answers["torch cpu"]["values"]
    notes = {}
    for name, found in answers.items():
        if "values" not in found:
            notes[name] = found.get("error", "not offered")
            continue
        scale = max(abs(x) for x in want)
        error = max(abs(a - b) for a, b in zip(found["values"], want))
        notes[name] = "" if error <= 2e-3 * scale else f"wrong by {error:.2g} of {scale:.2g}"
    return notes


def row(title: str, notes: dict[str, str], times: dict[str, list[float]]) -> dict:
    medians = {name: statistics.median(samples) for name, samples in times.items() if samples}
    least = {name: min(samples) for name, samples in times.items() if samples}
    return {"name": title, "ms": medians, "least": least, "notes": {n: note for n, note in notes.items() if note}}


def table(rows: list[dict], names: list[str], which: str = "ms") -> str:
    """Times, with each peer's over ours in brackets: above 1, ours is faster. Where the machine has other work, the
    quickest calls (`least`) say more than medians."""
    lines = ["| workload, ms | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for r in rows:
        ours = r[which].get(names[0])
        cells = []
        for name in names:
            ms = r[which].get(name)
            if ms is None:
                cells.append(r["notes"].get(name, "-"))
            elif name == names[0] or not ours:
                cells.append(f"{ms:.2f}")
            else:
                cells.append(f"{ms:.2f} ({ms / ours:.2g}x)")
        lines.append(f"| {r['name']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
