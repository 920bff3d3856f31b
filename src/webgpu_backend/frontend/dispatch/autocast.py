"""Autocast: operators that run in the lower precision, in float32 or in the widest of their inputs, by the table's
rules. Those are torch's own (`ATen/autocast_mode.h`), which its C++ backends get from macros."""

import weakref
from functools import wraps

import torch

from ... import tensor as T
from ...ops.table import AUTOCAST

aten = torch.ops.aten
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
_Exclude = torch._C._ExcludeDispatchKeyGuard

_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss. binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


def _eligible(x) -> bool:
    return (
        isinstance(x, torch.Tensor) and x.device.type == T.NAME and x.is_floating_point() and x.dtype != torch.float64
    )


# A weight is cast once for all uses inside the outermost autocast, as torch does.
_cache: dict[tuple, tuple] = {}


def _cast(x, dtype: torch.dtype):
    if isinstance(x, (list, tuple)):
        return [_cast(i, dtype) for i in x]
    if not _eligible(x) or x.dtype == dtype:
        return x
    leaf = x.dtype == torch.float32 and x.requires_grad and x.is_leaf and not x._is_view()
    if not (leaf and torch.is_autocast_cache_enabled()):
        return x.to(dtype)
    key = (id(x), dtype, torch.is_grad_enabled())
    found = _cache.get(key)
    if found is not None and found[0]() is x and found[1] == x._version:
        return found[2]
    result = x.to(dtype)
    _cache[key] = (weakref.ref(x), x._version, result)
    return result


def clear_cache(original):
    """In the place of torch.clear_autocast_cache."""

    @wraps(original)
    def clear_autocast_cache():
        _cache.clear()
        original()

    return clear_autocast_cache


def _call(overload, args, kwargs, dtype):
    with _Exclude(_KEYS):
        if dtype is not None:
            args = [_cast(x, dtype) for x in args]
            kwargs = {k: _cast(x, dtype) for k, x in kwargs.items()}
        return overload(*args, **kwargs)


def below(call):
    """A kernel's function: what it is made of runs in the precision that it was called with."""

    @wraps(call)
    def kernel(*args, **kwargs):
        with _Exclude(_KEYS):
            return call(*args, **kwargs)

    return kernel


def _lower(overload):
    return lambda *args, **kwargs: _call(overload, args, kwargs, torch.get_autocast_dtype(T.NAME))


def _float32(overload):
    return lambda *args, **kwargs: _call(overload, args, kwargs, torch.float32)


def _float32_result(overload):
    """Asks for a float32 result where the caller named no dtype; the inputs stay as they are."""
    place = [a.name for a in overload._schema.arguments].index("dtype")

    def kernel(*args, **kwargs):
        named = args[place] if len(args) > place else kwargs.get("dtype")
        if _eligible(args[0]) and named is None:
            args = args[:place]
            kwargs["dtype"] = torch.float32
            if not overload._schema.arguments[place].kwarg_only and len(args) == place:
                args = (*args, kwargs.pop("dtype"))
        return _call(overload, args, kwargs, None)

    return kernel


def _widest(overload):
    def kernel(*args, **kwargs):
        dtype = torch.get_autocast_dtype(T.NAME)
        for x in (*args, *kwargs.values()):
            for each in x if isinstance(x, (list, tuple)) else (x,):
                if _eligible(each) and each.dtype == torch.float32:
                    dtype = torch.float32
        return _call(overload, args, kwargs, dtype)

    return kernel


def _norm(self, p=2):
    dtype = torch.float32 if _eligible(self) else self.dtype
    return _call(aten.norm.ScalarOpt_dtype, (self, p), {"dtype": dtype}, None)


def _norm_dim(self, p, dim, keepdim=False):
    dtype = torch.float32 if _eligible(self) else self.dtype
    return _call(aten.norm.ScalarOpt_dim_dtype, (self, p, dim, keepdim), {"dtype": dtype}, None)


def _banned(*args, **kwargs):
    raise RuntimeError(_BANNED)


def _float32_and_back(overload):
    """Computes in float32; results have the dtype that the first argument came with."""

    def kernel(*args, **kwargs):
        results = _call(overload, args, kwargs, torch.float32)
        if isinstance(results, torch.Tensor):
            return results.to(args[0].dtype)
        return tuple([r.to(args[0].dtype) if r.is_floating_point() else r for r in results])

    return kernel


_RULES = {
    "lower": _lower,
    "float32": _float32,
    "float32_result": _float32_result,
    "float32_and_back": _float32_and_back,
    "widest": _widest,
}


def implement(library: torch.library.Library, overload, rule: str | None) -> None:
    if rule:
        library.impl(overload, _RULES[rule](overload), "AutocastPrivateUse1")


def register(library: torch.library.Library) -> None:
    for name, rule in AUTOCAST.items():
        base, _, overload = name.partition(".")
        packet = getattr(aten, base, None)
        found = getattr(packet, overload or "default", None) if packet is not None else None
        if found is not None:  # a torch without it does not need it
            implement(library, found, rule)
    library.impl(aten.norm.Scalar, _norm, "AutocastPrivateUse1")
    library.impl(aten.norm.ScalarOpt_dim, _norm_dim, "AutocastPrivateUse1")
    library.impl(aten.binary_cross_entropy.default, _banned, "AutocastPrivateUse1")
