"""Python's signal handlers wait where an exception of theirs would end the process or be lost.

Torch asks the device's guard for its type from C++ functions that must not throw, wherever a node of a graph is made or
run. The guard answers in Python, and on the way there pybind11 and the interpreter look for signals: a handler that
raises then, as Control-C's does, ends the process. So every handler in Python gets a function around it, which has the
signal come again a little later: when torch has its answer, when a block of memory is given out or taken back (an
exception in between would lose it), when Python runs that the engine of gradients has called (between two such calls
torch would lose the tensors of the graph), at the end of what is `Held`.

Nothing is done per call or per gradient: all of the cost is in the moment a signal comes. `signal.getsignal` shows the
handlers that were given.
"""

import _signal
import _thread
import threading
from collections import deque
from functools import wraps

from ... import tensor as T
from ...runtime.blocks import Lease, unbroken
from . import guard
from .guard import ANSWERED, ASKED, NOTHING


class _Again(dict):
    """`_again[signum]`: the signal comes once more. It is a look-up because the interpreter looks for signals after
    each call, and would find this one at once."""

    __missing__ = _thread.interrupt_main


class _Depth(threading.local):
    held = 0


_again = _Again()
_depth = _Depth()
_waiting: dict[int, object] = {}  # signals that came while handlers were held
unbroken.update(f.__code__ for f in (Lease.__del__, T.make, T.space, T._describe))


def _patient(handler):
    """The handler, which comes a little later where it came at the wrong moment."""
    if not callable(handler) or getattr(handler, "__module__", "") == "asyncio.unix_events":  # one that does nothing
        return handler

    def patient(signum, frame):
        # Calls nothing but the handler: see `_Again`.
        code = None if frame is None else frame.f_code
        if code is ASKED:  # perhaps with an exception set, as there
            try:
                for _ in NOTHING:
                    pass
            except BaseException as error:
                guard.raised[:] = [error]
        if code is ASKED or code is ANSWERED or code is _PATIENT or guard.here.asked or code in unbroken:
            _again[signum]
        elif code in guard.engines or (code is not None and code.co_filename in unbroken):
            _again[signum]
        elif _depth.held:
            _waiting[signum] = None
        else:
            handler(signum, frame)

    patient.__wrapped__ = handler
    return patient


_PATIENT = _patient(print).__code__


def _plain(handler):
    """A handler as its owner knows it."""
    return handler.__wrapped__ if getattr(handler, "__code__", None) is _PATIENT else handler


class Held:
    """No handler of Python's runs inside; those that should have run at the end."""

    def __enter__(self):
        _depth.held += 1

    def __exit__(self, *_):
        found = [*_waiting]
        _waiting.clear()
        _depth.held -= 1
        deque(map(_thread.interrupt_main, found), 0)  # all of them, before the first handler runs


# -- in the place of functions of `signal`


def set_handler(original):
    _wrap_present()

    @wraps(original)
    def signal(signalnum, handler):
        return _plain(original(signalnum, _patient(handler)))

    return signal


def get_handler(original):
    @wraps(original)
    def getsignal(signalnum):
        return _plain(original(signalnum))

    return getsignal


def _wrap_present() -> None:
    """The handlers that are there already; Python lets the main thread alone change them."""
    if threading.current_thread() is threading.main_thread():
        for signum in _signal.valid_signals():
            handler = _signal.getsignal(signum)
            if _patient(handler) is not handler:
                _signal.signal(signum, _patient(handler))
