"""How much of the host's memory the caches may take: one budget, of which each has its share.

What an entry takes is an estimate, measured with the process's memory over thousands of entries: a plan with its
tables, a bind group, and a pipeline, whose machine code grows with its text. A software adapter's machine code lies in
the process's own memory; a GPU's driver keeps it in a smaller form.
"""

from .. import env

DEFAULT = {"gpu": 1 << 30, "cpu": 544 << 20}
PLAN = 3300
BIND_GROUP = 900
PIPELINE = {"gpu": 100_000, "cpu": 850_000}
TEXT = {"gpu": 12, "cpu": 100}  # of machine code for each byte of a pipeline's text
_PIPELINES, _PLANS, _BIND_GROUPS = 0.77, 0.2, 0.03
LEAST = 16  # entries that every cache has room for


def limit(kind: str) -> int:
    """Bytes for all caches together, by the adapter's class."""
    return env.CACHE_LIMIT or DEFAULT[kind]


def plans(kind: str) -> int:
    return max(int(limit(kind) * _PLANS) // PLAN, LEAST)


def bind_groups(kind: str) -> int:
    return max(int(limit(kind) * _BIND_GROUPS) // BIND_GROUP, LEAST)


def pipelines(kind: str) -> tuple[int, int]:
    """How many there may be, and how many bytes of text they may have together."""
    share = int(limit(kind) * _PIPELINES)
    return max(share // PIPELINE[kind], LEAST), max(share // TEXT[kind], LEAST << 13)


def taken(kind: str, plans: int, bind_groups: int, pipelines: int, text_bytes: int) -> int:
    """What the caches take now, by the same estimate."""
    return plans * PLAN + bind_groups * BIND_GROUP + max(pipelines * PIPELINE[kind], text_bytes * TEXT[kind])
