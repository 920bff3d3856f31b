"""What is timed: name, set-up for a device, bytes moved and operations done (for the floor)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

M = 1 << 20


@dataclass(frozen=True)
class Workload:
    name: str
    make: Callable  # device -> function to time
    bytes: float = 0.0
    flops: float = 0.0
    group: str = "kernels"
    calls: int = 1  # operations per call of the function


WORKLOADS: list[Workload] = []


def workload(name, bytes=0.0, flops=0.0, group="kernels", calls=1):
    def add(make):
        WORKLOADS.append(Workload(name, make, bytes, flops, group, calls))
        return make

    return add


def rand(device, *shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype).to(device)


def _pointwise(scale: int) -> None:
    n = 64 * M // scale
    for dtype, size in ((torch.float32, 4), (torch.float16, 2), (torch.bfloat16, 2)):
        short = str(dtype).removeprefix("torch.")

        @workload(f"add {n // M}M {short}", bytes=3 * size * n)
        def add(device, dtype=dtype):
            a, b = rand(device, n, dtype=dtype), rand(device, n, dtype=dtype, seed=1)
            return lambda: a + b

        @workload(f"gelu {n // M}M {short}", bytes=2 * size * n)
        def gelu(device, dtype=dtype):
            a = rand(device, n, dtype=dtype)
            return lambda: F.gelu(a)

    @workload(f"cast f32 to f16 {n // M}M", bytes=6 * n)
    def cast(device):
        a = rand(device, n)
        return lambda: a.half()

    @workload(f"copy {n // M}M", bytes=8 * n)
    def copy(device):
        a = rand(device, n)
        return lambda: a.clone()

    @workload(f"fill {n // M}M", bytes=4 * n)
    def fill(device):
        a = rand(device, n)
        return lambda: a.fill_(1.0)

    side = int(n**0.5)

    @workload(f"add transposed {side}x{side}", bytes=12 * side * side)
    def add_t(device):
        a, b = rand(device, side, side), rand(device, side, side, seed=1)
        return lambda: a + b.t()

    @workload("permute copy", bytes=8 * n)
    def permute(device):
        a = rand(device, 64, n // (64 * 1024), 1024)
        return lambda: a.permute(2, 0, 1).contiguous()

    @workload(f"add bias {side}x{side}", bytes=8 * side * side)
    def bias(device):
        a, b = rand(device, side, side), rand(device, side, seed=1)
        return lambda: a + b


def _reductions(scale: int) -> None:
    side = 8192 // scale
    n = side * side
    cases = {
        "sum": lambda a: a.sum(),
        "sum rows": lambda a: a.sum(1),
        "sum columns": lambda a: a.sum(0),
        "argmax rows": lambda a: a.argmax(1),
        "var rows": lambda a: a.var(1),
        "max": lambda a: a.max(),
    }
    for name, f in cases.items():

        @workload(f"{name} {side}x{side}", bytes=4 * n)
        def reduce(device, f=f):
            a = rand(device, side, side)
            return lambda: f(a)

    rows = {
        "softmax": lambda a: a.softmax(1),
        "log_softmax": lambda a: a.log_softmax(1),
        "layer_norm": lambda a: F.layer_norm(a, (side,)),
        "rms_norm": lambda a: F.rms_norm(a, (side,)),
        "cumsum": lambda a: a.cumsum(1),
    }
    for name, f in rows.items():

        @workload(f"{name} {side}x{side}", bytes=8 * n)
        def row(device, f=f):
            a = rand(device, side, side)
            return lambda: f(a)


def _indexing(scale: int) -> None:
    n = M // scale

    @workload(f"sort {n}", bytes=12 * n)
    def sort(device):
        a = rand(device, n)
        return lambda: a.sort()

    @workload(f"topk 100 of {n}", bytes=4 * n)
    def topk(device):
        a = rand(device, n)
        return lambda: a.topk(100)

    tokens = 8192 // scale

    @workload(f"embedding 50k x 768, {tokens}", bytes=2 * 4 * 768 * tokens)
    def embedding(device):
        w = rand(device, 50000 // scale, 768)
        i = torch.randint(0, 50000 // scale, (tokens,), generator=torch.Generator().manual_seed(0)).to(device)
        return lambda: F.embedding(i, w)

    @workload(f"gather {n}", bytes=16 * n)
    def gather(device):
        a = rand(device, n)
        i = torch.randint(0, n, (n,), generator=torch.Generator().manual_seed(0)).to(device)
        return lambda: a.gather(0, i)

    @workload(f"index_select {tokens}x768", bytes=8 * 768 * tokens)
    def index_select(device):
        a = rand(device, 50000 // scale, 768)
        i = torch.randint(0, 50000 // scale, (tokens,), generator=torch.Generator().manual_seed(0)).to(device)
        return lambda: a.index_select(0, i)

    @workload(f"scatter_add {n}", bytes=20 * n)
    def scatter_add(device):
        a, s = rand(device, n), rand(device, n, seed=1)
        i = torch.randint(0, n, (n,), generator=torch.Generator().manual_seed(0)).to(device)
        return lambda: a.scatter_add(0, i, s)


def _products(scale: int) -> None:
    sizes = (1024, 4096, 8192) if scale == 1 else (256, 512, 1024)
    for size in sizes:

        @workload(f"matmul f32 {size}", flops=2 * size**3)
        def mm(device, size=size):
            a, b = rand(device, size, size), rand(device, size, size, seed=1)
            return lambda: a @ b

    size = sizes[1]
    for dtype in (torch.float16, torch.bfloat16):

        @workload(f"matmul {str(dtype).removeprefix('torch.')} {size}", flops=2 * size**3)
        def half(device, dtype=dtype):
            a, b = rand(device, size, size, dtype=dtype), rand(device, size, size, dtype=dtype, seed=1)
            return lambda: a @ b

    @workload(f"matmul A^T B f32 {size}", flops=2 * size**3)
    def mm_t(device):
        a, b = rand(device, size, size), rand(device, size, size, seed=1)
        return lambda: a.t() @ b

    batch = 64 // scale

    @workload(f"bmm {batch}x512x512", flops=2 * batch * 512**3)
    def bmm(device):
        a, b = rand(device, batch, 512, 512), rand(device, batch, 512, 512, seed=1)
        return lambda: torch.bmm(a, b)

    @workload(f"linear+bias {size}x{size // 4}", flops=2 * size * size * size // 4)
    def linear(device):
        x, w, b = rand(device, size, size), rand(device, size // 4, size), rand(device, size // 4)
        return lambda: F.linear(x, w, b)

    @workload("matmul odd 1023x1021x1019", flops=2 * 1023 * 1021 * 1019)
    def odd(device):
        a, b = rand(device, 1023, 1021), rand(device, 1021, 1019, seed=1)
        return lambda: a @ b

    for rows in (1, 8):

        @workload(f"linear M={rows} f16 {size}x{size}", bytes=2 * size * size)
        def decode(device, rows=rows):
            x, w = rand(device, rows, size, dtype=torch.float16), rand(device, size, size, dtype=torch.float16)
            return lambda: F.linear(x, w)

    @workload(f"conv2d {32 // scale}x64x56x56 3x3", flops=2 * (32 // scale) * 64 * 64 * 9 * 56 * 56)
    def conv(device):
        x, w = rand(device, 32 // scale, 64, 56, 56), rand(device, 64, 64, 3, 3)
        return lambda: F.conv2d(x, w, padding=1)

    length = 2048 // scale
    heads = 16 if scale == 1 else 4
    for dtype in (torch.float16, torch.float32):

        @workload(
            f"sdpa causal {str(dtype).removeprefix('torch.')} 4x{heads}x{length}x64",
            flops=2 * 2 * 4 * heads * length * length * 64 / 2,
        )
        def sdpa(device, dtype=dtype):
            q, k, v = (rand(device, 4, heads, length, 64, dtype=dtype, seed=s) for s in range(3))
            return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _host() -> None:
    @workload("100 chained tiny adds, per op", group="host", calls=100)
    def chain(device):
        a, b = rand(device, 16), rand(device, 16)

        def f():
            y = a
            for _ in range(100):
                y = y + b
            return y

        return f

    @workload("item()", group="host")
    def item(device):
        a = rand(device, 1)
        return lambda: a.item()

    @workload("cpu() of 1 KiB", group="host")
    def small(device):
        a = rand(device, 256)
        return lambda: a.cpu()

    @workload("upload 256 MiB", bytes=256 * M, group="host")
    def upload(device):
        a = torch.zeros(64 * M)
        return lambda: a.to(device)

    @workload("read back 256 MiB", bytes=256 * M, group="host")
    def read(device):
        a = rand(device, 64 * M)
        return lambda: a.cpu()


def mlp(device):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    ).to(device)


def _models() -> None:
    @workload("MLP forward, batch 64", group="models")
    def forward(device):
        model, x = mlp(device), rand(device, 64, 784)

        def f():
            with torch.no_grad():
                return model(x)

        return f

    @workload("MLP AdamW step, batch 64", group="models")
    def step(device):
        model, x = mlp(device), rand(device, 64, 784)
        y = (torch.arange(64) % 10).to(device)
        optimizer = torch.optim.AdamW(model.parameters())

        def f():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return f


def all_workloads(scale: int) -> list[Workload]:
    """`scale` divides the sizes: 1 for a GPU, 8 for a software adapter."""
    WORKLOADS.clear()
    _host()
    _pointwise(scale)
    _reductions(scale)
    _indexing(scale)
    _products(scale)
    _models()
    return list(WORKLOADS)
