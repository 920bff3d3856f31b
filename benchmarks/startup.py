"""What a process pays before its first results: import, device, and shaders with a cold and a warm driver cache.

    python -m benchmarks.startup

Each figure is a process of its own. The cold run points Mesa's disk cache at an empty folder; other drivers keep their
caches elsewhere and show little difference.
"""

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


def child(cache: str) -> list[float]:
    env = {**os.environ, "MESA_SHADER_CACHE_DIR": cache, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    out = subprocess.run([sys.executable, "-c", CHILD], env=env, check=True, capture_output=True, text=True).stdout
    return [float(x) for x in out.split()]


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        print(f"{'process':10} {'torch s':>9} {'backend s':>10} {'device s':>9} {'two steps s':>12} {'pipelines':>10}")
        for name in ("cold", "warm", "warm"):
            torch_s, backend_s, device_s, work_s, compiled = child(cache)
            print(f"{name:10} {torch_s:9.2f} {backend_s:10.2f} {device_s:9.2f} {work_s:12.2f} {compiled:10.0f}")


if __name__ == "__main__":
    main()
