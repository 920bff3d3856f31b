"""Compiled products of several rows take in what follows them: against the CPU, and their dispatches."""

import pytest
import torch
import torch.nn.functional as F

from tests.device._adapter import kernels_of

D = "webgpu"
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
ROUGH = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.15}
pytestmark = [
    pytest.mark.usefixtures("compiled_by_inductor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def check(f, *args, kernels=None, products=None, rough=1e-4):
    """The compiled function, twice, against the plain one on the CPU; how many dispatches, and how many are products
    that do more than add."""
    compiled, moved = torch.compile(f), [a.to(D) for a in args]
    with torch.no_grad():
        expected = f(*args)
        for _ in range(2):
            for a, b in zip(compiled(*moved), expected, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape
                torch.testing.assert_close(a.cpu(), b, rtol=rough, atol=rough)
        names = kernels_of(lambda: compiled(*moved))
    assert kernels is None or len(names) == kernels, names
    assert products is None or sum(["finish" in n or "_plain_" in n or "_bias_" in n for n in names]) == products, names


ACTS = {
    "gelu": F.gelu, "tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu": F.relu,
    "sigmoid": torch.sigmoid, "scaled": lambda x: x * 0.125 - 1,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("act", ACTS)
def test_activations(act, dtype):
    x, w, b = torch.randn(2, 5, 24), torch.randn(36, 24) * 0.3, torch.randn(36)
    x, w, b = (t.to(dtype) for t in (x, w, b))
    check(lambda x, w, b: [ACTS[act](F.linear(x, w, b))], x, w, b, kernels=1, rough=ROUGH[dtype])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(2, 3, 5), (7, 130, 33), (33, 64, 128), (64, 600, 40), (130, 96, 130)], ids=str)
def test_residuals(adapter_class, sizes, dtype):
    m, k, n = sizes
    given = [torch.randn(s) for s in ((1, m, k), (n, k), (n,), (1, m, n))]
    x, w, b, r = ((t * k**-0.5 if i == 1 else t).to(dtype) for i, t in enumerate(given))
    check(lambda x, w, b, r: [r + F.linear(x, w, b)], x, w, b, r, products=1, rough=ROUGH[dtype])
    check(lambda x, w, r: [(x[0] @ w.t()).tanh() * r[0]], x, w, r, products=1, rough=ROUGH[dtype])


@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (3, 33, 64, 40), (5, 130, 36, 24)], ids=str)
def test_batches(adapter_class, sizes):
    """Also of transposed operands, with what is added by the product itself, and broadcast from columns."""
    g, m, k, n = sizes
    x, y, r, c = torch.randn(g, m, k), torch.randn(g, n, k), torch.randn(g, m, n), torch.randn(n)
    check(lambda x, y: [(x @ y.mT) * 0.125], x, y, kernels=1)
    check(lambda x, y, r: [(x @ y.mT).tanh() * r], x, y, r, kernels=1)
    check(lambda x, y, r, c: [F.silu(torch.baddbmm(r, x, y.mT)) + c], x, y, r, c, kernels=1)
    check(lambda x, y: [F.gelu((x @ y.mT).view(g, 1, m, n))], x.half(), y.half(), kernels=1, rough=0.05)


def test_views_and_broadcasts():
    x, w = torch.randn(6, 16), torch.randn(16, 24)
    column, row, gate = torch.randn(24), torch.randn(6, 1), torch.randn(24, 6)
    check(lambda x, w, c: [(x @ w) * c], x, w, column, kernels=1)
    check(lambda x, w, c: [(x @ w).view(2, 3, 24) * c.view(1, 1, 24)], x, w, column, kernels=1)
    check(lambda x, w, g: [(x @ w).relu() + g.t()], x, w, gate, kernels=1)
    check(lambda x, w, g: [(x.t()[:6] @ w[:6]).relu()], torch.randn(6, 16), torch.randn(8, 24), gate, kernels=1)
    check(lambda x, w, r: [(x @ w) + r], x, w, row)
    check(lambda x, w: [(x @ w).view(12, 12) + torch.arange(12.0, device=x.device)], x, w)
    check(lambda x, w: [(x @ w).sum(1, keepdim=True) + (x @ w)], x, w)


def test_what_others_see_is_stored():
    x, w, r = torch.randn(6, 16), torch.randn(16, 24), torch.randn(6, 24)

    def f(x, w, r):
        y = x @ w
        z = y * 2 + r
        return y, z, z.exp()

    check(f, x, w, r, kernels=2)


CASTS = {
    "cast": lambda x, w, r, to: (x @ w.t()).to(to),
    "factor": lambda x, w, r, to: (x @ w.t()).to(to) * 0.3 - 1,
    "residual": lambda x, w, r, to: r.to(to) + F.linear(x, w).to(to),
    "on the way": lambda x, w, r, to: ((x @ w.t()).to(to) * 3).to(x.dtype) + r,
    "wide residual": lambda x, w, r, to: r.float() + F.linear(x, w),
    "columns": lambda x, w, r, to: (x @ w.t()).to(to) * r[0].to(to),
}


@pytest.mark.parametrize(("dtype", "to"), [(a, b) for a in FLOATS for b in FLOATS if a != b], ids=str)
@pytest.mark.parametrize("name", CASTS)
def test_casts(adapter_class, name, dtype, to):
    """Results of another dtype, and what is rounded on the way, are as eager operators have them."""
    f = CASTS[name]
    for m, k, n in ((2, 3, 5), (33, 130, 33), (5, 600, 40)):
        x, w, r = (torch.randn(s).to(dtype) for s in ((m, k), (n, k), (m, n)))
        x[0, 0], x[1, 0], w[1, 1] = float("inf"), float("nan"), 3e4  # which halves have no room for, added up
        given = [t.to(D) for t in (x, w, r)]
        made = torch.compile(f, dynamic=False)
        with torch.no_grad():
            found, expected = made(*given, to), f(*given, to)
            names = kernels_of(lambda: made(*given, to))
            alone = kernels_of(lambda: given[0] @ given[1].t())
        assert len(names) == len(alone), names
        assert found.dtype == expected.dtype and found.shape == expected.shape
        rough = 1e-6 if found.dtype is torch.float32 else 0.0  # drivers may make one rounding of a product and a sum
        torch.testing.assert_close(found, expected, rtol=rough, atol=rough, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
def test_casts_of_batches(adapter_class, dtype):
    """Also of changing sizes, none of them included, and of operands that lie otherwise."""
    made = torch.compile(lambda x, y: (x @ y).float() * 0.25, dynamic=False)
    changing = torch.compile(lambda x, w, r: F.gelu(F.linear(x, w)).float() + r)
    w = (torch.randn(36, 24) * 0.3).to(dtype)
    with torch.no_grad():
        for g, m, k, n in ((2, 3, 5, 7), (3, 33, 64, 40), (0, 3, 5, 7), (2, 0, 5, 7), (2, 3, 0, 7)):
            x, y = torch.randn(g, k, m).to(dtype).mT, torch.randn(g, k, 2 * n).to(dtype)[..., ::2]
            found = made(x.to(D), y.to(D))
            assert found.dtype == torch.float32
            torch.testing.assert_close(found.cpu(), (x @ y).float() * 0.25, rtol=ROUGH[dtype], atol=ROUGH[dtype])
        for m in (5, 9, 130):
            x, r = torch.randn(2, m, 24).to(dtype), torch.randn(2, m, 36)
            given = [t.to(D) for t in (x, w, r)]
            for t in (given[0], given[2]):
                torch._dynamo.mark_dynamic(t, 1)
            found, expected = changing(*given), F.gelu(F.linear(x, w)).float() + r
            torch.testing.assert_close(found.cpu(), expected, rtol=ROUGH[dtype], atol=ROUGH[dtype])
            assert len(kernels_of(lambda: changing(*given))) == 1


def test_wide_results_are_left_to_what_reads_them():
    """A norm that widens what it reads does not get it twice as large."""
    x, w = torch.randn(5, 24).half(), torch.randn(36, 24).half()

    def f(x, w):
        return [F.layer_norm((x @ w.t()).float(), (36,))]

    check(f, x, w, kernels=2, rough=0.02)
    compiled, moved = torch.compile(f), [x.to(D), w.to(D)]
    with torch.no_grad():
        compiled(*moved)
        seen = [n for n in kernels_of(lambda: compiled(*moved)) if "matmul" in n]
    assert len(seen) == 1 and "f32" not in seen[0], seen


def test_autocast(adapter_class):
    """Casts that mixed precision puts between steps: those of the arguments, and two products."""

    def f(x, v, w):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return [x + F.linear(F.gelu(F.linear(x, v)), w)]

    x, v, w = torch.randn(5, 24), torch.randn(48, 24) * 0.3, torch.randn(24, 48) * 0.3
    check(f, x, v, w, kernels=3, products=2, rough=0.05)


CHANGING = {
    "rows": (lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r, [(5, 24), (9, 24), (130, 24)]),
    "rows of a batch": (lambda x, w, b, r: r + F.linear(x, w, b), [(2, 3, 24), (2, 65, 24), (2, 4, 24)]),
    "both": (lambda x, w, b, r: r * F.silu(x @ w.t()), [(2, 3, 24), (5, 33, 24), (3, 7, 24)]),
    "columns": (lambda x, w, b, r: (x @ w.t()).tanh() * b - 1, [(5, 24), (9, 24), (2, 24)]),
    "views": (lambda x, w, b, r: (x @ w.t()).view(-1, 2, 36).relu() * r.view(-1, 2, 36), [(4, 24), (10, 24), (66, 24)]),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CHANGING)
def test_sizes_that_change(adapter_class, name, dtype):
    f, shapes = CHANGING[name]
    w, b = (torch.randn(36, 24) * 0.3).to(dtype), torch.randn(36).to(dtype)
    compiled = torch.compile(f)
    changes = [d for d in range(len(shapes[0]) - 1) if len({shape[d] for shape in shapes}) > 1]
    with torch.no_grad():
        for shape in shapes:
            given = [torch.randn(shape).to(dtype), w, b, torch.randn(*shape[:-1], 36).to(dtype)]
            moved = [t.to(D) for t in given]
            for t in (moved[0], moved[3])[: 1 if name == "columns" else 2]:
                torch._dynamo.mark_dynamic(t, changes)
            for _ in range(2):
                torch.testing.assert_close(compiled(*moved).cpu(), f(*given), rtol=ROUGH[dtype], atol=ROUGH[dtype])
            names = kernels_of(lambda: compiled(*moved))
            assert len(names) == 1 or name == "views", names  # which rows are even is known of none


def test_rows_that_a_mask_chooses(adapter_class):
    """How many there are is known when they are there: none, one, several."""

    def f(x, m, w, b):
        return F.gelu(F.linear(x[m], w, b)) * b

    x, w, b = torch.randn(6, 24), torch.randn(36, 24), torch.randn(36)
    compiled = torch.compile(f)
    with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for rows in (3, 0, 1, 6):
            m = torch.arange(6) < rows
            got = compiled(x.to(D), m.to(D), w.to(D), b.to(D))
            torch.testing.assert_close(got.cpu(), f(x, m, w, b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(700, 24), (3, 300, 24)], ids=str)
def test_more_rows_than_one_binding(adapter_of, shape):
    """Sizes that change may be larger than any that was known."""
    adapter_of(max_binding=1 << 16)

    def f(x, w, b, r):
        return F.gelu(F.linear(x, w, b)) + r if x.dim() == 2 else torch.bmm(x, w.mT.expand(3, -1, -1)) * 0.5 + r

    compiled = torch.compile(f)
    w, b = torch.randn(36, 24) * 0.3, torch.randn(36)
    with torch.no_grad():
        for rows in (5, shape[-2]):
            given = [torch.randn(*shape[:-2], rows, 24), w, b, torch.randn(*shape[:-2], rows, 36)]
            moved = [t.to(D) for t in given]
            for t in (moved[0], moved[3]):
                torch._dynamo.mark_dynamic(t, len(shape) - 2)
            got = compiled(*moved)
            torch.testing.assert_close(got.cpu(), f(*given), rtol=1e-4, atol=1e-4)


def test_gates():
    x, v, w = torch.randn(5, 16), torch.randn(24, 16), torch.randn(24, 16)
    check(lambda x, v, w: [F.silu(F.linear(x, v)) * F.linear(x, w)], x, v, w, kernels=2)


def positive(x):
    return torch.where(x < 0, 0.0, x)


def test_special_values():
    x = torch.tensor([[float("inf"), 1.0], [float("nan"), 2.0], [-1e30, 0.0], [1e-30, -3.0]])
    w = torch.eye(2)
    with torch.no_grad():
        for act in (
            F.relu,
            F.silu,
            torch.tanh,
            positive,
            lambda x: F.threshold(x, 0, 0),
            lambda x: F.leaky_relu(x, 0.1),
        ):
            found = torch.compile(lambda x, w: act(x @ w) + 1)(x.to(D), w.to(D)).cpu()
            torch.testing.assert_close(found, act(x @ w) + 1, equal_nan=True)


def test_parts_of_large_storages(adapter_of):
    """A part that fits a binding, of a storage that does not."""
    adapter_of(max_binding=1 << 16)
    storage, w, r = torch.randn(1 << 15), torch.randn(16, 24), torch.randn(6, 24)
    moved, compiled = storage.to(D), torch.compile(lambda x, w, r: (x @ w).relu() + r)
    with torch.no_grad():
        x = storage[100:196].view(6, 16)
        found = compiled(moved[100:196].view(6, 16), w.to(D), r.to(D))
    torch.testing.assert_close(found.cpu(), (x @ w).relu() + r, rtol=1e-4, atol=1e-4)


def test_training():
    net = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.GELU(), torch.nn.Linear(16, 12))
    x, found = torch.randn(9, 12), {}
    for device in ("cpu", D):
        net.to(device).zero_grad()
        f = lambda x: x + net(x)  # noqa: E731
        y = (torch.compile(f) if device == D else f)(x.to(device))
        y.square().sum().backward()
        found[device] = [y.detach().cpu(), *[p.grad.cpu().clone() for p in net.parameters()]]
    for a, b in zip(*found.values()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
