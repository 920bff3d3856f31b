"""Which of PyTorch's own tests have run on this device, and how they ended: `torch_runs.json`, a line for each file.

    python -m tests.torch_ledger FOLDER

prints what has run of the files in FOLDER and which parts have not. A part of a file is the tests whose names'
checksums leave one remainder of PARTS; it is written down when it has run to its end, and again whenever it runs again.
Tests that took too long are kept by name, so that they can run alone with more time.
"""

import json
import sys
import zlib
from pathlib import Path

FILE = Path(__file__).with_name("torch_runs.json")
PARTS = 16
KINDS = ("passed", "skipped", "by design", "missing", "words", "slow", "unknown")
SLOW = "slow tests of "  # before a file's name


def read(path: Path = FILE) -> dict:
    """file -> part -> a count for each of KINDS; `torch` is the version whose tests these are. With SLOW before it,
    file -> the names of slow ones, as far as they are known."""
    return json.loads(path.read_text()) if path.exists() else {}


def part_of(name: str) -> int:
    return zlib.crc32(name.encode()) % PARTS


def record(path: Path, version: str, file: str, part: int, counts: dict[str, int], slow: list[str]) -> None:
    ledger = read(path)
    if ledger.get("torch") != version:  # other tests: what is known of those says nothing about these
        ledger = {"torch": version}
    parts = ledger.setdefault(file, {})
    parts[str(part)] = [counts.get(kind, 0) for kind in KINDS]
    ledger[file] = dict(sorted(parts.items(), key=lambda x: int(x[0])))
    others = [name for name in ledger.get(SLOW + file, []) if part_of(name) != part]
    _write(path, ledger, file, others + slow)


def record_again(path: Path, file: str, kinds: dict[str, str]) -> None:
    """What slow tests came to, by name, with more time."""
    ledger = read(path)
    for name, kind in kinds.items():
        counts = ledger[file][str(part_of(name))]
        counts[KINDS.index("slow")] -= 1
        counts[KINDS.index(kind)] += 1
    _write(path, ledger, file, [n for n in ledger.get(SLOW + file, []) if kinds.get(n, "slow") == "slow"])


def _write(path: Path, ledger: dict, file: str, slow: list[str]) -> None:
    ledger.pop(SLOW + file, None)
    if slow:
        ledger[SLOW + file] = sorted(slow)
    lines = [f"{json.dumps(name)}: {json.dumps(told)}" for name, told in sorted(ledger.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def left(path: Path, version: str, file: str) -> list[int]:
    """The parts of a file that have not run."""
    ledger = read(path)
    ran = ledger.get(file, {}) if ledger.get("torch") == version else {}
    return [part for part in range(PARTS) if str(part) not in ran]


def parts(text: str) -> list[int]:
    """0,3-5 is 0, 3, 4 and 5."""
    ends = [part.partition("-") for part in text.split(",")]
    return [n for low, _, high in ends for n in range(int(low), int(high or low) + 1)]


def files(folder: Path) -> list[str]:
    """Those with tests for every device."""
    found = [path for path in sorted(folder.rglob("test_*.py")) if "instantiate_device_type_tests(" in path.read_text()]
    return [path.relative_to(folder).as_posix() for path in found]


def summary(ledger: dict, names: list[str]) -> list[str]:
    total, lines = [0] * len(KINDS), []
    for name in names:
        ran = ledger.get(name, {})
        counts = [sum(column) for column in zip(*ran.values())] or [0] * len(KINDS)
        total = [a + b for a, b in zip(total, counts)]
        lacks = [part for part in range(PARTS) if str(part) not in ran]
        state = f"not run: {', '.join(map(str, lacks))}" if ran and lacks else "not run" if lacks else "whole"
        lines.append(f"{name}: {_told(counts)}; {state}")
    return [*lines, f"all: {_told(total)}"]


def _told(counts: list[int]) -> str:
    return ", ".join([f"{sum(counts)} tests", *(f"{n} {kind}" for kind, n in zip(KINDS, counts) if n)])


if __name__ == "__main__":
    print("\n".join(summary(read(), files(Path(sys.argv[1])))))
