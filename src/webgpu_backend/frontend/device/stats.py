"""Counters that show what the runtime did."""

from ...runtime import gpu as runtime


def stats() -> dict[str, int]:
    """Dispatches, submits, compilations and memory since the process started. Creates no device."""
    if not runtime.is_initialized():
        keys = (
            "dispatches", "submits", "pipelines_compiled", "bind_groups_created", "buffers_live", "bytes_live",
            "bytes_pooled", "bytes_uploaded", "bytes_read", "allocations",
        )  # fmt: skip
        return dict.fromkeys(keys, 0)
    g = runtime.gpu()
    return {
        "dispatches": g.queue.dispatches,
        "submits": g.queue.submits,
        "pipelines_compiled": g.pipelines.compiled,
        "bind_groups_created": g.queue.bind_groups_created,
        "buffers_live": g.pool.live,
        "bytes_live": g.pool.bytes_live,
        "bytes_pooled": g.pool.bytes_pooled,
        "bytes_uploaded": g.queue.bytes_uploaded,
        "bytes_read": g.queue.bytes_read,
        "allocations": g.pool.allocations,
    }
