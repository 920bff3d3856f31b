"""Python numbers beside tensors of narrow integers: they wrap as operands, and must fit where they are written."""

import pytest
import torch

from tests.device._compare import keeps_denormals

D = "webgpu"
CASES = {
    torch.uint8: ([0, 1, 5, 200, 255], (-1, -3, 255, 256, 300, -300)),
    torch.int8: ([-128, -1, 0, 5, 127], (128, 200, -129, 255, -256 + 3)),
    torch.int16: ([-32768, -1, 5, 32767], (32768, -32769, 65535, 70000)),
    torch.int32: ([-(2**31), -1, 5, 2**31 - 1], (2**31, -(2**31) - 1, 2**33 + 3)),
}
OPERANDS = {
    "add": lambda x, n: x + n,
    "lt": lambda x, n: x < n,
    "ge": lambda x, n: x >= n,
    "eq": lambda x, n: x == n,
    "floor_divide": lambda x, n: x // n if n % 256 else x,
    "remainder": lambda x, n: x % n if n % 256 else x,
    "maximum": lambda x, n: torch.maximum(x, torch.tensor(n, device=x.device)),
    "mul_": lambda x, n: x.clone().mul_(n),
    "logical_and": lambda x, n: torch.logical_and(x, torch.tensor(n)),
}
WRITTEN = {
    "fill_": lambda x, n: x.clone().fill_(n),
    "full": lambda x, n: torch.full((3,), n, dtype=x.dtype, device=x.device),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "masked_fill_": lambda x, n: x.clone().masked_fill_(x > 1, n),
    "clamp": lambda x, n: x.clamp(min=n),
    "clamp_both": lambda x, n: x.clamp(n, 3),
    "clamp_max_": lambda x, n: x.clone().clamp_(max=n),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([1], device=x.device), n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([1], device=x.device), n),
}


def outcome(call, x, number):
    try:
        result = call(x, number)
    except RuntimeError as error:
        return str(error)
    return result.dtype, result.tolist()


@pytest.mark.parametrize("name", [*OPERANDS, *WRITTEN])
@pytest.mark.parametrize("dtype", CASES, ids=str)
def test_numbers_beyond_the_dtype(name, dtype):
    call = (OPERANDS | WRITTEN)[name]
    values, numbers = CASES[dtype]
    x = torch.tensor(values, dtype=dtype)
    for number in numbers:
        assert outcome(call, x.to(D), number) == outcome(call, x, number), number


def test_fractions_are_not_written_to_unsigned_integers():
    for call in (WRITTEN["fill_"], WRITTEN["masked_fill"], WRITTEN["addcmul"]):
        with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
            call(torch.ones(3, dtype=torch.uint8, device=D), -1.5)


def test_what_has_no_order_is_refused_in_torchs_words():
    """And not by the shader compiler."""
    x = torch.randn(3, dtype=torch.complex64)
    calls = [
        lambda x: x < x, lambda x: x >= 1, lambda x: x.clamp(-1, 1), torch.relu, lambda x: x.clone().relu_(),
        torch.nn.functional.mish, torch.nn.functional.elu, torch.bitwise_not,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(NotImplementedError):
            call(x)
        with pytest.raises(NotImplementedError, match="not (implemented|supported) for"):
            call(x.to(D))


def test_operands_that_torch_refuses():
    flags, whole = torch.tensor([True, False]), torch.tensor([3, 4])
    calls = [
        lambda d: flags.to(d) - flags.to(d),
        lambda d: flags.to(d) - 1,
        lambda d: 1.5 - flags.to(d),
        lambda d: whole.to(d) - flags.to(d),
        lambda d: whole.to(d).sub_(flags.to(d), alpha=2),
        lambda d: torch.addcdiv(whole.to(d), whole.to(d), whole.to(d)),
        lambda d: whole.to(d).addcdiv_(whole.to(d), whole.to(d)),
    ]
    for call in calls:
        with pytest.raises(RuntimeError) as wanted:
            call("cpu")
        with pytest.raises(RuntimeError) as got:
            call(D)
        assert str(got.value) == str(wanted.value)


def test_equal_legs_are_a_quarter_turn():
    """To the last bit, also where both are infinite."""
    values = torch.tensor([float("inf"), 1.0, 0.3, 1e-40 if keeps_denormals() else 1e-37, 3e38])
    x, y = torch.cat([values, -values]), torch.cat([values, values])
    for a, b in ((x, y), (y, x), (x, -y)):
        assert torch.equal(torch.atan2(a.to(D), b.to(D)).cpu(), torch.atan2(a, b))
    z = torch.complex(x[:1], y[:1])
    for call in (torch.acos, torch.asin, torch.log, torch.angle):
        assert torch.equal(call(z.to(D)).cpu(), call(z))


@pytest.mark.parametrize("number", [1j, 1 + 0j, 2.5, 2 - 0j])
@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.int64, torch.uint8, torch.bool, torch.float32, torch.complex64], ids=str
)
def test_complex_numbers_without_an_imaginary_part_are_real(dtype, number):
    """Beside tensors that are not complex; others are refused."""
    for call in (
        lambda x: x.clone().fill_(number),
        lambda x: torch.addcmul(x, x, x, value=number),
        lambda x: torch.add(x, x, alpha=number),
        lambda x: torch._foreach_addcmul([x], [x], [x], [number])[0],
        lambda x: torch._foreach_addcmul([x], [x], [x], torch.tensor([number]))[0],
    ):
        found = []
        for device in ("cpu", D):
            try:
                result = call(torch.ones(3, dtype=dtype, device=device))
                found.append((result.dtype, result.tolist()))
            except RuntimeError as error:
                found.append(type(error))
        assert found[0] == found[1]
