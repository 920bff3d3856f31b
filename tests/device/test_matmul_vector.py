"""Products of few rows on GPUs: every way of reading the other operand, with and without subgroups."""

from itertools import product

import pytest
import torch

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.kernels.matmul import few_rows

F = torch.nn.functional
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
EXACT = {torch.float32: 2.0**-20, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# m, k, n: whole vectors of eight, of four, neither; fewer columns than a workgroup has, and more
SHAPES = [(1, 512, 64), (7, 1000, 48), (2, 132, 52), (3, 72, 4), (1, 301, 70), (8, 199, 37)]


@pytest.fixture(autouse=True, params=["subgroups", "memory"])
def gpu(request, adapter_of):
    if request.param == "subgroups":
        needs.feature("subgroups")
    adapter_of(kind="gpu", subgroups=request.param == "subgroups")
    torch.manual_seed(0)


def make(dtype, *shape):
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(-9, 9, shape).to(dtype)


def check(function, *args, classes=None, steps=1):
    """The sums are in f32: within a rounding of the result, and f32's of the sum of magnitudes."""
    moved, made = [a.to("webgpu") for a in args], []
    found = kernels_of(lambda: made.append(function(*moved)))
    got = made[0].cpu()
    assert len(found) == steps and found[0].startswith("matmul_v"), found
    if classes is not None:
        assert found[0].split("_")[3][-1] in classes, found
    wide = torch.float64 if got.dtype.is_floating_point else torch.int64
    wanted = function(*[a.to(wide) for a in args])
    if wide == torch.int64:
        assert torch.equal(got, wanted.to(got.dtype))
        return
    size = function(*[a.abs().to(wide) for a in args])
    assert ((got.double() - wanted).abs() <= EXACT[got.dtype] * wanted.abs() + 1e-6 * size).all()


@pytest.mark.parametrize(  # integers differ in how they are read only: few shapes show it
    "dtype, shape", [*product(FLOATS, SHAPES), *product([torch.int8], SHAPES[1::4])], ids=str
)
def test_layouts(dtype, shape):
    m, k, n = shape
    halves = dtype in (torch.float16, torch.bfloat16)
    x, w = make(dtype, m, k), make(dtype, n, k)
    along_k = "K" if k % 4 else "8" if halves and k % 8 == 0 else "k"
    along_n = "R" if n % 4 else "o" if halves and n % 8 == 0 else "r"
    check(lambda x, w: x @ w.t(), x, w, classes=along_k)
    check(lambda x, w: x @ w, x, make(dtype, k, n), classes=along_n)
    # few columns instead of few rows
    check(lambda w, x: w @ x, w, make(dtype, k, m), classes="kK8")
    check(lambda w, x: w.t() @ x.t(), make(dtype, k, n), x, classes=along_n)
    # the few rows turned: they are read one by one
    check(lambda x, w: x.t() @ w.t(), make(dtype, k, m), w, classes="K8k" if m == 1 else "K")
    check(lambda x, w: x.t() @ w, make(dtype, k, m), make(dtype, k, n), classes=along_n)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_short_k_of_many_columns(dtype):
    n = 2 * few_rows.DEEP[1] * 8 + 36  # the last workgroup has columns past the end
    for m in (2, 7):
        check(F.linear, make(dtype, m, 104), make(dtype, n, 104), make(dtype, n), classes="8k")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_long_k_of_few_columns(dtype):
    for m in (1, 7):
        check(F.linear, make(dtype, m, 4104), make(dtype, 42, 4104), make(dtype, 42), classes="8k")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_offsets_and_strides(dtype):
    """Vectors of sixteen bytes need every row to start at one; what does not is read by fours or one by one."""
    x, w = make(dtype, 5, 136), make(dtype, 41, 136)
    check(lambda x, w: x[1:, :128] @ w[1:, 8:].t(), x, w, classes="8k")
    check(lambda x, w: x[1:, :128] @ w[1:, 4:132].t(), x, w, classes="k")
    check(lambda x, w: x[1:, 1:129] @ w[1:, 4:132].t(), x, w, classes="K")
    check(lambda x, w: x[:, ::2] @ w[:, 1::2].t(), x, w, classes="K")
    b = make(dtype, 137, 48)
    check(lambda x, b: x @ b[1:, 8:], x, b, classes="or")
    check(lambda x, b: x @ b[1:, 4:44], x, b, classes="r")
    check(lambda x, b: x[:, 3:73] @ b[:70, 8:], x, b, classes="or")  # k not a multiple of four
    check(lambda x, b: x @ b[1:, 1:], x, b, classes="R")
    check(lambda x, b: x @ b[1:, ::2], x, b, classes="KR")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batches_and_epilogues(dtype):
    check(torch.bmm, make(dtype, 3, 1, 136), make(dtype, 3, 136, 40))
    check(lambda a, b: a @ b.mT, make(dtype, 2, 3, 4, 72), make(dtype, 3, 24, 72))
    check(lambda a, b: a.mT @ b, make(dtype, 3, 72, 2), make(dtype, 3, 72, 20))
    x, w, b, c = make(dtype, 4, 136), make(dtype, 40, 136), make(dtype, 40), make(dtype, 4, 40)
    check(F.linear, x, w, b)
    check(lambda c, x, w: torch.addmm(c, x, w.t(), beta=2, alpha=3), c, x, w)
    check(lambda c, w, x: torch.addmm(c.t(), w, x.t(), beta=2), c, w, x)
    check(lambda w, v: torch.mv(w, v), w, make(dtype, 136))
    got = torch.ops.aten._addmm_activation(*[t.to("webgpu") for t in (b, x, w.t())], use_gelu=True)
    wanted = F.gelu(F.linear(x.double(), w.double(), b.double()))
    torch.testing.assert_close(got.cpu().double(), wanted, rtol=EXACT[dtype] * 2, atol=1e-4)


def test_a_long_k_is_cut():
    length = 2 * few_rows.SPLIT[1]
    check(lambda x, w: x @ w.t(), make(torch.float32, 3, length), make(torch.float32, 5, length), steps=2)
    check(lambda x, w: x @ w, make(torch.float16, 3, length), make(torch.float16, length, 8), steps=2)
    check(lambda w, x: w @ x.t(), make(torch.float32, 9, length + 1), make(torch.float32, 3, length + 1), steps=2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_and_inf_stay_in_their_rows(dtype):
    x, w = make(dtype, 6, 200), make(dtype, 40, 200)
    x[2, 3], x[5, 199], w[21, 7], w[39, 0] = float("nan"), float("inf"), float("-inf"), float("nan")
    for f in (lambda x, w: x @ w.t(), lambda x, w: x @ w.t().contiguous(), lambda x, w: x[:, 1:] @ w[:, 1:].t()):
        got, wanted = f(x.to("webgpu"), w.to("webgpu")).cpu(), f(x.double(), w.double())
        assert torch.equal(got.isnan(), wanted.isnan()) and torch.equal(got.isinf(), wanted.isinf())
