"""Which kernels a call takes."""

from webgpu_backend.runtime.gpu import gpu


def recorded(call) -> list:
    """What a call records, as the queue encodes it."""
    queue = gpu().queue
    with queue.lock:
        assert queue.recording is None
        queue.recording = found = []
        try:
            call()
        finally:
            queue.recording = None
    return found


def kernels_of(call) -> list[str]:
    return [dispatch.step.program.name for dispatch in recorded(call)]
