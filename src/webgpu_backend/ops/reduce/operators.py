"""Reductions of aten: each a spec of the one mechanism in `kernels/reduce`."""

import warnings
from collections.abc import Callable
from functools import cache

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.layout import numel
from ...kernels.reduce.reduction import Spec
from ...plan import caps
from ...plan.outline import not_lasting
from ..admitted import UNORDERED
from ..admitted import scalar_name as dtype_name
from ..table import autocast, custom, packet_named
from .reduction import Reduction, normal_dims

_UNSIGNED = {torch.uint8: 8, torch.uint16: 16, torch.uint32: 32, torch.uint64: 64}
MANY = 4096  # factors whose roundings add up to more than 1e-5
_NONE = 0xFFFFFFFF  # no index yet

LOGSUMEXP = Reduction(
    Spec(
        "logsumexp",
        "d = where(a == top, 0, a - top)\ne = exp(-abs(d))\nsum1 = where(d > 0, total * e + 1, total + e)\n"
        "top1 = where(d > 0, a, top)\ntotal1 = where(isnan(a), a, sum1)",
        "d = where(o_top == top, 0, o_top - top)\ne = exp(-abs(d))\n"
        "top1 = where(d > 0, o_top, top)\ntotal1 = where(d > 0, total * e + o_total, total + o_total * e)",
        (float("-inf"), 0),
        (("top", "T"), ("total", "T")),
        "top + log(total)",
    ),
    float("-inf"),
)


def _need(dtype: torch.dtype) -> torch.dtype:
    if dtype not in T.DTYPES:
        raise Unsupported(f"webgpu: no reduction of {dtype}")
    return dtype


def _integral(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex)


def _same(self: torch.Tensor, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or self.dtype


def _summed(self: torch.Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """Integers add up to int64."""
    return dtype or (torch.int64 if _integral(self.dtype) else self.dtype)


_DIMENSIONS = {"int", "Optional[int]", "List[int]", "Optional[List[int]]"}


def reduction(
    aten: str,
    spec: Spec,
    empty,
    result: Callable = _same,
    compute: Callable = lambda self, out: out,
    check: Callable = lambda self, out: None,
    literal: bool = False,
    **rest,
) -> Reduction:
    """An entry of the table: every functional overload of an aten reduction, whose `dim`, `keepdim` and `dtype` are
    read from its schema.

    `empty` is the result of reducing nothing. `result(self, dtype)` gives the result's dtype for the one asked for (or
    None), `compute(self, result)` the one to compute in; `check(self, result)` raises torch's error for others.
    `literal`: an empty list of dimensions means none of them rather than all.
    """
    run = Reduction(spec, empty)

    def reducing(names: list[str]) -> Callable:
        def reduce(self, *args, **kwargs):
            given = dict(zip(names, args), **kwargs)
            out, dim, keepdim = result(self, given.get("dtype")), given.get("dim"), given.get("keepdim", False)
            check(self, out)
            if literal and dim is not None and dim.__class__ is not int and not dim:
                self, dim, keepdim = self.unsqueeze(0), 0, False
            return run((self,), dim, keepdim, _need(compute(self, out)), (out,))[0]

        return reduce

    packet = packet_named(aten)
    for name in packet.overloads():
        first, *others = getattr(packet, name)._schema.arguments
        kinds = {a.name: str(a.type) for a in others}
        numbered = kinds.get("dim", "int") in _DIMENSIONS and set(kinds) <= {"dim", "keepdim", "dtype"}
        if str(first.type) == "Tensor" and numbered:
            custom(aten if name == "default" else f"{aten}.{name}", **rest)(reducing([*kinds]))
    return run


# -- sums and products


def _check_mean(self: torch.Tensor, out: torch.dtype) -> None:
    if _integral(out):
        what = "Input dtype" if out == self.dtype else "Optional dtype"
        raise NotImplementedError(
            f"mean(): could not infer output dtype. {what} must be either a floating point or complex dtype. "
            f"Got: {dtype_name(out)}"
        )


def _product_in(self: torch.Tensor, out: torch.dtype) -> torch.dtype:
    """Every factor of a product adds a rounding, in whatever order: many take the wider type where there is one."""
    return torch.float64 if out is torch.float32 and self.numel() > MANY and caps().f64 else out


SUM = reduction("sum", Spec("sum", "acc + a", "acc + o_acc"), 0, _summed, autocast="float32_result")
reduction("mean", Spec("mean", "acc + a", "acc + o_acc", finish="acc / n"), float("nan"), check=_check_mean)
reduction("prod", Spec("prod", "acc * a", "acc * o_acc", (1,)), 1, _summed, _product_in, autocast="float32_result")
NANSUM = Reduction(Spec("nansum", "acc + where(isnan(a), 0, a)", "acc + o_acc"), 0)


@custom("nansum")
def nansum(self, dim=None, keepdim=False, *, dtype=None):
    if self.is_complex():
        raise RuntimeError("nansum on CPU does not support complex inputs")
    out = _summed(self, dtype)
    if _integral(out) and not _integral(self.dtype):
        self = torch.where(self.isnan(), 0, self)  # an integer would not tell
    run = SUM if _integral(out) else NANSUM
    return run((self,), dim, keepdim, _need(out), (out,))[0]


# -- truth and counts


def _truth(self: torch.Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """any and all of uint8 are uint8."""
    return torch.uint8 if self.dtype == torch.uint8 else torch.bool


def _own(self: torch.Tensor, out: torch.dtype) -> torch.dtype:
    return self.dtype


_FLAG = {"state": (("acc", "bool"),), "results": (("out", "bool"),)}
reduction("any", Spec("any", "acc or bool(a)", "acc or o_acc", **_FLAG), 0, _truth, _own, literal=True)
reduction("all", Spec("all", "acc and bool(a)", "acc and o_acc", (1,), **_FLAG), 1, _truth, _own, literal=True)
reduction(
    "count_nonzero",
    Spec(
        "count_nonzero", "acc + where(bool(a), 1, 0)", "acc + o_acc", state=(("acc", "u32"),), finish="long(acc)",
        results=(("out", "i64"),),
    ),
    0,
    lambda self, dtype: torch.int64,
    _own,
)  # fmt: skip


# -- extremes


def _limit(dtype: torch.dtype, lowest: bool):
    if dtype.is_floating_point:
        return float("-inf") if lowest else float("inf")
    if dtype in _UNSIGNED:
        return 0 if lowest else (1 << _UNSIGNED[dtype]) - 1
    bits = 64 if dtype == torch.int64 else 32
    return -(1 << (bits - 1)) if lowest else (1 << (bits - 1)) - 1


_CPU_NAMES = {"aminmax": "aminmax_cpu", "amin": "min_values_cpu", "amax": "max_values_cpu"}


def _ordered(dtype: torch.dtype, name: str) -> torch.dtype:
    """The dtype extremes are computed in: bool has no order in a shader."""
    if dtype.is_complex:
        if name in _CPU_NAMES:
            raise NotImplementedError(f"\"{_CPU_NAMES[name]}\" not implemented for '{dtype_name(dtype)}'")
        raise UNORDERED(f"{name}(): does not support complex input")
    if dtype == torch.bool and name.startswith("arg"):
        raise RuntimeError(f"{name}(): does not support bool input")
    return torch.int32 if dtype == torch.bool else _need(dtype)


@cache
def _extreme(kind: str, compute: torch.dtype) -> Reduction:
    low = kind == "max"
    if compute == torch.float64:
        sign = ">" if low else "<"
        text = f"where(isnan(float(acc)) or acc {sign} {{0}}, acc, {{0}})"
    else:
        text = f"{kind}(acc, {{0}})"
    return Reduction(Spec(f"a{kind}", text.format("a"), text.format("o_acc"), (_limit(compute, low),)))


@cache
def _extremes(compute: torch.dtype) -> Reduction:
    """Both at once."""
    spec = Spec(
        "aminmax",
        "low1 = min(low, a)\nhigh1 = max(high, a)",
        "low1 = min(low, o_low)\nhigh1 = max(high, o_high)",
        (_limit(compute, False), _limit(compute, True)),
        (("low", "T"), ("high", "T")),
        "least = low\nmost = high",
        (("least", "T"), ("most", "T")),
    )
    return Reduction(spec)


@cache
def _located(kind: str, compute: torch.dtype, results: str) -> Reduction:
    """An extreme and its first index; NaN is beyond everything, as on the CPU."""
    sign = ">" if kind == "max" else "<"
    both = ""
    step, combine = f"a {sign} value", f"o_value {sign} value"
    if compute.is_floating_point:
        step += " or (isnan(float(a)) and not isnan(float(value)))"
        combine += " or (isnan(float(o_value)) and not isnan(float(value)))"
        both = " or (isnan(float(o_value)) and isnan(float(value)))"
    finish = {"values, indices": "best = value\nindex = long(at)", "indices": "index = long(at)"}[results]
    outs = (("best", "T"), ("index", "i64")) if results == "values, indices" else (("index", "i64"),)
    spec = Spec(
        f"arg{kind}" if results == "indices" else f"{kind}_dim",
        f"better = {step} or at == {_NONE}\nvalue1 = where(better, a, value)\nat1 = where(better, i, at)",
        f"better = {combine} or ((o_value == value{both}) and o_at < at)\n"
        "value1 = where(better, o_value, value)\nat1 = where(better, o_at, at)",
        (_limit(compute, kind == "max"), _NONE),
        (("value", "T"), ("at", "u32")),
        finish,
        outs,
        ordered=True,
    )
    return Reduction(spec)


def _refuse_empty(self, dim, name: str) -> None:
    """Extremes have no identity."""
    if self.numel():
        return
    if dim is None or dim == ():
        text = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
        if name.startswith("arg"):
            raise IndexError(text)
        raise RuntimeError(f"{text} Specify the reduction dim with the 'dim' argument.")
    for d in normal_dims(dim, self.dim()):
        if self.shape[d] == 0:
            brackets = "" if name == "aminmax" else "()"
            raise IndexError(f"{name}{brackets}: Expected reduction dim {d} to have non-zero size.")


def _register_extremes(kind: str) -> None:
    @custom(f"a{kind}")
    def values(self, dim=(), keepdim=False):
        _refuse_empty(self, dim, f"a{kind}")
        if self.is_complex() and not self.numel():  # without order, but of nothing: the CPU takes them
            return self.sum(dim, keepdim)
        compute = _ordered(self.dtype, f"a{kind}")
        return _extreme(kind, compute)((self,), dim, keepdim, compute, (self.dtype,))[0]

    @custom(kind)
    def whole(self):
        compute = _ordered(self.dtype, kind)
        _refuse_empty(self, None, kind)
        return _extreme(kind, compute)((self,), None, False, compute, (self.dtype,))[0]

    @custom(f"{kind}.dim")
    def by_dim(self, dim, keepdim=False):
        _refuse_empty(self, dim, kind)
        compute = _ordered(self.dtype, kind)
        run = _located(kind, compute, "values, indices")
        return run((self,), dim, keepdim, compute, (self.dtype, torch.int64))

    @custom(f"arg{kind}")
    def index(self, dim=None, keepdim=False):
        compute = _ordered(self.dtype, f"arg{kind}")
        _refuse_empty(self, dim, f"arg{kind}")
        return _located(kind, compute, "indices")((self,), dim, keepdim, compute, (torch.int64,))[0]


_register_extremes("max")
_register_extremes("min")


@custom("aminmax")
def aminmax(self, *, dim=None, keepdim=False):
    if self.is_complex() and (UNORDERED is TypeError or (not self.dim() and dim is not None)):
        raise UNORDERED(f"aminmax not implemented for {dtype_name(self.dtype)}")
    if not self.numel():
        if dim is None:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
        _refuse_empty(self, dim, "aminmax")
    compute = _ordered(self.dtype, "aminmax")
    return _extremes(compute)((self,), dim, keepdim, compute, (self.dtype, self.dtype))


# -- moments

# `d * (d * (count * w))`: an empty state adds nothing to one of numbers whose square is no number any more.
MOMENTS = {
    "step": "count1 = count + 1\nd = a - mean\nmean1 = mean + d / count1\nsquares1 = squares + d * (a - mean1)",
    "combine": "count1 = count + o_count\nw = where(count1 > 0, o_count / where(count1 > 0, count1, 1), 0)\n"
    "d = o_mean - mean\nmean1 = mean + d * w\nsquares1 = squares + o_squares + d * (d * (count * w))",
    "init": (0, 0, 0),
    "state": (("count", "T"), ("mean", "T"), ("squares", "T")),
    "scalars": ("divisor",),
}
_VARIANCE = "spread = where(divisor > 0, squares / where(divisor > 0, divisor, 1), where(squares > 0, inf, nan))"


@cache
def _moments(root: bool, mean: bool) -> Reduction:
    name = ("std" if root else "var") + ("_mean" if mean else "")
    lines = [_VARIANCE, "width = sqrt(spread)" if root else "width = spread"]
    results = (("width", "T"),)
    if mean:
        lines.append("centre = mean")
        results += (("centre", "T"),)
    return Reduction(Spec(name, finish="\n".join(lines), results=results, **MOMENTS), float("nan"))


def _moment(self, dim, correction, keepdim, root: bool, mean: bool):
    name = ("std" if root else "var") + ("_mean" if mean else "")
    if _integral(self.dtype):
        raise NotImplementedError(f"{name if mean else 'std and var'} only support floating point and complex dtypes")
    dims = normal_dims(dim, self.dim())
    freedom = numel([self.shape[d] for d in dims]) - (1 if correction is None else correction)
    if freedom <= 0:
        not_lasting()  # the plan, for the warning's sake
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            stacklevel=2,
        )
    return _moments_of(self, dim, dims, max(freedom, 0), keepdim, root, mean)


def _moments_of(self, dim, dims, divisor, keepdim: bool, root: bool, mean: bool):
    if self.is_complex():
        parts = torch.view_as_real(self)
        width = _moments_of(parts.select(-1, 0), dim, dims, divisor, keepdim, False, mean)
        other = _moments_of(parts.select(-1, 1), dim, dims, divisor, keepdim, False, mean)
        spread = width[0] + other[0]
        return (spread.sqrt() if root else spread, *((torch.complex(width[1], other[1]),) if mean else ()))
    out = (self.dtype,) * (2 if mean else 1)
    return _moments(root, mean)((self,), dims or None, keepdim, _need(self.dtype), out, (divisor,))


@custom("var.correction")
def var(self, dim=None, *, correction=None, keepdim=False):
    return _moment(self, dim, correction, keepdim, False, False)[0]


@custom("std.correction")
def std(self, dim=None, *, correction=None, keepdim=False):
    return _moment(self, dim, correction, keepdim, True, False)[0]


@custom("var_mean.correction")
def var_mean(self, dim=None, *, correction=None, keepdim=False):
    return _moment(self, dim, correction, keepdim, False, True)


@custom("std_mean.correction")
def std_mean(self, dim=None, *, correction=None, keepdim=False):
    return _moment(self, dim, correction, keepdim, True, True)


# -- norms of vectors

_REAL = {"state": (("acc", "real"),), "results": (("out", "real"),)}
_NORMS = {
    0.0: Reduction(Spec("norm_0", "acc + where(bool(a), 1, 0)", "acc + o_acc", **_REAL), 0),
    1.0: Reduction(Spec("norm_1", "acc + abs(a)", "acc + o_acc", **_REAL), 0),
    2.0: Reduction(Spec("norm_2", "v = abs(a)\nacc + v * v", "acc + o_acc", finish="sqrt(acc)", **_REAL), 0),
    float("inf"): Reduction(Spec("norm_inf", "max(acc, abs(a))", "max(acc, o_acc)", **_REAL), 0),
    float("-inf"): Reduction(Spec("norm_ninf", "min(acc, abs(a))", "min(acc, o_acc)", (float("inf"),), **_REAL)),
}
_NORM_P = Reduction(
    Spec("norm_p", "acc + abs(a) ** ord", "acc + o_acc", finish="acc ** (1 / ord)", scalars=("ord",), **_REAL), 0
)


@custom("linalg_vector_norm", autocast="float32_result")
def linalg_vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    if _integral(self.dtype):
        raise NotImplementedError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {dtype_name(self.dtype)}"
        )
    if dtype is not None and _integral(dtype):
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be floating point or complex, but got {dtype_name(dtype)}"
        )
    if isinstance(ord, complex):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    order = float(ord)
    compute = dtype or self.dtype
    out = compute.to_real()
    if not self.numel() and (order < 0 or order == float("inf")):
        dims = normal_dims(dim, self.dim())
        if dim is None or any(self.shape[d] == 0 for d in dims):
            where = "an empty tensor because"
            if dim is not None:
                none = next(d for d in dims if self.shape[d] == 0)
                where = f"the dimension {none}because this dimension is empty and"
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {order:g} norm on {where} the operation does not have an "
                "identity"
            )
    run = _NORMS.get(order)
    if run is not None:
        return run((self,), dim, keepdim, _need(compute), (out,))[0]
    return _NORM_P((self,), dim, keepdim, _need(compute), (out,), (order,))[0]


@custom("logsumexp", autocast="float32")
def logsumexp(self, dim, keepdim=False):
    if self.is_complex():
        raise Unsupported("webgpu: logsumexp of complex numbers")
    out = torch.get_default_dtype() if _integral(self.dtype) else self.dtype
    return LOGSUMEXP((self,), dim, keepdim, _need(out), (out,))[0]


autocast("float32", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "dist")
autocast("float32_result", "linalg_matrix_norm", "linalg_matrix_norm.str_ord")
