"""What attention's kernels do to an element before they store it, where a compiled graph asks for more."""

from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps
from ..matmul.product import Matrix, epilogue_name, epilogue_text, finisher_bindings, words_of


class Kind(NamedTuple):
    """Statements as a product's, over r, which is the element, and over one of d; and the dtypes of the result and of
    d."""

    act: str
    out: DType
    d: DType | None


class After(NamedTuple):
    """Strides of d: `row`, `col`, `outer` of batches and `inner` of heads."""

    act: str
    out: DType
    d: Matrix | None

    @property
    def kind(self) -> Kind:
        return Kind(self.act, self.out, self.d and self.d.dtype)

    @property
    def words(self) -> list[int]:
        return [] if self.d is None else words_of(self.d)


def given(after: After | None) -> tuple[Kind | None, list[int]]:
    """What a program and its parameters have of it."""
    return (None, []) if after is None else (after.kind, after.words)


def written(kind: Kind | None, dtype: DType) -> DType:
    """What a kernel over operands of a dtype writes."""
    return dtype if kind is None else kind.out


def texts(kind: Kind | None, caps: Caps) -> tuple[list[str], list[tuple[str, str, str]], list[str], str]:
    """Parameter fields, bindings, the function `epilogue(element, row, column, batch, head)`, and what a program's name
    ends in."""
    if kind is None:
        return [], [], [], ""
    dtypes = (None, kind.d)
    fields, functions = epilogue_text("plain", kind.act, "f32", dtypes, caps)
    return fields, finisher_bindings(dtypes, caps), functions, f"{epilogue_name('', kind.act)}{kind.out.short}"
