"""Jinja over the `.wgsl` templates, which lie beside their planners: undefined names are errors, library functions are
added by need."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound

from ... import kernels
from ...program import Caps, Program
from ..layout import GROUPS, WORKGROUP
from . import library

Binding = tuple[str, str, str]  # a buffer: its name, `read` or `read_write`, and the type of its elements' array


class _Loader(BaseLoader):
    def get_source(self, environment, template):
        path = files(kernels) / template
        if not path.is_file():
            raise TemplateNotFound(template)
        return path.read_text(encoding="utf-8"), str(path), lambda: True


@cache
def _environment() -> Environment:
    return Environment(
        loader=_Loader(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        line_statement_prefix="//%",
    )


def render_program(
    name: str,
    template: str,
    fields: Iterable[str],
    bindings: Iterable[Binding],
    caps: Caps,
    /,
    guarded: bool = False,
    declarations: Iterable[str] = (),
    **names,
) -> Program:
    """The program of a template that includes `text/interface.wgsl`, which declares its parameters and buffers.

    A field is a word of the parameters: `name: type`, or the name alone of a u32. `declarations` are lines that follow
    the buffers. `names` are what else the template asks for; the usual `workgroup` (threads) and `groups` (of four
    elements for each thread) go without saying.
    """
    fields, bindings = [field if ":" in field else f"{field}: u32" for field in fields], list(bindings)
    names = {"workgroup": WORKGROUP[caps.kind], "groups": GROUPS[caps.kind], **names}
    head = {"fields": fields, "bindings": bindings, "declarations": declarations, "guarded": guarded}
    text = _text(template, caps, **head, **names)
    access = "".join(["r" if access == "read" else "w" for _, access, _ in bindings])
    return Program(name, text, access, 4 * len(fields), guarded=guarded)


def _text(template: str, caps: Caps, **names) -> str:
    """The whole shader: `enable` directives, library functions, then the template."""
    body = _environment().get_template(template).render(caps=caps, **names)
    parts = []
    if caps.f16 and ("<f16>" in body or "f16(" in body):
        parts.append("enable f16;\n")
    functions = library.include(body, caps.i64)
    if functions:
        parts.append(functions + "\n")
    parts.append(body)
    return "".join(parts)
