"""C types by name without parsing C: cffi reads the names of all types again for each new one, 20 ms at a time, and
opening a device asks for fifty."""

import re

from cffi import model

_SIMPLE = re.compile(r"(\w+)\s*(?:(\*)|\[(\d*)\])?$")


def quicken(ffi) -> None:
    """Teaches `ffi` to find a type, a pointer to one or an array of one by its name; others are parsed."""
    parser = ffi._parser
    declared, parse = parser._declarations, parser.parse_type

    def parse_type(text: str):
        found = _SIMPLE.match(text)
        if found is None:
            return parse(text)
        name, pointer, length = found.groups()
        if f"typedef {name}" in declared:
            kind, quals = declared[f"typedef {name}"]
        elif name in model.PrimitiveType.ALL_PRIMITIVE_TYPES:
            kind, quals = model.PrimitiveType(name), 0
        elif name == "void" and pointer:
            return model.voidp_type
        else:
            return parse(text)
        if pointer:
            return parser._get_type_pointer(kind, quals)
        return kind if length is None else model.ArrayType(kind, int(length) if length else None)

    parser.parse_type = parse_type
