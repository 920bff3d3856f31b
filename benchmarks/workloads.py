"""What is timed: name, set-up for a device, bytes moved and operations done (for the floor), and what is aimed at."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F

M = 1 << 20


@dataclass(frozen=True)
class Workload:
    name: str
    make: Callable  # device -> function to time
    bytes: float = 0.0
    flops: float = 0.0
    group: str = "pointwise"
    calls: int = 1  # operations per call of the function
    target: float | None = None  # our time over CUDA's, at most
    floor_target: float | None = None  # our time over the floor, at most


class Workloads(list):
    def add(self, name, group, bytes=0.0, flops=0.0, calls=1, target=None, floor_target=None):
        def register(make):
            self.append(Workload(name, make, bytes, flops, group, calls, target, floor_target))
            return make

        return register


def rand(device, *shape, dtype=torch.float32, seed=0):
    """Normal numbers: one short sequence repeated on the device, since 64M of them take a second on the host. Its
    length is prime, so that no two rows are alike."""
    count = 1
    for size in shape:
        count *= size
    sequence = _sequence(seed)[:count].to(dtype).to(device)
    if count > len(sequence):
        sequence = sequence.repeat(-(-count // len(sequence)))[:count].clone()
    return sequence.view(shape)


@cache
def _sequence(seed: int) -> torch.Tensor:
    return torch.randn(1_000_003, generator=torch.Generator().manual_seed(seed))


def integers(device, high: int, count: int):
    return torch.randint(0, high, (count,), generator=torch.Generator().manual_seed(0)).to(device)


def short(dtype: torch.dtype) -> str:
    return {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]


FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def pointwise(w: Workloads, scale: int) -> None:
    n = 64 * M // scale
    for dtype in FLOATS:
        size, name = dtype.itemsize, f"{n // M}M {short(dtype)}"

        @w.add(f"add {name}", "pointwise", bytes=3 * size * n, target=1.1)
        def add(device, dtype=dtype):
            a, b = rand(device, n, dtype=dtype), rand(device, n, dtype=dtype, seed=1)
            return lambda: a + b

        @w.add(f"gelu {name}", "pointwise", bytes=2 * size * n, target=1.1)
        def gelu(device, dtype=dtype):
            a = rand(device, n, dtype=dtype)
            return lambda: F.gelu(a)

        @w.add(f"copy {name}", "pointwise", bytes=2 * size * n, target=1.1)
        def copy(device, dtype=dtype):
            a = rand(device, n, dtype=dtype)
            return lambda: a.clone()

        @w.add(f"fill {name}", "pointwise", bytes=size * n, target=1.1)
        def fill(device, dtype=dtype):
            a = rand(device, n, dtype=dtype)
            return lambda: a.fill_(1.0)

    for source, target in ((0, 1), (1, 0), (0, 2), (2, 0)):
        source, target = FLOATS[source], FLOATS[target]

        @w.add(f"cast {short(source)} to {short(target)} {n // M}M", "pointwise", bytes=6 * n, target=1.1)
        def cast(device, source=source, target=target):
            a = rand(device, n, dtype=source)
            return lambda: a.to(target)

    side = int(n**0.5)

    @w.add(f"add transposed {side}x{side}", "pointwise", bytes=12 * side * side, target=1.2)
    def add_t(device):
        a, b = rand(device, side, side), rand(device, side, side, seed=1)
        return lambda: a + b.t()

    @w.add(f"permute copy {n // M}M", "pointwise", bytes=8 * n, target=1.2)
    def permute(device):
        a = rand(device, 64, n // (64 * 1024), 1024)
        return lambda: a.permute(2, 0, 1).contiguous()

    @w.add(f"add bias {side}x{side}", "pointwise", bytes=8 * side * side, target=1.1)
    def bias(device):
        a, b = rand(device, side, side), rand(device, side, seed=1)
        return lambda: a + b


def reductions(w: Workloads, scale: int) -> None:
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

        @w.add(f"{name} {side}x{side}", "reduce", bytes=4 * n, target=1.3)
        def reduce(device, f=f):
            a = rand(device, side, side)
            return lambda: f(a)

    rows = {
        "softmax": (lambda a: a.softmax(1), 1.2),
        "log_softmax": (lambda a: a.log_softmax(1), 1.2),
        "layer_norm": (lambda a: F.layer_norm(a, (side,)), 1.2),
        "rms_norm": (lambda a: F.rms_norm(a, (side,)), 1.2),
        "cumsum": (lambda a: a.cumsum(1), 1.5),
    }
    for name, (f, target) in rows.items():

        @w.add(f"{name} {side}x{side}", "reduce", bytes=8 * n, target=target)
        def row(device, f=f):
            a = rand(device, side, side)
            return lambda: f(a)


def indexing(w: Workloads, scale: int) -> None:
    n = M // scale

    @w.add(f"sort {n}", "index", bytes=16 * n, target=4)
    def sort(device):
        a = rand(device, n)
        return lambda: a.sort()

    @w.add(f"topk 100 of {n}", "index", bytes=4 * n, target=4)
    def topk(device):
        a = rand(device, n)
        return lambda: a.topk(100)

    tokens, vocabulary = 8192 // scale, 50000 // scale

    @w.add(f"embedding 50k x 768, {tokens}", "index", bytes=8 * 768 * tokens, target=1.5)
    def embedding(device):
        weight, i = rand(device, vocabulary, 768), integers(device, vocabulary, tokens)
        return lambda: F.embedding(i, weight)

    @w.add(f"gather {n}", "index", bytes=16 * n, target=1.5)
    def gather(device):
        a, i = rand(device, n), integers(device, n, n)
        return lambda: a.gather(0, i)

    @w.add(f"index_select {tokens}x768", "index", bytes=8 * 768 * tokens, target=1.5)
    def index_select(device):
        a, i = rand(device, vocabulary, 768), integers(device, vocabulary, tokens)
        return lambda: a.index_select(0, i)

    @w.add(f"scatter_add {n}", "index", bytes=24 * n, target=1.5)
    def scatter_add(device):
        a, s, i = rand(device, n), rand(device, n, seed=1), integers(device, n, n)
        return lambda: a.scatter_add(0, i, s)


def factors(w: Workloads, scale: int) -> None:
    n = 1024 // scale
    cases = {
        "qr": lambda a: torch.linalg.qr(a)[1].abs(),
        "svd": lambda a: torch.linalg.svd(a)[1],
        "svdvals": torch.linalg.svdvals,
        "eigh": lambda a: torch.linalg.eigh(a + a.mT)[0],
        "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT + n * torch.eye(n, device=a.device)),
    }
    for name, f in cases.items():

        @w.add(f"{name} {n}x{n}", "factors")
        def factor(device, f=f):
            a = rand(device, n, n) - 0.5
            return lambda: f(a)


def rows(w: Workloads, scale: int) -> None:
    """Short rows, the rows of a vocabulary (no whole groups of four), one long row, transforms, an optimizer."""
    count = 65536 // scale
    for dtype in (torch.float32, torch.float16):

        @w.add(f"softmax {count}x1024 {short(dtype)}", "reduce", bytes=2 * dtype.itemsize * count * 1024, target=1.2)
        def softmax(device, dtype=dtype):
            a = rand(device, count, 1024, dtype=dtype)
            return lambda: a.softmax(1)

    tokens = 1024 // scale

    @w.add(f"log_softmax {tokens}x50257", "reduce", bytes=8 * tokens * 50257, target=1.2)
    def log_softmax(device):
        a = rand(device, tokens, 50257)
        return lambda: a.log_softmax(1)

    @w.add(f"log_softmax backward {tokens}x50257", "reduce", bytes=12 * tokens * 50257, target=1.2)
    def log_softmax_backward(device):
        a, g = rand(device, tokens, 50257).log_softmax(1), rand(device, tokens, 50257, seed=1)
        return lambda: torch.ops.aten._log_softmax_backward_data(g, a, 1, torch.float32)

    n = 64 * M // scale

    @w.add(f"cumsum {n // M}M", "reduce", bytes=8 * n, target=1.5)
    def cumsum(device):
        a = rand(device, n)
        return lambda: a.cumsum(0)

    side = 4096 // scale

    @w.add(f"fft {side}x4096", "reduce", bytes=16 * side * 4096)
    def fft(device):
        a = torch.complex(rand(device, side, 4096), rand(device, side, 4096, seed=1))
        return lambda: torch.fft.fft(a)

    blocks = 12 // min(scale, 12)
    shapes = [(50257 // scale, 768), (1024 // scale, 768)]
    shapes += blocks * [(768, 2304), (2304,), (768, 768), (768,), (768, 3072), (3072,), (3072, 768), *5 * [(768,)]]
    total = sum(torch.Size(shape).numel() for shape in shapes)

    @w.add(f"fused AdamW {len(shapes)} tensors {total // M}M", "reduce", bytes=28 * total, target=1.5)
    def adamw(device):
        parameters = [rand(device, *shape) for shape in shapes]
        for parameter in parameters:
            parameter.grad = parameter.clone()
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)

        def f():
            optimizer.step()
            return parameters[-1]

        return f


def host(w: Workloads, scale: int) -> None:
    @w.add("100 chained tiny adds, per op", "host", calls=100, target=2)
    def chain(device):
        a, b = rand(device, 16), rand(device, 16)

        def f():
            y = a
            for _ in range(100):
                y = y + b
            return y

        return f

    @w.add("item()", "host")
    def item(device):
        a = rand(device, 1)
        return lambda: a.item()

    @w.add("cpu() of 1 KiB", "host")
    def small(device):
        a = rand(device, 256)
        return lambda: a.cpu()

    size = 256 // scale

    @w.add(f"upload {size} MiB", "host", bytes=size * M)
    def upload(device):
        a = torch.zeros(size * M // 4)
        return lambda: a.to(device)

    @w.add(f"read back {size} MiB, memory in use", "host", bytes=size * M)
    def read(device):
        a, target = rand(device, size * M // 4), torch.zeros(size * M // 4)
        return lambda: target.copy_(a)

    @w.add(f"read back {size} MiB, fresh memory", "host", bytes=size * M)
    def fresh(device):
        a = rand(device, size * M // 4)
        return lambda: a.cpu()


def all_workloads(scale: int) -> list[Workload]:
    """`scale` divides the sizes: 1 for a GPU, 8 for a software adapter."""
    from . import layers, operators

    found = Workloads()
    own = host, pointwise, reductions, rows, indexing, factors
    products = layers.products, layers.decode, layers.convolutions, layers.attention
    for family in (*own, *products, operators.operators):
        family(found, scale)
    return list(found)
