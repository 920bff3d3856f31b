"""A token's key and value, written to the end of a cache of fixed size, and its count, which grows by one: one dispatch
of one workgroup, whose threads have all read the count when one of them changes it."""

from functools import cache

from ...program import Caps, Program, Step
from ..text.numbers import packed
from ..text.render import render_program

MOST_GROUPS = 8192  # groups of four elements; more of them want more than one workgroup
GROUPS = {1: "u32", 2: "vec2<u32>", 4: "vec4<u32>"}  # by the bytes of an element
_PLACES = ("o", "b", "h", "r")


def plan(item: int, batch: int, heads: int, size: int, count: int, site: int, tensors: dict, caps: Caps) -> Step:
    """`tensors` are keys, values, key and value: groups of four in a row, then offset and strides in such groups."""
    words = [batch * heads, heads, size, count, site]
    for name in ("key", "value"):
        words += [tensors[name][0], *tensors[f"{name}s"][1:], *tensors[name][1:4]]
    return Step(_program(item, caps), packed(words), (1, 1, 1))


@cache
def _program(item: int, caps: Caps) -> Program:
    fields = ["rows", "heads", "size", "count_o", "site"]
    for name in ("key", "value"):
        fields += [f"{name}_n", *[f"{name}s_{at}" for at in _PLACES], *[f"{name}_{at}" for at in _PLACES[:3]]]
    groups = f"array<{GROUPS[item]}>"
    bindings = [(name, "read", groups) for name in ("key", "value")]
    bindings += [(name, "read_write", groups) for name in ("keys", "values")]
    bindings.append(("count", "read_write", "array<vec2<u32>>"))
    return render_program(f"append_{item}", "attention/append.wgsl", fields, bindings, caps, guarded=True)
