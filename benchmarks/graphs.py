"""torch.compile on several devices, each in a process of its own, in turns: medians and their ratio.

    python -m benchmarks.graphs [--devices cuda,webgpu] [--only chain,qwen] [--rounds 7] [--small]

Default modes on all devices. Graphs are compiled in both processes at once; then each call is measured by one device
after the other, so that a processor that changes its speed does so for both. `first` is the first call, compilation
included.
"""

import argparse
import os
import statistics
import sys
import time

from .lockstep import Child, serve


def child(device: str, small: bool) -> None:
    import torch

    if device == "webgpu":
        import webgpu_backend  # noqa: F401
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    from . import models

    setting = models.Setting(device, small, False, True)
    calls: dict = {}

    def answer(request: dict) -> dict:
        name = request["name"]
        if request["what"] == "prepare":
            torch.manual_seed(0)
            torch._dynamo.reset()
            f, _ = CASES[name](setting, models)
            start = time.perf_counter()
            value = f()
            models.synchronize(device)
            calls[name] = f
            taken = time.perf_counter() - start
            for _ in range(3):
                f()
            models.synchronize(device)
            return {"first": taken, "value": float(value)}
        if request["what"] == "drop":
            calls.pop(name, None)
            torch.get_device_module(device).empty_cache()
            return {}
        f, count = calls[name], request["count"]
        start = time.perf_counter()
        for _ in range(count):
            f()
        models.synchronize(device)
        return {"ms": (time.perf_counter() - start) / count * 1e3}

    serve(answer)


def chain(s, models):
    """Elementwise steps, a softmax and a layer norm along rows."""
    import torch
    import torch.nn.functional as F

    n = 256 if s.small else 4096
    x, y = (torch.randn(n, n, generator=torch.Generator().manual_seed(k)).to(s.device) for k in range(2))

    @torch.compile
    def run(x, y):
        z = torch.softmax(F.gelu(x * 2 + y).tanh() + x, -1)
        return F.layer_norm(z * y + x, (n,))

    return lambda: run(x, y)[0, 0], "torch"


def vit(s, models):
    import torch
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    model = models._uninitialised(ViTModel, config if s.small else ViTConfig(), s.device)
    model = torch.compile(models.architectures.fill(model).eval())
    x = torch.randn(8, 3, 224, 224, generator=torch.Generator().manual_seed(0)).to(s.device)

    def f():
        with torch.no_grad():
            return model(x).last_hidden_state[0, 0, 0]

    return f, "transformers"


def qwen_static(s, models):
    """As transformers compiles it by itself."""
    import torch

    model, _ = models._qwen(s, torch.float16)
    ids, count = s.tokens(1, 16, 1000), 4 if s.small else 32
    given = dict(do_sample=False, max_new_tokens=count, min_new_tokens=count, cache_implementation="static")

    def f():
        with torch.no_grad():
            return model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **given)[0, ids.shape[1]]

    return f, "transformers"


def of_models(name: str):
    return lambda s, models: next(make for n, make in models.MODELS.items() if n.startswith(name))(s)


# With calls to a measurement
CASES = {
    "chain": chain,
    "MLP AdamW step": of_models("MLP AdamW step"),
    "GPT-2 step": of_models("GPT-2 small"),
    "ViT-B/16 batch 8": vit,
    "Qwen static, 32 tokens": qwen_static,
    "Qwen by hand, 32 tokens": of_models("Qwen2.5-0.5B generate 32 fp16"),
}
COUNTS = {"chain": 50, "MLP AdamW step": 30, "GPT-2 step": 3, "ViT-B/16 batch 8": 5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="cuda,webgpu", help="the first is what others are compared with")
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child, given.small)
    devices, parts = given.devices.split(","), [p for p in given.only.lower().split(",") if p]
    command = [sys.executable, "-m", "benchmarks.graphs", *(["--small"] if given.small else []), "--child"]
    environment = {d: {} if d == "webgpu" else {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} for d in devices}
    children = {d: Child([*command, d], {**os.environ, **environment[d]}) for d in devices}
    for name in [n for n in CASES if not parts or any(p in n.lower() for p in parts)]:
        for some in children.values():
            some.send(what="prepare", name=name)
        found = {d: c.receive(400) for d, c in children.items()}
        if wrong := {d: f["error"] for d, f in found.items() if "error" in f}:
            print(f"{name:26} {wrong}", flush=True)
        ready = {d: c for d, c in children.items() if "error" not in found[d]}
        taken: dict[str, list] = {d: [] for d in ready}
        for _ in range(given.rounds):
            for d, c in ready.items():
                taken[d].append(c.ask(what="measure", name=name, count=COUNTS.get(name, 1)).get("ms", float("nan")))
        medians = {d: statistics.median(t) for d, t in taken.items()}
        cells = [
            f"{d} {medians[d]:8.3f} ms (least {min(taken[d]):.3f}, first {found[d]['first']:.1f} s)" for d in ready
        ]
        ratios = [f"{medians[d] / medians[devices[0]]:.2f}" for d in devices[1:] if devices[0] in ready and d in ready]
        print(f"{name:26} {'  '.join(cells)}  {' '.join(ratios)}", flush=True)
        for c in ready.values():
            c.ask(what="drop", name=name)
    for c in children.values():
        c.close()


if __name__ == "__main__":
    main()
