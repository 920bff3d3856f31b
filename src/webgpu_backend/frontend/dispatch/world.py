"""Settings that no call shows and that plans depend on: where they change, the plans in use change."""

from functools import wraps

import torch

from ...plan import cache


def _telling(fact: str):
    """In the place of a setter."""

    def replacement(original):
        @wraps(original)
        def set_(value, *rest, **named):
            original(value, *rest, **named)
            cache.change(**{fact: value})

        return set_

    return replacement


default_dtype = _telling("default_dtype")
deterministic = _telling("deterministic")
filled = _telling("filled")


def observe() -> None:
    """The settings as they are."""
    cache.change(
        default_dtype=torch.get_default_dtype(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        filled=torch.utils.deterministic.fill_uninitialized_memory,
    )
