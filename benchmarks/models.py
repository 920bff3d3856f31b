"""Whole models on one device: medians, peak memory, and where the time goes.

    python -m benchmarks.models --device cuda|webgpu|cpu [--only gpt2,qwen] [--compiled] [--profile] [--json out.json]

Random weights, the same on every device. transformers' and torchvision's models where they can be imported (`--plain`:
the ones of `architectures.py` anyway). One device a process: CUDA's autograd fails where another backend is loaded.
`--profile` adds GPU time by kernel, and host time by aten operator and by Python function.
"""

import argparse
import cProfile
import importlib.util
import io
import json
import os
import pstats
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch
import torch.nn.functional as F

from . import architectures


@dataclass
class Result:
    name: str
    device: str
    source: str
    ms: float | None = None
    host_ms: float | None = None  # until the call returned, before the wait
    peak_mib: float | None = None
    value: float | None = None  # a loss or a logit, to compare devices by
    dispatches: int | None = None
    submits: int | None = None
    gpu_ms: float | None = None
    build_s: float = 0.0
    first_s: float = 0.0
    error: str | None = None


def available(name: str, plain: bool) -> bool:
    return not plain and importlib.util.find_spec(name) is not None


@dataclass(frozen=True)
class Setting:
    device: str
    small: bool
    plain: bool
    compiled: bool = False

    def ready(self, f):
        """A model or function as it is to be called."""
        return torch.compile(f) if self.compiled else f

    def tokens(self, batch: int, length: int, vocabulary: int):
        return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(0)).to(self.device)


def mlp_forward(s: Setting):
    model, x = architectures.mlp().to(s.device), torch.randn(64, 784, generator=torch.Generator().manual_seed(0))
    model, x = s.ready(model), x.to(s.device)

    def f():
        with torch.no_grad():
            return model(x).flatten()[0]

    return f, "nn"


def mlp_step(s: Setting):
    model, x = architectures.mlp().to(s.device), torch.randn(64, 784, generator=torch.Generator().manual_seed(0))
    x, y = x.to(s.device), (torch.arange(64) % 10).to(s.device)
    optimizer = torch.optim.AdamW(model.parameters())
    loss_of = s.ready(lambda x, y: F.cross_entropy(model(x), y))

    def f():
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return f, "nn"


def gpt2_step(s: Setting):
    if available("transformers", s.plain):
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=1000) if s.small else GPT2Config()
        model = _uninitialised(GPT2LMHeadModel, config, s.device)
        vocabulary, source = config.vocab_size, "transformers"

        def loss_of(ids):
            return model(ids, labels=ids).loss
    else:
        model = architectures.GPT2(1000, 1024, 128, 2, 4) if s.small else architectures.GPT2()
        loss_of, vocabulary, source = model, model.tokens.num_embeddings, "nn"
    architectures.fill(model).train().to(s.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss_of = s.ready(loss_of)
    ids = s.tokens(1, 32, vocabulary) if s.small else s.tokens(4, 256, vocabulary)

    def f():
        optimizer.zero_grad()
        loss = loss_of(ids)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return f, source


def _resnet(s: Setting):
    if s.small:
        return architectures.fill(architectures.resnet50((1, 1, 1, 1), 10)), "nn"
    if available("torchvision", s.plain):
        try:
            from torchvision.models import resnet50

            return architectures.fill(resnet50()), "torchvision"
        except (ImportError, RuntimeError):  # built for another torch
            pass
    return architectures.fill(architectures.resnet50()), "nn"


def _images(s: Setting):
    shape = (2, 3, 64, 64) if s.small else (32, 3, 224, 224)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return x.to(s.device), (torch.arange(shape[0]) % 10).to(s.device)


def resnet_forward(s: Setting):
    model, source = _resnet(s)
    model = s.ready(model.eval().to(s.device))
    x, _ = _images(s)

    def f():
        with torch.no_grad():
            return model(x).flatten()[0]

    return f, source


def resnet_step(s: Setting):
    model, source = _resnet(s)
    model = model.train().to(s.device)
    x, y = _images(s)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    loss_of = s.ready(lambda x, y: F.cross_entropy(model(x), y))

    def f():
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return f, source


def _qwen(s: Setting, dtype, small_layers: int = 2):
    if available("transformers", s.plain):
        from transformers import Qwen2Config, Qwen2ForCausalLM

        config = Qwen2Config(
            hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
            intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True, eos_token_id=None, pad_token_id=0,
            bos_token_id=1,
        )  # fmt: skip
        if s.small:
            sizes = dict(hidden_size=64, num_hidden_layers=small_layers, num_attention_heads=4, vocab_size=1000)
            config.update(sizes | dict(layer_types=["full_attention"] * small_layers))
            config.intermediate_size = 128
        model = _uninitialised(Qwen2ForCausalLM, config, s.device)
        return architectures.fill(model).eval().to(dtype), "transformers"
    model = architectures.Decoder(1000, 64, 2, 4, 2, 128) if s.small else architectures.Decoder()
    return architectures.fill(model).eval().to(s.device, dtype), "nn"


def _uninitialised(kind, config, device: str):
    """On the device at once: transformers' own initialisation takes longer than the measurement."""
    kept, kind.init_weights = kind.init_weights, lambda self: self.tie_weights()
    try:
        with torch.device(device):
            return kind(config)
    finally:
        kind.init_weights = kept


def qwen_prefill(s: Setting):
    model, source = _qwen(s, torch.float16)
    ids = s.tokens(1, 64 if s.small else 1024, 1000)
    model.forward = s.ready(model.forward)

    def f():
        with torch.no_grad():
            if source == "transformers":
                return model(ids, logits_to_keep=1, use_cache=not s.compiled).logits.flatten()[0].float()
            return model(ids, {}).flatten()[0].float()

    return f, source


def _qwen_generate(dtype):
    def make(s: Setting):
        model, source = _qwen(s, dtype)
        ids = s.tokens(1, 16, 1000)
        count = 4 if s.small else 32
        model.forward = s.ready(model.forward)
        # A cache that grows has a graph's sizes change with every token.
        cache = {"cache_implementation": "static"} if s.compiled else {}

        def f():
            with torch.no_grad():
                if source == "transformers":
                    out = model.generate(
                        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count,
                        min_new_tokens=count, pad_token_id=0, **cache,
                    )  # fmt: skip
                else:
                    out = model.generate(ids, count)
            return out[0, ids.shape[1]]  # the first new token: later ones may follow another way after a near tie

        return f, source

    return make


MODELS: dict[str, Callable] = {
    "MLP forward, batch 64": mlp_forward,
    "MLP AdamW step, batch 64": mlp_step,
    "GPT-2 small AdamW step, 4x256": gpt2_step,
    "ResNet-50 forward, batch 32": resnet_forward,
    "ResNet-50 SGD step, batch 32": resnet_step,
    "Qwen2.5-0.5B prefill 1024 fp16": qwen_prefill,
    "Qwen2.5-0.5B generate 32 fp16": _qwen_generate(torch.float16),
    "Qwen2.5-0.5B generate 32 fp32": _qwen_generate(torch.float32),
}


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.get_device_module(device).synchronize()


def measure(f, device: str, seconds: float) -> tuple[float, float]:
    """Median milliseconds of a call with its wait, and of the call alone. Short calls are timed in groups."""
    for _ in range(3):
        start = time.perf_counter()
        f()
        synchronize(device)
        once = time.perf_counter() - start
        if once > 0.3:
            break
    group = max(1, int(0.02 / once))
    whole, host = [], []
    stop = time.perf_counter() + seconds
    while len(whole) < (2 if once > 0.3 else 3) or (time.perf_counter() < stop and len(whole) < 30):
        start = time.perf_counter()
        for _ in range(group):
            f()
        returned = time.perf_counter()
        synchronize(device)
        whole.append((time.perf_counter() - start) / group * 1e3)
        host.append((returned - start) / group * 1e3)
    return statistics.median(whole), statistics.median(host)


def prepare(name: str, setting: Setting) -> tuple[Callable, Result]:
    """Builds a model and runs it once, which loads libraries and compiles."""
    result = Result(name, setting.device, "")
    torch.manual_seed(0)
    start = time.perf_counter()
    f, result.source = MODELS[name](setting)
    built = time.perf_counter()
    if setting.device != "cpu":
        torch.get_device_module(setting.device).reset_peak_memory_stats()
    torch.manual_seed(0)
    result.value = float(f())
    result.build_s, result.first_s = built - start, time.perf_counter() - built
    return f, result


def finish(f: Callable, result: Result, seconds: float) -> Result:
    """The measurement itself."""
    device = result.device
    calls = 0

    def counted():
        nonlocal calls
        calls += 1
        return f()

    before = _counters() if device == "webgpu" else {}
    result.ms, result.host_ms = measure(counted, device, seconds)
    if device != "cpu":
        result.peak_mib = torch.get_device_module(device).max_memory_allocated() / (1 << 20)
    if device == "webgpu":
        after = _counters()
        result.dispatches, result.submits = ((after[k] - before[k]) // calls for k in ("dispatches", "submits"))
    return result


def _counters() -> dict:
    import webgpu_backend

    return webgpu_backend.stats()


def explain(f, device: str, result: Result) -> None:
    if device == "webgpu" and torch.webgpu.profiler.is_available():
        with torch.webgpu.profiler.profile() as kernels:
            f()
        result.gpu_ms = sum(e.duration for e in kernels) / 1e6
        print(kernels.table(row_limit=22))
        print(f"  GPU {result.gpu_ms:.2f} ms of {result.ms:.2f}; host {result.host_ms:.2f} ms")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as operators:
        f()
        synchronize(device)
    rows = sorted(operators.key_averages(), key=lambda r: -r.self_cpu_time_total)
    total = sum(r.self_cpu_time_total for r in rows) or 1.0
    print(f"  {'host time by operator':52} {'count':>7} {'self us':>10} {'us each':>9} {'share':>7}")
    for r in rows[:18]:
        share = f"{100 * r.self_cpu_time_total / total:.1f}%"
        each = r.self_cpu_time_total / r.count
        print(f"  {r.key[:52]:52} {r.count:7} {r.self_cpu_time_total:10.0f} {each:9.1f} {share:>7}")
    python = cProfile.Profile()
    python.enable()
    f()
    synchronize(device)
    python.disable()
    text = io.StringIO()
    pstats.Stats(python, stream=text).sort_stats("tottime").print_stats(18)
    print("\n".join(line for line in text.getvalue().splitlines() if line.strip())[:4000], flush=True)
    if device == "webgpu":
        import webgpu_backend

        if webgpu_backend.fallbacks():
            print(f"  on the CPU: {webgpu_backend.fallbacks()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu", choices=("cpu", "cuda", "webgpu"))
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--small", action="store_true", help="small sizes, as on a CPU or software adapter")
    parser.add_argument("--full", action="store_true", help="the named sizes whatever the device")
    parser.add_argument("--plain", action="store_true", help="the torch.nn models even where libraries are installed")
    parser.add_argument("--compiled", action="store_true", help="through torch.compile; generation with a static cache")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.device != "webgpu" and "webgpu_backend" in sys.modules:  # installed, and loaded by `import torch`
        os.execve(sys.executable, sys.orig_argv, os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    software = options.device == "cpu"
    if options.device == "webgpu":
        import webgpu_backend  # noqa: F401

        software = torch.webgpu.get_device_properties().adapter_type == "CPU"
        print(torch.webgpu.get_device_name(), "torch", torch.__version__)
    setting = Setting(options.device, (software or options.small) and not options.full, options.plain)
    setting = replace(setting, compiled=options.compiled)
    if setting.small:
        print("small models: the sizes in the names are divided")
    parts = [part for part in options.only.lower().split(",") if part]
    names = list(dict.fromkeys(n for part in parts for n in MODELS if part in n.lower())) if parts else list(MODELS)
    rows, runs = [], []
    for name in names:
        try:
            f, row = prepare(name, setting)
            finish(f, row, options.seconds)
            runs += [(f, row)] if options.profile else []
            del f
        except Exception as error:
            row = Result(name, options.device, "", error=f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
        rows.append(row)
        print(line(row), flush=True)
        if options.device != "cpu":
            torch.get_device_module(options.device).empty_cache()
        if options.json:
            with open(options.json, "w") as file:
                json.dump([asdict(r) for r in rows], file, indent=1)
    for f, row in runs:
        print(f"\n{row.name}:")
        explain(f, options.device, row)
    sys.exit(0 if all(r.error is None for r in rows) else 1)


def line(row: Result) -> str:
    if row.error:
        return f"{row.name:34} {row.device:7} {row.error}"
    text = f"{row.name:34} {row.device:7} {row.ms:10.3f} ms  host {row.host_ms:9.3f}  value {row.value:.5g}"
    if row.peak_mib is not None:
        text += f"  peak {row.peak_mib:.0f} MiB"
    if row.dispatches is not None:
        text += f"  {row.dispatches} dispatches, {row.submits} submits"
    return text + f"  (built in {row.build_s:.1f} s, first {row.first_s:.1f} s, {row.source})"


if __name__ == "__main__":
    main()
