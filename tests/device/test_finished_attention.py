"""Compiled attention takes in what follows it: each of its kernels against the CPU, and dispatches of graphs."""

import pytest
import torch
import torch.nn.functional as F

from tests.device._adapter import kernels_of
from webgpu_backend.frontend.graphs.inductor import compiling  # noqa: F401  defines the operator
from webgpu_backend.kernels.attention import halves

D = "webgpu"
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
ROUGH = {torch.float32: 1e-4, torch.float16: 0.01, torch.bfloat16: 0.06}
ROUNDED = {torch.float32: "float({})", torch.float16: "half(float({}))", torch.bfloat16: "brain(float({}))"}
compiled = pytest.mark.usefixtures("compiled_by_inductor")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

# batch, heads, shared heads, queries, keys, size
SHAPES = {
    "many": (2, 3, 3, 40, 50, 8),
    "parts": (1, 2, 2, 37, 600, 12),
    "few": (2, 4, 2, 3, 70, 8),
    "few_parts": (1, 4, 2, 1, 300, 16),
}
OTHERS = {
    "whole": lambda *s: torch.randn(s),
    "by_rows": lambda b, h, n, e: torch.randn(b, n, h, e).transpose(1, 2),
    "part": lambda b, h, n, e: torch.randn(b, h, n, 2 * e + 1)[..., 1:-e],
    "of_heads": lambda b, h, n, e: torch.randn(h, 1, 1),
    "of_rows": lambda b, h, n, e: torch.randn(b, 1, n, 1),
}


def attended(q, k, v):
    return F.scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True).to(q.dtype)


NARROW = [("halves", FLOATS[1]), ("halves", FLOATS[2]), ("many", FLOATS[2]), ("few_parts", FLOATS[1])]


@pytest.mark.parametrize(("name", "dtype"), [*[(name, torch.float32) for name in SHAPES], *NARROW], ids=str)
def test_kernels(adapter_of, monkeypatch, name, dtype):
    torch.manual_seed(0)
    adapter_of(kind="gpu")
    if name == "halves":
        monkeypatch.setattr(halves, "SCORES", 0)
        monkeypatch.setattr(halves, "ENOUGH", 0)
    b, h, shared, n, s, e = SHAPES.get(name, SHAPES["many"])
    q, k, v = (torch.randn(*shape, e).to(dtype) for shape in ((b, h, n), (b, shared, s), (b, shared, s)))
    rounded = ROUNDED[dtype].format
    after = f"t0 = {rounded('r')}; t1 = {rounded('sigmoid(d)')}; t0 * t1 + 1"
    op = torch.ops.webgpu_backend.finished_attention
    for order in ([0, 1, 2, 3], [0, 2, 1, 3]):
        for which in OTHERS if dtype is torch.float32 and order[1] == 1 else ("by_rows",):
            d = OTHERS[which](b, h, n, e).to(dtype)
            found = op(q.to(D), k.to(D), v.to(D), None, d.to(D), False, e**-0.5, order, after)
            expected = (attended(q, k, v) * torch.sigmoid(d) + 1).to(dtype)
            assert found.permute(order).is_contiguous()
            torch.testing.assert_close(
                found.cpu(), expected, rtol=ROUGH[dtype], atol=ROUGH[dtype], msg=lambda m: f"{order} {which}: {m}"
            )


def check(f, *args, kernels=None, rough=1e-4):
    made, moved = torch.compile(f), [a.to(D) for a in args]
    with torch.no_grad():
        expected = f(*args)
        for _ in range(2):
            for a, b in zip(made(*moved), expected, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape
                torch.testing.assert_close(a.cpu(), b, rtol=rough, atol=rough, equal_nan=True)
        names = kernels_of(lambda: made(*moved))
    assert kernels is None or len(names) == kernels, names


@compiled
@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_gates(adapter_of, dtype):
    """Of heads, of rows, and of rows whose heads are side by side."""
    adapter_of(kind="gpu")
    q, k, v = (torch.randn(2, 40, 3, 8).to(dtype).transpose(1, 2) for _ in range(3))
    gate, wide = torch.randn(2, 3, 40, 8).to(dtype), torch.randn(2, 40, 24).to(dtype)
    sdpa = F.scaled_dot_product_attention
    check(lambda q, k, v, g: [sdpa(q, k, v) * torch.sigmoid(g)], q, k, v, gate, kernels=1, rough=ROUGH[dtype])
    check(lambda q, k, v, g: [sdpa(q, k, v) * g[:, :, :1, :1] - 1], q, k, v, gate, kernels=1, rough=ROUGH[dtype])
    one = 1 if dtype is torch.float32 else None  # a gate that is widened before it is used twice is computed apart
    rows = lambda x: x.transpose(1, 2).reshape(2, 40, 24)  # noqa: E731
    check(lambda q, k, v, g: [rows(sdpa(q, k, v)) * F.silu(g)], q, k, v, wide, kernels=one, rough=ROUGH[dtype])
    check(lambda q, k, v, g: [rows(sdpa(q, k, v)) + g], *(t.contiguous() for t in (q, k, v)), wide, rough=ROUGH[dtype])


@compiled
def test_what_is_left_alone(adapter_of):
    """What others see, what is broadcast, and what is turned another way."""
    adapter_of(kind="gpu")
    q, k, v = (torch.randn(2, 3, 40, 8) for _ in range(3))
    gate = torch.randn(2, 40, 24)
    sdpa = F.scaled_dot_product_attention

    def f(q, k, v, g):
        y = sdpa(q, k, v)
        return y.sum(-1), y * 2, (y.transpose(1, 2).reshape(2, 40, 24) * g).exp()

    check(f, q, k, v, gate)
    check(lambda q, k, v: [sdpa(q, k, v) + torch.ones(4, 1, 3, 40, 8, device=q.device)], q, k, v)
    check(lambda q, k, v: [sdpa(q, k, v).transpose(2, 3).reshape(2, 24, 40).relu()], q, k, v)
    check(lambda q, k, v: [sdpa(q, k, v).transpose(1, 2).reshape(2, 40, 24) * q.sum((1, 3))[:, :, None]], q, k, v)


@compiled
def test_special_values_and_gradients(adapter_of):
    adapter_of(kind="gpu")
    q, k, v = (torch.randn(1, 2, 40, 8) for _ in range(3))
    v[0, 0, 3, 2], q[0, 1, 5, 0] = float("inf"), float("nan")
    check(lambda q, k, v: [F.relu(F.scaled_dot_product_attention(q, k, v)) + 1], q, k, v, kernels=1)
    given, found = [torch.randn(1, 2, 40, 8) for _ in range(3)], {}
    for device in ("cpu", D):
        leaves = [t.detach().to(device).clone().requires_grad_() for t in given]
        f = lambda q, k, v: F.silu(F.scaled_dot_product_attention(q, k, v))  # noqa: E731
        y = (torch.compile(f) if device == D else f)(*leaves)
        y.square().sum().backward()
        found[device] = [y.detach().cpu(), *[t.grad.cpu() for t in leaves]]
    for a, b in zip(*found.values()):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
