"""Formats of quantised weights: codes of four to eight bits in rows, and the scales that make numbers of them.

A row's codes come in pieces of 32. Four bits are eight to a word in the order of the elements, eight bits four to a
word. Six bits have four words of low halves and then two of high ones: each of those serves sixteen elements, of which
element j of the quad v (of four) has its two bits from bit 16 * (v / 2) + 2 * (v % 2) + 4 * j on. So four codes are
always masked out of one word where they stand, without a shift for each.

A weight is scale * code, and where the format has offsets, + offset. Scales are numbers with strides (`plain`; `zeros`
has the offsets in the same tensor), or the headers of GGUF's blocks of 256: `k4` has four words a block (d and dmin in
f16; the low four bits of eight scales, of eight minima; two high bits of each in turn), `k6` five (d in f16, sixteen
scales of eight bits).
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...dtypes import UINT32, DType
from ...program import Caps
from ..text import elements

PIECE = 32  # elements of a row that a thread decodes at once


class Format(NamedTuple):
    codes: str  # 4, 4z (less 8), 6 (less 32), 8 (signed), or the name of a float of eight bits
    scales: str  # plain, zeros, k4, k6
    block: int = PIECE  # elements of a row that stand together

    @property
    def words(self) -> int:
        """Of a piece."""
        return {"4": 4, "6": 6}.get(self.codes[0], 8)

    @property
    def vector(self) -> int:
        """Words that are read at once."""
        return 2 if self.words == 6 else 4

    @property
    def loads(self) -> int:
        return self.words // self.vector

    @property
    def runs(self) -> int:
        """Scales of a piece."""
        return 2 if self.scales == "k6" else 1

    @property
    def offsets(self) -> bool:
        return self.scales in ("zeros", "k4")

    @property
    def whole(self) -> bool:
        """Codes are whole numbers of up to eight bits."""
        return self.codes[0] in "468"

    @property
    def low(self) -> int:
        """What is taken off a code."""
        return {"4z": 8, "6": 32}.get(self.codes, 0)

    @property
    def header(self) -> int:
        """Words of the scales of a block."""
        return {"k4": 4, "k6": 5}.get(self.scales, 0)


FORMATS = {
    "int8": Format("8", "plain"),
    "int4": Format("4z", "zeros"),
    "float8_e4m3fn": Format("e4m3fn", "plain"),
    "float8_e5m2": Format("e5m2", "plain"),
    "float8_e4m3fnuz": Format("e4m3fnuz", "plain"),
    "float8_e5m2fnuz": Format("e5m2fnuz", "plain"),
    "q8_0": Format("8", "plain"),
    "q4_0": Format("4z", "plain"),
    "q4_k": Format("4", "k4", 256),
    "q6_k": Format("6", "k6", 256),
}


class Blocks(NamedTuple):
    """An operand in a format. Strides of plain scales are in elements: of rows, of groups along k, and from a scale to
    its offset; `shift` is the logarithm of a group's length."""

    format: str
    dtype: DType = UINT32  # of the scales
    offset: int = 0
    row: int = 0
    group: int = 0
    shift: int = 31  # one scale for the whole row
    zero: int = 0

    def words(self) -> list[int]:
        return [self.offset, self.row, self.group, self.shift, self.zero]


FIELDS = ["s_o", "s_n", "s_g", "s_shift", "s_z"]


def bindings(blocks: Blocks, caps: Caps, number: str = "") -> list[tuple[str, str, str]]:
    """The buffers of an operand: codes, then scales. Where there are several it has a number."""
    found = FORMATS[blocks.format]
    scales = elements.array_type(blocks.dtype, "e", caps)
    if found.header:
        scales = "array<vec4<u32>>" if found.header == 4 else "array<u32>"
    return [(f"b{number}_in", "read", f"array<vec{found.vector}<u32>>"), (f"s{number}_in", "read", scales)]


def names(blocks: Blocks, caps: Caps, numbers: Sequence[str] = ("",)) -> dict:
    """What `quantized/codes.wgsl` asks for."""
    found = FORMATS[blocks.format]
    return dict(
        f=found, code_of=lambda u, j, quad: _code(found, f"y{u}_{j}_", quad),
        bytes_of=lambda u, j, word: _bytes(found, f"y{u}_{j}_", word),
        numbers=numbers, read_scale=lambda number, at: elements.read(blocks.dtype, f"s{number}_in", at, caps),
        low=128 if found.codes == "8" else found.low,
    )  # fmt: skip


def _code(f: Format, held: str, quad: int) -> str:
    """Four codes, as f32: quad number `quad` of a piece, whose vectors are called `held` and their number."""
    word = lambda w: f"{held}{w // f.vector}.{'xyzw'[w % f.vector]}"  # noqa: E731
    if f.words == 8:
        return f"codes({word(quad)})"
    low = word(quad // 2) + (" >> 16u" if quad % 2 else "")
    if f.words == 4:
        return f"codes({low})"
    return f"codes({low}, {word(4 + quad // 4)} {('<< 4u', '<< 2u', '>> 12u', '>> 14u')[quad % 4]})"


# How the high bits of six come to the bytes of the elements 0, 2 (1, 3) and 4, 6 (5, 7) of a low word, by the word's
# and the elements' oddness.
_HIGH = {(0, 0): ("<< 4u", "<< 18u"), (0, 1): ("", "<< 14u"), (1, 0): (">> 12u", "<< 2u"), (1, 1): (">> 16u", ">> 2u")}


def _bytes(f: Format, held: str, word: int) -> str:
    """Four codes as the bytes of a word, number `word` of the eight of a piece: in order where codes have eight bits,
    else the even or the odd ones of eight."""
    at = lambda w: f"{held}{w // f.vector}.{'xyzw'[w % f.vector]}"  # noqa: E731
    if f.words == 8:
        return at(word)
    w, odd = word // 2, word % 2
    low = f"(({at(w)} >> 4u) & 0x0f0f0f0fu)" if odd else f"({at(w)} & 0x0f0f0f0fu)"
    if f.words == 4:
        return low
    first, second = (f"({at(4 + w // 2)} {shift})" if shift else at(4 + w // 2) for shift in _HIGH[w % 2, odd])
    return f"({low} | ({first} & 0x3030u) | ({second} & 0x30300000u))"
