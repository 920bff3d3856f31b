"""Complex functions of the WGSL library against torch on the CPU: special values, branch cuts, accuracy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.device._wgsl import call, keeps_denormals

N = 10000
ULP = 2.0**-24

UNARY = {
    name: getattr(torch, name)
    for name in (
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sigmoid sgn "
        "sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh"
    ).split()
}
UNARY["recip"] = torch.reciprocal
UNARY["neg"] = torch.neg
UNARY["conj"] = torch.conj_physical

# Zeros, infinities and NaN with both signs, values on the branch cuts, and values near overflow and underflow.
PARTS = [0.0, 1.0, 0.5, 2.0, 3.0, 50.0, 89.0, 100.0, 1e-20, 1e20, 3e38, 1e-40, np.inf]
PARTS = np.array([*PARTS, *(-v for v in PARTS), np.nan], dtype=np.float32)


def flush(x: np.ndarray) -> np.ndarray:
    """Where the adapter flushes denormals, values next to them may be 0, and signs of zeros are lost on the way."""
    if keeps_denormals():
        return x
    return np.where(np.abs(x) < 1e-36, np.float32(0), x)


def grid(parts: np.ndarray) -> np.ndarray:
    parts = parts[np.isnan(parts) | (flush(parts) == parts)]
    x, y = np.meshgrid(parts, parts)
    return np.stack([x.ravel(), y.ravel()], 1).view(np.complex64).ravel()


def samples() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def normal(scale: float) -> np.ndarray:
        return scale * (rng.standard_normal(N) + 1j * rng.standard_normal(N))

    def spread() -> np.ndarray:
        return np.exp2(rng.uniform(-30, 30, N)) * rng.choice([-1, 1], N)

    circle = np.exp(1j * rng.uniform(-np.pi, np.pi, N)) * (1 + rng.uniform(-1, 1, N) * np.exp2(rng.uniform(-24, -1, N)))
    near = rng.choice([1, -1, 1j, -1j], N) + normal(1.0) * np.exp2(rng.uniform(-20, -2, N))
    sets = {"normal": normal(1), "wide": normal(8), "tiny": normal(1e-3), "circle": circle, "near": near}
    sets["spread"] = spread() + 1j * spread()
    return {name: value.astype(np.complex64) for name, value in sets.items()}


SAMPLES = samples()


def run(expression: str, *arguments: np.ndarray) -> np.ndarray:
    return call(expression, "vec2<f32>", *(("vec2<f32>", a) for a in arguments)).view(np.complex64).ravel()


def parts(z: np.ndarray) -> np.ndarray:
    return z.view(np.float32).reshape(len(z), -1)


def kind(x: np.ndarray, signed: bool = True) -> np.ndarray:
    """NaN, infinite, zero or other, with the sign unless NaN."""
    code = np.where(np.isnan(x), 8, np.where(np.isinf(x), 4, np.where(x == 0, 0, 2)))
    return code + (np.signbit(x) & ~np.isnan(x)) if signed else code


def check_special(z: tuple[np.ndarray, ...], got: np.ndarray, want: np.ndarray, signed: bool = True) -> None:
    got, want = flush(got), flush(want)
    finite = np.isfinite(got) & np.isfinite(want)
    with np.errstate(all="ignore"):
        bad = (kind(got, signed) != kind(want, signed)) | (finite & ~np.isclose(got, want, rtol=1e-5, atol=1e-37))
    rows = np.flatnonzero(bad.any(1))
    assert rows.size == 0, [(*(a[i] for a in z), got[i], want[i]) for i in rows[:5]]


def special(name: str) -> np.ndarray:
    """What torch on the CPU computes as C99 does."""
    z = grid(PARTS)
    if name == "neg":
        # torch computes 0 - z, which loses the sign of a zero.
        z = z[(z.real != 0) & (z.imag != 0)]
    if name == "log1p":
        # torch's CPU kernel scales by z / ((z + 1) - 1), which is NaN for these; the values here are C99's log(1 + z).
        lost = (np.abs(z.real) < 1e-7) & (z.real != 0) & ((np.abs(z.imag) < 1e-39) | np.isinf(z.imag))
        lost |= (np.isnan(z.real) & np.isinf(z.imag)) | (np.isinf(z.real) & np.isnan(z.imag))
        lost |= (z.real == 0) & (np.abs(z.imag) < 1e-39)
        z = z[~lost]
    if name == "recip":
        # The inverse overflows: torch multiplies it by 0 and gets NaN, here a quotient stays 0.
        z = z[(np.abs(z) >= 1e-38) | (z == 0) | np.isnan(z)]
    return z


@pytest.mark.parametrize("name", UNARY)
def test_special_values(name):
    z = special(name)
    got = parts(run(f"c64_{name}(a)", z))
    want = parts(UNARY[name](torch.from_numpy(z)).numpy())
    check_special((z,), got, want)


def test_special_values_of_log1p_that_torch_loses():
    z = np.array([complex(1e-20, np.inf), complex(1e-20, 1e-40), complex(np.inf, np.nan)], dtype=np.complex64)
    got = parts(run("c64_log1p(a)", z))
    want = np.array([[np.inf, np.pi / 2], [1e-20, 1e-40], [np.inf, np.nan]], dtype=np.float32)
    check_special((z,), got, want)


@pytest.mark.parametrize("name", ["abs", "angle"])
def test_special_values_of_real_results(name):
    z = grid(PARTS)
    got = call(f"c64_{name}(a)", "f32", ("vec2<f32>", z)).view(np.float32)
    want = getattr(torch, name)(torch.from_numpy(z)).numpy()
    check_special((z,), got[:, None], want[:, None])


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("where", SAMPLES)
def test_accuracy(name, where):
    check_accuracy(name, where, lambda z: run(f"c64_{name}(a)", z), 3)


def check_accuracy(name: str, where: str, evaluate, factor: float) -> None:
    """The error relative to the magnitude, against complex128, bounded by torch's own error."""
    z = SAMPLES[where]
    exact = UNARY[name](torch.from_numpy(z.astype(np.complex128))).numpy()
    theirs = UNARY[name](torch.from_numpy(z)).numpy()
    ours = evaluate(z)
    size = np.abs(exact)
    keep = (size < 1e38) & (size > (1e-36 if keeps_denormals() else 1e-28)) & np.isfinite(theirs)
    if name == "sigmoid":
        keep &= size < 10  # near its poles 1 + exp(-z) cancels, in torch as here
    assert keep.mean() > 0.2
    with np.errstate(all="ignore"):
        error = (np.abs(ours.astype(np.complex128) - exact) / size)[keep] / ULP
        their_error = (np.abs(theirs.astype(np.complex128) - exact) / size)[keep] / ULP
    worst = int(np.argmax(error))
    assert error[worst] <= factor * their_error.max() + 4, (z[keep][worst], error[worst], their_error.max())


def test_log_keeps_small_real_parts():
    """Near the unit circle the real part cancels: its absolute error stays far below an ulp of 1."""
    z = SAMPLES["circle"]
    exact = np.log(z.astype(np.complex128)).real
    got = run("c64_log(a)", z).real
    assert np.max(np.abs(got - exact) - 4 * ULP * np.abs(exact)) < 2.0**-34


BINARY = {"mul": torch.mul, "div": torch.div}


def special_pairs(name: str) -> list[np.ndarray]:
    some = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan], dtype=np.float32)
    # Products and sums near overflow depend on fused multiply-add; a large divisor does only if its inverse is flushed.
    large = np.array([*some, 3e38 if keeps_denormals() else 1e35], dtype=np.float32)
    return [x.ravel() for x in np.meshgrid(grid(some), grid(large if name == "div" else some))]


@pytest.mark.parametrize("name", BINARY)
def test_binary_special_values(name):
    a, b = special_pairs(name)
    got = parts(run(f"c64_{name}(a, b)", a, b))
    want = parts(BINARY[name](torch.from_numpy(a), torch.from_numpy(b)).numpy())
    check_special((a, b), got, want)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("where", ["normal", "wide", "circle", "spread"])
def test_binary_accuracy(name, where):
    a = SAMPLES[where]
    b = np.roll(a, 1)
    exact = BINARY[name](torch.from_numpy(a.astype(np.complex128)), torch.from_numpy(b.astype(np.complex128))).numpy()
    got = run(f"c64_{name}(a, b)", a, b)
    assert np.max(np.abs(got - exact) / np.abs(exact)) < 6 * ULP


def test_add_and_sub():
    a, b = SAMPLES["wide"], SAMPLES["normal"]
    np.testing.assert_array_equal(run("c64_add(a, b)", a, b), a + b)
    np.testing.assert_array_equal(run("c64_sub(a, b)", a, b), a - b)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_pow_accuracy(scale):
    """The error grows with |b log a|, in torch as here."""
    a, b = SAMPLES["normal"] * np.float32(scale), np.roll(SAMPLES["normal"], 7) * np.float32(scale)
    wide = torch.from_numpy(a.astype(np.complex128)), torch.from_numpy(b.astype(np.complex128))
    exact = torch.pow(*wide).numpy()
    growth = np.abs((wide[1] * torch.log(wide[0])).numpy())
    got = run("c64_pow(a, b)", a, b)
    keep = (np.abs(exact) < 1e38) & (np.abs(exact) > 1e-36)
    error = np.abs(got.astype(np.complex128) - exact)[keep] / np.abs(exact)[keep] / ULP
    assert np.max(error - 4 * growth[keep]) < 6


def test_pow_special_values():
    """NaN and infinities in the same places; the phase of huge exponents is rounding noise and not compared."""
    some = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, -0.5], dtype=np.float32)
    a, b = (x.ravel() for x in np.meshgrid(grid(some), grid(some)))
    got = parts(run("c64_pow(a, b)", a, b))
    want = parts(torch.pow(torch.from_numpy(a), torch.from_numpy(b)).numpy())
    for test in (np.isnan, np.isinf):
        rows = np.flatnonzero((test(got) != test(want)).any(1))
        assert rows.size == 0, [(a[i], b[i], got[i], want[i]) for i in rows[:5]]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_predicates():
    a = grid(PARTS)
    b = np.roll(a, 3)
    b[::2] = a[::2]
    for name, want in (("eq", a == b), ("ne", a != b)):
        got = call(f"c64_{name}(a, b)", "bool", ("vec2<f32>", a), ("vec2<f32>", b))
        np.testing.assert_array_equal(got, want.astype(np.uint32))
    tests = {"isnan": np.isnan(a), "isinf": np.isinf(a), "isfinite": np.isfinite(a), "to_bool": a.astype(bool)}
    for name, want in tests.items():
        got = call(f"c64_{name}(a)", "bool", ("vec2<f32>", a))
        np.testing.assert_array_equal(got, want.astype(np.uint32), err_msg=name)


def test_polar():
    rng = np.random.default_rng(4)
    r, angle = rng.uniform(0, 10, N).astype(np.float32), rng.uniform(-20, 20, N).astype(np.float32)
    got = call("c64_polar(a, b)", "vec2<f32>", ("f32", r), ("f32", angle)).view(np.complex64).ravel()
    want = torch.polar(torch.from_numpy(r), torch.from_numpy(angle)).numpy()
    assert np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-30)) < 5 * ULP
