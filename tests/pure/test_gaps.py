"""The list of gaps says what the page of operators found."""

import re
from pathlib import Path

from benchmarks.optable import SHORT
from tests import gaps

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"
TABLES = {"not as the CPU": gaps.WRONG, "on the CPU": gaps.FALLBACK, "right by reading only": gaps.ROUNDED}


def test_every_entry_that_is_left_has_its_reason_and_no_other():
    part = PAGE.read_text().split("## What is left")[1].split("## Tiers")[0]
    rows = re.findall(r"^\| (\S+) \| ([^|:]+)[^|]*\| ([^|]+) \|", part, re.M)
    found = {(name, what.strip(), dtype) for name, what, dtypes in rows[1:] for dtype in dtypes.split()}
    listed = {
        (name, what, SHORT[str(dtype).removeprefix("torch.")])
        for what, table in TABLES.items()
        for name, (_, *dtypes) in table.items()
        for dtype in dtypes
        if name not in gaps.OLDER
    }
    assert len(found) >= 5 and found == listed


def test_every_gap_names_its_dtypes_once():
    """What is checked is what is named: an entry without a dtype would never be run."""
    assert all(dtypes for table in TABLES.values() for _, *dtypes in table.values())
    places = [(name, dtype) for _, name, dtype in gaps.entries()]
    assert len(set(places)) == len(places)
    assert all(gaps.find(name, dtype) == kind for kind, name, dtype in gaps.entries())
