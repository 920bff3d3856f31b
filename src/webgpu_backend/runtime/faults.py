"""Errors that only a kernel can see, such as an index out of range: a few words that kernels set and the host reads
whenever it waits anyway.

Kernels bind the words last, as `faults: array<atomic<u32>>`. The first bad index claims them: word 0 is 1, then the
site, the index (low and high word) and the size it had to be below. Nothing is read or written at a bad index. What a
site means, and which line of a program called, is for others to say: `raised` and `caller` are replaced by who knows.
"""

from contextlib import contextmanager
from threading import get_ident

from .errors import Fault

WORDS = 8
BYTES = 4 * WORDS


_MOST_WATCHED = 256


def caller() -> tuple:
    """Where the program is, for `raised` to tell."""
    return None, 0


_called: dict[int, tuple | None] = {}  # by the thread that records a graph's kernels: where it is called, once one asks


@contextmanager
def called():
    """All kernels of a graph are called for at one place, which is looked for once."""
    thread = get_ident()
    _called[thread] = None
    try:
        yield
    finally:
        _called.pop(thread, None)


def watch(watched: dict[tuple, tuple], name: str, params: bytes) -> None:
    """Notes that a kernel was recorded which may report a bad index: its name and where, and its parameters, in which
    its site is. A place is some code and where in it; code is known by its address, as hashing it takes long."""
    if len(watched) >= _MOST_WATCHED:
        del watched[next(iter(watched))]
    if not _called:
        code, at = caller()
    else:
        thread = get_ident()
        code, at = _called.get(thread) or caller()
        if thread in _called:
            _called[thread] = code, at
    watched[name, id(code), at] = params, code


def raised(words: tuple[int, ...], watched: dict[tuple, tuple]) -> Exception:
    """The exception for a set of fault words."""
    return Fault(words)
