"""Counters that show what the runtime did, and what it holds."""

from ...plan import cache
from ...runtime import budget
from ...runtime import gpu as runtime

_NAMES = (
    "dispatches", "submits", "pipelines_compiled", "pipelines_released", "pipelines_live", "pipelines_text_bytes",
    "bind_groups_created", "bind_groups_live", "plans_live", "buffers_live", "bytes_live", "bytes_pooled",
    "bytes_uploaded", "bytes_read", "allocations", "cache_bytes", "cache_limit",
)  # fmt: skip


def stats() -> dict[str, int]:
    """Dispatches, submits, compilations and copies since the process started; pipelines, bind groups, plans and memory
    that are there now, of all devices. Creates none."""
    total = dict.fromkeys(_NAMES, 0)
    for g in runtime.opened():
        kind, pipelines, groups = g.caps.kind, len(g.pipelines), g.queue.bind_groups
        plans, held = (0, 0) if total["cache_limit"] else (len(cache), cache.held)  # which are common to all
        counted = (
            g.queue.dispatches, g.queue.submits, g.pipelines.compiled, g.pipelines.released, pipelines,
            g.pipelines.text_bytes, g.queue.bind_groups_created, groups, plans, g.pool.live,
            g.pool.bytes_live, g.pool.bytes_pooled, g.queue.bytes_uploaded, g.queue.bytes_read, g.pool.allocations,
            budget.taken(kind, held, groups, pipelines, g.pipelines.text_bytes), budget.limit(kind),
        )  # fmt: skip
        for name, count in zip(_NAMES, counted, strict=True):
            total[name] += count
    return total
