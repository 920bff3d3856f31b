"""The project's WGSL functions, read from the folder `lib`, and included by need."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from ... import kernels
from .double import doubled

_FUNCTION = re.compile(r"^fn (\w+)\(([^)]*)\)(?:\s*->\s*([^{]+?))?\s*\{.*?^\}", re.M | re.S)
_CONST = re.compile(r"^const (\w+)[^;]*?;[ \t]*$", re.M | re.S)
_STRUCT = re.compile(r"^struct (\w+)\s*\{.*?^\}", re.M | re.S)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
# Functions of f32 whose text, with the types exchanged, is as good for f64. So is all of complex64 for complex128.
_FOR_BOTH = {
    f"f32_{name}" for name in (
        "entr", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
        "logaddexp", "logit", "polygamma", "xlog1py", "xlogy", "zeta", "chebyshev_recurrence",
        *(f"{shifted}chebyshev_polynomial_{kind}" for kind in "tuvw" for shifted in ("", "shifted_")),
    )
} | {"F32_DEGREES"}  # fmt: skip


@dataclass(frozen=True)
class Item:
    """A declaration of the library: its text is `keyword`, `name` and `rest`."""

    keyword: str
    name: str
    rest: str
    args: tuple[str, ...] = ()
    result: str = ""

    def text(self, name: str = "") -> str:
        """As it stands, or under another name."""
        return f"{self.keyword} {name or self.name}{self.rest}"


@cache
def items() -> dict[str, Item]:
    found: dict[str, Item] = {}
    for path in sorted((files(kernels) / "lib").iterdir(), key=lambda f: f.name):
        source = path.read_text(encoding="utf-8")
        for m in _FUNCTION.finditer(source):
            types = tuple(part.split(":", 1)[1].strip() for part in _split(m.group(2)))
            found[m.group(1)] = _item("fn", m, types, (m.group(3) or "").strip())
        for keyword, pattern in (("const", _CONST), ("struct", _STRUCT)):
            for m in pattern.finditer(source):
                found[m.group(1)] = _item(keyword, m)
    twins = [_twin(item) for name, item in found.items() if name in _FOR_BOTH or name.startswith("c64_")]
    return {twin.name: twin for twin in twins} | found


def _twin(item: Item) -> Item:
    """The item of the next wider type."""
    signature = tuple(doubled(text) for text in item.args), doubled(item.result)
    return Item(item.keyword, doubled(item.name), doubled(item.rest), *signature)


def _item(keyword: str, m: re.Match, *signature) -> Item:
    return Item(keyword, m.group(1), m.string[m.end(1) : m.end()], *signature)


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
        stack.extend(w for w in set(_WORD.findall(known[current].text())) if w in known and w not in seen)
    return frozenset(seen)


_NATIVE = {"u32_mul_wide": "n64_mul_wide"}  # what 64-bit integers of the adapter's own do better


def include(source: str, native64: bool = False) -> str:
    """The library functions that `source` calls, directly or not, as text."""
    known = items()
    needed: set[str] = set()
    for word in set(_WORD.findall(source)):
        if word in known:
            needed |= _closure(word)
    native = _NATIVE if native64 else {}
    return "\n".join([known[native.get(name, name)].text(name) for name in sorted(needed)])
