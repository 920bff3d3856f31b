"""Generation by transformers, not compiled, with the cache that grows and the one of fixed size, in turns: medians.

python -m benchmarks.caches [--device webgpu] [--rounds 15] [--small [--layers 2]]

For webgpu also the processor time of the thread that asks for the tokens, without what it waits for the device: on a
software adapter the device's work is the processor's, too.
"""

import argparse
import statistics
import time

import torch

from . import models

CACHES = {"growing": {}, "static": {"cache_implementation": "static", "disable_compile": True}}


class Waits:
    """How long this thread has waited for the device, in seconds of its processor time."""

    def __init__(self):
        self.seconds = 0.0
        self._inside = False

    def watch(self, cls: type, name: str) -> None:
        original = getattr(cls, name)

        def timed(*args, **kwargs):
            if self._inside:
                return original(*args, **kwargs)
            self._inside, start = True, time.thread_time()
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = False
                self.seconds += time.thread_time() - start

        setattr(cls, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="webgpu", choices=("cpu", "cuda", "webgpu"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--small", action="store_true", help="small sizes, as for a software adapter")
    parser.add_argument("--layers", type=int, default=2, help="of the small sizes")
    given = parser.parse_args()
    waits = Waits()
    if given.device == "webgpu":
        from webgpu_backend.runtime import handing, queue

        waits.watch(queue.Queue, "_wait")
        waits.watch(handing.Hand, "wait")
    setting = models.Setting(given.device, given.small, False)
    model, _ = models._qwen(setting, torch.float16, given.layers)
    ids, count = setting.tokens(1, 16, 1000), 32

    def generate(cache: dict):
        lengths = dict(min_new_tokens=count, max_new_tokens=count, pad_token_id=0)
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **lengths, **cache)
        models.synchronize(given.device)
        return out

    def timed(cache: dict) -> tuple[float, float]:
        """Milliseconds in all, and of the host alone."""
        start, host = time.perf_counter(), time.thread_time() - waits.seconds
        generate(cache)
        return (time.perf_counter() - start) * 1e3, (time.thread_time() - waits.seconds - host) * 1e3

    tokens = {name: [generate(cache) for _ in range(3)][0].tolist() for name, cache in CACHES.items()}
    print("the same tokens" if tokens["growing"] == tokens["static"] else f"other tokens: {tokens}")
    taken = {name: [] for name in CACHES}
    for _ in range(given.rounds):
        for name, cache in CACHES.items():
            taken[name].append(timed(cache))
    for i, what in enumerate(("in all", "the host") if given.device == "webgpu" else ("in all",)):
        middle = {name: statistics.median([pair[i] for pair in pairs]) for name, pairs in taken.items()}
        for name, pairs in taken.items():
            print(f"{what:8} {name:8} {middle[name]:8.1f} ms for {count} tokens, least {min(p[i] for p in pairs):8.1f}")
        print(f"{what:8} static / growing {middle['static'] / middle['growing']:.3f}")


if __name__ == "__main__":
    main()
