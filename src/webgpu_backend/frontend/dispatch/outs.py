"""What torch checks of `out=` before anything is written: asked of the CPU with zeros, and where it cannot be asked of
the meta device, whose code is for many operators Python with words, and rules, of its own."""

import re
import warnings

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ... import tensor as T
from ...ops.overlap import no_internal_overlap, no_overlap
from ...ops.pointwise.elementwise import _scalar_name, resize_output
from ...ops.pointwise.operators import DTYPE_WORDS

_passed: set[tuple] = set()
_MOST = 4096
_MOST_ELEMENTS = 1 << 20  # that the CPU is asked with
_OF_DTYPES = re.compile(r"dtype|scalar type|\bcast")
# What no other argument may share memory with.
_ALONE = ("gather", "take", "index_select", "masked_select", "nonzero", "kthvalue", "linalg_cross")
# What resizes `out` without a word, whatever it held.
SILENT = ("addbmm", "bernoulli", "multinomial", "narrow_copy")
# Operators whose sizes follow from values, which the meta device does not know, and what they say.
_WORDS = {
    **dict.fromkeys(
        ("amax", "amin"),
        "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for out's dtype.",
    ),
    **dict.fromkeys(
        ("aminmax", "_linalg_eigh"),
        "Expected out tensor to have dtype {kind}, but got {other} instead",
    ),
    "all": "all only supports bool tensor for result, got: {got}",
    "any": "any only supports bool tensor for result, got: {got}",
    "multinomial": "multinomial expects Long tensor out, got: {got}",
    "masked_select": "masked_select(): self and result must have the same scalar type",
    "nonzero": "nonzero: Expected out tensor to have scalar type Long but got scalar type {got}",
    "nonzero_static": "nonzero_static: Expected out tensor to have scalar type Long but got scalar type{got}",
    "kthvalue": "output values must be of same type as input",
    "take": "take(): self and out expected to have the same dtype, but got self.dtype = {want} and out.dtype = {got}",
}

_CASTABLE = "{op}: Expected {what} to be safely castable from {want} dtype, but got {what} with dtype {got}"
# What others say where the dtype has no room, and how they call what they write.
_UNCASTABLE = {
    "cholesky_inverse": ("cholesky_inverse", "result"),
    "linalg_eig": ("torch.linalg.eig", "eigenvalues", "eigenvectors"),
    "linalg_eigvals": ("torch.linalg.eigvals", "eigenvalues"),
    "linalg_householder_product": ("torch.linalg.householder_product", "result"),
}


def _check_frexp(source: torch.Tensor, mantissa: torch.Tensor, exponent: torch.Tensor) -> None:
    if mantissa.dtype != source.dtype:
        want, got = [DTYPE_WORDS.get(t.dtype, t.dtype) for t in (source, mantissa)]
        raise RuntimeError(f"torch.frexp() expects mantissa to have dtype {want} but got {got}")
    if exponent.dtype is not torch.int32:
        got = DTYPE_WORDS.get(exponent.dtype, exponent.dtype)
        raise RuntimeError(f"torch.frexp() expects exponent to have int dtype but got {got}")


def _outline(x):
    if isinstance(x, torch.Tensor):
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
    return torch.device("meta") if isinstance(x, torch.device) else x


def _wrapped(x, argument):
    """A number that stands for a tensor, as one."""
    return (
        torch.tensor(x, device="cpu") if isinstance(x, (int, float, complex)) and str(argument.type) == "Tensor" else x
    )


def _taken_by_cpu(overload, args: list, kwargs: dict) -> bool:
    """Whether the CPU takes zeros of these dtypes; raises what it says of them otherwise."""
    leaves = tree_leaves((args, kwargs))
    elements = sum([x.numel() for x in leaves if isinstance(x, torch.Tensor)])
    if elements > _MOST_ELEMENTS or any([isinstance(x, torch.Generator) for x in leaves]):
        return False
    try:
        with torch.random.fork_rng(devices=[]):
            overload(*tree_map(_zeros, args), **tree_map(_zeros, kwargs))
    except NotImplementedError:  # what the CPU has no kernel for may have one here
        return False
    except RuntimeError as error:
        if _OF_DTYPES.search(str(error)):  # else it is the zeros that do not fit
            raise
        return False
    return True


def _zeros(x):
    if isinstance(x, torch.Tensor):
        return torch.zeros(x.shape, dtype=x.dtype, device="cpu")
    return torch.device("cpu") if isinstance(x, torch.device) else x


def check_dtypes(overload, args: tuple, kwargs: dict) -> None:
    """Raises torch's error for outputs of a dtype that its operator does not write to."""
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    key = (overload, *[(t.dtype, not t.dim()) for t in tensors])
    if key in _passed:
        return
    name = overload._schema.name.removeprefix("aten::")
    if name == "frexp":
        return _check_frexp(args[0] if args else kwargs["self"], kwargs["mantissa"], kwargs["exponent"])
    if name in ("isposinf", "isneginf") and kwargs["out"].dtype is not torch.bool:
        raise RuntimeError(f"{name} does not support non-boolean outputs.")
    if name == "heaviside" and kwargs["out"].is_complex():
        raise NotImplementedError("heaviside is not yet implemented for complex tensors.")
    given = [_wrapped(x, argument) for x, argument in zip(args, overload._schema.arguments)]
    # Outputs without elements, which are resized without a warning: the call itself tells, once.
    outs = {a.name for a in overload._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    kwargs = {n: torch.empty((0,), dtype=x.dtype, device="cpu") if n in outs else x for n, x in kwargs.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not _taken_by_cpu(overload, given, kwargs):
                overload(*tree_map(_outline, given), **tree_map(_outline, kwargs))
    except NotImplementedError:  # no code for that device: `check_results` has a rule for any operator
        pass
    except RuntimeError as error:
        if not str(error).startswith("Attempting to cast"):  # torch's code in Python has other words than the CPU
            raise
        return
    if len(_passed) >= _MOST:
        _passed.clear()
    _passed.add(key)


def check_results(overload, args: tuple, kwargs: dict, targets, results) -> None:
    """Raises torch's errors for tensors that shall take these results."""
    name = overload._schema.name.removeprefix("aten::")
    for target, result in zip(targets, results):
        if target.device != result.device:
            raise T.two_devices(f"aten::{name}", target.device, result.device)
    if name not in _WORDS and any([t.dtype != r.dtype for t, r in zip(targets, results)]):
        check_dtypes(overload, args, kwargs)
    for k, (target, result) in enumerate(zip(targets, results)):
        if target.dtype != result.dtype:
            want, got = _scalar_name(result.dtype), _scalar_name(target.dtype)
            if name in ("all", "any") and {target.dtype, result.dtype} == {torch.bool, torch.uint8}:
                continue
            if name in _WORDS:
                raise RuntimeError(_WORDS[name].format(want=want, got=got, kind=want.lower(), other=got.lower()))
            if not torch.can_cast(result.dtype, target.dtype):
                if name in _UNCASTABLE:
                    op, *what = _UNCASTABLE[name]
                    raise RuntimeError(_CASTABLE.format(op=op, what=what[k], want=want, got=got))
                raise RuntimeError(f"result type {want} can't be cast to the desired output type {got}")
        if name == "aminmax" and k and T.overlap(target, targets[0]):
            raise ValueError("aminmax(): the `min` and `max` out= tensors must not overlap.")
        if name in _ALONE or target.shape == result.shape:
            no_internal_overlap(target)
        if name in _ALONE:
            resize_output(target, result.shape)
            no_overlap(target, *[x for x in tree_leaves(args) if isinstance(x, torch.Tensor)])
