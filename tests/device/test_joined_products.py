"""Quantised products in compiled graphs: what they take in, against the same steps one by one on the device and in
float64 on the CPU."""

import pytest
import torch
import torch.nn.functional as F

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.frontend.graphs.inductor import compiling
from webgpu_backend.kernels.matmul import digits
from webgpu_backend.ops.quantized import codecs
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
ours = torch.ops.webgpu_backend


@pytest.fixture(autouse=True)
def in_digits(adapter_of):
    """Kernels of a GPU that multiplies bytes by fours; nothing may be refused by Inductor."""
    needs.feature("subgroups")
    adapter_of(kind="gpu", dots=True)
    torch.manual_seed(0)
    torch.compiler.reset()
    compiling._told.clear()
    yield
    assert not compiling._told


def weights(format: str, k: int, *columns: int) -> list:
    """Of each number of columns codes and scales, and the weights that they are."""
    made = [codecs.quantised(torch.randn(n, k) * 0.1, format) for n in columns]
    return [(*m, codecs.dequantised(*m, format)) for m in made]


def check(f, *args, kernels: int, dtype=torch.float16) -> list[str]:
    """f(linear, ...) of tensors and of weights (codes, scales, numbers, format): compiled, by eager steps on the device
    and in float64; with so many kernels, where that many buffers can be bound. Returns their names."""
    rough = 2e-3 if dtype is torch.float16 else 1.6e-2
    on_device = lambda x, w, bias=None: ours.linear_blocks(x, w[0], w[1], bias, w[2])  # noqa: E731
    exactly = lambda x, w, bias=None: F.linear(x, w, bias)  # noqa: E731
    given = [tuple([t.to(D) for t in a[:2]]) + (a[3],) if isinstance(a, tuple) else a.to(dtype).to(D) for a in args]
    wanted = f(exactly, *[a[2].double() if isinstance(a, tuple) else a.to(dtype).double() for a in args])
    with torch.no_grad():
        compiled = torch.compile(lambda *args: f(on_device, *args))
        eager, found = f(on_device, *given), compiled(*given)
        names = kernels_of(lambda: compiled(*given))
    assert len(names) == kernels or gpu().caps.max_bindings == 8, names
    for a, b, c in zip(found, eager, wanted, strict=True):
        scale = c.abs().max().item()
        assert a.dtype == dtype and a.shape == c.shape
        torch.testing.assert_close(a.cpu().double(), c, rtol=rough, atol=3 * rough * scale)
        torch.testing.assert_close(a, b, rtol=rough, atol=rough * scale)
    return names


def several(format, k, *columns):
    return [(*w, format) for w in weights(format, k, *columns)]


def rms(x, w, eps=1e-6):
    wide = x.float() if x.dtype is not torch.float64 else x
    return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


@pytest.mark.parametrize("format, dtype, rows, k, columns", [
    ("q4_k", torch.float16, 1, 512, (96, 32, 32)), ("q8_0", torch.bfloat16, 3, 96, (37, 5, 130)),
    ("q6_k", torch.float16, 8, 256, (700, 8)), ("q4_0", torch.float16, 2, 64, (1, 2, 3, 4)),
], ids=str)  # fmt: skip
def test_products_of_the_same_rows(format, dtype, rows, k, columns):
    found = several(format, k, *columns)
    check(lambda linear, x, *ws: [linear(x, w) for w in ws], torch.randn(rows, k), *found, kernels=1, dtype=dtype)


def test_with_a_bias_each():
    ws, biases = several("q8_0", 160, 40, 24), [torch.randn(40), torch.randn(24)]

    def f(linear, x, v, w, b, c):
        return linear(x, v, b), linear(x, w, c)

    check(f, torch.randn(2, 1, 160), *ws, *biases, kernels=1)


def test_results_are_read_where_they_stand():
    """Parts of several rows are not dense: what is done with them sees that."""
    ws = several("q8_0", 128, 64, 32)

    def f(linear, x, v, w):
        a, b = linear(x, v), linear(x, w)
        return a.view(3, 4, 16).transpose(0, 1).exp(), torch.cat([b, -b], -1), a[:, :32] * b

    check(f, torch.randn(3, 128), *ws, kernels=2)


@pytest.mark.parametrize("act", [F.silu, lambda x: F.gelu(x, approximate="tanh"), F.gelu], ids=["silu", "tanh", "gelu"])
def test_gates(act):
    ws, r = several("q4_0", 96, 44, 44), torch.randn(3, 44)
    check(lambda linear, x, v, w: [act(linear(x, v)) * linear(x, w)], torch.randn(3, 96), *ws, kernels=1)
    check(lambda linear, x, v, w, r: [linear(x, w) * act(linear(x, v)) + r], torch.randn(3, 96), *ws, r, kernels=1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_what_follows(dtype):
    (w,), b, r = several("q8_0", 96, 52), torch.randn(52), torch.randn(1, 4, 52)
    x = torch.randn(1, 4, 96)
    check(lambda linear, x, w, b, r: [r + linear(x, w, b)], x, w, b, r, kernels=1, dtype=dtype)
    check(lambda linear, x, w, b, r: [(linear(x, w) * b - r) * 0.5], x, w, b, r, kernels=1, dtype=dtype)

    def seen(linear, x, w, r):
        y = linear(x, w)
        z = y * 2 + r
        return y, z, z.exp()

    check(seen, x, w, r, kernels=2, dtype=dtype)


@pytest.mark.parametrize("rows, held", [(1, 40), (3, 40), (8, 8)])
def test_norms(monkeypatch, rows, held):
    monkeypatch.setattr(digits, "HELD", held << 10)
    ws, r, norm = several("q4_k", 1024, 40, 24), torch.randn(rows, 1024) * 3, torch.rand(1024) + 0.5

    def f(linear, x, norm, v, w):
        y = rms(x, norm)
        return linear(y, v), linear(y, w), x + 1

    check(f, r, norm, *ws, kernels=2)
    check(lambda linear, x, norm, v, w: [linear(rms(x, 1 + norm), v)], r, norm, *ws, kernels=1)
    check(lambda linear, x, norm, v, w: [linear(rms(x, 1), v)], r, norm, *ws, kernels=1)


def test_a_norm_that_others_see_stays():
    (w,), norm = several("q8_0", 96, 40), torch.rand(96)

    def f(linear, x, norm, w):
        y = rms(x, norm)
        return linear(y, w), y * 2

    check(f, torch.randn(2, 96), norm, w, kernels=2)


def test_infinity_and_nan_in_a_norm():
    (w,), norm = several("q8_0", 96, 40), torch.rand(96)
    x = torch.randn(4, 96).half()
    x[1, 3], x[2, 5] = torch.inf, torch.nan
    w, norm, x = (w[0].to(D), w[1].to(D)), norm.half().to(D), x.to(D)
    found = torch.compile(lambda x, n, c, s: ours.linear_blocks(rms(x, n), c, s, None, "q8_0"))(x, norm, *w)
    assert found[1:3].isnan().all() and found[::3].isfinite().all()


def test_a_layer_as_models_have_it():
    """A llama's layer of one token is four dispatches, beside what is between its attention's products."""
    k, wide = 256, 512
    q, key, value, o = several("q4_k", k, 256, 128, 128, 256)
    gate, up = several("q4_k", k, wide, wide)
    (down,) = several("q4_k", wide, k)
    first, second = torch.rand(k) + 0.5, torch.rand(k) + 0.5

    def f(linear, x, q, key, value, o, gate, up, down, first, second):
        y = rms(x, first)
        a, b, c = linear(y, q), linear(y, key), linear(y, value)
        x = x + linear(a * torch.cat([b, c], -1), o)
        y = rms(x, second)
        return [x + linear(F.silu(linear(y, gate)) * linear(y, up), down)]

    check(f, torch.randn(1, 1, k) * 2, q, key, value, o, gate, up, down, first, second, kernels=5)


def test_few_buffers(adapter_of):
    adapter_of(max_bindings=8)
    ws = several("q8_0", 96, 16, 24, 32, 40)
    assert len(check(lambda linear, x, *ws: [linear(x, w) for w in ws], torch.randn(1, 96), *ws, kernels=2)) == 2


def test_gradients_pass():
    (w,) = several("q8_0", 96, 40)
    codes, scales, weight = w[0].to(D), w[1].to(D), w[2]
    norm, x = torch.rand(96), torch.randn(2, 96)
    grads = []
    for device in (D, "cpu"):
        given = x.to(device, torch.float16 if device == D else torch.float64).requires_grad_()
        n = norm.to(given)
        if device == D:
            f = torch.compile(lambda x: F.silu(ours.linear_blocks(rms(x, n), codes, scales, None, "q8_0")))
        else:
            f = lambda x: F.silu(rms(x, n) @ weight.double().t())  # noqa: E731
        f(given).sum().backward()
        grads.append(given.grad.cpu().double())
    torch.testing.assert_close(*grads, rtol=0.02, atol=0.02)
