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
from .double import double_text
from .kept import kept

Binding = tuple[str, str, str]  # a buffer: its name, `read` or `read_write`, and the type of its elements' array


class _Loader(BaseLoader):
    def get_source(self, environment, template):
        path = files(kernels) / template
        if not path.is_file():
            raise TemplateNotFound(template)
        return path.read_text(encoding="utf-8"), str(path), lambda: True


@cache
def _environment() -> Environment:
    settings = dict(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, line_statement_prefix="//%")
    return Environment(loader=_Loader(), undefined=StrictUndefined, bytecode_cache=kept(repr(settings)), **settings)


def render_program(
    name: str,
    template: str,
    fields: Iterable[str],
    bindings: Iterable[Binding],
    caps: Caps,
    /,
    guarded: bool = False,
    declarations: Iterable[str] = (),
    double: bool = False,
    **names,
) -> Program:
    """The program of a template that includes `text/interface.wgsl`, which declares its parameters and buffers.

    A field is a word of the parameters: `name: type`, or the name alone of a u32. `declarations` are lines that follow
    the buffers. With `double` what is f32 in the text and the parameters is f64. `names` are what else the template
    asks for; the usual `workgroup` (threads) and `groups` (of four elements for each thread) go without saying.
    """
    fields, bindings = [field if ":" in field else f"{field}: u32" for field in fields], list(bindings)
    singles = [field.partition(":")[0] for field in fields if double and field.endswith(": f32")]
    fields = [part for field in fields for part in _words(field, singles)]
    names = {"workgroup": WORKGROUP[caps.kind], "groups": GROUPS[caps.kind], **names}
    head = {"fields": fields, "bindings": bindings, "declarations": declarations, "guarded": guarded}
    body = _environment().get_template(template).render(caps=caps, **head, **names)
    text = _whole(double_text(body, singles) if double else body, caps)
    access = "".join(["r" if access == "read" else "w" for _, access, _ in bindings])
    return Program(name, text, access, 4 * len(fields), guarded=guarded)


def render_text(template: str, /, **names) -> str:
    """A part of a program's text."""
    return _environment().get_template(template).render(**names)


def _words(field: str, singles: list[str]) -> list[str]:
    """A field, or the two words of one that is float64."""
    name = field.partition(":")[0]
    return [f"{name}_lo: u32", f"{name}_hi: u32"] if name in singles else [field]


def _whole(body: str, caps: Caps) -> str:
    """The whole shader: `enable` directives, library functions, then the template's text."""
    parts = []
    if caps.f16 and ("<f16>" in body or "f16(" in body):
        parts.append("enable f16;\n")
    if "coop_mat" in body:
        parts.append("enable wgpu_cooperative_matrix;\n")
    functions = library.include(body, caps.i64)
    if functions:
        parts.append(functions + "\n")
    parts.append(body)
    return "".join(parts)
