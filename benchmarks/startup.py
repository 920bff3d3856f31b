"""What a process pays before its first results: import, device, and shaders with a cold and a warm driver cache.

    python -m benchmarks.startup [--compiled [--by-hand] [--layers 24]]

Each figure is a process of its own. The cold run points Mesa's disk cache at an empty folder; other drivers keep their
caches elsewhere and show little difference. `--compiled`: the first call of a small Qwen2's `generate` over a static
cache, which transformers compiles (`--by-hand`: prompt and token, by `torch.compile(model.forward)`), with Inductor's
caches empty and as the first process left them; processor seconds tell more where the machine has other work.
"""

import argparse
import os
import subprocess
import sys
import tempfile

CHILD = """
import time
start = time.perf_counter()
import torch
torch_at = time.perf_counter()
import webgpu_backend
backend_at = time.perf_counter()
x = torch.ones(4).to("webgpu")
device_at = time.perf_counter()
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to("webgpu")
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.rand(16, 64).to("webgpu"), (torch.arange(16) % 8).to("webgpu")
for _ in range(2):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
loss.item()
end = time.perf_counter()
compiled = webgpu_backend.stats()["pipelines_compiled"]
times = (torch_at - start, backend_at - torch_at, device_at - backend_at, end - device_at)
print(*(f"{t:.3f}" for t in times), compiled)
"""

COMPILED = """
import sys, time
import torch
import webgpu_backend
from torch._dynamo.utils import counters
from transformers import Qwen2Config, Qwen2ForCausalLM
config = Qwen2Config(
    hidden_size=64, num_hidden_layers=int(sys.argv[1]), num_attention_heads=4, num_key_value_heads=2, vocab_size=1000,
    intermediate_size=128, tie_word_embeddings=True, eos_token_id=None, pad_token_id=0, bos_token_id=1,
)
model = Qwen2ForCausalLM(config).eval().to("webgpu", torch.float16)
if sys.argv[2] == "by hand":
    model.forward = torch.compile(model.forward)
ids = torch.arange(16)[None].to("webgpu")
times = []
for _ in range(2):
    start = time.perf_counter(), time.process_time()
    with torch.no_grad():
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8, min_new_tokens=8,
                       cache_implementation="static").cpu()
    times += [time.perf_counter() - start[0], time.process_time() - start[1]]
print(*(f"{t:.3f}" for t in times), *(counters["aot_autograd"][f"autograd_cache_{k}"] for k in ("hit", "miss")))
"""


def child(text: str, *args: str, **changed: str) -> list[float]:
    """What a process prints last."""
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **changed}
    command = [sys.executable, "-c", text, *args]
    out = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    return [float(x) for x in out.splitlines()[-1].split()]


def compiled(layers: int, way: str) -> None:
    with tempfile.TemporaryDirectory() as cache:
        print(f"{'process':10} {'first call s':>13} {'processor s':>12} {'second call s':>14} {'graphs found':>13}")
        for name in ("cold", "warm", "warm"):
            first, busy, second, _, hits, misses = child(COMPILED, str(layers), way, TORCHINDUCTOR_CACHE_DIR=cache)
            graphs = f"{hits:.0f} of {hits + misses:.0f}"
            print(f"{name:10} {first:13.2f} {busy:12.2f} {second:14.2f} {graphs:>13}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", action="store_true", help="the first call of a compiled model instead")
    parser.add_argument("--by-hand", action="store_true", help="compile the prompt's graph too")
    parser.add_argument("--layers", type=int, default=24)
    options = parser.parse_args()
    if options.compiled:
        compiled(options.layers, "by hand" if options.by_hand else "by itself")
        return
    with tempfile.TemporaryDirectory() as cache:
        print(f"{'process':10} {'torch s':>9} {'backend s':>10} {'device s':>9} {'two steps s':>12} {'pipelines':>10}")
        for name in ("cold", "warm", "warm"):
            torch_s, backend_s, device_s, work_s, pipelines = child(CHILD, MESA_SHADER_CACHE_DIR=cache)
            print(f"{name:10} {torch_s:9.2f} {backend_s:10.2f} {device_s:9.2f} {work_s:12.2f} {pipelines:10.0f}")


if __name__ == "__main__":
    main()
