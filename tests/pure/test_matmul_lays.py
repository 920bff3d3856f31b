"""How threads lie over products of few rows: what every adapter allows, and sums that all arrive."""

import re
from dataclasses import replace
from itertools import product

import pytest

from webgpu_backend.kernels.matmul import digits, few_rows
from webgpu_backend.program import Caps

BIG = Caps("gpu", True, True, True, True, 256, 1 << 31, 1 << 32, 32, 48 << 10, 1024)
LEAST = Caps("gpu", False, False, False, False, 0, 128 << 20, 256 << 20, 8, 16 << 10, 256)


@pytest.mark.parametrize("caps", [BIG, LEAST], ids=["big", "least"])
@pytest.mark.parametrize("b_class", list(few_rows.LAYS))
def test_lays_fit(b_class, caps):
    for rows in (1, 2, 4, 8):
        for n, k in product((1, 700, 5000, 200_000), (64, 896, 8192)):
            lay = few_rows.lay(b_class, rows, n, k, caps)
            assert lay.threads <= caps.workgroup_size and lay.bytes(rows) <= caps.workgroup_bytes
            assert lay.columns % 4 == 0 and lay.along_k <= 8  # four columns are stored at once
            names = few_rows.names(lay, rows, b_class, caps)
            assert names["parts"] * names["at_once"] * lay.columns * 4 <= caps.workgroup_bytes


def test_what_decoding_takes():
    """One dispatch with enough workgroups; columns that would fill few are spread over more of them."""
    for rows in (1, 8):
        assert 4096 // few_rows.lay("8", rows, 4096, 4096, BIG).columns >= 132
    many, few = (few_rows.lay("r", 1, n, 4096, BIG) for n in (4096, 768))
    assert few.columns == many.columns // 2 and few.threads == many.threads


def test_a_long_k_of_few_columns_takes_more_threads():
    for rows in (1, 2, 4, 8):
        shapes = (4096, 4096), (1024, 4096), (1024, 896)
        many, few, short = (few_rows.lay("8", rows, n, k, BIG) for n, k in shapes)
        assert few.columns == short.columns == 4 and few.threads == 2 * short.threads == 2 * many.threads


def test_a_short_k_takes_more_columns():
    """Threads keep some pieces of k each, where that leaves enough workgroups."""
    for rows in (1, 2, 4, 8):
        long, short, small = (
            few_rows.lay("8", rows, n, k, BIG) for n, k in ((151936, 14336), (151936, 896), (896, 896))
        )
        assert short.columns > long.columns >= small.columns and short.threads == long.threads
        assert 896 // 8 // (short.along_k * short.teams) >= 4


@pytest.mark.parametrize("count", [1, 2, 4, 16, 64])
@pytest.mark.parametrize("along_k", [2, 8])
def test_folding_adds_up_every_thread_once(count, along_k):
    """The lines, run by hand over sums that tell which thread and which value they come from."""
    names = [f"c{i}" for i in range(count)]
    held = [{name: {(lane, i)} for i, name in enumerate(names)} for lane in range(along_k)]
    found = few_rows.folding(names, along_k)
    pattern = re.compile(r"let (\w+) = (?:select\((\w+), (\w+), \w+\)|(\w+)) \+ subgroupShuffleXor\(.*, (\d+)u\);")
    for line in found.lines:
        match = pattern.match(line)
        if match is None:
            continue
        to, low, high, only, mask = match.groups()
        mask = int(mask)
        mine = [(high if lane & mask else low) if only is None else only for lane in range(along_k)]
        made = []
        for lane in range(along_k):
            theirs = held[lane ^ mask][mine[lane]]  # a partner gives the half that this thread keeps
            assert not held[lane][mine[lane]] & theirs
            made.append(held[lane][mine[lane]] | theirs)
        for lane in range(along_k):
            held[lane][to] = made[lane]
    seen = set()
    for lane in range(along_k):
        if lane & found.spare:
            continue
        halves = re.findall(r"select\(0u, (\d+)u, upper(\d+)\)", found.lines[-1])
        place = sum(int(half) for half, mask in halves if lane & int(mask))
        for i, value in enumerate(found.values):
            assert held[lane][value] == {(other, place + i) for other in range(along_k)}
            seen.add(place + i)
    assert seen == set(range(count))


@pytest.mark.parametrize("lanes, bytes_, size", [(32, 48 << 10, 1024), (8, 16 << 10, 256), (16, 32 << 10, 512)])
def test_lays_of_digits(lanes, bytes_, size):
    """Within what the adapter has, with room for activations beside the sums; every tile has a workgroup."""
    caps = replace(BIG, lanes=lanes, workgroup_bytes=bytes_, workgroup_size=size, dots=True)
    for rows, n, k in product((1, 2, 4, 8), (1, 8, 700, 5000, 200_000), (32, 64, 896, 8192, 30_000 // 32 * 32)):
        lay = digits.lay(rows, n, k, caps)
        held, groups = digits.held(lay, rows, caps), digits.groups(lay, rows, -(-n // lay.columns), k, caps)
        assert lay.threads <= size and lay.columns % 4 == 0 and lay.along_k <= lanes
        assert held > 0 and held % (lay.along_k * lay.teams * lay.unroll) == 0
        assert lay.bytes(rows) + held * rows * digits.HELD_BY_PIECE <= bytes_
        assert 1 <= groups <= -(-n // lay.columns)
        assert groups <= digits.UNITS or held * 32 < k


def test_digits_use_the_card():
    caps = replace(BIG, lanes=32, dots=True)
    for rows, (n, k) in product((1, 8), ((4096, 4096), (14336, 4096), (151936, 896), (128256, 2048))):
        lay = digits.lay(rows, n, k, caps)
        assert digits.BUSY <= digits.groups(lay, rows, -(-n // lay.columns), k, caps) <= digits.UNITS
