"""Workloads that are made of products: matmul, linear, convolution and attention, with their gradients."""

from itertools import cycle

import torch
import torch.nn.functional as F

from .workloads import Workloads, rand, short

HALVES = (torch.float16, torch.bfloat16)


def products(w: Workloads, scale: int) -> None:
    sizes = (1024, 4096, 8192) if scale == 1 else (256, 512, 1024)
    for size, target in zip(sizes, (1.3, 1.15, 1.15)):

        @w.add(f"matmul f32 {size}", "matmul", bytes=12 * size**2, flops=2 * size**3, target=target)
        def mm(device, size=size):
            a, b = rand(device, size, size), rand(device, size, size, seed=1)
            return lambda: a @ b

    size = sizes[1]
    for dtype in HALVES:

        @w.add(f"matmul {short(dtype)} {size}", "matmul", bytes=6 * size**2, flops=2 * size**3)
        def half(device, dtype=dtype):
            a, b = rand(device, size, size, dtype=dtype), rand(device, size, size, dtype=dtype, seed=1)
            return lambda: a @ b

    @w.add(f"matmul A^T B f32 {size}", "matmul", bytes=12 * size**2, flops=2 * size**3, target=1.15)
    def transposed(device):
        a, b = rand(device, size, size), rand(device, size, size, seed=1)
        return lambda: a.t() @ b

    batch = 64 // scale

    @w.add(f"bmm {batch}x512x512", "matmul", bytes=12 * batch * 512**2, flops=2 * batch * 512**3, target=1.5)
    def bmm(device):
        a, b = rand(device, batch, 512, 512), rand(device, batch, 512, 512, seed=1)
        return lambda: torch.bmm(a, b)

    narrow = size // 4
    for name, activation in (("linear+bias", None), ("linear+bias+gelu", F.gelu)):

        @w.add(f"{name} {size}x{size}x{narrow}", "matmul", flops=2 * size * size * narrow, target=1.5)
        def linear(device, activation=activation):
            x, weight, b = rand(device, size, size), rand(device, narrow, size, seed=1), rand(device, narrow)
            if activation is None:
                return lambda: F.linear(x, weight, b)
            return lambda: activation(F.linear(x, weight, b))

    shapes = {
        "odd": (1023, 1021, 1019),
        "K not a multiple of 4": (1024, 1022, 1024),
        "thin M=1": (1, size, size),
        "thin N=1": (size, size, 1),
        "thin M=16": (16, size, size),
        "thin K=32": (size, 32, size),
    }
    for name, (rows, inner, columns) in shapes.items():
        moved = 4 * (rows * inner + inner * columns + rows * columns)

        @w.add(f"matmul {name} {rows}x{inner}x{columns}", "matmul", moved, 2 * rows * inner * columns, target=1.5)
        def odd(device, rows=rows, inner=inner, columns=columns):
            a, b = rand(device, rows, inner), rand(device, inner, columns, seed=1)
            return lambda: a @ b


# of a linear: in, out, dtypes. Attention's projections and both of the MLP's in a Llama of 8 billion parameters, the
# vocabulary of Qwen2.5-0.5B
DECODE = (
    (4096, 4096, HALVES), (4096, 14336, HALVES), (14336, 4096, (torch.float16,)), (896, 151936, (torch.float16,)),
)  # fmt: skip
TURNS = 192 << 20  # bytes of weights that take turns: as in a model, the cache has none of them left


def decode(w: Workloads, scale: int) -> None:
    """Products of few rows, which read weights once: 1.3 of the time that takes is the aim."""

    def case(name, rows, inner, columns, dtype, turned=False, target=None):
        size, item = inner * columns, dtype.itemsize
        moved = item * (size + rows * (inner + columns))

        @w.add(name, "decode", bytes=moved, floor_target=target)
        def few(device):
            x = rand(device, rows, inner, dtype=dtype)
            shape = (inner, columns) if turned else (columns, inner)
            count = -(-TURNS // (size * item)) if scale == 1 else 2
            weights = cycle([rand(device, *shape, dtype=dtype, seed=1 + i) for i in range(count)])
            return (lambda: x @ next(weights)) if turned else (lambda: F.linear(x, next(weights)))

    for inner, columns, dtypes in DECODE:
        inner, columns = inner // scale, columns // scale
        for dtype in dtypes:
            for rows in (1, 2, 4, 8):
                name = f"linear M={rows} {short(dtype)} {inner}x{columns}"
                case(name, rows, inner, columns, dtype, target=1.3)
    size = 4096 // scale
    for rows, dtype in ((1, torch.float16), (8, torch.float16), (8, torch.float32)):
        case(f"matmul M={rows} {short(dtype)} {size}x{size}, turned", rows, size, size, dtype, turned=True)


# batch 32 of ResNet-50: input channels, output channels, kernel, stride, size of the input
RESNET = (
    (3, 64, 7, 2, 224), (64, 64, 3, 1, 56), (64, 256, 1, 1, 56), (128, 128, 3, 2, 56), (256, 256, 3, 1, 14),
    (1024, 256, 1, 1, 14), (512, 512, 3, 1, 7),
)  # fmt: skip
# of MobileNetV2: channels of their own
DEPTHWISE = ((32, 32, 3, 1, 112), (144, 144, 3, 2, 56))


def convolutions(w: Workloads, scale: int) -> None:
    batch = 32 // scale
    for inputs, outputs, kernel, stride, size in (*RESNET, *DEPTHWISE) if scale == 1 else RESNET[1:5:3]:
        groups = inputs if (inputs, outputs, kernel, stride, size) in DEPTHWISE else 1
        out = -(-size // stride)
        weights = outputs * inputs // groups * kernel * kernel
        flops = 2 * batch * weights * out * out
        moved = 4 * (batch * inputs * size * size + batch * outputs * out * out + weights)
        name = f"{inputs}-{outputs} {kernel}x{kernel}/{stride} at {size}" + (" depthwise" if groups > 1 else "")

        def tensors(device, inputs=inputs, outputs=outputs, kernel=kernel, size=size, groups=groups):
            weight = rand(device, outputs, inputs // groups, kernel, kernel, seed=1)
            return rand(device, batch, inputs, size, size), weight

        @w.add(f"conv {name}", "conv", moved, flops, target=2)
        def forward(device, tensors=tensors, kernel=kernel, stride=stride, groups=groups):
            x, weight = tensors(device)
            return lambda: F.conv2d(x, weight, stride=stride, padding=kernel // 2, groups=groups)

        for which in ("input", "weight"):

            @w.add(f"conv {name}, {which} gradient", "conv", moved, flops, target=2)
            def backward(device, tensors=tensors, kernel=kernel, stride=stride, groups=groups, which=which):
                x, weight = tensors(device)
                wanted = (x if which == "input" else weight).requires_grad_()
                y = F.conv2d(x, weight, stride=stride, padding=kernel // 2, groups=groups)
                gradient = rand(device, *y.shape, seed=2)
                return lambda: torch.autograd.grad(y, wanted, gradient, retain_graph=True)[0]


def attention(w: Workloads, scale: int) -> None:
    """Against CUDA's choice (flash where it can) and, for the rows that say so, against its unfused formula."""
    batch, heads = (4, 16) if scale == 1 else (1, 4)
    lengths = (128, 512, 2048, 4096) if scale == 1 else (64, 256)

    def case(dtype, length, causal=True, groups=None, math=False, backward=False):
        groups = groups or heads
        flops = 4 * batch * heads * length * length * 64 * (0.5 if causal else 1) * (2.5 if backward else 1)
        moved = dtype.itemsize * batch * length * 64 * (heads + groups) * 2 * (2 if backward else 1)
        name = f"sdpa {short(dtype)} {length}" + (" causal" if causal else "")
        name += (f" gqa {heads}/{groups}" if groups != heads else "") + (" backward" if backward else "")
        target = 1 if math else 4

        @w.add(name + (", cuda math" if math else ""), "attention", moved, flops, target=target)
        def sdpa(device):
            q = rand(device, batch, heads, length, 64, dtype=dtype)
            k, v = (rand(device, batch, groups, length, 64, dtype=dtype, seed=s) for s in (1, 2))

            def f():
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=groups != heads)

            if math and device == "cuda":
                f = _unfused(f)
            if not backward:
                return f
            inputs = [t.requires_grad_() for t in (q, k, v)]
            y = f()
            gradient = rand(device, *y.shape, dtype=dtype, seed=3)
            return lambda: torch.autograd.grad(y, inputs, gradient, retain_graph=True)

    for dtype in (torch.float16, torch.float32):
        for length in lengths:
            case(dtype, length)
        for length in lengths[1:3]:
            case(dtype, length, backward=True)
        case(dtype, lengths[-2], math=True)
        case(dtype, lengths[-2], math=True, backward=True)
        case(dtype, lengths[-2], causal=False)
        case(dtype, lengths[-2], groups=heads // 4)


def _unfused(f):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def g():
        with sdpa_kernel(SDPBackend.MATH):
            return f()

    return g
