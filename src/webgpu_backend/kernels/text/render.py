"""Jinja over the `.wgsl` templates, which lie beside their planners: undefined names are errors, library functions are
added by need."""

from functools import cache
from importlib.resources import files

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound

from ... import kernels
from ...program import Caps
from . import library


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


def render(template: str, caps: Caps, **names) -> str:
    """The whole shader text: `enable` directives, library functions, then the template."""
    body = _environment().get_template(template).render(caps=caps, **names)
    parts = []
    if "f16" in body and caps.f16 and _uses_f16(body):
        parts.append("enable f16;\n")
    functions = library.include(body, caps.i64)
    if functions:
        parts.append(functions + "\n")
    parts.append(body)
    return "".join(parts)


def _uses_f16(body: str) -> bool:
    return "<f16>" in body or "f16(" in body
