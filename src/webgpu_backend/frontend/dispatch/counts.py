"""What ran elsewhere than in a kernel of its own, by aten name."""

from collections import Counter

on_the_cpu: Counter[str] = Counter()
decomposed: Counter[str] = Counter()


def fallbacks() -> dict[str, int]:
    """CPU fallbacks since the last reset, by aten name."""
    return dict(on_the_cpu)


def decompositions() -> dict[str, int]:
    """Operators that ran through a decomposition, by aten name."""
    return dict(decomposed)


def reset_fallbacks() -> None:
    on_the_cpu.clear()
    decomposed.clear()
