"""The operator table against aten's schemas and the expression language: no GPU."""

import inspect

import pytest
import torch

import webgpu_backend  # noqa: F401  (fills the table)
from webgpu_backend.dtypes import REAL, Unsupported
from webgpu_backend.frontend.dispatch.registration import loses_gradient, overloads_of
from webgpu_backend.kernels.text.expression import Emitter
from webgpu_backend.ops.table import CHOICES, CUSTOM, ENTRIES, POINTWISE

CARRIERS = ("f32", "i32", "u32", "bool", "n64", "i64", "c64", "f64", "c128")


def translates(spec, carrier: str) -> bool:
    types = dict(spec.types)
    follows = {"T": carrier, "own": carrier, "real": REAL.get(carrier, carrier), "complex": "c64"}
    kinds = {n: types.get(n, "T") for n in (*spec.inputs, *spec.scalars)}
    names = {n: follows.get(kind, kind) for n, kind in kinds.items()}
    outputs = [(f"out{k}", follows.get(o, o)) for k, o in enumerate(spec.outputs)]
    try:
        lines = Emitter(names).program(spec.source, outputs)
    except Unsupported:
        return False
    assert all(any(f"let {name} = " in line for line in lines) for name, _ in outputs), lines
    return True


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.spec.name)
def test_every_expression_translates_for_some_carrier(entry):
    assert any(translates(entry.spec, carrier) for carrier in CARRIERS)


@pytest.mark.parametrize("name", sorted(POINTWISE))
def test_every_entry_serves_an_overload_of_aten(name):
    overloads = overloads_of(name)
    assert overloads, f"aten has no {name}"
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    assert any(has(o.name(), "PrivateUse1") for o in overloads if _registered(o)), f"no overload of {name} is served"


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: f"{c.aten}-{len(c.arguments)}")
def test_every_choice_matches_a_schema(choice):
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    served = 0
    for overload in overloads_of(choice.aten):
        named = [a for a in overload._schema.arguments if not (a.kwarg_only and a.alias_info and a.alias_info.is_write)]
        if [a.name for a in named] != list(choice.arguments) or not _registered(overload):
            continue
        served += has(overload.name(), "PrivateUse1")
        # torch leaves out arguments that have their defaults: the function's must be the schema's.
        for argument, parameter in zip(named, inspect.signature(choice.pick).parameters.values()):
            if argument.has_default_value():
                assert parameter.default == argument.default_value, (overload.name(), argument.name)
    assert served, f"no overload of {choice.aten} takes {choice.arguments}"


@pytest.mark.parametrize("overload", sorted({overload for overload, key in CUSTOM if "::" not in overload}))
def test_every_custom_overload_exists(overload):
    base, _, name = overload.partition(".")
    assert (name or "default") in getattr(torch.ops.aten, base).overloads()


def test_no_entry_hides_a_gradient():
    """A kernel below autograd on a composite that torch differentiates through would cut the gradient in silence."""
    hidden = []
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name, entry in POINTWISE.items():
        if entry.promote != "always_bool":
            served = [o for o in overloads_of(name) if _registered(o) and has(o.name(), "PrivateUse1")]
            hidden += [o.name() for o in served if loses_gradient(o)]
    assert not hidden


def _registered(overload) -> bool:
    """TorchScript's overloads on numbers (add.int) are not operators of the dispatcher."""
    return any(str(a.type) in ("Tensor", "Optional[Tensor]") for a in overload._schema.arguments)
