"""The random generator against its published vectors, and its distributions against their laws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests import needs
from tests.device._wgsl import call, device

N = 40000
KEY = "vec2<u32>(0x1234567u, 0x89abcdeu)"

# Random123's kat_vectors, "philox4x32 10": counter, key, result.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def reference(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    c = [counter[:, k].astype(np.uint64) for k in range(4)]
    k0, k1 = (key[:, k].astype(np.uint64) for k in range(2))
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(q >> np.uint64(32)) ^ c[1] ^ k0, q & low, (p >> np.uint64(32)) ^ c[3] ^ k1, p & low]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack(c, 1).astype(np.uint32)


def words(count: int = N) -> tuple[np.ndarray, np.ndarray]:
    """Random words with the extremes in front."""
    data = np.random.default_rng(5).integers(0, 2**32, (2, count), dtype=np.uint32)
    edge = [0, 1, 255, 256, 0xFFFFFE, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFF00, 0xFFFFFFFF]
    data[0, : len(edge)] = edge
    data[1, len(edge) : 2 * len(edge)] = edge
    return data[0], data[1]


def sample(expression: str, *arguments: tuple[str, np.ndarray], count: int = N) -> np.ndarray:
    """One draw per element from `expression`, whose counter is `base` and whose key is `key`."""
    index = np.arange(count, dtype=np.uint32)
    text = expression.replace("base", "vec4<u32>(a, 0u, 0u, 0u)").replace("key", KEY)
    return call(text, "f32", ("u32", index), *arguments).view(np.float32)


def uniform_words(seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**32, N, dtype=np.uint32)


def check_continuous(values: np.ndarray, cdf) -> None:
    """Kolmogorov-Smirnov; the bound is exceeded once in ten thousand."""
    p = np.asarray(cdf(np.sort(values.astype(np.float64))))
    steps = np.arange(len(values) + 1) / len(values)
    distance = max(np.max(p - steps[:-1]), np.max(steps[1:] - p))
    assert distance * np.sqrt(len(values)) < 2.23, distance


def check_discrete(values: np.ndarray, pmf) -> None:
    """Chi-square over cells of at least 20 expected draws, the tails together."""
    assert np.all(values == np.floor(values)) and values.min() >= 0
    top = int(values.max()) + 2
    expected = np.asarray(pmf(np.arange(top, dtype=np.float64))) * len(values)
    seen = np.bincount(values.astype(np.int64), minlength=top).astype(np.float64)
    cells: list[list[float]] = [[0.0, 0.0]]
    for e, s in zip(expected, seen, strict=True):
        cells[-1][0] += e
        cells[-1][1] += s
        if cells[-1][0] >= 20:
            cells.append([0.0, 0.0])
    table = np.array(cells)
    table[-1, 0] += len(values) - table[:, 0].sum()
    if table[-1, 0] < 5:
        table[-2] += table[-1]
        table = table[:-1]
    freedom = len(table) - 1
    if freedom == 0:
        return
    chi2 = np.sum((table[:, 1] - table[:, 0]) ** 2 / table[:, 0])
    # The normal approximation of Wilson and Hilferty, four standard deviations.
    z = ((chi2 / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))
    assert z < 4, (chi2, freedom)


def test_known_answers():
    counter = np.array([c for c, _, _ in KNOWN], dtype=np.uint32)
    key = np.array([k for _, k, _ in KNOWN], dtype=np.uint32)
    got = call("philox(a, b)", "vec4<u32>", ("vec4<u32>", counter), ("vec2<u32>", key))
    np.testing.assert_array_equal(got, np.array([r for _, _, r in KNOWN], dtype=np.uint32))


def test_random_counters():
    rng = np.random.default_rng(1)
    counter = rng.integers(0, 2**32, (N, 4), dtype=np.uint32)
    key = rng.integers(0, 2**32, (N, 2), dtype=np.uint32)
    got = call("philox(a, b)", "vec4<u32>", ("vec4<u32>", counter), ("vec2<u32>", key))
    np.testing.assert_array_equal(got, reference(counter, key))


def test_advance_carries():
    counter = np.array([[0xFFFFFFFF, 7, 1, 2], [5, 0xFFFFFFFF, 3, 4]], dtype=np.uint32)
    offset = np.array([[1, 0], [0xFFFFFFFF, 0]], dtype=np.uint32)
    got = call("philox_advance(a, b)", "vec4<u32>", ("vec4<u32>", counter), ("vec2<u32>", offset))
    np.testing.assert_array_equal(got, np.array([[0, 8, 1, 2], [4, 0, 3, 4]], dtype=np.uint32))


def test_uniforms_are_exact():
    x, y = words()
    wide = x.astype(np.float64)
    got = call("philox_uniform_f32(a)", "f32", ("u32", x)).view(np.float32)
    np.testing.assert_array_equal(got, np.floor(wide / 256) * 2.0**-24)
    assert got.min() == 0.0 and got.max() == np.float32(1 - 2**-24)
    got = call("philox_open_f32(a)", "f32", ("u32", x)).view(np.float32)
    np.testing.assert_array_equal(got, np.floor(wide / 256 + 1) * 2.0**-24)
    assert got.min() == np.float32(2**-24) and got.max() == 1.0
    got = call("philox_tail_f32(a)", "f32", ("u32", x)).view(np.float32)
    assert got.min() == np.float32(2**-32) and got.max() == 1.0
    assert np.all(np.diff(got[np.argsort(x, kind="stable")]) >= 0)
    np.testing.assert_allclose(got, (wide + 1) * 2.0**-32, rtol=2**-15)
    got = call("philox_bits53(a, b)", "vec2<u32>", ("u32", x), ("u32", y)).view(np.uint64).ravel()
    np.testing.assert_array_equal(got, ((y.astype(np.uint64) << np.uint64(32)) | x) >> np.uint64(11))


@pytest.mark.parametrize("n", [1, 2, 3, 10, 255, 1000, 2**16 + 1, 2**31 - 1, 2**31, 2**32 - 1])
def test_below_u32(n):
    x, _ = words()
    got = call("philox_below_u32(a, b)", "u32", ("u32", x), ("u32", np.full(N, n, np.uint32)))
    np.testing.assert_array_equal(got, (x.astype(np.uint64) * np.uint64(n)) >> np.uint64(32))
    assert got.max() < n


def test_below_u64():
    x, y = words()
    rng = np.random.default_rng(9)
    n = rng.integers(1, 2**64 - 1, N, dtype=np.uint64) >> rng.integers(0, 63, N, dtype=np.uint64)
    n = np.maximum(n, 1)
    got = (
        call("philox_below_u64(a, b, c)", "vec2<u32>", ("u32", x), ("u32", y), ("vec2<u32>", n)).view(np.uint64).ravel()
    )
    want = [((int(hi) << 32 | int(lo)) * int(m)) >> 64 for lo, hi, m in zip(x, y, n, strict=True)]
    np.testing.assert_array_equal(got, np.array(want, dtype=np.uint64))
    assert np.all(got < n)


def test_normal_follows_box_muller():
    x, y = words()
    got = call("philox_normal2(a, b)", "vec2<f32>", ("u32", x), ("u32", y)).view(np.float32).astype(np.float64)
    tail = np.where(x < 0xFFFFFF, (x.astype(np.float64) + 1) * 2.0**-32, ((x >> np.uint32(8)) + 1.0) * 2.0**-24)
    radius = np.sqrt(-2 * np.log(tail))
    angle = 2 * np.pi * ((y >> np.uint32(8)) * 2.0**-24)
    want = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=3e-6)


def test_normal_is_normal():
    x, y = uniform_words(1), uniform_words(2)
    got = call("philox_normal2(a, b)", "vec2<f32>", ("u32", x), ("u32", y)).view(np.float32)
    for column in (got[:, 0], got[:, 1]):
        check_continuous(column, lambda v: torch.special.ndtr(torch.from_numpy(v)).numpy())
    assert abs(np.corrcoef(got.T)[0, 1]) < 0.02


def test_exponential_and_friends():
    x = uniform_words()
    value = call("philox_exponential(a, 2.5)", "f32", ("u32", x)).view(np.float32)
    check_continuous(value, lambda v: -np.expm1(-2.5 * v))
    value = call("philox_cauchy(a, 1.0, 2.0)", "f32", ("u32", x)).view(np.float32)
    check_continuous(value, lambda v: 0.5 + np.arctan((v - 1) / 2) / np.pi)
    value = call("philox_log_normal(philox_normal2(a, b).x, 0.5, 0.25)", "f32", ("u32", x), ("u32", x[::-1])).view(
        np.float32
    )
    check_continuous(value, lambda v: torch.special.ndtr(torch.from_numpy((np.log(v) - 0.5) / 0.25)).numpy())
    for p in (0.01, 0.3, 0.9):
        value = call("philox_geometric(a, b)", "f32", ("u32", x), ("f32", np.full(N, p, np.float32))).view(np.float32)
        assert value.min() >= 1
        check_discrete(value, lambda k, p=p: np.where(k >= 1, p * (1 - p) ** (k - 1), 0.0))


def test_extremes_stay_in_range():
    x, _ = words()
    value = call("philox_exponential(a, 1.0)", "f32", ("u32", x)).view(np.float32)
    assert value.min() > 0 and np.isfinite(value).all()
    value = call("philox_cauchy(a, 0.0, 1.0)", "f32", ("u32", x)).view(np.float32)
    assert np.isfinite(value).all()
    value = call("philox_geometric(a, 0.5)", "f32", ("u32", x)).view(np.float32)
    assert value.min() == 1 and np.isfinite(value).all()


@pytest.mark.parametrize("p", [0.0, 0.25, 0.999, 1.0])
def test_bernoulli(p):
    value = call("philox_bernoulli(a, b)", "bool", ("u32", uniform_words()), ("f32", np.full(N, p, np.float32)))
    assert abs(value.mean() - p) <= 4 * np.sqrt(p * (1 - p) / N)


def test_log_probabilities():
    """The terms of lgamma would cancel: at a mean of 1e6 the direct f32 formula is off by whole units."""
    rng = np.random.default_rng(6)
    mean = np.exp(rng.uniform(np.log(10), np.log(1e6), N)).astype(np.float32)
    k = np.maximum(np.floor(mean + 4 * rng.standard_normal(N) * np.sqrt(mean)), 0).astype(np.float32)
    k[:100], mean[:100] = np.arange(100) % 12, 11.5
    got = call("philox_poisson_log_pmf(a, b)", "f32", ("f32", k), ("f32", mean)).view(np.float32)
    law = torch.distributions.Poisson(torch.from_numpy(mean.astype(np.float64)))
    np.testing.assert_allclose(got, law.log_prob(torch.from_numpy(k.astype(np.float64))).numpy(), rtol=1e-5, atol=1e-5)

    p = rng.uniform(0.001, 0.5, N).astype(np.float32)
    n = np.ceil(mean / p).astype(np.float32)
    expected = n.astype(np.float64) * p
    k = np.floor(expected + 3 * rng.standard_normal(N) * np.sqrt(expected * (1 - p)))
    k = np.clip(k, 0, n).astype(np.float32)
    k[:100], n[:100] = np.arange(100) % 20, 19
    arguments = [("f32", x) for x in (k, n, p)]
    got = call("philox_binomial_log_pmf(a, b, c, 1.0 - c)", "f32", *arguments).view(np.float32)
    count, k, p = (torch.from_numpy(x.astype(np.float64)) for x in (n, k, p))
    # Rounding n p and n (1 - p) to f32 moves the mean by up to an ulp, against a deviation of sqrt(n p).
    want = torch.special.xlogy(k, p) + torch.special.xlog1py(count - k, -p)
    want += torch.lgamma(count + 1) - torch.lgamma(k + 1) - torch.lgamma(count - k + 1)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("shape", [0.01, 0.1, 0.5, 0.999, 1.0, 1.5, 3.0, 10.0, 1000.0, 1e5])
def test_gamma(shape):
    value = sample("philox_gamma(b, base, key)", ("f32", np.full(N, shape, np.float32)))
    exact = float(np.float32(shape))
    assert value.min() >= np.finfo(np.float32).tiny

    def cdf(v):
        return torch.special.gammainc(torch.full((len(v),), exact, dtype=torch.float64), torch.from_numpy(v)).numpy()

    if shape == 0.01:
        # Four draws in ten are below the smallest float and sit on the clamp: their logarithms carry the law.
        value = sample("philox_log_gamma(b, base, key)", ("f32", np.full(N, shape, np.float32)))
        assert np.isfinite(value).all()
        log_factor = float(torch.lgamma(torch.tensor(exact + 1, dtype=torch.float64)))
        small = value[value < -20]
        check_continuous(small, lambda v: np.exp(exact * v - log_factor) / np.exp(exact * -20 - log_factor))
        return
    check_continuous(value, cdf)


def test_gamma_of_zero():
    assert np.all(sample("philox_gamma(b, base, key)", ("f32", np.zeros(64, np.float32)), count=64) == 0)


@pytest.mark.parametrize("mean", [0.1, 1.0, 5.0, 9.99, 10.0, 12.0, 50.0, 300.0, 1e4])
def test_poisson(mean):
    value = sample("philox_poisson(b, base, key)", ("f32", np.full(N, mean, np.float32)))
    exact = float(np.float32(mean))
    check_discrete(value, lambda k: torch.exp(torch.distributions.Poisson(exact).log_prob(torch.from_numpy(k))).numpy())


@pytest.mark.parametrize("mean", [1e6, 1e8])
def test_poisson_of_large_means_is_near_normal(mean):
    value = sample("philox_poisson(b, base, key)", ("f32", np.full(N, mean, np.float32))).astype(np.float64)
    z = (value + 0.5 - mean) / np.sqrt(mean)
    check_continuous(z, lambda v: torch.special.ndtr(torch.from_numpy(v)).numpy())


def test_poisson_of_special_means():
    value = sample("philox_poisson(b, base, key)", ("f32", np.array([0, np.nan, 1e-30, 3e38], np.float32)), count=4)
    assert value[0] == 0 and np.isnan(value[1]) and value[2] == 0 and np.isfinite(value[3])


@pytest.mark.parametrize(
    ("count", "p"),
    [
        (1, 0.3),
        (10, 0.5),
        (7, 0.9),
        (20, 0.5),
        (40, 0.25),
        (100, 0.01),
        (100, 0.8),
        (1000, 0.4),
        (10000, 0.999),
        (50000, 0.5),
    ],
)
def test_binomial(count, p):
    value = sample(
        "philox_binomial(b, c, base, key)",
        ("f32", np.full(N, count, np.float32)),
        ("f32", np.full(N, p, np.float32)),
    )
    assert value.max() <= count
    law = torch.distributions.Binomial(
        count, torch.tensor(float(np.float32(p)), dtype=torch.float64), validate_args=False
    )

    def pmf(k):
        k = torch.from_numpy(k)
        return torch.where(k <= count, torch.exp(law.log_prob(k.clamp(max=count))), 0.0).numpy()

    check_discrete(value, pmf)


def test_binomial_of_special_arguments():
    count = np.array([0, 10, 10, 10, -1, 10], np.float32)
    p = np.array([0.5, 0, 1, np.nan, 0.5, 1e-30], np.float32)
    value = sample("philox_binomial(b, c, base, key)", ("f32", count), ("f32", p), count=6)
    assert value[[0, 1, 2, 4, 5]].tolist() == [0, 0, 10, 0, 0] and np.isnan(value[3])


def test_uniform_f64():
    if "shader-f64" not in device().features:
        needs.missing("the adapter has no shader-f64")
    x, y = words()
    # The high and low parts of the result as f32 pairs would round; scaled back it is an integer of 53 bits.
    text = "vec2<u32>(u32(philox_uniform_f64(a, b) * 2097152.0lf), 0u)"
    got = call(text, "vec2<u32>", ("u32", x), ("u32", y))[:, 0]
    np.testing.assert_array_equal(got, y >> np.uint32(11))
