"""Operators that programs use and no other row covers, forward and backward: `python -m benchmarks --only operators`.

No aims: the rows show what is slow beside another device.
"""

import torch
import torch.nn.functional as F

from .workloads import M, Workloads, integers, rand

GROUP = "operators"


# Of one matrix of 16M elements.
ELEMENTWISE = {
    "exp": torch.exp,
    "silu": F.silu,
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "pow 2.5": lambda x: x.abs() ** 2.5,
    "sin": torch.sin,
    "lgamma": torch.lgamma,
    "floor_divide": lambda x: torch.floor_divide(x, 0.3),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
    "where": lambda x: torch.where(x > 0, x, -x),
    "roll": lambda x: x.roll(7, 1),
    "flip": lambda x: x.flip(1),
    "tril": lambda x: x.tril(),
    "norm": lambda x: x.norm(),
    "std": lambda x: x.std(),
    "aminmax": lambda x: x.aminmax()[0],
    "logsumexp": lambda x: x.logsumexp(1),
    "mean of columns": lambda x: x.mean(0),
    "cumprod": lambda x: x.cumprod(1),
    "cumsum of columns": lambda x: x.cumsum(0),
    "nonzero": lambda x: (x > 1).nonzero(),
    "boolean index": lambda x: x[x > 1],
    "histc": lambda x: torch.histc(x, 100, -3, 3),
    "rand_like": lambda x: torch.rand_like(x).numel(),
    "randn_like": lambda x: torch.randn_like(x).numel(),
    "dropout": lambda x: F.dropout(x, 0.1).numel(),
}
# function, shapes; forward and backward.
LAYERS = {
    "gelu 16M": (F.gelu, ((4096, 4096),)),
    "mse_loss 16M": (F.mse_loss, ((4096, 4096),) * 2),
    "cosine_similarity 8192x1024": (F.cosine_similarity, ((8192, 1024),) * 2),
    "batch_norm 32x256x56x56": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ((32, 256, 56, 56), (256,), (256,)),
    ),
    "group_norm 16x256x64x64": (lambda x, w, b: F.group_norm(x, 32, w, b), ((16, 256, 64, 64), (256,), (256,))),
    "layer_norm 8192x1024": (lambda x, w, b: F.layer_norm(x, w.shape, w, b), ((8192, 1024), (1024,), (1024,))),
    "rms_norm 8192x1024": (lambda x, w: F.rms_norm(x, w.shape, w), ((8192, 1024), (1024,))),
    "max_pool 3x3/2 32x64x112x112": (lambda x: F.max_pool2d(x, 3, 2, 1), ((32, 64, 112, 112),)),
    "avg_pool 2x2 32x64x112x112": (lambda x: F.avg_pool2d(x, 2), ((32, 64, 112, 112),)),
    "bilinear x2 16x64x64x64": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), ((16, 64, 64, 64),),
    ),
    "nearest x2 16x64x64x64": (lambda x: F.interpolate(x, scale_factor=2), ((16, 64, 64, 64),)),
    "conv 128-3 3x3 at 256, batch 4": (lambda x, w: F.conv2d(x, w, padding=1), ((4, 128, 256, 256), (3, 128, 3, 3))),
    "conv 128-128 3x3 at 56, 32 groups": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=32), ((32, 128, 56, 56), (128, 4, 3, 3)),
    ),
    "conv 96 7x7 at 56 depthwise": (
        lambda x, w: F.conv2d(x, w, padding=3, groups=96), ((32, 96, 56, 56), (96, 1, 7, 7)),
    ),
    "conv1d 512-512 3/2 at 8000, batch 8": (lambda x, w: F.conv1d(x, w, stride=2), ((8, 512, 8000), (512, 512, 3))),
    "conv3d 64-64 3x3x3 at 16x56x56, batch 2": (
        lambda x, w: F.conv3d(x, w, padding=1), ((2, 64, 16, 56, 56), (64, 64, 3, 3, 3)),
    ),
    "conv_transpose 64-3 4x4/2 at 64": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), ((32, 64, 64, 64), (64, 3, 4, 4)),
    ),
    "conv_transpose 256-128 4x4/2 at 32": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), ((32, 256, 32, 32), (256, 128, 4, 4)),
    ),
    "grid_sample 8x64x128x128": (
        lambda x, g: F.grid_sample(x, g.clamp(-1, 1), align_corners=False), ((8, 64, 128, 128), (8, 128, 128, 2)),
    ),
}  # fmt: skip
# function, shapes; forward only.
OTHERS = {
    "stft 16x160000, 400 points": (
        lambda x: torch.stft(x, 400, 160, window=torch.ones(400, device=x.device), return_complex=True).abs(),
        ((16, 160000),),
    ),
    "sort rows 4096x1024": (lambda x: x.sort(1)[0], ((4096, 1024),)),
    "topk 50 of 64x50257": (lambda x: x.topk(50)[0], ((64, 50257),)),
    "median 4096x1024": (lambda x: x.median(1)[0], ((4096, 1024),)),
    "cat 64 of 256x1024": (lambda *x: torch.cat(x), ((256, 1024),) * 64),
    "stack 16 of 1M, last": (lambda *x: torch.stack(x, -1), ((M,),) * 16),
    "einsum bqhd,bkhd->bhqk": (
        lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k), ((8, 512, 12, 64),) * 2,
    ),
    "cdist 2048x2048x64": (torch.cdist, ((2048, 64),) * 2),
    "rfft 1024x4096": (lambda x: torch.fft.rfft(x).abs(), ((1024, 4096),)),
    "fft 1M": (lambda x: torch.fft.fft(x).abs(), ((M,),)),
    "pad reflect 32x64x112x112": (lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), ((32, 64, 112, 112),)),
    "unfold 3x3 8x64x112x112": (lambda x: F.unfold(x, 3, padding=1), ((8, 64, 112, 112),)),
}  # fmt: skip
# Of matrices that are positive definite: batch, size, function.
MATRICES = {
    "cholesky 64x32x32": (64, 32, torch.linalg.cholesky),
    "solve 64x32x32": (64, 32, lambda a: torch.linalg.solve(a, a[..., :4])),
    "svdvals 64x32x32": (64, 32, torch.linalg.svdvals),
    "eigvalsh 64x32x32": (64, 32, torch.linalg.eigvalsh),
    "cholesky 512": (1, 512, torch.linalg.cholesky),
    "solve 512": (1, 512, lambda a: torch.linalg.solve(a, a)),
}


def _backward(f, *inputs):
    for x in inputs:
        x.requires_grad_()
    y = f(*inputs)
    gradient = rand(y.device, *y.shape, seed=9)
    return lambda: torch.autograd.grad(y, inputs, gradient, retain_graph=True)


def operators(w: Workloads, scale: int) -> None:
    add = lambda name: w.add(name, GROUP)  # noqa: E731
    cut = lambda shape: (max(shape[0] // scale, 1), *shape[1:])  # noqa: E731
    _indexed(w, scale)
    for table in (LAYERS, OTHERS):
        for name, (f, shapes) in table.items():
            # What has the first input's batch is cut with it; parameters are as large as they are.
            batch = shapes[0][0]
            shapes = [cut(s) if table is LAYERS and s[0] == batch and len(s) > 1 else s for s in shapes]

            def inputs(device, shapes=shapes):
                return [rand(device, *s, seed=k) for k, s in enumerate(shapes)]

            add(name)(lambda device, f=f, inputs=inputs: (lambda x: lambda: f(*x))(inputs(device)))
            if table is LAYERS:
                add(f"{name}, backward")(lambda device, f=f, inputs=inputs: _backward(f, *inputs(device)))
    for name, (batch, size, f) in MATRICES.items():

        def matrices(device, batch=batch, size=size):
            a = rand("cpu", batch, size, size)
            return (a @ a.mT / size + torch.eye(size)).to(device)

        add(name)(lambda device, f=f, matrices=matrices: (lambda a: lambda: f(a))(matrices(device)))
    for name, f in ELEMENTWISE.items():
        add(f"{name} 16M")(lambda device, f=f: (lambda x: lambda: f(x))(rand(device, 4096 // scale, 4096)))


def _indexed(w: Workloads, scale: int) -> None:
    vocabulary, tokens = 50257, 8192 // scale

    @w.add(f"embedding {vocabulary}x768, {tokens}, backward", GROUP)
    def embedding(device):
        index = integers(device, vocabulary, tokens)
        return _backward(lambda table: F.embedding(index, table), rand(device, vocabulary, 768))

    for backward in (False, True):

        @w.add(f"cross_entropy {tokens}x{vocabulary}" + (", backward" if backward else ""), GROUP)
        def cross_entropy(device, backward=backward):
            target, x = integers(device, vocabulary, tokens), rand(device, tokens, vocabulary)
            f = lambda x: F.cross_entropy(x, target)  # noqa: E731
            return _backward(f, x) if backward else lambda: f(x)

    for name, f in {
        "unique": torch.unique,
        "bincount": lambda i: torch.bincount(i, minlength=1000),
        "argsort": lambda i: i.argsort(stable=True),
    }.items():
        w.add(f"{name} 1M int64", GROUP)(
            lambda device, f=f: (lambda i: lambda: f(i))(integers(device, 1000, M // scale))
        )

    @w.add("one_hot 8192x1000", GROUP)
    def one_hot(device):
        index = integers(device, 1000, tokens)
        return lambda: F.one_hot(index, 1000)

    @w.add("clip_grad_norm_ of 48 768x768", GROUP)
    def clip(device):
        parameters = [torch.nn.Parameter(rand(device, 768, 768)) for _ in range(48)]
        for p in parameters:
            p.grad = rand(device, 768, 768)
        return lambda: torch.nn.utils.clip_grad_norm_(parameters, 1e9)

    @w.add("LSTM 2x256, 32x64", GROUP)
    def lstm(device):
        torch.manual_seed(0)
        model, x = torch.nn.LSTM(256, 256, 2, batch_first=True).to(device), rand(device, 32, 64, 256)

        def call():
            with torch.no_grad():
                return model(x)[0]

        return call
