"""Text over f32 as the same text over f64: types, the library's functions and constants, literals.

It holds for text whose numbers are exact, or named: `C64_LN2` becomes `C128_LN2`, which the library has too.
"""

import re

_NAMES = (
    (re.compile(r"\bf32\b"), "f64"),
    (re.compile(r"\bf32_"), "f64_"),
    (re.compile(r"\bF32_"), "F64_"),
    (re.compile(r"\bc64_"), "c128_"),
    (re.compile(r"\bC64_"), "C128_"),
    (re.compile(r"\b(round|trunc)\("), r"f64_\1("),  # whose built-ins are f32's on one driver: math_f64.wgsl
)
_LITERAL = re.compile(r"(?<![\w.])(0x1p[-+]?\d+|\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)f?(?![\w.])")


def doubled(text: str) -> str:
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return _LITERAL.sub(_number, text)


def double_text(body: str, parameters: list[str]) -> str:
    """A kernel's text, whose f32 parameters are two words each."""
    for name in parameters:
        body = re.sub(rf"\bp\.{name}\b", f"f64_load(p.{name}_lo, p.{name}_hi)", body)
    return doubled(body)


def _number(literal: re.Match) -> str:
    text = literal[1]
    return f"{float.fromhex(text) if text.startswith('0x') else float(text)!r}lf"
