"""The tuning table of products: what it chooses, and that a file can replace it."""

import json
from dataclasses import replace

import pytest

from webgpu_backend import env
from webgpu_backend.dtypes import FLOAT16, FLOAT32
from webgpu_backend.kernels.matmul import tiles
from webgpu_backend.kernels.matmul.matmul import choices, plan
from webgpu_backend.kernels.matmul.measured import asking
from webgpu_backend.kernels.matmul.product import Matrix, Product
from webgpu_backend.program import Caps

BIG = Caps("gpu", True, True, True, True, 256, 1 << 31, 1 << 32, 32, 48 << 10, 1024)
LEAST = replace(
    BIG, f16=False, i64=False, subgroups=False, immediate_bytes=0, workgroup_bytes=16 << 10, workgroup_size=256
)


@pytest.fixture(autouse=True)
def built_in(monkeypatch):
    monkeypatch.setattr(tiles, "_used", None)
    monkeypatch.setattr(env, "TUNING", "")


def test_large_products_take_the_fastest_row_and_small_ones_fill_the_adapter():
    rows = tiles.GPU.tiles
    _, tile, parts = tiles.choose(rows, 8192, 8192, 8192, 1)
    assert parts == 1 and tile.rate == max(t.rate for t in rows)
    _, tile, parts = tiles.choose(rows, 64, 512, 784, 1)
    assert -(-64 // tile.bm) * -(-512 // tile.bn) * parts * tile.slices >= tiles.GPU.units
    _, tile, parts = tiles.choose(rows, 128, 128, 65536, 1)
    assert parts > 1


def test_every_row_fits_a_big_gpu_and_some_the_least_one():
    assert all(tiles.fits(t, BIG) for t in tiles.GPU.tiles)
    assert all(tiles.fits(t, BIG) for t in tiles.GPU.halves)
    assert any(tiles.fits(t, LEAST) and t.slices == 1 for t in tiles.GPU.tiles) and tiles.fits(tiles.LEAST, LEAST)
    assert all(min(t.bm, t.bn) >= 32 for t in tiles.GPU.tiles if t.twist)


def test_threads_that_do_not_divide_are_refused():
    assert not tiles.fits(tiles.Tile(32, 16, 16, 4, 4), BIG)
    assert not tiles.fits(tiles.Tile(128, 256, 64, 8, 16), BIG)


def test_a_file_replaces_the_table(tmp_path, monkeypatch):
    other = replace(tiles.GPU, units=7, tiles=tiles.GPU.tiles[:2], launch=1.0)
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps(tiles.to_json(other)))
    assert tiles.tuning() is tiles.GPU
    tiles.use(None)
    monkeypatch.setattr(env, "TUNING", str(path))
    assert tiles.tuning() == other


def _product(m, n, k, dtype):
    a, b = Matrix(dtype, 0, k, 1), Matrix(dtype, 0, 1, n)
    return Product(m, n, k, a, b, Matrix(dtype, 0, n, 1))


@pytest.mark.parametrize("caps", [BIG, LEAST], ids=["big", "least"])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize("shape", [(512, 512, 512), (1023, 1019, 1021), (64, 4096, 4096), (4096, 4096, 4096)], ids=str)
def test_the_likeliest_choice_is_what_a_product_gets(shape, dtype, caps):
    product = _product(*shape, dtype)
    found = choices(product, caps)
    assert len(found) == len(set(found)) > 3
    usual = [(s.program.name, s.params, s.grid) for s in plan(product, caps).steps]
    made = []
    for choice in found:
        with asking(lambda _, choice=choice: choice):
            made.append([(s.program.name, s.params, s.grid) for s in plan(product, caps).steps])
    assert made[0] == usual
    assert any(steps != usual for steps in made)


def test_products_of_few_rows_have_no_choice():
    assert choices(_product(1, 4096, 4096, FLOAT16), BIG) == []
