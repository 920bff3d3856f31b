"""Random programs against the CPU, and what more of them (`python -m tests.fuzz`) have found."""

import os
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests import fuzz, needs

PROGRAMS = 2000
# A part of them has these dtypes and one more: every kernel is compiled for each dtype, which takes most of the time.
COMMON = (torch.float32, torch.float32, torch.int64, torch.bool)
MORE = (
    torch.float16,
    torch.int32,
    torch.bfloat16,
    torch.uint8,
    torch.complex64,
    torch.int16,
    torch.float32,
    torch.int8,
)
EACH = -(-PROGRAMS // len(MORE))
COMPILED = 30


class Drawn(fuzz.Dice):
    """Choices of hypothesis, which looks for a smaller program where one differs."""

    def __init__(self, data):
        self.below = lambda n: data.draw(st.integers(0, n - 1))


def same(program: fuzz.Program, compiled: bool = False) -> None:
    found = fuzz.difference(program, compiled)
    assert found is None, f"{found}\n{fuzz.smaller(program, compiled).text()}"


@pytest.mark.parametrize("dtype", MORE, ids=str)
def test_random_programs(dtype):
    first = 10_000 * (MORE.index(dtype) + 1)
    for number in range(first, first + EACH):
        same(fuzz.generate(fuzz.Dice(number), (*COMMON, dtype)))


@pytest.mark.parametrize("dtype", MORE, ids=str)
def test_programs_that_hypothesis_draws(dtype):
    """It prefers numbers that it reads in the modules that are loaded: other programs in every process."""
    if not os.environ.get("WEBGPU_FUZZ"):
        needs.missing("hypothesis draws other programs each time, which is a search: run by hand with WEBGPU_FUZZ=1")

    @seed(MORE.index(dtype))
    @settings(max_examples=EACH, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        same(fuzz.generate(Drawn(data), (*COMMON, dtype)))

    check()


@pytest.mark.parametrize("number", range(COMPILED))
def test_random_programs_compiled(number):
    backend = ("inductor", "webgpu")[number % 2]
    same(replace(fuzz.generate(fuzz.Dice(number)), backend=backend), compiled=True)


# What was found: each line by line as it was printed, and whether gradients were asked for.
FOUND = {
    "a mask that is written by itself": (
        False, "t0 = make((2,), torch.bool, 664)", "t0.masked_scatter_(t0, t0.flip(0).contiguous())",
    ),
    "a mask that is filled by itself": (
        False, "t0 = make((2, 3), torch.bool, 664)", "t1 = make((5,), torch.bool, 3)", "t0[t0] = 2", "t1[t1] = False",
        "t2 = make((3, 65), torch.bool, 911)", "t3 = t2[None, 0]", "t3[t3] = 2",
    ),
    "an element that is set to itself": (
        False, "t15 = make((), torch.float32, 0)", "t21 = t15.view(1).unsqueeze(-1).contiguous()", "t21[0] = t15",
    ),
    "what is filled lies as the CPU's": (
        False, "t2 = make((33, 2), torch.int8, 908)", "t6 = t2.nonzero().bool()",
        "t10 = t2[None, 12].diagonal(0, -1, 0)", "t16 = t10.masked_fill(t6, 2)", "t16.view(-1)[1::3] = 1",
    ),
    "a mask that is every second element": (
        False, "t0 = make((2, 8, 16), torch.bool, 375)", "t1 = t0[:, 0].diagonal(0, 1, 0)", "t2 = t1.masked_select(t1)",
        "t3 = t0.flatten()[::3]", "t4 = t3.masked_select(t3)", "t5 = t3[t3]",
    ),
    "extremes of no complex numbers": (
        False, "t5 = make((0, 3), torch.complex64, 434)", "t7 = t5.amax(1, keepdim=True)",
    ),
    "the median of nothing": (
        False, "t0 = make((9, 0, 8), torch.int16, 700)", "t4 = t0.detach().median()", "t5 = t0.long().median()",
        "t6 = t0.bool().median()",
    ),
    "a negative number without dimensions beside bytes": (
        False, "t0 = make((8,), torch.int8, 898)", "t3 = t0.view(torch.uint8)", "t6 = t0.amin(0)", "t7 = t6 == t3",
        "t8 = torch.maximum(t6, t3)", "t9 = t3.amax() < t0", "t10 = t3.amax().sign() * t0 // 2",
    ),
    "real numbers written to conjugates": (
        False, "t0 = make((3,), torch.float32, 626)", "t3 = make((3,), torch.complex64, 5)", "t3.conj().copy_(t0)",
        "t4 = make((2, 3), torch.complex64, 7)", "t4.conj()[1] = t0.long()", "t4.conj()[0].mul_(t0)",
    ),
    "slices that are unique lie as the CPU's": (
        False, "t1 = make((7, 4), torch.float16, 763)", "t5 = t1.unique(dim=1)", "t8 = t5.flatten()", "t5[1:] = 9",
    ),
}  # fmt: skip


FOUND_COMPILED = {
    "two writes to a dimension of one, made of what lies there": (
        False, "t0 = make((), torch.float32, 363)", "t5 = t0.reshape(1, 1)", "t5[index(2, 1, 643)] += 1",
    ),
    "norms of a list, which are parts of one buffer": (
        False, "t0 = make((5, 3), torch.float32, 16)", "t1 = torch._foreach_norm([t0, t0[1:], t0])[1]", "t2 = t1 * 2",
    ),
    "sums of float64 in places": (
        False, "t0 = make((2, 16, 2), torch.float64, 351)",
        "t1 = t0.scatter_add(0, index((2, 16, 2), 2, 484), t0)", "t2 = t1 + 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND_COMPILED)
def test_what_was_found_compiled(name):
    graded, *lines = FOUND_COMPILED[name]
    if "float64" in name:
        needs.feature("f64")
    same(fuzz.Program(list(lines), {"t1", "t2"}, graded), compiled=True)


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name):
    graded, *lines = FOUND[name]
    same(fuzz.Program(list(lines), graded=graded))


def test_the_fuzzer_sees_a_wrong_answer(monkeypatch):
    """A device that forgets a write through a view would be found."""
    program = fuzz.Program(["t0 = make((4, 3), torch.float32, 1)", "t1 = t0.t()", "t1[1].add_(5)", "t2 = t0 * 2"])
    same(program)
    run = fuzz.run
    monkeypatch.setattr(
        fuzz, "run",
        lambda p, device, *more: run(p if device == "cpu" else fuzz.Program([*p.lines[:2], p.lines[3]]), device, *more),
    )  # fmt: skip
    assert "t0 is" in fuzz.difference(program)
