"""Matrix products against CPU torch: dtypes, layouts, odd sizes, splits, errors; both kernel families."""

from dataclasses import replace

import pytest
import torch

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend import stats
from webgpu_backend.kernels.matmul import tiles
from webgpu_backend.plan import cache, caps

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-4, torch.complex64: 1e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2}
SHAPES = [(1, 1, 1), (3, 5, 7), (33, 17, 66), (40, 200, 12), (1, 300, 40), (40, 300, 1), (7, 130, 52)]


@pytest.fixture(params=["own", "gpu"])
def kind(request, monkeypatch, adapter_of):
    """The adapter's own kernels, and the ones for big GPUs, which must be right on every adapter."""
    if request.param == "gpu":
        adapter_of(kind="gpu")
        # The smallest tile stands for all: software drivers take seconds over the text of the largest.
        monkeypatch.setattr(tiles, "_used", replace(tiles.GPU, tiles=(tiles.Tile(32, 32, 8, 4, 4),), halves=()))
    return request.param


def of_dtypes(own: list, gpu: list):
    """Both families of kernels; those dtypes that both read by the same text are run in one alone."""
    pairs = [("own", d) for d in own] + [("gpu", d) for d in gpu]
    return pytest.mark.parametrize("kind, dtype", pairs, indirect=["kind"], ids=str)


def make(dtype, *shape):
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(*shape, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    low = 0 if dtype == torch.uint8 else -9
    return torch.randint(low, 9, shape).to(dtype)


def check(function, *args, depth=1, on="webgpu"):
    wanted = function(*args)
    got = function(*[a.to(on) if isinstance(a, torch.Tensor) else a for a in args])
    assert got.device.type == on and got.dtype == wanted.dtype and got.shape == wanted.shape
    if not (wanted.is_floating_point() or wanted.is_complex()):
        assert torch.equal(got.cpu(), wanted)
        return
    tolerance = TOLERANCE[wanted.dtype]
    limits = dict(rtol=tolerance, atol=tolerance * max(1, depth) ** 0.5, equal_nan=True)
    torch.testing.assert_close(got.cpu(), wanted, **limits)


@of_dtypes(
    own=[*FLOATS, torch.int64, torch.int32, torch.int8, torch.complex64],
    gpu=[torch.float32, torch.bfloat16, torch.int8],
)
def test_mm_layouts(dtype, kind):
    for m, k, n in SHAPES:
        check(torch.mm, make(dtype, m, k), make(dtype, k, n), depth=k)
        check(lambda a, b: torch.mm(a.t(), b.t()), make(dtype, k, m), make(dtype, n, k), depth=k)
    check(lambda a, b: torch.mm(a[:, 1::2], b[3:, 1:]), make(dtype, 9, 15), make(dtype, 10, 6), depth=7)


def test_mm_large(kind):
    check(torch.mm, torch.randn(460, 400), torch.randn(400, 388), depth=100)
    check(torch.mm, torch.randn(1300, 37), torch.randn(37, 301), depth=37)


TILES = [
    tiles.Tile(64, 64, 8, 8, 4),
    tiles.Tile(64, 64, 16, 8, 4, warp=2, twist=1),
    tiles.Tile(128, 128, 8, 8, 8),
    tiles.Tile(64, 64, 16, 8, 8, twist=2, slices=2),
    tiles.Tile(32, 32, 16, 4, 4, twist=1, slices=2),
    tiles.Tile(16, 16, 16, 4, 4, slices=8),
]


@pytest.mark.parametrize("tile", TILES, ids=lambda t: "x".join(map(str, t[:8])))
def test_tiles_of_big_gpus(tile, monkeypatch, adapter_of):
    if not tiles.fits(tile, replace(caps(), kind="gpu")):
        needs.missing(f"{caps().workgroup_bytes} bytes of workgroup memory: too few for this tile of a big GPU")
    adapter_of(kind="gpu")
    monkeypatch.setattr(tiles, "_used", replace(tiles.GPU, tiles=(tile,)))
    a, b = torch.randn(140, 90), torch.randn(90, 150)
    check(torch.mm, a, b, depth=90)
    check(lambda a, b: torch.mm(b.t(), a.t()), a, b, depth=90)
    check(torch.mm, torch.randn(70, 64), torch.randn(64, 132), depth=64)  # whole tiles of k
    check(lambda a, b: torch.mm(a.t(), b.t()), torch.randn(128, 68), torch.randn(132, 128), depth=128)
    if tile[0] < 64:
        check(torch.mm, torch.randn(20, 7), torch.randn(7, 24), depth=7)
        check(torch.mm, torch.randn(35, 301), torch.randn(301, 37), depth=301)
    if tile[0] == 64:
        c, a, b = torch.randn(70, 66), torch.randn(5, 70, 11), torch.randn(5, 11, 66)
        check(torch.addbmm, c, a, b, depth=55)


def test_rows_that_start_anywhere_are_laid_out_first_where_it_pays(monkeypatch, adapter_of):
    adapter_of(kind="gpu")
    slow = tiles.Tuning(132, (tiles.Tile(32, 32, 16, 4, 4, rate=1e-3),), (), 0.0, 1e30)
    monkeypatch.setattr(tiles, "_used", slow)

    def padded(function, *args, names="ab"):
        cache.clear()
        kernels = kernels_of(lambda: check(function, *args, depth=128))
        assert [k for k in kernels if "pad" in k] == [f"matmul_pad_{names}"], kernels

    m, n, k = 33, 35, 125
    a, b = torch.randn(m, k), torch.randn(k, n)
    padded(torch.mm, a, b)
    padded(lambda a, b: torch.mm(b.t(), a.t()), a, b)
    padded(torch.nn.functional.linear, a, torch.randn(n, k), torch.randn(n))
    padded(lambda a, b: a[:, ::2] @ b[1:, 3:], torch.randn(m, 2 * k), torch.randn(k + 1, n + 3))
    padded(torch.mm, torch.randn(m, 128), torch.randn(128, n), names="b")
    padded(lambda a, b: a[:, 1:] @ b, torch.randn(m, 129), torch.randn(128, 36), names="a")
    padded(torch.bmm, torch.randn(3, m, k), torch.randn(3, k, n))
    padded(lambda a, b: torch.bmm(a, b.expand(3, k, n)), torch.randn(3, m, k), b)
    padded(torch.mm, torch.randint(-9, 9, (m, k), dtype=torch.int32), torch.randint(-9, 9, (k, n), dtype=torch.int32))
    a[3, -1], b[-1, 5] = float("nan"), float("inf")  # beside the zeros that are added
    padded(torch.mm, a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64], ids=str)
def test_split_sums(dtype, kind):
    check(torch.mm, make(dtype, 3, 9000), make(dtype, 9000, 5), depth=9000)
    check(torch.mm, make(dtype, 40, 5000), make(dtype, 5000, 36), depth=5000)
    check(torch.dot, make(dtype, 20001), make(dtype, 20001), depth=20001)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), make(dtype, 36), make(dtype, 20, 5000),
          make(dtype, 5000, 36), depth=50000)  # fmt: skip


def test_long_k_exceeds_no_loop_limit():
    k = 300_001
    a = torch.ones(1, k)
    assert torch.mm(a.to("webgpu"), a.t().to("webgpu")).item() == k
    b = torch.ones(40, k)
    assert torch.equal(torch.mm(a.to("webgpu"), b.t().to("webgpu")).cpu(), torch.full((1, 40), float(k)))


@of_dtypes(own=[*FLOATS, torch.int64, torch.int8, torch.complex64], gpu=[torch.float32, torch.bfloat16])
def test_batches_and_addends(dtype, kind):
    check(torch.bmm, make(dtype, 3, 9, 8), make(dtype, 3, 8, 12), depth=8)
    check(
        lambda a, b: torch.bmm(a.transpose(0, 1), b.transpose(1, 2)),
        make(dtype, 9, 3, 8),
        make(dtype, 3, 12, 8),
        depth=8,
    )
    check(lambda a, b: torch.bmm(a.expand(4, 9, 8), b), make(dtype, 1, 9, 8), make(dtype, 4, 8, 3), depth=8)
    for c in (make(dtype, 3, 9, 12), make(dtype, 9, 1), make(dtype, 12), make(dtype, 3, 1, 1)):
        check(
            lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=3),
            c,
            make(dtype, 3, 9, 8),
            make(dtype, 3, 8, 12),
            depth=72,
        )
    check(lambda c, a, b: torch.addbmm(c, a, b, beta=2, alpha=3), make(dtype, 9, 12), make(dtype, 5, 9, 8),
          make(dtype, 5, 8, 12), depth=360)  # fmt: skip
    check(torch.addmm, make(dtype, 12), make(dtype, 9, 8), make(dtype, 8, 12), depth=8)
    check(
        lambda c, a, b: torch.addmm(c.t(), a, b, beta=3),
        make(dtype, 12, 9),
        make(dtype, 9, 8),
        make(dtype, 8, 12),
        depth=8,
    )
    check(torch.mv, make(dtype, 9, 8), make(dtype, 8), depth=8)
    check(
        lambda c, a, v: torch.addmv(c, a, v, beta=2, alpha=2),
        make(dtype, 9),
        make(dtype, 9, 8),
        make(dtype, 8),
        depth=32,
    )
    check(lambda c, a, v: torch.addmv(c, a, v), make(dtype, 1), make(dtype, 9, 8), make(dtype, 8), depth=32)
    check(torch.dot, make(dtype, 37), make(dtype, 37), depth=37)
    check(torch.vdot, make(dtype, 37), make(dtype, 37), depth=37)
    check(lambda c, a, b: torch.addr(c, a, b, beta=2, alpha=3), make(dtype, 5, 4), make(dtype, 5), make(dtype, 4))


def test_integers_wrap_exactly(kind):
    a = torch.tensor([[2**40 + 3, -(2**62)]])
    check(torch.mm, a, torch.tensor([[2**20 + 1, 7], [3, -5]]))
    check(torch.mm, torch.full((3, 9), 2**30, dtype=torch.int32), torch.full((9, 3), 5, dtype=torch.int32))
    check(torch.mm, torch.full((3, 9), 100, dtype=torch.uint8), torch.full((9, 5), 7, dtype=torch.uint8))


def test_beta_zero_ignores_nan_and_empty_sums():
    nan = torch.full((2, 3), float("nan"))
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0), nan, torch.randn(2, 4), torch.randn(4, 3))
    check(torch.mm, torch.randn(2, 0), torch.randn(0, 3))
    check(torch.mm, torch.randn(0, 4), torch.randn(4, 3))
    check(torch.bmm, torch.randn(0, 4, 2), torch.randn(0, 2, 3))
    check(lambda c, a, b: torch.addmm(c, a, b, beta=2), torch.randn(3), torch.randn(2, 0), torch.randn(0, 3))
    check(torch.dot, torch.randn(0), torch.randn(0))
    check(torch.mv, torch.randn(3, 0), torch.randn(0))
    check(lambda x, w, b: torch.nn.functional.linear(x, w, b), torch.randn(2, 0), torch.randn(3, 0), torch.randn(3))


def test_nan_and_inf_stay_in_their_rows(kind):
    a, b = torch.randn(37, 20), torch.randn(20, 22)
    a[36, 3], a[0, 0], b[19, 21] = float("nan"), float("inf"), float("-inf")
    got, wanted = (a.to("webgpu") @ b.to("webgpu")).cpu(), a @ b
    assert torch.equal(got.isnan(), wanted.isnan()) and torch.equal(got.isinf(), wanted.isinf())


RANKS = [
    ((5,), (5,)),
    ((4, 5), (5,)),
    ((5,), (5, 3)),
    ((4, 5), (5, 3)),
    ((2, 3, 4, 5), (5, 6)),
    ((2, 3, 4, 5), (3, 5, 6)),
    ((2, 1, 4, 5), (3, 5, 6)),
    ((5,), (2, 3, 5, 4)),
    ((2, 3, 4, 5), (5,)),
    ((4, 5), (2, 5, 3)),
    ((0, 4, 5), (5, 3)),
    ((2, 1, 3, 4, 5), (1, 6, 3, 5, 2)),
]


@pytest.mark.parametrize("shapes", RANKS, ids=str)
def test_matmul_ranks(shapes):
    tensors = [torch.randn(s) for s in shapes]
    results = []
    for device in ("cpu", "webgpu"):
        a, b = (t.to(device).requires_grad_() for t in tensors)
        y = torch.matmul(a, b)
        weights = torch.linspace(-1, 1, y.numel()).view(y.shape).to(device)
        first = torch.autograd.grad(y, (a, b), weights, create_graph=True)
        second = torch.autograd.grad(first[0], b, torch.ones_like(first[0]))
        results.append([y, *first, *second])
    for wanted, got in zip(*results):
        assert got.shape == wanted.shape
        torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-4)


def test_matmul_of_transposed_batches_copies_nothing():
    x = torch.randn(2, 7, 3, 8)
    q = x.to("webgpu").transpose(1, 2)
    before = stats()["dispatches"]
    got = q @ q.transpose(-1, -2)
    assert stats()["dispatches"] - before == 1
    q = x.transpose(1, 2)
    torch.testing.assert_close(got.cpu(), q @ q.transpose(-1, -2), rtol=1e-4, atol=1e-4)


def test_composites():
    check(lambda a, b: torch.einsum("bhid,bjhd->bhij", a, b), torch.randn(2, 3, 4, 5), torch.randn(2, 6, 3, 5), depth=5)
    dims = ([1, 2], [0, 1])
    check(lambda a, b: torch.tensordot(a, b, dims=dims), torch.randn(3, 4, 5), torch.randn(4, 5, 6), depth=20)
    check(torch.kron, torch.randn(2, 3), torch.randn(4, 5))


@of_dtypes(own=FLOATS, gpu=[torch.float32])
def test_linear_and_gradients(dtype, kind):
    for shape, transposed in [
        ((7, 12), False),
        ((2, 5, 12), False),
        ((2, 5, 12), True),
        ((12,), False),
        ((2, 3, 4, 12), True),
    ]:
        for bias in (True, False):
            x, w, b = make(dtype, *shape), make(dtype, 6, 12), make(dtype, 6) if bias else None

            def run(x, w, b, transposed=transposed):
                leaves = [t.detach().requires_grad_() for t in (x, w, b) if t is not None]
                inputs = leaves[0].transpose(0, 1) if transposed else leaves[0]
                y = torch.nn.functional.linear(inputs, *leaves[1:])
                weights = torch.linspace(-1, 1, y.numel()).view(y.shape).to(y.dtype).to(y.device)
                return [y, *torch.autograd.grad(y, leaves, weights)]

            wanted = run(x, w, b)
            got = run(*[t if t is None else t.to("webgpu") for t in (x, w, b)])
            for g, want in zip(got, wanted):
                torch.testing.assert_close(g.cpu(), want, rtol=TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_gradients_of_linear_with_a_vector(dtype):
    """A weight of one dimension, as D-FINE has; autograd sums what the bias gets to its size."""

    def run(device, *values):
        leaves = [x.detach().to(device).requires_grad_() for x in values]
        y = torch.nn.functional.linear(leaves[0].transpose(0, -2) if len(shape) == 3 else leaves[0], *leaves[1:])
        return [y, *torch.autograd.grad(y, leaves, torch.linspace(-1, 1, y.numel()).view(y.shape).to(y))]

    for shape, bias in [
        ((4, 3, 5), None),
        ((4, 3, 5), (3, 1)),
        ((4, 5), None),
        ((0, 5), None),
        ((5,), None),
        ((5,), ()),
    ]:
        values = [torch.randn(s).to(dtype) for s in (shape, (5,), bias) if s is not None]
        for got, wanted in zip(run("webgpu", *values), run("cpu", *values)):
            torch.testing.assert_close(got.cpu(), wanted, rtol=TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])
    with pytest.raises(RuntimeError, match="mat2 must be a matrix"):
        torch.nn.functional.linear(*[torch.ones(s, device="webgpu") for s in ((4, 5), (5,), (4,))])


@pytest.mark.parametrize("shape, weight", [((4, 5), (3, 5)), ((2, 0, 5), (3, 5)), ((2, 3, 5), (3, 5)), ((5,), (3, 5))])
def test_linear_double_backward(shape, weight):
    values = [torch.randn(s) for s in (shape, weight, weight[:-1])]

    def twice(device):
        leaves = [t.to(device).requires_grad_() for t in values]
        y = torch.nn.functional.linear(*leaves)
        first = torch.autograd.grad(y, leaves, y * (y.detach() + 2), create_graph=True)
        made = sum([(g * g.detach() * k).sum() for k, g in enumerate(first, 1)])
        return [*first, *torch.autograd.grad(made, leaves, allow_unused=True)]

    def forward_over_reverse(device):
        x, w = (t.to(device) for t in values[:2])
        loss = lambda w: torch.nn.functional.linear(x, w).abs().square().sum()  # noqa: E731
        return torch.func.jvp(torch.func.grad(loss), (w,), (w.flip(0),))

    for run in (twice, forward_over_reverse):
        for got, wanted in zip(run("webgpu"), run("cpu"), strict=True):
            torch.testing.assert_close(None if got is None else got.detach().cpu(), wanted, rtol=1e-4, atol=1e-4)


def test_activation_epilogue(kind):
    for gelu in (True, False):
        check(lambda c, a, b, gelu=gelu: torch.ops.aten._addmm_activation(c, a, b, use_gelu=gelu), torch.randn(12),
              torch.randn(9, 8), torch.randn(8, 12), depth=8)  # fmt: skip


def test_out_and_inplace():
    a, b, c = torch.randn(3, 4), torch.randn(4, 5), torch.randn(3, 5)
    out = torch.empty(3, 5, device="webgpu")
    assert torch.mm(a.to("webgpu"), b.to("webgpu"), out=out) is out
    torch.testing.assert_close(out.cpu(), a @ b)
    d = c.to("webgpu")
    d.addmm_(a.to("webgpu"), b.to("webgpu"), beta=0.5)
    torch.testing.assert_close(d.cpu(), 0.5 * c + a @ b)
    weights = a.to("webgpu")
    torch.testing.assert_close(torch.mm(weights, weights.t()).cpu(), a @ a.t())


def test_transposed_operands_are_not_copied():
    a, b, bias = (torch.randn(shape).to("webgpu") for shape in ((16, 8), (4, 16), (4,)))
    before = stats()["dispatches"]
    torch.mm(a.t(), b.t())
    torch.nn.functional.linear(a.t(), b, bias)
    assert stats()["dispatches"] - before == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
        lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, device=d)),
        lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, 2, device=d).half()),
        lambda d: torch.bmm(torch.ones(2, 3, 4, device=d), torch.ones(2, 3, 4, device=d)),
        lambda d: torch.bmm(torch.ones(2, 3, device=d), torch.ones(2, 3, 4, device=d)),
        lambda d: torch.addmm(torch.ones(7, device=d), torch.ones(2, 3, device=d), torch.ones(3, 4, device=d)),
        lambda d: torch.dot(torch.ones(3, device=d), torch.ones(4, device=d)),
        lambda d: torch.dot(torch.ones(3, 3, device=d), torch.ones(4, device=d)),
        lambda d: torch.mv(torch.ones(3, 3, device=d), torch.ones(4, device=d)),
        lambda d: torch.ones(2, 4, 3, device=d) @ torch.ones(2, 4, 3, device=d),
        lambda d: torch.ones(2, 4, 3, device=d) @ torch.ones(4, 3, device=d),
        lambda d: torch.ones(2, 4, 3, device=d) @ torch.ones(5, 3, 3, device=d),
        lambda d: torch.nn.functional.linear(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
    ],
)
def test_errors_are_torchs(call):
    with pytest.raises(RuntimeError) as wanted:
        call("cpu")
    with pytest.raises(RuntimeError) as got:
        call("webgpu")
    assert str(got.value).split("\n")[0] == str(wanted.value).split("\n")[0]


def test_matmul_under_transforms():
    a, b = torch.randn(3, 4, 5), torch.randn(3, 5, 2)
    wanted = torch.func.grad(lambda x: (x @ b).pow(2).sum())(a)
    right = b.to("webgpu")
    got = torch.func.grad(lambda x: (x @ right).pow(2).sum())(a.to("webgpu"))
    torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-4)
    got = torch.vmap(torch.matmul)(a.to("webgpu"), right)
    torch.testing.assert_close(got.cpu(), a @ b, rtol=1e-4, atol=1e-4)


def test_complex_batches():
    a, b = torch.randn(2, 3, 4, 5, dtype=torch.complex64), torch.randn(3, 4, 5, dtype=torch.complex64)
    results = []
    for device in ("cpu", "webgpu"):
        x, y = a.to(device).requires_grad_(), b.to(device).requires_grad_()
        x @ y.transpose(-1, -2)  # the same layout without the conjugation
        z = x @ y.mH
        results.append([z, *torch.autograd.grad(z, (x, y), torch.ones_like(z) * 2j)])
    for wanted, got in zip(*results):
        torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-4)


def test_any_operand_may_be_conjugated():
    a, b, c = (torch.randn(2, 4, 4, dtype=torch.complex64) for _ in range(3))
    turned = (lambda x: x, lambda x: x.mT, lambda x: x.mH, lambda x: x.conj())
    for call in (torch.baddbmm, torch.Tensor.baddbmm_, lambda x, y, z: torch.addmm(x[0], y[0], z[0])):
        for place in range(3):
            for turn in turned:

                def f(*operands, call=call, place=place, turn=turn):
                    return call(*[turn(x.clone()) if i == place else x.clone() for i, x in enumerate(operands)])

                check(f, a, b, c, depth=4)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_factors_that_whole_numbers_have_no_room_for(dtype):
    m, v = torch.ones(3, 3, dtype=dtype), torch.ones(3, dtype=dtype)
    large = torch.iinfo(dtype).max + 1
    calls = {
        "addmm": lambda d, **k: torch.addmm(m.to(d), m.to(d), m.to(d), **k),
        "addmv": lambda d, **k: torch.addmv(v.to(d), m.to(d), v.to(d), **k),
        "addr": lambda d, **k: torch.addr(m.to(d), v.to(d), v.to(d), **k),
        "baddbmm": lambda d, **k: torch.baddbmm(m[None].to(d), m[None].to(d), m[None].to(d), **k),
    }
    for name, call in calls.items():
        for factors in ({"alpha": large}, {"beta": large}):
            with pytest.raises(RuntimeError, match="without overflow") as here:
                call("webgpu", **factors)
            with pytest.raises(RuntimeError) as there:
                call("cpu", **factors)
            assert str(here.value) == str(there.value), name
        assert torch.equal(call("webgpu", alpha=2, beta=3).cpu(), call("cpu", alpha=2, beta=3)), name
