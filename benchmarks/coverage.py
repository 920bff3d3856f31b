"""PyTorch's operator database on the device, every operator in a process that survives.

    python -m benchmarks.coverage [--dtypes float32,int64] [--only softmax] [--jobs 2] [--json out.json]

Prints one row per dtype: operators with samples, right, native (no CPU fallback), and what is left.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from queue import Empty, Queue

DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
PER_OPERATOR_SECONDS = 180


def worker() -> None:
    """Reads `index dtype` lines, writes one JSON line each."""
    import torch

    from .opcheck import check, database

    torch.set_num_threads(1)
    db = database()
    for line in sys.stdin:
        index, dtype = line.split()
        print("\x1e" + json.dumps(asdict(check(db[int(index)], getattr(torch, dtype)))), flush=True)


class Worker:
    """A child process; one that dies or hangs costs one operator."""

    def __init__(self):
        self.process = None

    def run(self, index: int, dtype: str) -> dict | str:
        if self.process is None:
            env = {**os.environ, "WEBGPU_FALLBACK": "silent"}
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.coverage", "--worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env,
            )  # fmt: skip
        timer = threading.Timer(PER_OPERATOR_SECONDS, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(f"{index} {dtype}\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                if line.startswith("\x1e"):
                    return json.loads(line[1:])
            status = self.process.wait()
            self.process = None
            return "hang" if status == -9 else f"crash (exit {status})"
        except BrokenPipeError:
            self.process = None
            return "crash (broken pipe)"
        finally:
            timer.cancel()


def run(dtypes, only, jobs, report=print) -> list[dict]:
    import torch

    from .opcheck import database

    work: Queue = Queue()
    for dtype in dtypes:
        for index, op in enumerate(database()):
            name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
            if only and not any(part in name for part in only):
                continue
            if getattr(torch, dtype) in op.dtypes:
                work.put((index, dtype, name))
    results: list[dict] = []
    total = work.qsize()

    def drain():
        child = Worker()
        while True:
            try:
                index, dtype, name = work.get_nowait()
            except Empty:
                break
            result = child.run(index, dtype)
            if isinstance(result, str):
                result = {
                    "name": name,
                    "dtype": dtype,
                    "samples": 0,
                    "status": "error",
                    "detail": result,
                    "fallbacks": {},
                }
            results.append(result)
            if len(results) % 100 == 0:
                report(f"  {len(results)} of {total}")
        if child.process is not None:
            child.process.stdin.close()
            child.process.wait()

    threads = [threading.Thread(target=drain) for _ in range(jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def table(results) -> str:
    lines = ["| dtype | operators | with samples | right | native |", "|---|---|---|---|---|"]
    for dtype in DTYPES:
        rows = [r for r in results if r["dtype"] == dtype]
        if rows:
            movable = [r for r in rows if r["status"] != "unmovable"]
            right = [r for r in movable if r["status"] == "right"]
            native = [r for r in right if not r["fallbacks"]]
            lines.append(f"| {dtype} | {len(rows)} | {len(movable)} | {len(right)} | {len(native)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--only", default="", help="comma-separated parts of operator names")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    only = [part for part in options.only.split(",") if part]
    results = run(options.dtypes.split(","), only, options.jobs)
    for r in sorted(results, key=lambda r: (r["dtype"], r["status"], r["name"])):
        if r["status"] in ("wrong", "error"):
            print(f"{r['dtype']:9} {r['status']:6} {r['name']}: {r['detail']}")
    for r in sorted(results, key=lambda r: (r["dtype"], r["name"])):
        if r["fallbacks"] and r["status"] == "right":
            print(f"{r['dtype']:9} falls back {r['name']}: {', '.join(sorted(r['fallbacks']))}")
    print(table(results))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main()
