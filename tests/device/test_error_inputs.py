"""PyTorch's database of inputs that must be refused: a part of it here, all of it by `python -m benchmarks.errors`."""

import os

import pytest

from benchmarks.errors import entries, refusals
from benchmarks.opcheck import name_of
from tests import needs

THOROUGH = int(os.environ.get("WEBGPU_TEST_SAMPLES", "2")) >= 10
EVERY = 1 if THOROUGH else 4
# Inputs for which another type of error is raised than on the CPU, with the reason.
DIFFERENT = {
    ("complex", 2): "complex128 beside an output of complex64 goes to the CPU, which casts it back",
    ("narrow_copy", 1): "IndexError for a dimension that is not there, as narrow raises; the CPU an internal check",
}


@pytest.mark.parametrize("op", [pytest.param(op, id=name_of(op)) for op in entries()[::EVERY]])
@pytest.mark.fallback("*")
def test_the_cpu_s_type_of_error(op):
    with needs.float64_if_asked():
        found = refusals(op)
    wrong = [r for r in found if not r.as_cpu and (r.name, r.index) not in DIFFERENT]
    assert not wrong, [(r.name, r.index, r.got, r.message, r.wanted, r.cpu_message) for r in wrong]
