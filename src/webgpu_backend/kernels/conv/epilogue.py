"""What a convolution's kernels do to a sum before they store it, where a compiled graph asks for more than a bias."""

from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps
from ..matmul.product import BUFFERS, Matrix, epilogue_name, epilogue_text, finisher_bindings, words_of

FINISHED = (*BUFFERS, "d", "e")


class Kind(NamedTuple):
    """Statements as a product's, over r, which is the sum, over an element of d and over e0, e1, ... of its
    channel; and the dtypes of d and e."""

    act: str
    d: DType | None
    e: DType | None

    def text(self, caps: Caps) -> tuple[list[str], list[tuple[str, str, str]], list[str]]:
        """Parameter fields, bindings, and the function `epilogue(sum, channel, place, image, 0)`."""
        dtypes = (None, self.d, self.e)
        fields, functions = epilogue_text("plain", self.act, "f32", dtypes, caps, ("", "mnb", "m"))
        return fields, finisher_bindings(dtypes, caps), functions

    @property
    def tag(self) -> str:
        return epilogue_name("", self.act)


class After(NamedTuple):
    """Strides of d and e: `row` of channels, `col` of places, `outer` of images; products have `inner` of groups."""

    act: str
    d: Matrix | None
    e: Matrix | None

    @property
    def kind(self) -> Kind:
        return Kind(self.act, self.d and self.d.dtype, self.e and self.e.dtype)

    @property
    def words(self) -> list[int]:
        d = [] if self.d is None else words_of(self.d)[:4]
        return d + ([] if self.e is None else words_of(self.e)[:2])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([name for name, x in zip("de", (self.d, self.e)) if x is not None])


def given(after: After | None) -> tuple[Kind | None, list[int], tuple[str, ...]]:
    """What a program, its parameters and its bindings have of it."""
    return (None, [], ()) if after is None else (after.kind, after.words, after.names)


def texts(kind: Kind | None, caps: Caps) -> tuple[list[str], list[tuple[str, str, str]], list[str], str]:
    """As `Kind.text`, with what a program's name ends in."""
    return ([], [], [], "") if kind is None else (*kind.text(caps), kind.tag)
