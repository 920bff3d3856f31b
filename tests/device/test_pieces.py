"""Operators on tensors larger than one binding that are called piece by piece, or end on the CPU."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from webgpu_backend.kernels.pointwise import elementwise
from webgpu_backend.runtime.gpu import gpu

LIMIT = 1 << 16


@pytest.fixture
def small_bindings():
    """A device whose bindings end at 64 KiB: what an operator does with a tensor of gigabytes, in a second."""
    torch.webgpu.synchronize()
    torch.webgpu.empty_cache()  # with the bind groups of blocks that were bound whole
    device, queue = gpu(), gpu().queue
    own = device.caps
    device.caps = queue.caps = dataclasses.replace(own, max_binding=LIMIT)
    yield
    device.caps = queue.caps = own


def _definite(v):
    """100 matrices that have all factors."""
    a = v.reshape(4, 25, 20, 20)
    return a @ a.mT + torch.eye(20, device=v.device)


def samples():
    torch.manual_seed(0)
    rows = torch.randn(200, 200)  # 160 kB
    return rows, rows.reshape(-1), torch.randint(0, 200, (300,)), torch.randint(0, 99, (40_000,))


# Each a function of rows [200, 200], the same as a vector, few indices, many integers.
SPLIT = {
    "reduce": lambda r, v, i, n: (v.sum(), r.mean(0), r.var(1), r.argmax(), r.argmax(0), *r.max(1), v.norm(), r.std()),
    "softmax": lambda r, v, i, n: (r.softmax(0), r.log_softmax(1), r.logsumexp(1), F.layer_norm(r, (200,))),
    "scan": lambda r, v, i, n: (v.cumsum(0), r.cumsum(0), r.cumsum(1), *r.cummax(0), (r * 0.01 + 1).cumprod(1)),
    "cat": lambda r, v, i, n: (torch.cat((r, r)), torch.cat((r, r), 1), torch.stack((r, r), 2), torch.cat((n, v))),
    "flip": lambda r, v, i, n: (v.flip(0), r.flip(1), r.flip(0, 1), r.roll(3, 1), r.roll(7), r.roll((1, -2), (0, 1))),
    "pad": lambda r, v, i, n: (F.pad(r, (1, 2, -3, 4), value=2.0), F.pad(r[None], (1, 2), mode="reflect")),
    "triangle": lambda r, v, i, n: (r.tril(), r.triu(3), r.reshape(2, 100, 200).tril(-1)),
    "copies": lambda r, v, i, n: (r.t().contiguous(), r.repeat(2, 3), v[30_000:] * 2, r[:, ::3].clone(), v.half()),
    "make": lambda r, v, i, n: (
        torch.arange(40_000, device=r.device), torch.arange(5, 90_000, 2, device=r.device),
        torch.arange(0.0, 2000.0, 0.1, device=r.device), torch.eye(200, 190, device=r.device),
        torch.full((200, 200), 3, device=r.device),
    ),
    "read": lambda r, v, i, n: (
        r[i], r[:, -i], r.index_select(1, i), r.take(n), v[n], F.embedding(n[:500], r[:99]), r.gather(0, r.argsort(0)),
        r.gather(1, i.reshape(1, -1)[:, :150].expand(200, 150)),
    ),
    "write": lambda r, v, i, n: (
        r.index_add(0, i, r[i]), r.scatter_add(1, i[:200].expand(200, 200), r), r.index_fill(0, i, 3.0),
        r.index_put((i, i), r[0, i], accumulate=True), v.scatter(0, torch.arange(300, device=v.device) * 133, v),
        torch.zeros(400, 200, device=r.device)[::2].copy_(r),
    ),
    "choose": lambda r, v, i, n: ((r > 1).nonzero(), r[r > 1], r.masked_select(r > 0), r.masked_fill(r > 0, 5.0)),
    "rows": lambda r, v, i, n: (
        *r.sort(dim=1, stable=True), *r.sort(dim=0, stable=True), *v.topk(5), *r.topk(4, 0), *r.kthvalue(7),
        *r.median(0),
    ),
    "count": lambda r, v, i, n: (n.bincount(), v.histc(10), torch.isin(n, i), torch.bucketize(v, v[:50].sort()[0])),
    "matmul": lambda r, v, i, n: (
        r @ r, r @ r.t(), r @ r[0], v.dot(v), F.linear(r, r, r[0]), torch.addmm(r, r, r, beta=0.5, alpha=2),
        torch.bmm(r.reshape(4, 50, 200), r.reshape(4, 200, 50)), torch.einsum("ij,kj->ik", r, r),
    ),
    "images": lambda r, v, i, n: (
        F.conv2d(r.reshape(16, 1, 50, 50), r[:3, :9].reshape(3, 1, 3, 3)), F.max_pool2d(r.reshape(16, 1, 50, 50), 2),
        F.conv2d(r[None, None, :90, :90], r[:8, :9].reshape(8, 1, 3, 3), r[0, :8]),
        F.interpolate(r.reshape(16, 1, 50, 50), scale_factor=2, mode="bilinear"), F.unfold(r.reshape(16, 1, 50, 50), 2),
        F.avg_pool2d(r.reshape(16, 50, 50), 3), torch.fft.rfft(r), F.pixel_shuffle(r.reshape(1, 4, 100, 100), 2),
    ),
    "factors": lambda r, v, i, n: (
        torch.linalg.inv(_definite(v)), *torch.linalg.lu_factor(_definite(v)), torch.linalg.cholesky(_definite(v)),
        torch.linalg.det(_definite(v)), *torch.linalg.slogdet(_definite(v)),
    ),
    "loss": lambda r, v, i, n: (F.cross_entropy(r, i[:200]), F.mse_loss(r, r.t())),
    "batch_norm": lambda r, v, i, n: F.batch_norm(r, None, None, training=True),
    "attention": lambda r, v, i, n: F.scaled_dot_product_attention(*[r.reshape(1, 4, 50, 200)] * 3),
    "numbers": lambda r, v, i, n: (
        v * 3 + 1, n % 7, n // 7, v.clamp(-1, 1), r.clone().mul_(0.5), torch.lerp(r, r.t(), 0.3),
    ),
    "foreach": lambda r, v, i, n: torch._foreach_mul([r, v], 2.0),
    "solve": lambda r, v, i, n: torch.cholesky_solve(
        r.reshape(400, 10, 10), r[:10, :10].tril(-1) * 0.1 + torch.eye(10, device=r.device)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_operators_beyond_one_binding(name, small_bindings):
    compare_with_the_cpu(name)


def test_memory_is_walked_both_ways_beyond_one_binding(small_bindings, monkeypatch):
    """As GPUs do with large tensors: the numbers of a call are there both ways."""
    monkeypatch.setattr(elementwise, "TURNED", 1)
    gpu().caps = gpu().queue.caps = dataclasses.replace(gpu().caps, kind="gpu")
    for _ in range(2):
        compare_with_the_cpu("numbers")


def compare_with_the_cpu(name: str) -> None:
    inputs = samples()
    results = [f if isinstance(f, (tuple, list)) else (f,) for f in (
        SPLIT[name](*[x.to("webgpu") for x in inputs]), SPLIT[name](*inputs)
    )]  # fmt: skip
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)


def test_gradients_beyond_one_binding(small_bindings):
    rows, _, index, _ = samples()

    def step(device):
        w = rows.clone().to(device).requires_grad_()
        kernel = rows[:2, :9].reshape(2, 1, 3, 3).to(device).requires_grad_()
        x = F.embedding(index.to(device), w)
        y = F.linear(x, w).cumsum(1).softmax(1)
        z = F.conv2d(rows.reshape(16, 1, 50, 50).to(device), kernel)
        loss = (y * x).sum() + (z * z).sum()
        return torch.autograd.grad(loss, (w, kernel))

    for ours, theirs in zip(step("webgpu"), step("cpu")):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8], ids=str)
def test_a_long_row_is_sorted_in_parts(small_bindings, dtype):
    g = torch.Generator().manual_seed(1)
    rows = (torch.randn(20_001, generator=g) * 60, torch.randint(0, 3, (20_001,), generator=g), torch.arange(20_001))
    for x in rows if dtype in (torch.float16, torch.int64) else rows[:1]:  # seconds each
        x = x.abs().to(dtype)
        if dtype.is_floating_point:
            x[::3] *= -1
            x[::7], x[1::500], x[2::500] = math.nan, math.inf, -math.inf
        for descending in (False, True):
            ours = x.to("webgpu").sort(stable=True, descending=descending)
            theirs = x.sort(stable=True, descending=descending)
            assert torch.equal(ours[1].cpu(), theirs[1])
            torch.testing.assert_close(ours[0].cpu(), theirs[0], rtol=0, atol=0, equal_nan=True)
        for select in (lambda t: t.kthvalue(777, 0, True), lambda t: t.median(0), lambda t: t.nanmedian(0)):
            ours, theirs = select(x.to("webgpu")), select(x)
            torch.testing.assert_close(ours[0].cpu(), theirs[0], rtol=0, atol=0, equal_nan=True)
            torch.testing.assert_close(x[ours[1].cpu()], theirs[0], rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(x.to("webgpu").median().cpu(), x.median(), rtol=0, atol=0, equal_nan=True)
    pair = torch.randn(2, 20_001, generator=g)
    assert torch.equal(pair.to("webgpu").argsort(dim=1, stable=True).cpu(), pair.argsort(dim=1, stable=True))


def test_long_scans_in_parts(small_bindings):
    x = samples()[1]
    x[777], x[25_000] = math.inf, -math.inf
    for y in (x, torch.where(torch.arange(40_000) == 20_000, math.nan, x), (x * 3).round().int()):
        for name in ("cummax", "cummin"):
            ours, theirs = getattr(y.to("webgpu"), name)(0), getattr(y, name)(0)
            torch.testing.assert_close(ours[0].cpu(), theirs[0], rtol=0, atol=0, equal_nan=True)
            assert torch.equal(ours[1].cpu(), theirs[1])
    torch.testing.assert_close(x.to("webgpu").logcumsumexp(0).cpu(), x.logcumsumexp(0), rtol=1e-4, atol=1e-4)


@pytest.mark.fallback("aten::mode")
def test_the_cpu_takes_what_cannot_be_split(small_bindings):
    x = samples()[3]
    assert torch.equal(x.to("webgpu").mode(0)[0].cpu(), x.mode(0)[0])
    assert webgpu_backend.fallbacks() == {"aten::mode": 1}


def test_an_error_names_the_limit(small_bindings):
    with pytest.raises(RuntimeError, match="does not fit one binding .the adapter's limit is 65536 bytes"):
        samples()[3].to("webgpu").mode(0)


@pytest.mark.parametrize("last", [False, True], ids=["rows", "channels_last"])
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, 2, return_indices=True),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True),
    ],
)
def test_pools_keep_the_layout(small_bindings, pool, last):
    made = torch.randn(20, 8, 15, 15)  # 144 kB
    made = made.contiguous(memory_format=torch.channels_last) if last else made
    found = []
    for device in ("cpu", "webgpu"):
        x = made.to(device, copy=True).requires_grad_()
        results = pool(x)
        results = results if isinstance(results, tuple) else (results,)
        weight = torch.arange(results[0].numel() * 1.0).reshape(results[0].shape).to(device)
        (results[0] * weight).sum().backward()
        found.append([*results, x.grad])
    for theirs, ours in zip(*found):
        assert ours.stride() == theirs.stride()
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=1e-5, atol=1e-4)


def test_the_matrix_that_has_no_inverse_is_named_by_its_place(small_bindings):
    a = torch.eye(20).repeat(100, 1, 1)
    a[77, 3, 3] = 0
    for device in ("cpu", "webgpu"):
        for call in (torch.linalg.inv, lambda x: torch.linalg.inv_ex(x, check_errors=True), torch.linalg.cholesky):
            with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 77\)"):
                call(a.to(device))
