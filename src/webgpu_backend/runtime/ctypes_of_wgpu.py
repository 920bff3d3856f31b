"""C types by name without parsing C: cffi reads the names of all types again for each new one, 20 ms at a time, and
opening a device asks for fifty."""

import re
from functools import wraps

from cffi import model

_SIMPLE = re.compile(r"(\w+)(\s+const)?\s*(?:(\*)|\[(\d*)\])?\s*$")
_FUNCTION = re.compile(r"([^()]*)\(([^()]*)\)\s*$")


def quickened(parse):
    """In the place of the `parse_type` of an FFI's parser: finds a type, a pointer to one, an array of one or a
    function of such by their names; others are parsed."""
    parser = parse.__self__
    declared = parser._declarations

    def simple(text: str):
        found = _SIMPLE.match(text.strip())
        if found is None:
            return None
        name, const, pointer, length = found.groups()
        if f"typedef {name}" in declared:
            kind, quals = declared[f"typedef {name}"]
        elif name in model.PrimitiveType.ALL_PRIMITIVE_TYPES:
            kind, quals = model.PrimitiveType(name), 0
        elif name == "void" and not const:
            return model.voidp_type if pointer else model.void_type
        else:
            return None
        if pointer:
            return parser._get_type_pointer(kind, quals | (model.Q_CONST if const else 0))
        return kind if length is None else model.ArrayType(kind, int(length) if length else None)

    def function(text: str):
        found = _FUNCTION.match(text)
        if found is None:
            return None
        kinds = [simple(each) for each in (found[1], *found[2].split(","))]
        if any(k is None or isinstance(k, (model.ArrayType, model.RawFunctionType)) for k in kinds):
            return None
        return model.RawFunctionType(tuple(k for k in kinds[1:] if k is not model.void_type), kinds[0], False)

    @wraps(parse)
    def parse_type(text: str):
        return simple(text) or function(text) or parse(text)

    return parse_type
