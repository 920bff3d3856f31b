"""What a function reaches besides its arguments: modules, optimizers and tensors, by name, and how they are put back
after calls that only pretended to change them."""

import functools
import inspect
from collections.abc import Iterator
from types import ModuleType

import torch

from .. import tensor as T

_DEPTH = 3  # of lists and dictionaries in a closure


class Surroundings:
    """The modules, optimizers and tensors that functions, by name, see."""

    def __init__(self, functions: dict[str, object]):
        self.tensors: dict[str, torch.Tensor] = {}
        self.optimizers: list[tuple[str, torch.optim.Optimizer]] = []
        self._seen: set[int] = set()
        for self._function, function in functions.items():
            self._look("", function, 0)

    def _add(self, name: str, tensor: torch.Tensor) -> None:
        """What another function calls so too has the function's name before its own."""
        if self.tensors.setdefault(name, tensor) is not tensor:
            self.tensors.setdefault(f"{self._function}.{name}", tensor)

    def _look(self, name: str, value, depth: int) -> None:
        if depth > _DEPTH or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            for kind in (value.named_parameters, value.named_buffers):
                for inner, tensor in kind():
                    self._add(f"{name}.{inner}".strip("."), tensor)
        elif isinstance(value, torch.optim.Optimizer):
            self.optimizers.append((name or "optimizer", value))
        elif isinstance(value, torch.Tensor):
            self._add(name, value)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._look(name, part, depth + 1)
        elif isinstance(value, (list, tuple)):
            for i, one in enumerate(value):
                self._look(f"{name}.{i}".strip("."), one, depth + 1)
        elif isinstance(value, dict):
            for key, one in value.items():
                self._look(f"{name}.{key}".strip("."), one, depth + 1)
        else:
            for inner, one in _reached(value):
                self._look(f"{name}.{inner}".strip(".") if depth else inner, one, depth + 1)

    def named(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Tensors of the device by name, those of optimizers by the parameter that they belong to."""
        names = {id(tensor): name for name, tensor in self.tensors.items()}
        yield from ((n, t) for name, tensor in self.tensors.items() for n, t in _parts(name, tensor) if T.is_ours(t))
        yield from ((f"{n}.grad", t.grad) for n, t in self.tensors.items() if t.is_leaf and T.is_ours(t.grad))
        for name, optimizer in self.optimizers:
            for i, (parameter, state) in enumerate(optimizer.state.items()):
                of = names.get(id(parameter), str(i))
                yield from ((f"{name}.{of}.{key}", t) for key, t in state.items() if T.is_ours(t))

    def prepare(self) -> None:
        """Gives optimizers that have not taken a step the state that their first one would make: in the page that
        state is there from the start."""
        for _, optimizer in self.optimizers:
            parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
            if all(optimizer.state.get(p) for p in parameters):
                continue
            if optimizer.state:
                raise RuntimeError("webgpu export: an optimizer has state for some of its parameters only")
            self._first_step(optimizer, parameters)

    def _first_step(self, optimizer: torch.optim.Optimizer, parameters: list) -> None:
        """A step over gradients of zero, undone: what it leaves are moments of zero and a count that is set back."""
        values, gradients = [p.detach().clone() for p in parameters], [p.grad for p in parameters]
        for p in parameters:
            p.grad = torch.zeros_like(p)
        optimizer.step()
        with torch.no_grad():
            for p, value, gradient in zip(parameters, values, gradients):
                p.copy_(value)
                p.grad = gradient
            for state in optimizer.state.values():
                if isinstance(state.get("step"), torch.Tensor):
                    state["step"].zero_()

    def kept(self) -> "_Kept":
        return _Kept(self)


class _Kept:
    """Inside, gradients and the optimizers' tensors on the CPU may change; afterwards they are as they were."""

    def __init__(self, surroundings: Surroundings):
        self.surroundings = surroundings

    def __enter__(self):
        found = self.surroundings
        leaves = [t for t in found.tensors.values() if t.is_leaf]
        leaves += [p for _, o in found.optimizers for group in o.param_groups for p in group["params"]]
        self.gradients = [(t, t.grad) for t in leaves]
        self.states = [
            (t, t.clone()) for _, o in found.optimizers for s in o.state.values() for t in s.values() if _on_cpu(t)
        ]
        return self

    def __exit__(self, *_):
        for tensor, gradient in self.gradients:
            tensor.grad = gradient
        with torch.no_grad():
            for tensor, value in self.states:
                tensor.copy_(value)


def _parts(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """A tensor with its name; of a subclass that is made of others, such as quantised weights, those."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield name, tensor
        return
    for inner in tensor.__tensor_flatten__()[0]:
        yield from _parts(f"{name}.{inner}", getattr(tensor, inner))


def _on_cpu(value) -> bool:
    return isinstance(value, torch.Tensor) and value.is_cpu


def _reached(value) -> list[tuple[str, object]]:
    """What a function names that is none of its arguments; the object of a method."""
    if inspect.ismethod(value):
        return [("", value.__self__)]
    if not inspect.isfunction(value):
        plain = not isinstance(value, (type, ModuleType)) and hasattr(value, "__dict__") and not callable(value)
        return list(vars(value).items()) if plain else []  # such as a cache of several tensors
    found = inspect.getclosurevars(value)
    return [*found.nonlocals.items(), *found.globals.items()]
