"""PyTorch's databases of operators, modules, optimizers and references on the device, every entry in a process that
survives.

    python -m benchmarks.coverage [--dtypes float32,int64] [--only softmax] [--strict] [--jobs 2] [--json out.json]
    python -m benchmarks.coverage --databases op,module,optim,ref

Prints one row per dtype: operators with samples, right, strictly right (see READINGS in opcheck.py), native (no CPU
fallback), and what is left; then one row per other database, which are run in float32. With --strict what is right
by a reading only counts as wrong. `python -m benchmarks.optable out.json` makes docs/ops.md of the result.
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
    """Reads `database index dtype` lines, writes one JSON line each."""
    import torch

    from .databases import DATABASES

    torch.set_num_threads(1)
    for line in sys.stdin:
        name, index, dtype = line.split()
        database = DATABASES[name]
        outcome = database.check(database.load()[int(index)], getattr(torch, dtype))
        print("\x1e" + json.dumps(asdict(outcome)), flush=True)


class Worker:
    """A child process; one that dies or hangs costs one operator."""

    def __init__(self):
        self.process = None

    def run(self, database: str, index: int, dtype: str) -> dict | str:
        if self.process is None:
            env = {**os.environ, "WEBGPU_FALLBACK": "silent"}
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.coverage", "--worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env,
            )  # fmt: skip
        timer = threading.Timer(PER_OPERATOR_SECONDS, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(f"{database} {index} {dtype}\n")
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


def plan(databases, dtypes, only) -> Queue:
    import torch

    from .databases import DATABASES
    from .opcheck import name_of

    work: Queue = Queue()
    for database in databases:
        for dtype in DATABASES[database].dtypes or dtypes:
            for index, entry in enumerate(DATABASES[database].load()):
                name = name_of(entry) if hasattr(entry, "variant_test_name") else entry.name
                if only and not any(part in name for part in only):
                    continue
                if getattr(torch, dtype) in getattr(entry, "dtypes", (torch.float32,)):
                    work.put((database, index, dtype, name))
    return work


def run(work: Queue, jobs: int, report=print) -> list[dict]:
    from .opcheck import Outcome

    results: list[dict] = []
    total = work.qsize()

    def drain():
        child = Worker()
        while True:
            try:
                database, index, dtype, name = work.get_nowait()
            except Empty:
                break
            result = child.run(database, index, dtype)
            if isinstance(result, str):
                result = asdict(Outcome(name, dtype, status="error", detail=result, database=database))
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


def count(rows) -> str:
    """Entries, those with samples, right, right without a reading, right without the CPU, as cells of a table."""
    movable = [r for r in rows if r["status"] != "unmovable"]
    right = [r for r in movable if r["status"] == "right"]
    native = [r for r in right if not r["fallbacks"]]
    strict = [r for r in right if not r["readings"]]
    return f"{len(rows)} | {len(movable)} | {len(right)} | {len(strict)} | {len(native)}"


def strictly(result: dict) -> dict:
    """The outcome with no reading allowed."""
    if result["status"] != "right" or not result["readings"]:
        return result
    return {**result, "status": "wrong", "detail": f"right by reading {' and '.join(result['readings'])}"}


def table(results) -> str:
    from .databases import DATABASES

    lines = []
    operators = [r for r in results if r["database"] == "op"]
    if operators:
        lines += ["| dtype | operators | with samples | right | strictly | native |", "|---|---|---|---|---|---|"]
        for dtype in DTYPES:
            rows = [r for r in operators if r["dtype"] == dtype]
            lines += [f"| {dtype} | {count(rows)} |"] if rows else []
    others = {name: [r for r in results if r["database"] == name] for name in DATABASES if name != "op"}
    if any(others.values()):
        lines += ["", "| database | entries | with samples | right | strictly | native |", "|---|---|---|---|---|---|"]
        lines += [f"| {DATABASES[name].title} | {count(rows)} |" for name, rows in others.items() if rows]
    return "\n".join(lines).strip()


def machine() -> dict:
    import torch

    import webgpu_backend  # noqa: F401  makes torch.webgpu

    return {"torch": torch.__version__.partition("+")[0], "adapter": torch.webgpu.get_device_name()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--databases", default="op", help="comma-separated, of op, module, optim and ref")
    parser.add_argument("--only", default="", help="comma-separated parts of operator names")
    parser.add_argument("--strict", action="store_true", help="read nothing into right")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    only = [part for part in options.only.split(",") if part]
    results = run(plan(options.databases.split(","), options.dtypes.split(","), only), options.jobs)
    if options.strict:
        results = [strictly(r) for r in results]
    for r in sorted(results, key=lambda r: (r["database"], r["dtype"], r["status"], r["name"])):
        if r["status"] in ("wrong", "error"):
            print(f"{r['dtype']:9} {r['status']:6} {r['name']}: {r['detail']}")
    for r in sorted(results, key=lambda r: (r["dtype"], r["name"])):
        if r["fallbacks"] and r["status"] == "right":
            print(f"{r['dtype']:9} falls back {r['name']}: {', '.join(sorted(r['fallbacks']))}")
    print(table(results))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({**machine(), "results": results}, file, indent=0)


if __name__ == "__main__":
    main()
