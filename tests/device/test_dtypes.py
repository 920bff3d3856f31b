"""Every dtype: creation, fill, casts between every pair, arithmetic with promotion, exact int64."""

import itertools

import pytest
import torch

from tests import needs

DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.float64, torch.complex128,
]  # fmt: skip
ARITHMETIC = [d for d in DTYPES if d not in (torch.uint16, torch.uint32, torch.uint64)]


def make(shape, dtype):
    generator = torch.Generator().manual_seed(hash((tuple(shape), str(dtype))) % 2**31)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_complex:
        return torch.randn(shape, dtype=dtype, generator=generator)
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) * 100).to(dtype)
    low = 0 if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else -100
    return torch.randint(low, 100, shape, generator=generator).to(dtype)


def available(*dtypes):
    if {torch.float64, torch.complex128}.intersection(dtypes) or {torch.float64, torch.complex64} <= set(dtypes):
        needs.feature("f64")


def same(got, want, rtol=1e-3, atol=1e-4):
    got = got.cpu()
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype in (torch.uint16, torch.uint32, torch.uint64):
        got, want = got.to(torch.int64), want.to(torch.int64)
    if want.dtype == torch.bfloat16:
        rtol = 1e-2
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("source,target", itertools.product(DTYPES, DTYPES), ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_cast(source, target):
    available(source, target)
    for shape in ((7,), (3, 5), (), (0, 3)):
        x = make(shape, source)
        same(x.to("webgpu").to(target), x.to(target))
    x = make((6, 10), source)
    same(x.to("webgpu")[1:, 1::2].t().to(target), x[1:, 1::2].t().to(target))
    out = torch.zeros((5, 9), dtype=target)
    device_out = out.to("webgpu")
    out[1:4, 2:7:2].copy_(x[:3, :3])
    device_out[1:4, 2:7:2].copy_(x.to("webgpu")[:3, :3])
    same(device_out, out)


def test_zeros_of_eight_bytes_in_a_large_tensor():
    x = torch.ones(600_001, dtype=torch.int64, device="webgpu")
    x[1:].as_strided((300_000, 1), (1, 7), 1).zero_()  # contiguous, though its last stride is not 1
    assert x[0].item() == 1 and x[1:300_001].sum().item() == 0 and x[300_001:].sum().item() == 300_000
    assert not torch.ones(300_000, dtype=torch.complex64, device="webgpu").fill_(0).abs().any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip_and_fill(dtype):
    available(dtype)
    for n in (0, 1, 3, 4, 5, 1023):
        x = make((n,), dtype)
        same(x.to("webgpu"), x)
        same(torch.zeros(n, dtype=dtype, device="webgpu"), torch.zeros(n, dtype=dtype))
        same(torch.full((n,), 1, dtype=dtype, device="webgpu"), torch.full((n,), 1, dtype=dtype))
    x = make((9,), dtype)
    y = x.to("webgpu")
    y[3:8] = 0
    x[3:8] = 0
    same(y, x)
    y[1] = 1
    x[1] = 1
    same(y, x)


# Since torch 2.14 bfloat16 has a complex dtype of its own, in which the CPU computes nothing.
BRAIN_PAIRS = torch.result_type(torch.ones(1, dtype=torch.bfloat16), 1j) not in ARITHMETIC


def refused_as_pair(call):
    with pytest.raises(NotImplementedError, match="not implemented for 'BComplex32'"):
        call("cpu")
    with pytest.raises(NotImplementedError, match="webgpu: tensors of dtype torch.bcomplex32 are not supported"):
        call("webgpu")


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("left,right", list(itertools.product(ARITHMETIC, ARITHMETIC)), ids=str)
def test_promotion(op, left, right):
    available(left, right)
    f = getattr(torch, op)
    a, b = make((5, 7), left), make((7,), right)
    same(f(a.to("webgpu"), b.to("webgpu")), f(a, b), rtol=2e-3)
    zero_dim = make((), right)
    if left is torch.bfloat16 and right.is_complex and BRAIN_PAIRS:
        refused_as_pair(lambda d: f(a.to(d), zero_dim.to(d)))
        return
    same(f(a.to("webgpu"), zero_dim.to("webgpu")), f(a, zero_dim), rtol=2e-3)
    same(f(a.to("webgpu"), zero_dim), f(a, zero_dim), rtol=2e-3)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
@pytest.mark.parametrize("number", [3, 2.5, True, 1 + 2j], ids=str)
def test_python_numbers(dtype, number):
    available(dtype)
    x = make((5, 3), dtype)
    if dtype is torch.bfloat16 and isinstance(number, complex) and BRAIN_PAIRS:
        refused_as_pair(lambda d: x.to(d) + number)
        return
    same(x.to("webgpu") + number, x + number)
    same(number * x.to("webgpu"), number * x, rtol=2e-3)


EDGE = torch.tensor([2**62, -(2**62), 2**53 + 1, -(2**63), 2**63 - 1, 2**31, 2**32 + 5, -1, 0, 7, -7, 2**31 - 1])
INT64_OPS = [
    "add", "sub", "mul", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "lt", "le", "gt", "ge", "eq",
    "ne",
]  # fmt: skip


@pytest.mark.parametrize("op", INT64_OPS)
def test_int64_is_exact(op):
    f = getattr(torch, op)
    a, b = EDGE[:, None], EDGE[None, :]
    same(f(a.to("webgpu"), b.to("webgpu")), f(a, b))


@pytest.mark.parametrize("op", ["floor_divide", "remainder", "fmod"])
def test_int64_division_is_exact(op):
    f = getattr(torch, op)
    a, b = EDGE[:, None], EDGE[EDGE != 0]
    a = a[a[:, 0] != -(2**63)]  # MIN / -1 traps on the CPU
    same(f(a.to("webgpu"), b.to("webgpu")), f(a, b))


def test_int64_to_float_rounds_to_nearest():
    x = torch.cat([EDGE, torch.randint(-(2**62), 2**62, (500,))])
    assert torch.equal(x.to("webgpu").float().cpu(), x.float())


SPECIAL = torch.tensor(
    [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 65504.0, 65519.9, 65520.0, 1e-8, 6e-8, 2.9e-8, 1e-5, 3.3e38,
     1.00048828125, 1.0009765625, 1.00390625, 1.01171875]
)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrowing_rounds_as_the_cpu(dtype):
    got, want = SPECIAL.to("webgpu").to(dtype).cpu(), SPECIAL.to(dtype)
    assert torch.equal(got.isnan(), want.isnan())
    keep = ~want.isnan()
    assert torch.equal(got[keep].view(torch.int16), want[keep].view(torch.int16))


def test_float64_refused(adapter_of):
    adapter_of(f64=False)
    with pytest.raises(TypeError, match="shader-f64.*torch.float32"):
        torch.zeros(3, 1, 7, 1, dtype=torch.float64, device="webgpu")  # sizes that no other test has had described


def test_view_dtype():
    x = torch.randn(6)
    assert torch.equal(x.to("webgpu").view(torch.int32).cpu(), x.view(torch.int32))
    assert torch.equal(x.to("webgpu").view(torch.uint8).cpu(), x.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16], ids=str)
def test_packed_copies_keep_their_neighbours(dtype):
    """Copies of runs of packed elements, at every offset within a word and of every odd length."""
    host = (torch.arange(64) % 5 > 1).to(dtype) if dtype is torch.bool else torch.arange(64).to(dtype)
    for start in (0, 1, 2, 4, 8):
        for length in (1, 2, 3, 4, 7, 16, 33):
            source, target = host.to("webgpu"), torch.zeros(64, dtype=dtype, device="webgpu")
            expected = torch.zeros(64, dtype=dtype)
            expected[start : start + length] = host[start : start + length]
            target[start : start + length] = source[start : start + length]
            assert torch.equal(target.cpu(), expected)
            assert torch.equal(source[start : start + length].clone().cpu(), host[start : start + length])
    image = host.view(2, 4, 2, 4).to(memory_format=torch.channels_last)
    copy = image.to("webgpu").clone()
    assert copy.stride() == image.stride()
    assert torch.equal(copy.cpu(), image)
