"""Errors that only a kernel can see, such as an index out of range: a few words that kernels set and the host reads
whenever it waits anyway.

Kernels bind the words last, as `faults: array<atomic<u32>>`. The first bad index claims them: word 0 is 1, then the
site, the index (low and high word) and the size it had to be below. Nothing is read or written at a bad index. What a
site means is its owner's to say: `raised` is replaced by who knows.
"""

from .errors import Fault

WORDS = 8
BYTES = 4 * WORDS


def raised(words: tuple[int, ...]) -> Exception:
    """The exception for a set of fault words."""
    return Fault(words)
