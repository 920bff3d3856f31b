"""Other operating systems, as far as this one can play them: what Python lacks on Windows and macOS is taken away
before the package is loaded, and a process does there what a program does."""

import os
import subprocess
import sys

import pytest

# Loaded as the system that this is: they have code of their own for each.
BEFORE = """
import ctypes, hashlib, json, os, pathlib, platform, signal, sys, tempfile
import torch, wgpu, wgpu.backends.wgpu_native, torch._inductor.compile_fx, torch._dynamo
"""
WINDOWS = """
opened = ctypes.CDLL.__init__
def open_library(self, name, *args, **kwargs):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    if name.endswith(".so.1"):
        raise FileNotFoundError(name)
    opened(self, name, *args, **kwargs)
ctypes.CDLL.__init__ = open_library
write = pathlib.Path.write_text
def write_lines(self, data, *args, newline=None, **kwargs):
    return write(self, data if newline is not None else data.replace("\\n", "\\r\\n"), *args, newline="", **kwargs)
pathlib.Path.write_text = write_lines
for name in ("fork", "register_at_fork", "sysconf", "sched_getaffinity", "getuid", "uname", "sched_yield"):
    delattr(os, name)
for name in ("SIGALRM", "SIGUSR1", "SIGKILL", "SIGHUP", "setitimer", "pthread_kill", "alarm"):
    delattr(signal, name)
sys.platform, platform.system, platform.machine = "win32", lambda: "Windows", lambda: "AMD64"
"""
MACOS = """
opened = ctypes.CDLL.__init__
def open_library(self, name, *args, **kwargs):
    if name is not None and ".so" in name:
        raise OSError(f"dlopen({name}, 0x0006): tried: '{name}' (no such file)")
    opened(self, name, *args, **kwargs)
ctypes.CDLL.__init__ = open_library
for name in ("sched_getaffinity",):
    delattr(os, name)
sys.platform, platform.system, platform.machine = "darwin", lambda: "Darwin", lambda: "arm64"
"""
PROGRAM = """
import webgpu_backend
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(20, 33), torch.nn.GELU(), torch.nn.Linear(33, 4))
here = torch.nn.Sequential(torch.nn.Linear(20, 33), torch.nn.GELU(), torch.nn.Linear(33, 4))
here.load_state_dict(model.state_dict())
here.to("webgpu")
x, y = torch.randn(16, 20), torch.randint(4, (16,))
losses = []
for net, device in ((model, "cpu"), (here, "webgpu")):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for step in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    losses.append(loss.item())
torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
f = lambda a, b: torch.softmax(a * b + 1, -1)
a, b = torch.randn(7, 9), torch.randn(9)
torch.testing.assert_close(torch.compile(f)(a.to("webgpu"), b.to("webgpu")).cpu(), f(a, b), rtol=1e-5, atol=1e-6)
t = torch.arange(5.0, device="webgpu")
try:
    print(t[torch.tensor([9], device="webgpu")].cpu())
except IndexError as error:
    print("told:", type(error).__name__)
with torch.webgpu.profiler.profile() as kernels:
    t + 1
assert kernels.table() and webgpu_backend.stats()["dispatches"] > 0
assert torch.webgpu.mem_get_info()[1] > 0
big = torch.randn(300_000, device="webgpu")
assert torch.equal(big.cpu() + 1, (big + 1).cpu())
with tempfile.TemporaryDirectory() as folder:
    site = pathlib.Path(folder, "site")
    for _ in range(2):  # the second takes the place of the first
        webgpu_backend.export(here, (torch.rand(1, 20),), site)
    kernels = json.loads(site.joinpath("model.json").read_bytes())["kernels"]
    assert hashlib.sha256(site.joinpath(kernels["file"]).read_bytes()).hexdigest() == kernels["sha256"]
    kept = pathlib.Path(folder, "model.pt")
    torch.save(here.state_dict(), kept)
    for name, value in torch.load(kept, map_location="webgpu").items():
        assert torch.equal(value, here.state_dict()[name])
import webgpu_backend.__main__
webgpu_backend.__main__.main()
print("all done", sys.platform)
"""


@pytest.mark.parametrize("system, name", [(WINDOWS, "win32"), (MACOS, "darwin")], ids=["Windows", "macOS"])
def test_a_program(system, name):
    env = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "WEBGPU_FALLBACK": "error"}
    found = subprocess.run(
        [sys.executable, "-c", BEFORE + system + PROGRAM], capture_output=True, text=True, env=env, timeout=300
    )
    assert found.returncode == 0 and f"all done {name}" in found.stdout, found.stdout[-2000:] + found.stderr[-4000:]
    assert "told: IndexError" in found.stdout
