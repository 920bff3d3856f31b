"""Generation by transformers, not compiled, with the cache that grows and the one of fixed size, in turns: medians.

python -m benchmarks.caches [--device webgpu] [--rounds 15] [--small]
"""

import argparse
import statistics
import time

import torch

from . import models

CACHES = {"growing": {}, "static": {"cache_implementation": "static", "disable_compile": True}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="webgpu", choices=("cpu", "cuda", "webgpu"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--small", action="store_true", help="small sizes, as for a software adapter")
    given = parser.parse_args()
    if given.device == "webgpu":
        import webgpu_backend  # noqa: F401
    setting = models.Setting(given.device, given.small, False)
    model, _ = models._qwen(setting, torch.float16)
    ids, count = setting.tokens(1, 16, 1000), 16 if given.small else 32

    def generate(cache: dict):
        lengths = dict(min_new_tokens=count, max_new_tokens=count, pad_token_id=0)
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **lengths, **cache)
        models.synchronize(given.device)
        return out

    def timed(cache: dict) -> float:
        start = time.perf_counter()
        generate(cache)
        return (time.perf_counter() - start) * 1e3

    tokens = {name: [generate(cache) for _ in range(3)][0].tolist() for name, cache in CACHES.items()}
    print("the same tokens" if tokens["growing"] == tokens["static"] else f"other tokens: {tokens}")
    taken = {name: [] for name in CACHES}
    for _ in range(given.rounds):
        for name, cache in CACHES.items():
            taken[name].append(timed(cache))
    middle = {name: statistics.median(ms) for name, ms in taken.items()}
    for name, ms in taken.items():
        print(f"{name:8} {middle[name]:8.1f} ms for {count} tokens, least {min(ms):8.1f}")
    print(f"static / growing {middle['static'] / middle['growing']:.3f}")


if __name__ == "__main__":
    main()
