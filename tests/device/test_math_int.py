"""Integer functions of the WGSL library against numpy and torch, exactly, over edges and random pairs."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from tests import needs
from tests.device._wgsl import call, has_int64, library

MIN64, MAX64 = -(2**63), 2**63 - 1
MIN32, MAX32 = -(2**31), 2**31 - 1


def edges(bits: int) -> list[int]:
    """Signed values around every power of two that matters, wrapped to `bits`."""
    near = {0, 1, 2, 3, 5, 7, 10, 100, 12345}
    for power in (7, 8, 15, 16, 23, 24, 25, 31, 32, 33, 40, 47, 48, 53, 62, 63, 64):
        if power <= bits:
            near |= {2**power - 1, 2**power, 2**power + 1}
    half = 2 ** (bits - 1)
    return sorted({(sign * v + half) % (2 * half) - half for v in near for sign in (1, -1)})


def pairs(bits: int, kind: type, count: int = 20000) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edges, then random pairs whose magnitudes have random lengths."""
    some = np.array(edges(bits), dtype=np.int64)
    a, b = (x.ravel() for x in np.meshgrid(some, some))
    rng = np.random.default_rng(bits)
    random = rng.integers(MIN64, MAX64, (2, count), dtype=np.int64, endpoint=True)
    random >>= rng.integers(64 - bits, 64, (2, count))
    return np.concatenate([a, random[0]]).astype(kind), np.concatenate([b, random[1]]).astype(kind)


A64, B64 = pairs(64, np.int64)
A32, B32 = pairs(32, np.int32)


def quiet(function, *arguments):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def trunc(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    q = np.floor_divide(a, b)
    return q + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def torch_op(op):
    """A torch CPU operator as a function of numpy arrays."""
    return lambda *a: op(*(torch.from_numpy(x) for x in a)).numpy()


# Reference, and whether the function divides by its second argument.
BINARY = {
    "add": (np.add, False),
    "sub": (np.subtract, False),
    "mul": (np.multiply, False),
    "eq": (np.equal, False),
    "ne": (np.not_equal, False),
    "lt": (np.less, False),
    "le": (np.less_equal, False),
    "gt": (np.greater, False),
    "ge": (np.greater_equal, False),
    "min": (np.minimum, False),
    "max": (np.maximum, False),
    "and": (np.bitwise_and, False),
    "or": (np.bitwise_or, False),
    "xor": (np.bitwise_xor, False),
    "shl": (torch_op(torch.bitwise_left_shift), False),
    "shr": (torch_op(torch.bitwise_right_shift), False),
    "pow": (torch_op(torch.pow), False),
    "gcd": (torch_op(torch.gcd), False),
    "lcm": (torch_op(torch.lcm), False),
    "div_trunc": (trunc, True),
    "div_floor": (np.floor_divide, True),
    "fmod": (np.fmod, True),
    "remainder": (np.remainder, True),
}
BINARY_UNSIGNED = {
    "lt": (np.less, False),
    "le": (np.less_equal, False),
    "gt": (np.greater, False),
    "ge": (np.greater_equal, False),
    "min": (np.minimum, False),
    "max": (np.maximum, False),
    "div": (np.floor_divide, True),
    "rem": (np.remainder, True),
    "shl": (lambda a, b: np.where(b < a.itemsize * 8, np.left_shift(a, b), 0).astype(a.dtype), False),
    "shr": (lambda a, b: np.where(b < a.itemsize * 8, np.right_shift(a, b), 0).astype(a.dtype), False),
    "gcd": (np.gcd, False),
    "lcm": (np.lcm, False),
    "pow": (np.power, False),
    "mul_hi": (
        lambda a, b: np.array([(int(x) * int(y)) >> 64 for x, y in zip(a, b, strict=True)], dtype=np.uint64),
        False,
    ),
}
UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "not": np.invert,
    "sign": np.sign,
}
RESULT_BOOL = {"eq", "ne", "lt", "le", "gt", "ge", "to_bool"}


def run_binary(name: str, kind: str, a: np.ndarray, b: np.ndarray, reference, divides: bool) -> None:
    if name.split("_", 1)[1] == "lcm" and a.dtype.kind == "i":
        # torch divides by the gcd, which is -1 for some pairs with MIN: MIN / -1 traps on x86.
        keep = (a != np.iinfo(a.dtype).min) & (b != np.iinfo(b.dtype).min)
        a, b = a[keep], b[keep]
    operation = name.split("_", 1)[1]
    result = "bool" if operation in RESULT_BOOL else kind
    got = call(f"{name}(a, b)", result, (kind, a), (kind, b))
    want = quiet(reference, a, b)
    if result == "bool":
        want = want.astype(np.uint32)
    elif a.dtype.itemsize == 8:
        got = got.view(a.dtype).ravel()
    else:
        got = got.view(a.dtype)
    assert want.dtype.itemsize == got.dtype.itemsize
    good = (got == want) | (divides & (b == 0))
    bad = np.flatnonzero(~good)
    assert bad.size == 0, [(int(a[i]), int(b[i]), int(got[i]), int(want[i])) for i in bad[:5]]


def defined(prefix: str, table) -> list[str]:
    return [f"{prefix}_{name}" for name in table if f"{prefix}_{name}" in library()]


@pytest.mark.parametrize("name", defined("i64", BINARY))
def test_i64_binary(name):
    run_binary(name, "vec2<u32>", A64, B64, *BINARY[name[4:]])


@pytest.mark.parametrize("name", defined("u64", BINARY_UNSIGNED))
def test_u64_binary(name):
    run_binary(name, "vec2<u32>", A64.view(np.uint64), B64.view(np.uint64), *BINARY_UNSIGNED[name[4:]])


@pytest.mark.parametrize("name", defined("n64", BINARY))
def test_n64_binary(name):
    if not has_int64():
        needs.missing("the adapter has no shader-int64")
    run_binary(name, "i64", A64, B64, *BINARY[name[4:]])


@pytest.mark.parametrize("name", defined("i32", BINARY))
def test_i32_binary(name):
    run_binary(name, "i32", A32, B32, *BINARY[name[4:]])


@pytest.mark.parametrize("name", defined("u32", BINARY_UNSIGNED))
def test_u32_binary(name):
    run_binary(name, "u32", A32.view(np.uint32), B32.view(np.uint32), *BINARY_UNSIGNED[name[4:]])


def test_every_family_is_complete():
    """The tests above take their names from the library; this one says which names it must have."""
    have = library()
    assert {f"i64_{name}" for name in [*BINARY, *UNARY]} <= have.keys()
    wanted = "div_floor remainder pow gcd lcm shl shr min max abs sign from_f32 to_f32".split()
    assert {f"n64_{name}" for name in wanted} <= have.keys()
    wanted = "div_floor div_trunc remainder fmod pow shl shr gcd lcm sign from_f32".split()
    assert {f"i32_{name}" for name in wanted} <= have.keys()
    assert {f"u64_{name}" for name in ("lt", "le", "gt", "ge", "div", "rem", "to_f32", "from_f32")} <= have.keys()


@pytest.mark.parametrize("name", [f"{p}_{n}" for p in ("i64", "n64", "i32") for n in UNARY if f"{p}_{n}" in library()])
def test_unary(name):
    prefix, operation = name.split("_")
    if prefix == "n64" and not has_int64():
        needs.missing("the adapter has no shader-int64")
    data, kind = {"i64": (A64, "vec2<u32>"), "n64": (A64, "i64"), "i32": (A32, "i32")}[prefix]
    got = call(f"{name}(a)", kind, (kind, data)).view(data.dtype).ravel()
    np.testing.assert_array_equal(got, quiet(UNARY[operation], data))


@pytest.mark.parametrize("name", ["abs", "sign", "min", "max"])
def test_naga_builtins_on_i64(name):
    """Kept to know whether the plain built-ins may be used; fails where a driver gets them wrong."""
    if not has_int64():
        needs.missing("the adapter has no shader-int64")
    expression = f"{name}(a)" if name in UNARY else f"{name}(a, b)"
    got = call(expression, "i64", ("i64", A64), ("i64", B64)).view(np.int64).ravel()
    want = quiet(UNARY[name], A64) if name in UNARY else BINARY[name][0](A64, B64)
    np.testing.assert_array_equal(got, want)


def test_division_by_zero_ends():
    """All ones, as CUDA gives; the CPU raises."""
    a = np.array(edges(64), dtype=np.int64)
    zero = np.zeros_like(a)
    for name in ("div_trunc", "fmod"):
        got = call(f"i64_{name}(a, b)", "vec2<u32>", ("vec2<u32>", a), ("vec2<u32>", zero)).view(np.int64).ravel()
        np.testing.assert_array_equal(got, np.full_like(a, -1))


def test_min_divided_by_minus_one():
    for kind, prefix, data in (("vec2<u32>", "i64", np.int64), ("i64", "n64", np.int64), ("i32", "i32", np.int32)):
        if prefix == "n64" and not has_int64():
            continue
        low, minus = np.array([np.iinfo(data).min], data), np.array([-1], data)
        for name, want in (("div_trunc", low), ("div_floor", low), ("remainder", [0]), ("fmod", [0])):
            got = call(f"{prefix}_{name}(a, b)", kind, (kind, low), (kind, minus)).view(data).ravel()
            np.testing.assert_array_equal(got, want, err_msg=f"{prefix}_{name}")


def test_fibonacci_gcd():
    """Consecutive Fibonacci numbers take the most steps."""
    a, b = [1], [1]
    while a[-1] + b[-1] <= MAX64:
        a.append(b[-1])
        b.append(a[-2] + b[-1])
    a64, b64 = np.array(a, dtype=np.int64), np.array(b, dtype=np.int64)
    got = call("i64_gcd(a, b)", "vec2<u32>", ("vec2<u32>", a64), ("vec2<u32>", b64)).view(np.int64).ravel()
    np.testing.assert_array_equal(got, [math.gcd(x, y) for x, y in zip(a, b, strict=True)])


def test_lcm_with_min():
    """Where torch's own division would trap, the result is still the wrapped product."""
    a = np.array([MIN64, MIN64, 3, MIN64, 0], dtype=np.int64)
    b = np.array([1, 3, MIN64, MIN64, MIN64], dtype=np.int64)
    got = call("i64_lcm(a, b)", "vec2<u32>", ("vec2<u32>", a), ("vec2<u32>", b)).view(np.int64).ravel()
    assert [int(x) for x in got[[0, 4]]] == [MIN64, 0]


FLOATS = np.concatenate(
    [
        np.array([0.0, -0.0, 0.5, -0.5, 0.99999994, -0.99999994, 1.0, 1.5, 2.5, np.nan, np.inf, -np.inf, 1e-45, 3e38]),
        *(np.ldexp([1.0, -1.0, 1.5, -1.5, 1.25, 2 - 2**-23, -2 + 2**-23], k) for k in range(-3, 70)),
        np.random.default_rng(1).uniform(-1, 1, 20000) * np.exp2(np.random.default_rng(2).uniform(-2, 70, 20000)),
    ]
).astype(np.float32)


def from_float(kind: torch.dtype) -> np.ndarray:
    """One element at a time: torch's vectorised conversion differs out of range from its own scalar one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array([torch.tensor(x).to(kind).item() for x in FLOATS.tolist()], dtype=str(kind)[6:])


@pytest.mark.parametrize("name", ["i64", "u64", "n64", "i32", "u32"])
def test_from_f32(name):
    if name == "n64" and not has_int64():
        needs.missing("the adapter has no shader-int64")
    kind = {"i64": "vec2<u32>", "u64": "vec2<u32>", "n64": "i64", "i32": "i32", "u32": "u32"}[name]
    dtype = {"i64": torch.int64, "u64": torch.uint64, "n64": torch.int64, "i32": torch.int32, "u32": torch.uint32}[name]
    got = call(f"{name}_from_f32(a)", kind, ("f32", FLOATS))
    want = from_float(dtype)
    got = got.view(want.dtype).ravel()
    bad = np.flatnonzero(got != want)
    assert bad.size == 0, [(FLOATS[i], int(got[i]), int(want[i])) for i in bad[:5]]


def halfway() -> np.ndarray:
    """Integers at, just below and just above the middle of two floats, at every magnitude."""
    values = []
    for shift in range(1, 40):
        for mantissa in (0x800000, 0x800001, 0xFFFFFE, 0xFFFFFF, 0xABCDEF, 0xABCDEE):
            middle = (mantissa << shift) + (1 << (shift - 1))
            values += [middle - 1, middle, middle + 1]
    values = [v for v in values if v <= MAX64]
    return np.array(values + [-v for v in values], dtype=np.int64)


@pytest.mark.parametrize("name", ["i64", "u64", "n64"])
def test_to_f32_is_correctly_rounded(name):
    if name == "n64" and not has_int64():
        needs.missing("the adapter has no shader-int64")
    kind = "i64" if name == "n64" else "vec2<u32>"
    data = np.concatenate([A64, halfway()])
    if name == "u64":
        data = data.view(np.uint64)
    got = call(f"{name}_to_f32(a)", "f32", (kind, data)).view(np.float32)
    np.testing.assert_array_equal(got, data.astype(np.float32))


def test_words_and_narrow_conversions():
    a = A64.copy()
    words = a.view(np.uint32).reshape(-1, 2)
    np.testing.assert_array_equal(call("i64_to_i32(a)", "i32", ("vec2<u32>", a)), words[:, 0])
    np.testing.assert_array_equal(call("i64_to_bool(a)", "bool", ("vec2<u32>", a)), (a != 0).astype(np.uint32))
    got = call("i64_from_i32(a)", "vec2<u32>", ("i32", A32)).view(np.int64).ravel()
    np.testing.assert_array_equal(got, A32.astype(np.int64))
    got = call("i64_from_u32(a)", "vec2<u32>", ("u32", A32)).view(np.int64).ravel()
    np.testing.assert_array_equal(got, A32.view(np.uint32).astype(np.int64))
    if has_int64():
        np.testing.assert_array_equal(call("n64_lo(a)", "u32", ("i64", a)), words[:, 0])
        np.testing.assert_array_equal(call("n64_hi(a)", "u32", ("i64", a)), words[:, 1])
        np.testing.assert_array_equal(call("n64_load(a.x, a.y)", "i64", ("vec2<u32>", a)), words)


def test_u32_mul_wide():
    a, b = A32.view(np.uint32), B32.view(np.uint32)
    for name in ("u32_mul_wide", "n64_mul_wide") if has_int64() else ("u32_mul_wide",):
        got = call(f"{name}(a, b)", "vec2<u32>", ("u32", a), ("u32", b)).view(np.uint64).ravel()
        np.testing.assert_array_equal(got, a.astype(np.uint64) * b.astype(np.uint64))
