"""The guard that torch asks for the current device, and gradients, in which it is asked most.

Torch asks from C++ functions that must not throw, while the exception of a hook passes too. What Python raises then
ends the process, so nothing is raised here: an exception that is on its way is taken and raised again by
`run_backward`, and signals wait (see `signals`).
"""

import threading
from functools import wraps

import torch

from webgpu_backend_autoload import accelerator

from ... import tensor as T
from ...runtime import gpu as runtime


class _Here(threading.local):
    asked = False  # torch has begun to ask on this thread and has no answer yet


here = _Here()
raised: list[BaseException] = []  # exceptions that were on their way when torch asked, until the engine has returned
NOTHING = iter(frozenset())
engines: set = set()  # the code of torch's functions that call the engine
_KIND = torch._C._autograd.DeviceType.PrivateUse1


def _answer():
    here.asked = False
    return _KIND


class Guard(torch._C._acc.DeviceGuard):
    @property
    def type_(self):
        """The function that tells the kind of device: asked for up to twelve times in a gradient. Calling anything, or
        returning, fails while an exception is set; a loop over nothing raises it here and costs nothing."""
        try:
            for _ in NOTHING:
                pass
        except BaseException as error:
            raised[:] = [error]
        here.asked = True
        return _answer


ASKED, ANSWERED = Guard.type_.fget.__code__, _answer.__code__


def beside() -> str:
    """What cannot be done beside torch's own accelerator, and how to have both."""
    kind = accelerator()
    return (
        "torch takes a device that is registered from outside for the one accelerator of a process, so gradients of "
        f"{kind} tensors fail in this one; everything else works beside {kind}. For gradients on both devices take a "
        "process for each: one that does not import webgpu_backend, and one "
        + ("with CUDA_VISIBLE_DEVICES set to nothing" if kind == "CUDA" else "that does")
    )


def run_backward(run):
    """Torch's engine hands an accelerator's nodes to a thread of its own and waits, and waking two threads takes longer
    than most operators: gradients of the device are computed on the thread that asks for them."""
    engines.add(run.__code__)
    threaded, choose = torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled

    @wraps(run)
    def run_backward(outputs, *args, **kwargs):
        raised.clear()
        first = outputs[0] if outputs else None
        try:
            ours = isinstance(first, torch.Tensor) and first.device.type == T.NAME
            if not (ours or runtime.several) or not threaded():  # the engine has a thread for one device of ours
                return run(outputs, *args, **kwargs)
            try:
                choose(False)
                return run(outputs, *args, **kwargs)
            finally:
                choose(True)
        except SystemError:  # without the exception that was taken
            if not raised:
                raise
            raise raised.pop() from None
        except RuntimeError as error:
            if "opt_ready_stream" in str(error):  # an assertion about streams of the accelerator
                raise RuntimeError(f"webgpu: {beside()}") from error
            raise

    return run_backward
