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
    """Also with results of another dtype."""
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
            for result in FLOATS if which == "by_rows" else (dtype,):
                found = op(q.to(D), k.to(D), v.to(D), None, d.to(D), False, e**-0.5, order, after, result)
                expected = (attended(q, k, v) * torch.sigmoid(d) + 1).to(result)
                assert found.permute(order).is_contiguous()
                rough = max(ROUGH[dtype], ROUGH[result])
                torch.testing.assert_close(
                    found.cpu(), expected, rtol=rough, atol=rough, msg=lambda m: f"{order} {which}: {m}"
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
    rows = lambda x: x.transpose(1, 2).reshape(2, 40, 24)  # noqa: E731
    check(lambda q, k, v, g: [rows(sdpa(q, k, v)) * F.silu(g)], q, k, v, wide, kernels=1, rough=ROUGH[dtype])
    by_heads = [t.contiguous() for t in (q, k, v)]
    check(lambda q, k, v, g: [rows(sdpa(q, k, v)) + g], *by_heads, wide, kernels=1, rough=ROUGH[dtype])


@compiled
@pytest.mark.parametrize(
    ("dtype", "result"), [*zip(FLOATS[:1] * 2, FLOATS[1:]), *zip(FLOATS[1:], FLOATS[:1] * 2)], ids=str
)
def test_casts(adapter_of, dtype, result):
    """Results of another dtype, and what is rounded on the way, are as eager operators have them."""
    adapter_of(kind="gpu")
    functions = {
        "cast": lambda q, k, v, g, w: sdpa(q, k, v).to(result),
        "gate": lambda q, k, v, g, w: sdpa(q, k, v).to(result) * g.to(result),
        "gate of a wider dtype": lambda q, k, v, g, w: sdpa(q, k, v) * g.float(),
        "on the way": lambda q, k, v, g, w: (sdpa(q, k, v).to(result) * 3).to(dtype) * g,
        "side by side": lambda q, k, v, g, w: by_rows(sdpa(q, k, v) * 0.5).to(result) + w.to(result),
    }
    for n in (40, 37, 3):
        q, k, v = (torch.randn(2, 4, n, 8).to(dtype).to(D) for _ in range(3))
        given = [q, k, v, torch.randn(2, 4, n, 8).to(dtype).to(D), torch.randn(2, n, 32).to(dtype).to(D)]
        for name, f in functions.items():
            made = torch.compile(f, dynamic=True)
            with torch.no_grad():
                found, expected = made(*given), f(*given)
                names = kernels_of(lambda: made(*given))
            assert len(names) == 1, (name, names)
            assert found.dtype == expected.dtype
            torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0, msg=lambda m: f"{name} {n}: {m}")


@compiled
def test_one_query_of_another_dtype(adapter_of):
    adapter_of(kind="gpu")
    for dtype, result in ((torch.float16, torch.float32), (torch.float32, torch.bfloat16)):
        given = [torch.randn(2, 4, n, 8).to(dtype).to(D) for n in (1, 33, 33)]
        f = lambda q, k, v, to=result: sdpa(q, k, v).to(to) * 0.5  # noqa: E731
        made = torch.compile(f)
        with torch.no_grad():
            found, expected = made(*given), f(*given)
            names = kernels_of(lambda: made(*given))
        assert len(names) == 1 and found.dtype is result, names
        torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0)


def by_rows(x):
    return x.transpose(1, 2).flatten(2)


def sdpa(*args, **kwargs):
    return F.scaled_dot_product_attention(*args, **kwargs, enable_gqa=True)


CHANGING = {
    "gate": lambda q, k, v, g, w, m: sdpa(q, k, v) * torch.sigmoid(g),
    "factor": lambda q, k, v, g, w, m: sdpa(q, k, v) * g[:, :, :1, :1] - 1,
    "of rows": lambda q, k, v, g, w, m: F.relu(sdpa(q, k, v)) + g[:, :1, :, :1],
    "residual": lambda q, k, v, g, w, m: w + by_rows(sdpa(q, k, v)),
    "side by side": lambda q, k, v, g, w, m: by_rows(sdpa(q, k, v)) * torch.sigmoid(w) * 0.5,
    "flat": lambda q, k, v, g, w, m: by_rows(sdpa(q, k, v)).flatten(0, 1) * w.flatten(0, 1),
    "causal": lambda q, k, v, g, w, m: by_rows(sdpa(q, k, v, is_causal=True)) + w,
    "mask": lambda q, k, v, g, w, m: by_rows(sdpa(q, k, v, attn_mask=m > -1)) + w,
    "added mask": lambda q, k, v, g, w, m: sdpa(q, k, v, attn_mask=m) * g,
}
# batch, queries, keys: odd ones, few queries, keys that are divided, one of anything
SIZES = [(2, 40, 40), (3, 37, 50), (2, 3, 70), (2, 9, 600), (2, 1, 33), (1, 5, 7)]


@compiled
@pytest.mark.parametrize(
    ("name", "lies"),
    [*[(name, "heads") for name in CHANGING], *[(name, "rows") for name in ("gate", "residual", "mask")]],
)
def test_sizes_that_change(adapter_of, name, lies):
    """One graph for all lengths and batches but those of one, which Dynamo takes for constants."""
    adapter_of(kind="gpu")
    f = CHANGING[name]
    made = torch.compile(f)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for i, (b, n, s) in enumerate(SIZES):
        shapes = [(b, n, 4, 8), (b, s, 2, 8), (b, s, 2, 8)]
        q, k, v = (torch.randn(shape).transpose(1, 2) for shape in shapes)
        if lies == "heads":
            q, k, v = (t.contiguous() for t in (q, k, v))
        given = [q, k, v, torch.randn(b, 4, n, 8), torch.randn(b, n, 32), torch.randn(n, s)]
        moved = [t.to(D) for t in given]
        for t, dims in zip(moved, [(0, 2), (0, 2), (0, 2), (0, 2), (0, 1), (0, 1)]):
            torch._dynamo.mark_dynamic(t, [d for d in dims if t.shape[d] > 1])
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(made(*moved).cpu(), f(*given), rtol=1e-4, atol=1e-4)
            names = [n for n in kernels_of(lambda: made(*moved)) if "attention_merge" not in n]
        alone = ["wgsl" in n for n in names].count(True)
        assert alone == (name == "mask") and len(names) == alone + 1, names
        if i == 3:
            assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before + 1


@compiled
@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
def test_narrow_sizes_that_change(adapter_of, monkeypatch, dtype):
    """By sums of halves, where the adapter has them, and by others where sizes ask for those."""
    adapter_of(kind="gpu")
    monkeypatch.setattr(halves, "SCORES", 40 * 40)
    monkeypatch.setattr(halves, "ENOUGH", 0)
    made = torch.compile(lambda q, k, v, w: by_rows(sdpa(q, k, v)) * torch.sigmoid(w), dynamic=True)
    for b, n in ((2, 40), (3, 37), (2, 65), (2, 3)):
        q, k, v = (torch.randn(b, h, n, 8).to(dtype) for h in (4, 2, 2))
        w = torch.randn(b, n, 32).to(dtype)
        with torch.no_grad():
            found = made(*[t.to(D) for t in (q, k, v, w)])
            expected = by_rows(attended(q, k, v)) * torch.sigmoid(w)
            torch.testing.assert_close(found.cpu(), expected, rtol=ROUGH[dtype], atol=ROUGH[dtype])
            names = kernels_of(lambda: made(*[t.to(D) for t in (q, k, v, w)]))
        assert not any(["wgsl" in n for n in names]), names


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(32), torch.nn.LayerNorm(32)
        self.qkv, self.gate, self.out = (torch.nn.Linear(32, n) for n in (96, 32, 32))
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        h = self.first(x)
        q, k, v = (t.unflatten(2, (4, 8)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        x = x + self.out(by_rows(sdpa(q, k, v, is_causal=True)) * torch.sigmoid(self.gate(h)))
        return x + self.down(F.gelu(self.up(self.second(x))))


@compiled
def test_layers_of_changing_sizes(adapter_of):
    """Two norms, five products and attention; the numbers of norms, which Dynamo takes for symbols, are no obstacle."""
    adapter_of(kind="gpu")
    net, moved = Layer(), Layer()
    moved.load_state_dict(net.state_dict())
    made = torch.compile(moved.to(D), dynamic=True)
    for b, n in ((2, 40), (3, 7), (2, 65)):
        x = torch.randn(b, n, 32)
        with torch.no_grad():
            torch.testing.assert_close(made(x.to(D)).cpu(), net(x), rtol=1e-4, atol=1e-4)
            names = kernels_of(lambda: made(x.to(D)))  # noqa: B023
        assert len(names) == 8, names


@compiled
def test_changing_sizes_by_the_adapter():
    """Few scores are products on a software adapter."""
    f = lambda q, k, v, w: by_rows(sdpa(q, k, v)) + w  # noqa: E731
    made = torch.compile(f, dynamic=True)
    for b, n in ((2, 40), (3, 37), (2, 1)):
        given = [*[torch.randn(b, 3, n, 8) for _ in range(3)], torch.randn(b, n, 24)]
        with torch.no_grad():
            torch.testing.assert_close(made(*[t.to(D) for t in given]).cpu(), f(*given), rtol=1e-4, atol=1e-4)


@compiled
@pytest.mark.parametrize("turned", [False, True])
def test_more_than_one_binding(adapter_of, turned):
    """Batches that change may be larger than any that was known."""
    adapter_of(kind="gpu", max_binding=1 << 16)

    def f(q, k, v, g):
        return by_rows(sdpa(q, k, v)) * g if turned else sdpa(q, k, v) * g

    made = torch.compile(f)
    for b in (2, 3, 70):
        given = [*[torch.randn(b, 4, 40, 8) for _ in range(3)], torch.randn((b, 40, 32) if turned else (b, 4, 40, 8))]
        moved = [t.to(D) for t in given]
        for t in moved:
            torch._dynamo.mark_dynamic(t, 0)
        with torch.no_grad():
            torch.testing.assert_close(made(*moved).cpu(), f(*given), rtol=1e-4, atol=1e-4)


@compiled
def test_turned_where_heads_are_as_many_as_rows(adapter_of):
    """What lies by heads is not taken for what lies by rows, though its shape would do."""
    adapter_of(kind="gpu")
    q, k, v, g = (torch.randn(2, 4, 4, 8) for _ in range(4))
    check(lambda q, k, v, g: [(sdpa(q, k, v) * g).transpose(1, 2) * g], q, k, v, g)
    check(lambda q, k, v, g: [((sdpa(q, k, v) * 2).transpose(1, 2) * g).exp2()], q, k, v, g)
    gate = torch.sigmoid
    check(lambda q, k, v, g: [(sdpa(q, k, v) * gate(g)).transpose(1, 2) * gate(g)], q, k, v, g)


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
