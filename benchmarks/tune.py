"""Measures the tiles of matrix products on the present adapter and prints, or saves, its tuning table.

    python -m benchmarks.tune [--save tuning.json] [--check]

Set WEBGPU_TUNING to the saved file to use it. For every candidate: the rate of a product that fills the adapter, and
how much longer than its share a workgroup takes that has a unit to itself. `--check` then times products of many shapes
with each row, beside the choice that the table makes.
"""

import argparse
import json
import time
from dataclasses import replace

import torch

import webgpu_backend  # noqa: F401
from webgpu_backend.kernels.matmul import tiles, units
from webgpu_backend.kernels.matmul.tiles import Tile, Tuning, UnitTile
from webgpu_backend.plan import cache, caps
from webgpu_backend.runtime.gpu import gpu

SHAPES = (
    (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (4096, 1024, 4096),
    (64, 4096, 4096), (128, 4096, 4096), (16, 4096, 4096), (64, 512, 784), (1024, 896, 4864), (1024, 4864, 896),
    (1024, 768, 3072), (256, 256, 16384), (1023, 1019, 1021), (4096, 4096, 64),
)  # fmt: skip


def seconds(f, least: float = 0.02) -> float:
    """The shortest of a few averages over batches of calls."""
    f()
    torch.webgpu.synchronize()
    start = time.perf_counter()
    f()
    torch.webgpu.synchronize()
    repeat = max(1, min(100, int(least / max(time.perf_counter() - start, 1e-6))))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeat):
            f()
        torch.webgpu.synchronize()
        best = min(best, (time.perf_counter() - start) / repeat)
    return best


def product(m: int, n: int, k: int, dtype: torch.dtype):
    a, b = torch.zeros(m, k, dtype=dtype, device="webgpu"), torch.zeros(k, n, dtype=dtype, device="webgpu")
    a.normal_()
    b.normal_()
    return lambda: torch.mm(a, b)


def using(table: Tuning) -> None:
    tiles.use(table)
    cache.clear()


def kernels(f) -> list[str]:
    """Names of the programs that a call runs."""
    queue = gpu().queue
    with queue.lock:
        queue.recording = recorded = []
        try:
            f()
        finally:
            queue.recording = None
    return [dispatch.step.program.name for dispatch in recorded]


def only(tile: Tile | UnitTile, name: str) -> Tuning:
    """A table that leaves no choice: one unit, so that no sum is cut."""
    rows = {"tiles": (Tile(32, 32, 16, 4, 4, rate=1e-6),), "halves": ()} | {name: (tiles.shape(tile),)}
    return Tuning(1, rows["tiles"], rows["halves"], 0.0, 1e30, rows.get("matrices", ()))


def cores(tile: Tile, depth: int) -> int:
    """How many workgroups run in the time of one."""
    using(only(tile, "tiles"))
    one = seconds(product(tile.bm, tile.bn, depth, torch.float32))
    low, high = 1, 1024
    while low < high:
        middle = (low + high + 1) // 2
        if seconds(product(tile.bm, tile.bn * middle, depth, torch.float32)) < 1.15 * one:
            low = middle
        else:
            high = middle - 1
    return low


def measured(tile: Tile | UnitTile, size: int, count: int, name: str) -> Tile | UnitTile:
    dtype = torch.float32 if name == "tiles" else torch.float16
    using(only(tile, name))
    rate = 2.0 * size**3 / seconds(product(size, size, size, dtype)) / 1e12
    rows = next(r for r in range(int(count**0.5), 0, -1) if count % r == 0)
    m, n, depth = tile.bm * rows, tile.bn * (count // rows), max(size // 2, 256)
    wave = seconds(product(m, n, depth, dtype))
    alone = wave * rate * 1e12 / (2.0 * m * n * depth)
    return tile._replace(rate=float(f"{rate:.4g}"), alone=round(max(alone, 1.0), 2))


def fitting(name: str) -> list[Tile | UnitTile]:
    """The candidates of a table's rows that this adapter has room for."""
    if name == "matrices":
        return [tile for tile in tiles.MATRICES if caps().matrix and units.fits(tile, caps())]
    candidates = tiles.CANDIDATES if name == "tiles" else tiles.HALVES
    return [tile for tile in candidates if tiles.fits(tile, caps()) and (caps().f16 or name == "tiles")]


def fill(size: int, count: int) -> Tuning:
    found = {}
    for name in tiles.KNOWN:
        rows = []
        for tile in fitting(name):
            rows.append(measured(tile, size, count, name))
            print(name, rows[-1], flush=True)
        found[name] = tuple(rows)
    return replace(tiles.GPU, units=count, **found)


def useful(table: Tuning) -> Tuning:
    """Without the rows that no shape would take."""
    kept = {name: set() for name in tiles.KNOWN}
    sizes = [2**i for i in range(5, 14)]
    for name, found in kept.items():
        for m in sizes:
            for n in sizes:
                for k in (64, 256, 1024, 4096, 16384):
                    tiles.use(table)
                    if getattr(table, name):
                        found.add(tiles.choose(getattr(table, name), m, n, k, 1)[1])
    return replace(table, **{name: tuple(t for t in getattr(table, name) if t in kept[name]) for name in kept})


def check(table: Tuning) -> None:
    for dtype, name in ((torch.float32, "tiles"), (torch.float16, "matrices" if table.matrices else "halves")):
        for shape in SHAPES:
            f = product(*shape, dtype)
            using(table)
            chosen = seconds(f, 0.005)
            label = " + ".join(kernels(f))
            best = (chosen, "chosen")
            for tile in getattr(table, name):
                using(replace(table, **{name: (tile,)}))
                best = min(best, (seconds(f, 0.005), "x".join(map(str, tile[:6]))))
            tera = 2.0 * shape[0] * shape[1] * shape[2] / chosen / 1e12
            times = f"{chosen * 1e6:9.1f} us {tera:6.1f} TFLOP/s, best {best[0] * 1e6:9.1f} ({best[1]})"
            print(f"{str(dtype)[6:]:8} {'x'.join(map(str, shape)):16} {times} {label}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", help="file for the table, to be named by WEBGPU_TUNING")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--size", type=int, default=0, help="of the product that fills the adapter; 0: by its speed")
    parser.add_argument("--units", type=int, default=0, help="workgroups that run without sharing; 0: measured")
    options = parser.parse_args()
    if caps().kind != "gpu":
        raise SystemExit(
            "the table is for GPUs; the software adapter's tiles need none of it (WEBGPU_CLASS=gpu insists)"
        )
    size = options.size
    if not size:
        size = 1024
        while size < 4096 and seconds(product(size, size, size, torch.float32)) < 1e-3:
            size *= 2
    count = options.units or cores(next(t for t in tiles.CANDIDATES if tiles.fits(t, caps())), size)
    print(f"{torch.webgpu.get_device_name()}: {count} units, products of {size}", flush=True)
    table = useful(fill(size, count))
    print(json.dumps(tiles.to_json(table), indent=1))
    if options.save:
        with open(options.save, "w", encoding="utf-8") as file:
            json.dump(tiles.to_json(table), file, indent=1)
    if options.check:
        check(table)


if __name__ == "__main__":
    main()
