"""Random numbers: the law of each distribution, torch's errors, and streams that a seed decides."""

import copy
import math
import pickle

import pytest
import torch
from torch.nn import functional as F

D = "webgpu"
N = 20011  # odd: the last group of four is not whole
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(20)


def close(values: torch.Tensor, mean: float, std: float) -> None:
    """The mean within five standard errors, the deviation within 5 %."""
    values = values.cpu().double()
    assert abs(values.mean().item() - mean) < 5 * std / math.sqrt(values.numel())
    assert abs(values.std().item() / std - 1) < 0.05


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype):
    x = torch.rand(N, device=D, dtype=dtype).cpu().double()
    assert 0 <= x.min() and x.max() < 1
    close(x, 0.5 - {torch.bfloat16: 2**-9}.get(dtype, 0), math.sqrt(1 / 12))
    y = torch.empty(N, device=D, dtype=dtype).uniform_(-3, 5)
    close(y, 1 - {torch.bfloat16: 2**-7}.get(dtype, 0), 8 * math.sqrt(1 / 12))


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal(dtype):
    close(torch.randn(N, device=D, dtype=dtype), 0, 1)
    close(torch.empty(N, device=D, dtype=dtype).normal_(3, 0.5), 3, 0.5)


def test_normal_of_complex_numbers():
    z = torch.randn(N, device=D, dtype=torch.complex64).cpu()
    close(z.real, 0, math.sqrt(0.5))
    close(z.imag, 0, math.sqrt(0.5))


def test_float64_where_the_adapter_has_it():
    if torch.float64 not in torch.webgpu.get_device_capability()["supported_dtypes"]:
        with pytest.raises(TypeError, match="float64"):
            torch.rand(4, device=D, dtype=torch.float64)
        return
    x = torch.rand(N, device=D, dtype=torch.float64).cpu()
    close(x, 0.5, math.sqrt(1 / 12))
    assert (x.float().double() != x).any(), "more bits than a float holds"


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, *FLOATS],
)
def test_whole_numbers(dtype):
    x = torch.empty(N, device=D, dtype=dtype).random_().cpu().double()
    top = {torch.bool: 1, torch.float32: 2**24, torch.float16: 2**11, torch.bfloat16: 2**8}.get(dtype)
    top = torch.iinfo(dtype).max if top is None else top
    assert x.min() >= 0 and x.max() <= top
    close(x / top, 0.5, math.sqrt(1 / 12) if top > 1 else 0.5)


def test_ranges_are_covered_evenly():
    x = torch.randint(-3, 4, (N,), device=D).cpu()
    counts = torch.bincount(x + 3, minlength=7)
    assert counts.numel() == 7 and (counts - N / 7).abs().max() < 6 * math.sqrt(N / 7)


def test_wide_ranges():
    x = torch.empty(N, dtype=torch.int64, device=D).random_(-(2**62), 2**62).cpu()
    assert x.min() >= -(2**62) and x.max() < 2**62
    assert x.min() < -(2**61) and x.max() > 2**61
    full = torch.empty(N, dtype=torch.int64, device=D).random_(-(2**63), None).cpu()
    assert (full < -(2**62)).any() and (full > 2**62).any()
    assert (full & 0xFFFF).unique().numel() > 10000, "the low bits are random too"


def test_other_distributions():
    close(torch.empty(N, device=D).exponential_(2.0), 0.5, 0.5)
    close(torch.empty(N, device=D, dtype=torch.int64).geometric_(0.25), 4, math.sqrt(12))
    close(torch.empty(N, device=D).log_normal_(0.2, 0.5).log(), 0.2, 0.5)
    close(torch.empty(N, device=D).cauchy_(1, 2).sub(1).div(2).atan(), 0, math.pi / math.sqrt(12))
    close(torch.empty(N, device=D, dtype=torch.int16).bernoulli_(0.3), 0.3, math.sqrt(0.21))
    close(torch.bernoulli(torch.full((N,), 0.7, device=D)), 0.7, math.sqrt(0.21))
    close(torch.poisson(torch.full((N,), 3.0, device=D)), 3, math.sqrt(3))
    close(torch.poisson(torch.full((N,), 300.0, device=D)), 300, math.sqrt(300))
    close(torch._standard_gamma(torch.full((N,), 2.5, device=D)), 2.5, math.sqrt(2.5))
    count, chance = torch.full((N,), 30.0, device=D), torch.full((1,), 0.2, device=D)
    close(torch.binomial(count, chance), 6, math.sqrt(4.8))


def test_parameters_per_element():
    p = torch.tensor([0.0, 0.25, 1.0], device=D).expand(5000, 3)
    means = torch.bernoulli(p).cpu().mean(0)
    assert means[0] == 0 and means[2] == 1 and abs(means[1] - 0.25) < 0.04
    mean = torch.tensor([-5.0, 5.0], device=D).expand(5000, 2)
    assert torch.allclose(torch.normal(mean, 0.5).cpu().mean(0), torch.tensor([-5.0, 5.0]), atol=0.05)
    std = torch.tensor([0.1, 2.0], device=D).expand(5000, 2)
    assert torch.allclose(torch.normal(1.0, std).cpu().std(0), torch.tensor([0.1, 2.0]), rtol=0.1)
    assert torch.allclose(torch.normal(mean, std).cpu().std(0), torch.tensor([0.1, 2.0]), rtol=0.1)
    assert torch.normal(mean.half(), std.half()).dtype == torch.float16


def test_dirichlet_sums_to_one():
    x = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 3.0], device=D).expand(4000, 3)).cpu()
    assert torch.allclose(x.sum(1), torch.ones(4000))
    assert torch.allclose(x.mean(0), torch.tensor([1 / 6, 2 / 6, 3 / 6]), atol=0.02)


def test_permutations():
    for n in (0, 1, 2, 1000, 5000):
        assert torch.equal(torch.randperm(n, device=D).cpu().sort()[0], torch.arange(n))
    assert torch.randperm(5, device=D, dtype=torch.int32).dtype == torch.int32
    firsts = torch.stack([torch.randperm(3, device=D) for _ in range(60)]).cpu()
    assert {tuple(row) for row in firsts.tolist()} == set(map(tuple, _permutations(3)))


def _permutations(n):
    from itertools import permutations

    return permutations(range(n))


def test_multinomial():
    weights = torch.tensor([0.0, 1.0, 3.0], device=D)
    x = torch.multinomial(weights, N, replacement=True).cpu()
    share = torch.bincount(x, minlength=3) / N
    assert share[0] == 0 and abs(share[2] - 0.75) < 0.02
    rows = torch.multinomial(weights.expand(2000, 3), 1).cpu()
    assert rows.shape == (2000, 1) and abs((rows == 2).float().mean() - 0.75) < 0.05
    pairs = torch.multinomial(torch.ones(50, 4, device=D), 4).cpu().sort(1)[0]
    assert torch.equal(pairs, torch.arange(4).expand(50, 4))


def test_dropout():
    x = torch.full((N,), 2.0, device=D, requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    kept = y.detach().cpu() != 0
    close(kept, 0.75, math.sqrt(0.75 * 0.25))
    assert torch.allclose(y.detach().cpu()[kept], torch.tensor(2 / 0.75))
    assert torch.equal(x.grad.cpu() != 0, kept)
    assert torch.allclose(x.grad.cpu()[kept], torch.tensor(1 / 0.75))
    assert F.dropout(x, 1.0).cpu().abs().sum() == 0
    assert torch.equal(F.dropout(x, 0.5, training=False).cpu(), x.detach().cpu())
    image = torch.ones(2, 3, 4, 4, device=D).contiguous(memory_format=torch.channels_last)
    assert F.dropout(image, 0.5).is_contiguous(memory_format=torch.channels_last)
    part = torch.arange(21.0, device=D)[3:]
    out, mask = torch.native_dropout(part, 0.5, True)
    assert torch.equal(out.cpu(), part.cpu() * mask.cpu() * 2)


def test_random_slopes():
    x = torch.linspace(-1, 1, 1001, device=D, requires_grad=True)
    y = F.rrelu(x, 0.2, 0.4, training=True)
    y.sum().backward()
    slopes = (y / x).detach().cpu()
    below = x.detach().cpu() < 0
    assert (
        torch.allclose(slopes[x.detach().cpu() > 0], torch.ones(())) and (x.grad.cpu()[x.detach().cpu() > 0] == 1).all()
    )
    assert slopes[below].min() >= 0.2 - 1e-6 and slopes[below].max() <= 0.4 + 1e-6 and slopes[below].std() > 0.03
    assert torch.allclose(x.grad.cpu()[below], slopes[below])
    assert torch.allclose(F.rrelu(x, 0.2, 0.4).detach().cpu(), F.leaky_relu(x.detach().cpu(), 0.3))
    z = torch.full((5,), -1.0, device=D)
    F.rrelu_(z, 0.2, 0.4, training=True)
    assert (z.cpu() < 0).all() and (z.cpu() >= -0.4 - 1e-6).all()


def test_writes_only_the_view():
    base = torch.full((6, 7), -1.0, device=D)
    base[1:5, 2:5].uniform_()
    inside = torch.zeros(6, 7, dtype=torch.bool)
    inside[1:5, 2:5] = True
    assert torch.equal(base.cpu() >= 0, inside)
    small = torch.zeros(9, dtype=torch.uint8, device=D)
    small[4:7].random_(1, 2)
    assert small.cpu().tolist() == [0] * 4 + [1] * 3 + [0] * 2


# -- streams


def test_a_seed_decides():
    torch.manual_seed(3)
    first = torch.randn(5, device=D).cpu(), torch.rand(7, device=D).cpu()
    torch.manual_seed(3)
    assert torch.equal(first[0], torch.randn(5, device=D).cpu())
    assert torch.equal(first[1], torch.rand(7, device=D).cpu())
    assert not torch.equal(first[1], torch.rand(7, device=D).cpu())
    torch.webgpu.manual_seed_all(3)
    assert torch.equal(first[0], torch.randn(5, device=D).cpu())
    assert torch.webgpu.initial_seed() == 3
    torch.webgpu.seed()
    assert torch.webgpu.initial_seed() != 3


def test_the_same_numbers_on_every_adapter():
    """Recorded once; adapters, features and work splits do not change them."""
    torch.manual_seed(0)
    bits = torch.empty(6, dtype=torch.int64, device=D).random_(0, 2**31).cpu().tolist()
    # Philox4x32-10 of key 0 and counters 0 and (0, 0, 1, 0): the high halves of the products with the range.
    torch.manual_seed(0)
    again = torch.empty(3001, dtype=torch.int64, device=D).random_(0, 2**31).cpu().tolist()
    assert bits[:4] == again[:4]
    known = [0x6627E8D5 | 0xE169C58D << 32, 0xBC57AC4C | 0x9B00DBD8 << 32]  # Random123's vectors
    assert bits[:2] == [word * 2**31 >> 64 for word in known]


def test_generators():
    g = torch.Generator(device=D)
    assert isinstance(g, torch.Generator) and g.device == torch.device(D, 0)
    assert isinstance(torch.Generator(), torch.Generator) and torch.Generator().device.type == "cpu"
    g.manual_seed(5)
    state = g.get_state()
    a = torch.randn(9, device=D, generator=g).cpu()
    assert not torch.equal(a, torch.randn(9, device=D, generator=g).cpu())
    g.set_state(state)
    assert torch.equal(a, torch.randn(9, device=D, generator=g).cpu())
    other = pickle.loads(pickle.dumps(g))
    assert torch.equal(torch.rand(3, device=D, generator=g).cpu(), torch.rand(3, device=D, generator=other).cpu())
    assert g.initial_seed() == 5
    torch.manual_seed(1)
    before = torch.webgpu.get_rng_state()
    torch.rand(3, device=D, generator=g)
    assert torch.equal(before, torch.webgpu.get_rng_state()), "a generator of its own leaves the default one alone"
    with pytest.raises(RuntimeError, match="wrong size"):
        g.set_state(torch.zeros(3, dtype=torch.uint8))


def test_a_cpu_generator_is_accepted():
    draws = [torch.randn(4, device=D, generator=torch.Generator().manual_seed(1)).cpu() for _ in range(2)]
    assert torch.equal(*draws)

    class Own(torch.Generator):
        pass

    assert torch.equal(draws[0], torch.randn(4, device=D, generator=Own().manual_seed(1)).cpu())


def test_fork_rng():
    torch.manual_seed(8)
    with torch.random.fork_rng(devices=[0], device_type=D):
        inside = torch.rand(3, device=D).cpu()
    assert torch.equal(inside, torch.rand(3, device=D).cpu())
    state = torch.webgpu.get_rng_state()
    with torch.webgpu.fork_rng():
        torch.rand(3, device=D)
    assert torch.equal(state, torch.webgpu.get_rng_state())
    torch.webgpu.set_rng_state(state)
    assert copy.copy(state).tolist() == torch.webgpu.get_rng_state().tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.uniform_(2, 1),
        lambda x: x.normal_(0, -1),
        lambda x: x.exponential_(0),
        lambda x: x.geometric_(1.0),
        lambda x: x.cauchy_(0, 0),
        lambda x: x.log_normal_(0, 0),
        lambda x: x.bernoulli_(2),
        lambda x: x.random_(3, 3),
        lambda x: x.int().random_(0, 2**40),
        lambda x: x.to(torch.uint8).random_(0, 257),
        lambda x: x.half().random_(0, 70000),
        lambda x: x.int().exponential_(),
        lambda x: x.int().normal_(),
        lambda x: x.int().uniform_(),
        lambda x: torch.multinomial(x, 5),
        lambda x: torch.multinomial(x * 0 - 1, 1),
        lambda x: torch.multinomial(x * 0, 1),
        lambda x: torch.multinomial(x * 0, 2, True),
        lambda x: torch.multinomial(x.int(), 1),
        lambda x: torch.normal(x, x * 0 - 1),
        lambda x: torch.bernoulli(x.int()),
        lambda x: torch.poisson(x.int()),
    ],
)
def test_errors_are_torch_s(call):
    raised = []
    for device in ("cpu", D):
        with pytest.raises((RuntimeError, NotImplementedError)) as error:
            call(torch.ones(3, device=device))
        raised.append((type(error.value), str(error.value).split("\n")[0]))
    assert raised[0] == raised[1]


def test_uniform_complex_fills_both_parts():
    x = torch.empty(20000, dtype=torch.complex64, device="webgpu").uniform_(-2, 6)
    for part in (x.real.cpu(), x.imag.cpu()):
        assert -2 <= part.min() < -1.9 and 5.9 < part.max() <= 6 and abs(part.mean() - 2) < 0.1
    assert not torch.equal(x.real.cpu(), x.imag.cpu())


def test_the_generator_that_decides_what_the_cpu_draws():
    """For operators that fall back: of the seed, and another at every call."""
    ours = torch.Generator(device="webgpu").manual_seed(5)
    first, second = [torch.rand(3, generator=ours.cpu_twin()) for _ in range(2)]
    assert not torch.equal(first, second)
    assert torch.equal(first, torch.rand(3, generator=ours.manual_seed(5).cpu_twin()))


def test_uniform_in_half_precision_takes_all_values():
    """Small ones lie as close as the dtype has them, and 1 is never reached."""
    for dtype in (torch.float16, torch.bfloat16):
        ours, theirs = torch.rand(200000, dtype=dtype, device="webgpu").cpu(), torch.rand(200000).to(dtype)
        assert 0.8 < ours.unique().numel() / theirs.unique().numel() < 1.25
        assert ours.min() >= 0 and ours.max() < 1
        close(ours.float(), 0.5, 12**-0.5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("low,high", [(-1, 1), (-100, 100), (-2, -1), (1, 2), (0.1, 0.3), (-0.3, -0.1), (2, 2)])
def test_uniform_between_takes_all_values(dtype, low, high):
    """Those between, as close as the dtype has them: numbers were cut off before they were scaled."""
    ours = torch.empty(20000, dtype=dtype, device=D).uniform_(low, high).cpu()
    theirs = torch.empty(20000).uniform_(low, high).to(dtype)  # before torch 2.13 the CPU itself cut them off
    assert 0.9 < ours.unique().numel() / theirs.unique().numel() < 1.1
    assert ours.min() >= torch.tensor(low).to(dtype) and (ours.max().item() < high or low == high)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dropout_hides_no_nan(dtype):
    x = torch.full((70,), float("nan"), dtype=dtype, device=D)
    x[35:] = float("inf")
    found, kept = (t.cpu() for t in torch.native_dropout(x, 0.5, True))
    assert found[:35].isnan().all() and torch.equal(found[35:].isnan(), ~kept[35:]) and kept.any() and not kept.all()
    assert torch.native_dropout(x, 1.0, True)[0].isnan().all()
    leaf = torch.ones(70, dtype=dtype, device=D, requires_grad=True)
    torch.nn.functional.dropout(leaf, 0.5).backward(x)
    assert leaf.grad[:35].isnan().all() and leaf.grad[35:].isnan().any()


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_uniform_numbers_of_two_halves():
    parts = torch.view_as_real(torch.rand(999, dtype=torch.complex32, device=D)).float().cpu()
    assert parts.min() >= 0 and parts.max() < 1 and abs(parts.mean(0) - 0.5).max() < 0.05


@pytest.mark.parametrize("name", ["normal_", "uniform_", "exponential_", "log_normal_", "cauchy_", "random_"])
@pytest.mark.parametrize("dtype", [torch.int16, torch.bool, torch.complex64], ids=str)
def test_no_elements_of_a_dtype_without_a_law(name, dtype):
    """The CPU refuses some dtypes when it comes to the first element, others before."""
    found = []
    for device in ("cpu", D):
        try:
            found.append(getattr(torch.empty(0, 3, dtype=dtype, device=device), name)().shape)
        except (RuntimeError, NotImplementedError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]
