"""The tuning table of products: what it chooses, and that a file can replace it."""

import json
from dataclasses import replace

import pytest

from webgpu_backend import env
from webgpu_backend.kernels.matmul import tiles
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
