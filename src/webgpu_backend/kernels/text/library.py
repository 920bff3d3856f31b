"""The project's WGSL functions, read from the folder `lib`, and included by need."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from ... import kernels

_FUNCTION = re.compile(r"^fn (\w+)\(([^)]*)\)(?:\s*->\s*([^{]+?))?\s*\{.*?^\}", re.M | re.S)
_CONST = re.compile(r"^const (\w+)[^;]*?;[ \t]*$", re.M | re.S)
_STRUCT = re.compile(r"^struct (\w+)\s*\{.*?^\}", re.M | re.S)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")


@dataclass(frozen=True)
class Item:
    name: str
    text: str
    args: tuple[str, ...] = ()
    result: str = ""


@cache
def items() -> dict[str, Item]:
    found: dict[str, Item] = {}
    for path in sorted((files(kernels) / "lib").iterdir(), key=lambda f: f.name):
        source = path.read_text(encoding="utf-8")
        for m in _FUNCTION.finditer(source):
            types = tuple(part.split(":", 1)[1].strip() for part in _split(m.group(2)))
            found[m.group(1)] = Item(m.group(1), m.group(0), types, (m.group(3) or "").strip())
        for pattern in (_CONST, _STRUCT):
            for m in pattern.finditer(source):
                found[m.group(1)] = Item(m.group(1), m.group(0))
    return found


def _split(args: str) -> list[str]:
    return [a for a in re.split(r",(?![^<]*>)", args) if a.strip()]


def function(name: str) -> Item | None:
    return items().get(name)


@lru_cache(maxsize=4096)
def _closure(name: str) -> frozenset[str]:
    known = items()
    seen: set[str] = set()
    stack = [name]
    while stack:
        current = stack.pop()
        if current in seen or current not in known:
            continue
        seen.add(current)
        stack.extend(w for w in set(_WORD.findall(known[current].text)) if w in known and w not in seen)
    return frozenset(seen)


_NATIVE = {"u32_mul_wide": "n64_mul_wide"}  # what 64-bit integers of the adapter's own do better


def include(source: str, native64: bool = False) -> str:
    """The library functions that `source` calls, directly or not, as text."""
    known = items()
    needed: set[str] = set()
    for word in set(_WORD.findall(source)):
        if word in known:
            needed |= _closure(word)
    texts = []
    for name in sorted(needed):
        other = _NATIVE.get(name) if native64 else None
        texts.append(known[name].text if other is None else known[other].text.replace(other, name))
    return "\n".join(texts)
