"""Elementwise dispatches that follow one another, as one: the second computes what it would have read.

A value that is not stored is rounded as its dtype would have rounded it. Only numbers in f32 and flags.
"""

import ast

from ...dtypes import carrier
from ...program import Caps, Step
from .elementwise import Recipe, Spec, plan

_CARRIERS = ("f32", "bool")
_ROUNDED = {
    "float32": "float({})", "float16": "half(float({}))", "bfloat16": "brain(float({}))", "bool": "bool({})",
}  # fmt: skip
_MOST_BYTES = 128  # of parameters: what every adapter with immediates takes


class _Use:
    """A step over buffers by name, and its draw."""

    def __init__(self, step: Step, buffers: tuple, draw=None):
        self.step = step
        self.buffers = buffers
        self.draw = draw

    @property
    def written(self) -> list:
        return [b for b, access in zip(self.buffers, self.step.program.access) if access == "w"]

    @property
    def recipe(self) -> Recipe | None:
        return self.step.meaning if isinstance(self.step.meaning, Recipe) else None

    @property
    def scalars(self) -> bytes:
        return self.step.params[self.recipe.length :]


def fuse(steps: list[tuple[Step, tuple]], drawn: dict, passing: set, caps: Caps) -> tuple[list, dict]:
    """Fewer steps that do the same. `passing` names the buffers that nobody sees but the steps, `drawn` has what is
    known of some steps by their number."""
    uses = [_Use(step, buffers, drawn.get(i)) for i, (step, buffers) in enumerate(steps)]
    uses = _fused(uses, passing, caps)
    kept = {i: use.draw for i, use in enumerate(uses) if use.draw is not None}
    return [(use.step, use.buffers) for use in uses], kept


def _fused(steps: list[_Use], passing: set, caps: Caps) -> list[_Use]:
    writers, readers = {}, {}
    for step in steps:
        for buffer, access in zip(step.buffers, step.step.program.access):
            (writers if access == "w" else readers).setdefault(buffer, []).append(step)
    place = {step: i for i, step in enumerate(steps)}
    for i, first in enumerate(steps):
        if first is None or first.recipe is None:
            continue
        value = first.buffers[-1]
        users = list(dict.fromkeys(readers.get(value, ())))
        if value not in passing or len(writers[value]) > 1 or not users:
            continue
        reads = len(first.buffers) - 1
        # Each user computes it again: that must be cheap, and read no more than is read now.
        if len(users) > 1 and (reads * len(users) > reads + 1 + len(users) or not _light(first.recipe.spec)):
            continue
        last = max(place[user] for user in users)
        sources = set(first.buffers[:-1])
        if any(sources.intersection(s.written) for s in steps[i + 1 : last + 1] if s is not None):
            continue  # what it read is no longer there
        merged = [_merged(first, user, value, caps) for user in users]
        if None in merged:
            continue
        steps[i] = None
        for buffer in sources:
            readers[buffer] = [r for r in readers[buffer] if r is not first]
        for user, new in zip(users, merged):
            at = place[new] = place.pop(user)
            steps[at] = new
            for buffer in user.buffers[:-1]:
                readers[buffer] = [r for r in readers[buffer] if r is not user]
            for buffer in new.buffers[:-1]:
                readers.setdefault(buffer, []).append(new)
            writers[new.buffers[-1]] = [new if w is user else w for w in writers[new.buffers[-1]]]
    return [s for s in steps if s is not None]


def _light(spec: Spec) -> bool:
    return not any(isinstance(n, ast.Call) for n in ast.walk(ast.parse(spec.source)))


def _merged(first: _Use, second: _Use, value, caps: Caps) -> _Use | None:
    a, b = first.recipe, second.recipe
    if b is None or a.output.dtype.name not in _ROUNDED:
        return None
    own = [i for i, view in enumerate(b.inputs) if view is not None]
    taken = [i for i, buffer in zip(own, second.buffers) if buffer == value]
    if any(b.inputs[i] != a.output for i in taken):
        return None
    left, right = _Part(a, "u_", caps), _Part(b, "v_", caps, {b.spec.inputs[i] for i in taken})
    if not left.fits or not right.fits:
        return None
    rounded = _ROUNDED[a.output.dtype.name].format(left.result)
    lines = [*left.lines, f"passed = {rounded}"]
    lines += [f"{right.names[b.spec.inputs[i]]} = {right.cast(b.spec.inputs[i])}(passed)" for i in taken]
    source = "\n".join([*lines, *right.lines, right.result])
    kept = [i for i in own if i not in taken]
    tensors = [i for i, view in enumerate(a.inputs) if view is not None]
    inputs = [*left.tensors, *right.tensors]
    scalars = (*left.scalars, *right.scalars)
    types = tuple((name, kind) for name, kind in (left.types | right.types).items() if name in (*inputs, *scalars))
    name = f"{a.spec.name}+{b.spec.name}"
    spec = Spec(name if len(name) < 48 else name[:45] + "...", source, tuple(inputs), scalars, types, b.spec.outputs)
    views = [*(a.inputs[i] for i in tensors), *(b.inputs[i] for i in kept)]
    if len(views) + 1 > min(caps.max_bindings, 8):
        return None
    step, _ = plan(spec, b.compute, views, [b.output], [b.owned], [None] * len(views), caps)
    if step.program.param_bytes > _MOST_BYTES:
        return None
    step.params += first.scalars + second.scalars
    step.turned = None
    buffers = (*first.buffers[:-1], *(buffer for buffer in second.buffers[:-1] if buffer != value), second.buffers[-1])
    return _Use(step, buffers)


class _Part:
    """One side of a fusion: its names made its own, its statements, and the expression of its result."""

    def __init__(self, recipe: Recipe, prefix: str, caps: Caps, replaced: set[str] = frozenset()):
        spec = recipe.spec
        compute = carrier(recipe.compute, caps)
        fixed = dict(spec.types)
        body = ast.parse(spec.source.strip()).body
        assigned = {
            n.id for n in ast.walk(ast.Module(body, [])) if isinstance(n, ast.Name) and type(n.ctx) is ast.Store
        }
        self.names = {name: f"{prefix}{name}" for name in (*spec.inputs, *spec.scalars, *assigned)}
        self.kinds = {}
        numbers = [name for name, view in zip(spec.inputs, recipe.inputs) if view is None]
        for name, view in [*zip(spec.inputs, recipe.inputs), *((name, None) for name in spec.scalars)]:
            kind = fixed.get(name, "T")
            own = compute if view is None else carrier(view.dtype, caps)
            self.kinds[name] = compute if kind == "T" else own if kind == "own" else kind
        result = compute if spec.outputs[0] == "T" else spec.outputs[0]
        self.fits = isinstance(body[-1], ast.Expr) and all(k in _CARRIERS for k in (result, *self.kinds.values()))
        self.tensors = [self.names[n] for n in spec.inputs if n not in numbers and n not in replaced]
        self.scalars = [self.names[n] for n in (*numbers, *spec.scalars)]
        self.types = {self.names[n]: kind for n, kind in self.kinds.items()}
        texts = [ast.unparse(_Renamed(self.names).visit(statement)) for statement in body]
        self.lines, self.result = texts[:-1], texts[-1]

    def cast(self, name: str) -> str:
        return "float" if self.kinds[name] == "f32" else "bool"


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.args = [self.visit(a) for a in node.args]
        return node
