"""Tensors made from numbers."""

import pytest
import torch

import webgpu_backend
from tests.device._compare import both

DEVICE = "webgpu"
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def same(make, tolerance=0):
    both(make, tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ranges(dtype):
    close = {torch.float32: 1e-6, torch.float16: 1e-2, torch.bfloat16: 1e-2}.get(dtype, 0.0)
    same(lambda d: torch.arange(17, dtype=dtype, device=d))
    same(lambda d: torch.arange(3, 80, 7, dtype=dtype, device=d))
    same(lambda d: torch.arange(5, 5, dtype=dtype, device=d))
    same(lambda d: torch.linspace(0, 100, 7, dtype=dtype, device=d), close)
    same(lambda d: torch.linspace(3, 50, 31, dtype=dtype, device=d), close)
    same(lambda d: torch.linspace(9, 50, 1, dtype=dtype, device=d), close)
    same(lambda d: torch.linspace(9, 50, 0, dtype=dtype, device=d), close)
    same(lambda d: torch.logspace(0, 2, 7, dtype=dtype, device=d), 10 * close)
    same(lambda d: torch.arange(2, 9, out=torch.empty(0, dtype=dtype, device=d)))


def test_arange_details():
    same(lambda d: torch.arange(10, -3, -2, device=d))
    same(lambda d: torch.arange(0, 1, 0.1, device=d), 1e-6)
    same(lambda d: torch.arange(1, 2.5, 0.5, device=d))
    same(lambda d: torch.arange(2**40, 2**40 + 5, device=d))
    same(lambda d: torch.arange(2**61, -(2**61), -(2**60) - 1, device=d))
    same(lambda d: torch.arange(1_000_003, device=d))
    for arguments in ((0, 5, 0), (5, 0, 1), (0, 5, -1), (0, float("inf"))):
        with pytest.raises(RuntimeError) as expected:
            torch.arange(*arguments)
        with pytest.raises(RuntimeError) as raised:
            torch.arange(*arguments, device=DEVICE)
        assert str(raised.value).split(" ->")[0] == str(expected.value).split(" ->")[0]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool, torch.complex64], ids=str)
def test_eye_and_full(dtype):
    for n, m in ((3, 3), (2, 5), (5, 2), (0, 3), (7, 1)):
        same(lambda d: torch.eye(n, m, dtype=dtype, device=d))
    same(lambda d: torch.eye(4, dtype=dtype, device=d))
    same(lambda d: torch.full((3, 5), 1, dtype=dtype, device=d))
    same(lambda d: torch.ones(7, dtype=dtype, device=d))
    same(lambda d: torch.zeros(7, dtype=dtype, device=d))


@pytest.mark.parametrize("rows,columns", [(1, 1), (3, 4), (6, 6), (6, 1), (3, 0), (300, 7)])
def test_triangle_indices(rows, columns):
    for offset in (-7, -2, -1, 0, 1, 3, 9):
        same(lambda d: torch.tril_indices(rows, columns, offset, device=d))
        same(lambda d: torch.triu_indices(rows, columns, offset, device=d, dtype=torch.int32))


def test_one_dispatch_each():
    made = (
        lambda: torch.arange(5, device=DEVICE), lambda: torch.linspace(0, 1, 5, device=DEVICE),
        lambda: torch.eye(3, device=DEVICE), lambda: torch.full((3,), 2.0, device=DEVICE),
        lambda: torch.zeros(3, device=DEVICE), lambda: torch.ones(3, device=DEVICE),
        lambda: torch.tril_indices(3, 3, device=DEVICE),
    )  # fmt: skip
    for make in made:
        make()
        before = webgpu_backend.stats()["dispatches"]
        make()
        assert webgpu_backend.stats()["dispatches"] - before == 1


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("bounds", [(0.0, -8.000001, -4.0), (0, 7.9, 2.9), (1, 10, 2.5), (0.5, 3.2, 1.7)], ids=str)
def test_integers_between_bounds_with_fractions(bounds, dtype):
    both(lambda d: torch.arange(*bounds, dtype=dtype, device=d))
