"""Short forms: the function that torch calls for an operator, written out for the arguments it has.

A loop over arguments costs as much again as the look-up of a plan. So the text of a function without loops is made for
each pattern of arguments that occurs, and compiled once for all operators that have it. It finds the blocks under the
tensors, looks the plan up by their metadata and the other arguments, and runs it. What is unusual goes to the operator:
no plan yet, no block (nothing in the tensor, or another device), a number where a tensor stands, a tensor too large.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from . import places, run

# Kinds of arguments, by torch's name of their type.
_KINDS = {
    "Tensor": "t", "Optional[Tensor]": "o", "List[Tensor]": "l", "List[Optional[Tensor]]": "m",
    "number": "s", "Optional[number]": "s", "float": "s", "Optional[float]": "s",
    "Generator": "g", "Optional[Generator]": "g",
}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """What a short form is written for. `kinds` has a letter for each argument: t a tensor, o one or None, l a list of
    tensors, m a list of tensors and Nones, s a number, i a list of numbers, g a generator, n anything else that can be
    a key, p a number that goes into the parameters."""

    kinds: str
    positional: int  # how many may come without a name
    names: tuple[str, ...]  # of the others
    defaults: int  # how many of the last positional ones may be left out
    written: tuple[int, ...] = ()
    returned: tuple[int, ...] | None = None  # arguments that are the result; None: what the plan makes
    marked: str = ""  # the method that takes conjugated and negated views; empty: none come
    composite: bool = False  # torch's composite takes tangents, and what is under a transform
    graded: bool = False  # called above autograd: `op.graded` takes what is differentiated
    mixed: bool = False  # a number may stand for any tensor but the first: `op.forms` has a form for that
    rest: bool = False  # more arguments may come: `op.more` takes them


def kind_of(type_name: str) -> str:
    found = _KINDS.get(type_name)
    return found or ("i" if "List[" in type_name else "n")


def pattern_of(schema, writes: tuple[str, ...] = (), returns: tuple[str, ...] = (), **rest) -> tuple[Pattern, tuple]:
    """The pattern of an aten schema, and the defaults of its arguments. `writes` names arguments that are written
    though the schema does not say so, `returns` those of them that are the result."""
    arguments = schema.arguments
    kinds = "".join([kind_of(str(a.type)) for a in arguments])
    positional = sum(not a.kwarg_only for a in arguments)
    defaults = [_default(a) if a.has_default_value() else None for a in arguments]
    optional = 0
    while optional < positional and arguments[positional - 1 - optional].has_default_value():
        optional += 1
    written = tuple([i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write])
    returned = None
    if writes:
        written = tuple([i for i, a in enumerate(arguments) if a.name in writes])
        if returns:
            returned = tuple([i for i, a in enumerate(arguments) if a.name in returns])
    elif written:
        returned = tuple([_aliased(arguments, r) for r in schema.returns if r.alias_info is not None])
        if len(returned) != len(schema.returns):
            returned = None
    names = tuple([a.name for a in arguments[positional:]])
    return Pattern(kinds, positional, names, optional, written, returned, **rest), tuple(defaults)


_DTYPES = {4: torch.int64, 6: torch.float32, 7: torch.float64, 11: torch.bool}  # by the numbers that schemas have


def _default(argument):
    value = argument.default_value
    if value.__class__ is int and "ScalarType" in str(argument.real_type):
        return _DTYPES[value]
    return tuple(value) if value.__class__ is list else value


def _aliased(arguments, result) -> int:
    sets = [a.alias_info.before_set if a.alias_info is not None else None for a in arguments]
    return sets.index(result.alias_info.before_set)


def short_form(operator, pattern: Pattern, defaults: tuple) -> Callable:
    """The function for an operator: `operator` has its plans, and takes what is unusual.

    Its text is written and compiled at its first call, and the function gets the code then: a program uses few of the
    patterns there are.
    """
    form = _unwritten(operator, operator.plans, None)
    _waiting[form] = (pattern, defaults)
    return form


_waiting: dict[Callable, tuple[Pattern, tuple]] = {}
_forms: list[tuple] = []  # those that are written, and what they are written of
_several = False  # they are written for several devices


def separate() -> None:
    """A second device is about to be there: every form gets the text for several. A call that is under way ends by the
    text it has begun with, on the device that was the only one."""
    global _several
    _several = True
    for form, operator, pattern, defaults in list(_forms):
        form.__code__ = _factory(pattern, True)(operator, operator.plans, defaults).__code__


def _written(form: Callable, operator) -> Callable:
    """The form with its code."""
    found = _waiting.get(form)
    if found is not None:  # no other thread was quicker
        pattern, defaults = found
        made = _factory(pattern, _several)(operator, operator.plans, defaults)
        form.__defaults__, form.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        form.__code__ = made.__code__
        _forms.append((form, operator, pattern, defaults))
        _waiting.pop(form, None)  # last: an exception before this (Control-C) leaves the form to be written
    return form


def _compiled(text: str, name: str) -> Callable:
    scope: dict = {}
    exec(compile(text, f"<{name}>", "exec"), run.__dict__, scope)
    return scope["factory"]


run.written, run.elsewhere, run.moved, run.owner = _written, places.elsewhere, places.moved, places.owner
# The same variables of the surrounding function as every form has: code can be exchanged only where they agree.
_unwritten = _compiled(
    """
def factory(op, plans, d):
    def call(*args, **kwargs):
        plans
        return written(call, op)(*args, **kwargs)
    return call
""",
    "short form to be written",
)


@cache
def _factory(pattern: Pattern, several: bool) -> Callable:
    return _compiled(_Writer(pattern, several).text(), f"short form {pattern.kinds}")


class _Writer:
    def __init__(self, pattern: Pattern, several: bool):
        self.pattern = pattern
        self.several = several  # devices
        kinds, positional = pattern.kinds, pattern.positional
        self.names = [f"a{i}" for i in range(positional)] + list(pattern.names)
        self.tensors = [i for i, k in enumerate(kinds) if k in "to"]
        self.lists = [i for i, k in enumerate(kinds) if k in "lm"]
        self.packed = [i for i, k in enumerate(kinds) if k == "p"]

    def text(self) -> str:
        body = [*self._body(), "return call"]  # never reached: see `_unwritten`
        lines = [f"def call({self._signature()}):", *["    " + line for line in body], "return call"]
        return "def factory(op, plans, d):\n" + "\n".join("    " + line for line in lines)

    def _signature(self) -> str:
        p, parts = self.pattern, []
        for i, name in enumerate(self.names):
            if i == p.positional:
                parts.append("*")
            optional = i >= p.positional - p.defaults
            parts.append(f"{name}=d[{i}]" if optional else name)
        return ", ".join([*parts, "*args", "**rest"] if p.rest else parts)

    def _call(self, what: str, key: bool = True) -> str:
        known = f"key, {self._tensors()}, {self._bound()}, " if key else ""
        return f"return op.{what}({known}{self._given()})"

    def _tensors(self) -> str:
        """All tensors among the arguments, in order."""
        found = [f"*({n} or ())" if i in self.lists else n for i, n in enumerate(self.names) if i in self._slots()]
        return f"[{', '.join(found)}]"

    def _bound(self) -> str:
        found = [f"*x{i}" if i in self.lists else f"x{i}" for i in self._slots()]
        return f"[{', '.join(found)}]"

    def _slots(self) -> list[int]:
        return sorted(self.tensors + self.lists)

    def _body(self) -> list[str]:
        p, lines = self.pattern, self._place() if self.several else []
        lines += self._guards()
        if self._slots():
            lines += [
                "try:",
                *["    " + line for line in self._blocks()],
                "except (AttributeError, TypeError, RuntimeError):",
            ]
            lines += ["    " + self._call("odd", key=False)]
        lines.append(f"key = ({self._key()}, place)" if self.several else f"key = ({self._key()},)")
        lines.append("plan = plans.get(key)")
        unusual = ["plan is None", *[self._missing(i) for i in self._slots()]]
        for i in p.written:
            if i in self.tensors:
                unusual += [f"x{i} is x{j}" for j in self.tensors if j != i and not (j in p.written and j < i)]
                unusual += [f"x{i} in x{j}" for j in self.lists]
        lines += [f"if {' or '.join(unusual)}:"]
        if self.several:  # tensors of two devices
            lines.append(f"    elsewhere({self._given()}, op.name)")
        lines += ["    " + self._call("miss")]
        lines += ["try:", *["    " + line for line in self._run()], "except (BindingTooLarge, Stale):"]
        lines.append("    " + self._call("large"))
        return lines

    def _given(self, more: bool = False) -> str:
        """The arguments, in a tuple and a dictionary."""
        args = "".join(f"{n}, " for n in self.names[: self.pattern.positional])
        kwargs = "".join(f"{n!r}: {n}, " for n in self.names[self.pattern.positional :])
        return f"({args}*args), {{{kwargs}**rest}}" if more else f"({args}), {{{kwargs}}}"

    def _place(self) -> list[str]:
        """Where there are several devices: goes to the one that the call is for. The first tensor shows most often
        which that is, and where there is none, the device that is named."""
        slots, names, given = self._slots(), self.names, self._given(self.pattern.rest)
        lines = ["place = gpu()", "blocks, place = place.pool.blocks, place.index"]
        if not slots:
            if "device" in names:
                lines += ["if device is not None and device.index is not None and device.index != place:"]
                lines += [f"    return moved(call, device.index, {given})"]
            return lines
        first = names[slots[0]]
        first = f"{first}[0]" if slots[0] in self.lists else first
        lines += ["try:", f"    uid = {first}.data_ptr() >> 40", "    known = blocks[uid]"]
        lines += ["except (AttributeError, TypeError, RuntimeError, IndexError):", "    uid, known = 0, None"]
        if "device" in names:
            lines += ["if known is None or device is not None:", f"    other = elsewhere({given}, op.name)"]
        else:
            lines += ["if known is None:", "    other = owner(uid)"]
            lines += ["    if other is None:", f"        other = elsewhere({given}, op.name)"]
        return [*lines, "    if other is not None:", f"        return moved(call, other, {given})"]

    def _guards(self) -> list[str]:
        p, names = self.pattern, self.names
        lines = []
        if p.rest:
            lines += ["if args or rest:", f"    return op.more({', '.join(names)}, *args, **rest)"]
        for i in self.tensors[1:] if p.mixed else ():
            kinds = p.kinds[:i] + "p" + p.kinds[i + 1 :]
            lines += [f"if {names[i]}.__class__ in NUMBERS:", f"    return op.forms[{kinds!r}]({', '.join(names)})"]
        if p.composite and self.tensors:
            transforms = " or transforms_active()" if p.graded else ""
            lines += [f"if forward_ad._current_level >= 0{transforms}:"]
            lines += ["    " + self._call("traced", key=False)]
        if p.graded:
            wanted = " or ".join(self._requires_grad(i) for i in self.tensors)
            lines += [f"if grad_enabled() and ({wanted}):", "    " + self._call("graded", key=False)]
        generators = [names[i] for i, k in enumerate(p.kinds) if k == "g"]
        if generators:
            lines += [f"if {generators[0]} is not None:", "    " + self._call("odd", key=False)]
        return lines

    def _blocks(self) -> list[str]:
        lines = []
        for i in self._slots():
            kind, name = self.pattern.kinds[i], self.names[i]
            if kind == "t":
                lines.append(f"x{i} = blocks[{name}.data_ptr() >> 40]")
            elif kind == "o":
                lines.append(f"x{i} = None if {name} is None else blocks[{name}.data_ptr() >> 40]")
            elif kind == "l":
                lines.append(f"x{i} = [blocks[t.data_ptr() >> 40] for t in {name}]")
            else:
                lines.append(f"x{i} = [None if t is None else blocks[t.data_ptr() >> 40] for t in {name}]")
        if self.pattern.marked:
            marked = " or ".join(self._marked(i) for i in self.tensors)
            lines += [f"if {marked}:", "    " + self._call(self.pattern.marked, key=False)]
        return lines

    def _requires_grad(self, i: int) -> str:
        return self._of_some(i, f"{self.names[i]}.requires_grad")

    def _marked(self, i: int) -> str:
        name = self.names[i]
        plain = f"{name}.__class__ not in PLAIN or " if self.pattern.marked == "odd" else ""
        return self._of_some(i, f"{plain}{name}.is_neg() or {name}.is_conj()")

    def _of_some(self, i: int, text: str) -> str:
        """A condition on a tensor that may be None."""
        return f"({self.names[i]} is not None and ({text}))" if self.pattern.kinds[i] == "o" else text

    def _missing(self, i: int) -> str:
        kind, name = self.pattern.kinds[i], self.names[i]
        if kind == "t":
            return f"x{i} is None"
        if kind == "o":
            return f"(x{i} is None and {name} is not None)"
        if kind == "l":
            return f"None in x{i}"
        return f"any([x is None and t is not None for x, t in zip(x{i}, {name})])"

    def _key(self) -> str:
        parts = []
        for i, (kind, name) in enumerate(zip(self.pattern.kinds, self.names)):
            if kind == "t":
                parts.append(_metadata(name))
            elif kind == "o":
                parts.append(f"None if {name} is None else ({_metadata(name)})")
            elif kind in "lm":
                one = f"({_metadata('t')})" if kind == "l" else f"None if t is None else ({_metadata('t')})"
                parts.append(f"*[{one} for t in {name}], len({name})")
            elif kind == "s":
                parts.append(f"{name}.__class__, {name} or str({name})")
            elif kind == "i":
                parts.append(f"None if {name} is None else tuple({name})")
            elif kind == "p":
                parts.append(f"{name}.__class__")
            elif kind == "n":
                parts.append(name)
            if i in self.pattern.written and i in self.tensors:
                parts.append(f"x{i}.nbytes if x{i} is not None else None")
        return ", ".join(parts) or "0"

    def _run(self) -> list[str]:
        """The run of a plan that was found; a plan of one step over the arguments, or some of them, is run here."""
        p, lines = self.pattern, []
        packs = [f"pack{k}({self.names[i]})" for k, i in enumerate(self.packed)]
        if not self._slots():
            lines += ["if not plan.steps:", "    return make(plan.outputs[0])[0]"]
        if not self.lists and "o" not in p.kinds:
            lines += ["step = plan.simple", "if step is not None:"]
            params = "step.params"
            if len(packs) == 1:
                name = self.names[self.packed[0]]
                params = f"plan.packed.get({name}) or with_number(plan, {name})"
            elif packs:
                lines.append(f"    {', '.join(f'pack{k}' for k in range(len(packs)))} = plan.packers")
                params = " + ".join(["step.params", *packs])
            read = [f"x{i}" for i in self.tensors if i not in p.written]
            if p.written:
                lines.append(f"    record(step, ({', '.join([*read, *[f'x{i}' for i in p.written]])},), {params})")
            else:
                lines.append("    out, y = make(plan.outputs[0])")
                lines.append(f"    record(step, ({', '.join([*read, 'y'])},), {params})")
            lines.append(f"    return {self._result('out')}")
        if self._slots() and not packs and not p.written:
            lines += ["pick = plan.pick", "if pick is not None:"]
            lines += ["    out, y = make(plan.outputs[0])", "    step = plan.steps[0]"]
            lines += [f"    record(step, pick([{self._bound()[1:-1]}, y]), step.params)", "    return out"]
        call = f"execute(plan, {self._bound()}, {self._tensors()}"
        if packs:
            lines.append(f"{', '.join(f'pack{k}' for k in range(len(packs)))}, = plan.packers")
            call += f", {' + '.join(packs)}"
        lines += [f"found = {call})", f"return {self._result('found')}"]
        return lines

    def _result(self, made: str) -> str:
        if self.pattern.returned is None:
            return made
        return ", ".join([self.names[i] for i in self.pattern.returned]) or "None"


def _metadata(name: str) -> str:
    return f"{name}.dtype, {name}.shape, {name}.stride(), {name}.storage_offset()"
