"""Plans of convolutions for adapters of every size: tiles that fit, parts that cover the sum, parameters that match."""

import pytest

from webgpu_backend.dtypes import FLOAT16, FLOAT32
from webgpu_backend.kernels.conv import by_tables
from webgpu_backend.kernels.matmul.product import Matrix
from webgpu_backend.program import Caps

BIG = Caps("gpu", True, True, True, True, 256, 2**31 - 4, 2**32, 32, 48 << 10, 1024)
LEAST = Caps("gpu", False, False, False, False, 0, 128 << 20, 256 << 20, 8, 16 << 10, 256)
# rows, columns, k, places, groups
PRODUCTS = [
    (64, 401408, 147, 12544, 1), (2048, 1568, 512, 49, 1), (9, 7, 5, 7, 1), (36, 48, 18, 16, 3),
    (512, 1568, 4608, 49, 1), (64, 64, 25088, 25088, 16), (33, 200, 1000, 200, 16),
]  # fmt: skip


def product(mode, m, n, k, places, groups, dtype, plain, scattered):
    a = Matrix(dtype, 0, k, 1, m * k) if mode == "image" else Matrix(dtype, 0, places, 1, m * places, m * places)
    b = Matrix(dtype, 0, places, 0, k * places, k * places)
    out = Matrix(dtype, 0, n, 1, m * n) if mode == "weight" else Matrix(dtype, 0, places, 1, m * places, m * places)
    return by_tables.Convolution(mode, m, n, k, places, groups, a, b, out, None, plain, False, scattered)


@pytest.mark.parametrize("caps", [BIG, LEAST], ids=["big", "least"])
@pytest.mark.parametrize("mode", ["image", "weight"])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16], ids=lambda d: d.name)
def test_plans(caps, mode, dtype):
    for m, n, k, places, groups in PRODUCTS:
        for plain, scattered in ((False, False), (True, False), (False, True)):
            if scattered and mode == "weight":
                continue
            q = product(mode, m, n, k, places, groups, dtype, plain, scattered)
            tile, splits, chunk = by_tables._choose(q, "s", "g", caps)
            assert (splits - 1) * chunk < k <= splits * chunk and chunk % tile.bk == 0
            assert splits == 1 or not scattered
            found = by_tables.plan(q, caps)
            for step in found.steps:
                assert len(step.params) == step.program.param_bytes <= 256
                assert len(step.bindings) == len(step.program.access) <= caps.max_bindings
            parts = len(by_tables.TABLED)  # the buffer of sums in parts comes after those that are given
            used = [set(step.bindings) for step in found.steps]
            assert set().union(*used) <= set(range(parts + len(found.scratch)))
            assert len(found.steps) == 1 + (splits > 1) == 1 + len(found.scratch)
            if found.scratch:
                assert all(parts in bindings for bindings in used)
                assert 4 * splits * groups * m * n <= found.scratch[0] <= caps.max_binding
            threads = (tile.bm // tile.tm) * (tile.bn // tile.tn)
            assert threads <= caps.workgroup_size and threads >= tile.bn and threads >= tile.bk
