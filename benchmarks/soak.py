"""Hours of mixed work, and whether what is held stays flat.

    python -m benchmarks.soak [--minutes 60] [--every 60] [--json FILE]

Rounds of training with changing shapes, generation with a growing cache, allocation of growing sizes, read-backs,
shaders of a user's own, a compiled graph of changing sizes, bad indices that are caught, signals that interrupt. Each
round is checked against the CPU or a known answer. A line per interval tells what is held; the report at the end
compares the last quarter with the second, when everything is warm: figures that still grow are named, and the exit
status is 1.
"""

import argparse
import gc
import json
import random
import signal
import time

import torch
from torch import nn

import webgpu_backend
from webgpu_backend.plan import cache
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
HELD = ("pipelines_live", "bind_groups_live", "plans_live", "buffers_live", "bytes_live", "bytes_pooled")
MOST_GROWTH = 1.10  # of the last quarter's greatest figure over the second's
SLACK = {"resident_mb": 64, "plans_live": 2000, "bind_groups_live": 2000, "pipelines_live": 64,
         "bytes_pooled": 64 << 20, "buffers_live": 64, "bytes_live": 1 << 20}  # fmt: skip


class Soak:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.model = nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)).to(D)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.block = nn.MultiheadAttention(32, 4, batch_first=True).to(D).eval()
        self.graph = torch.compile(lambda x: (x * 2 + 1).relu().sum(-1), backend="webgpu", dynamic=True)
        self.rounds = self.caught = self.interrupts = 0

    def training(self) -> None:
        rows = self.random.randrange(1, 200)
        x, y = torch.randn(rows, 24), torch.randint(5, (rows,))
        loss = nn.functional.cross_entropy(self.model(x.to(D)), y.to(D))
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        assert 0 <= loss.item() < 50

    def generation(self) -> None:
        with torch.no_grad():
            keys = torch.randn(1, self.random.randrange(1, 20), 32, device=D)
            for _ in range(self.random.randrange(2, 12)):
                out, _ = self.block(keys[:, -1:], keys, keys, need_weights=False)
                keys = torch.cat([keys, out], 1)
            assert bool(keys.isfinite().all())

    def allocation(self) -> None:
        held = [torch.full((self.random.randrange(1, 1 << 18),), float(k), device=D) for k in range(6)]
        assert [x[-1].item() for x in held] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]

    def views(self) -> None:
        a, b = self.random.randrange(1, 40), self.random.randrange(1, 40)
        host = torch.arange(float(a * b)).view(a, b)
        ours = host.to(D)
        ours.t()[::2].mul_(2)
        host.t()[::2].mul_(2)
        assert torch.equal(ours.cpu(), host)

    def shader(self) -> None:
        text = f"""
            @group(0) @binding(0) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(64)
            fn f(@builtin(global_invocation_id) id: vec3<u32>) {{
                if (id.x < arrayLength(&y)) {{ y[id.x] = y[id.x] + {self.random.randrange(40)}.0 * 0.0 + 1.0; }}
            }}"""
        y = torch.zeros(self.random.randrange(1, 300), device=D)
        torch.webgpu.compile_shader(text).f(y)
        assert y.sum().item() == y.numel()

    def compiled(self) -> None:
        x = torch.ones(self.random.randrange(2, 60), 7)
        assert self.graph(x.to(D)).tolist() == [21.0] * len(x)

    def bad_index(self) -> None:
        table = torch.arange(10.0, device=D)
        kept = table[torch.tensor([3, 40]).to(D)]
        try:
            kept.sum().item()
        except IndexError:
            self.caught += 1
        assert (table + 1).tolist()[3] == 4.0

    def interrupt(self) -> None:
        """A timer whose handler raises, during a gradient."""
        x = torch.randn(50, 24).to(D)
        signal.setitimer(signal.ITIMER_REAL, self.random.random() * 0.01)
        try:
            for _ in range(20):
                self.model(x).sum().backward()
        except TimeoutError:
            self.interrupts += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.model.zero_grad()

    def round(self) -> None:
        works = [self.training] * 4 + [self.generation, self.allocation, self.views, self.shader, self.compiled]
        works += [self.bad_index, self.interrupt]
        for work in works:
            while True:
                try:
                    work()
                    break
                except TimeoutError:  # the timer's exception came a moment late
                    self.interrupts += 1
        self.rounds += 1


def _resident() -> float:
    """Megabytes of this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096 / 1e6
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _figures(soak: Soak, start: float) -> dict:
    gc.collect()
    torch.webgpu.synchronize()
    stats = webgpu_backend.stats()
    return {"minute": round((time.time() - start) / 60, 2), "rounds": soak.rounds, "resident_mb": round(_resident(), 1),
            **{name: stats[name] for name in HELD}}  # fmt: skip


def grown(rows: list[dict]) -> dict[str, tuple]:
    """Figures that still grow: the greatest of the second quarter and of the last."""
    quarter = len(rows) // 4
    if not quarter:
        return {}
    found = {}
    for name in ("resident_mb", *HELD):
        before = max(r[name] for r in rows[quarter : 2 * quarter])
        after = max(r[name] for r in rows[-quarter:])
        if after > max(before * MOST_GROWTH, before + SLACK[name]):
            found[name] = (before, after)
    return found


def _alarm(*_):
    raise TimeoutError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=60, help="seconds between two lines")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plans", type=int, default=4096, help="the cache's bound, which a short soak should reach")
    parser.add_argument("--json", default="")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, _alarm)
    torch.manual_seed(given.seed)
    gpu().queue.most_groups = given.plans // 2
    cache.most = given.plans
    soak, start, rows = Soak(given.seed), time.time(), []
    print("minute rounds resident_mb " + " ".join(HELD))
    while time.time() - start < given.minutes * 60:
        soak.round()
        if time.time() - start >= len(rows) * given.every:
            rows.append(_figures(soak, start))
            print(" ".join(str(v) for v in rows[-1].values()), flush=True)
    found = grown(rows)
    print(f"{soak.rounds} rounds, {soak.caught} bad indices caught, {soak.interrupts} interrupts, fallbacks "
          f"{webgpu_backend.fallbacks() or 'none'}")  # fmt: skip
    print("flat" if not found else f"still growing: {found}")
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"rows": rows, "grown": found}, file)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
