"""Elementwise operators, one line each. Expressions are Python syntax over a, b, c and the schema's scalar names."""

import warnings

import torch

from ...kernels.text.numbers import check as check_number
from ..admitted import UNORDERED
from ..table import autocast, binary, choose, custom, expression, ternary, unary
from .bounds import bounds, ordered
from .elementwise import _scalar_name, runner

# As C++ calls them.
DTYPE_WORDS = {
    torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16",
    torch.complex64: "c10::complex<float>", torch.complex128: "c10::complex<double>", torch.int64: "long int",
    torch.int32: "int", torch.int16: "short int", torch.int8: "signed char", torch.uint8: "unsigned char",
    torch.bool: "bool",
}  # fmt: skip

F = "int_to_float"
B = "always_bool"


def _check_alpha(inputs, scalars):
    result, (alpha,) = torch.result_type(*inputs), scalars
    if isinstance(alpha, bool) and result != torch.bool:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, complex) and not result.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if isinstance(alpha, float) and not (result.is_floating_point or result.is_complex):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    check_number(alpha, str(result).removeprefix("torch."))


def _check_value(inputs, scalars):
    """A factor of products, which the CPU computes in float32 for shorter floats."""
    result = torch.result_type(*inputs[:2])
    wide = torch.float32 if result in (torch.float16, torch.bfloat16) else result
    check_number(scalars[0], str(wide).removeprefix("torch."))


def _no_bool(inputs):
    kinds = [x.dtype if isinstance(x, torch.Tensor) else type(x) for x in inputs]
    bools = [k in (torch.bool, bool) for k in kinds]
    if all(bools):
        raise NotImplementedError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if any(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )


def _no_whole_quotient(inputs):
    if not any(x.is_floating_point() or x.is_complex() for x in inputs[1:]):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
            "true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value "
            "* torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value "
            "* tensor1 / tensor2), for all dtypes."
        )


def _one_dtype(inputs):
    if any([torch.is_tensor(x) and x.is_complex() for x in inputs]):
        raise NotImplementedError("heaviside is not yet implemented for complex tensors.")
    if inputs[0].dtype != inputs[1].dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


def _real_for(name: str):
    def admit(inputs):
        if inputs[0].is_complex():
            raise UNORDERED(f"{name} does not support complex inputs.")

    return admit


def _condition(inputs):
    if inputs[0].dtype not in (torch.bool, torch.uint8):
        name = _scalar_name(inputs[0].dtype)
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {name}")
    if inputs[0].dtype is torch.uint8:  # told when it is planned
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead.",
            stacklevel=2,
        )


def _lerp_dtypes(inputs):
    self, end, weight = inputs
    for name, x in (("end", end), ("weight", weight)):
        if isinstance(x, torch.Tensor) and x.dtype != self.dtype and not (x is weight and not x.dim()):
            wanted, got = (DTYPE_WORDS.get(t.dtype, str(t.dtype)) for t in (self, x))
            raise RuntimeError(f"expected dtype {wanted} for `{name}` but got dtype {got}")


# arithmetic
binary("add", "a + b * alpha", scalars=("alpha",), check=_check_alpha)
binary("sub", "a - b * alpha", scalars=("alpha",), check=_check_alpha, admit=_no_bool)
binary("rsub", "b - a * alpha", scalars=("alpha",), check=_check_alpha, admit=_no_bool)
binary("mul", "a * b")
binary("div", "a / b", promote=F)
binary("remainder", "a % b", nonzero=("b",), rounded=("a", "b"))
binary("fmod", "fmod(a, b)", nonzero=("b",), rounded=("a", "b"))
binary("floor_divide", "a // b", nonzero=("b",))
binary("atan2", "atan2(a, b)", promote=F, autocast="widest")
binary("maximum", "max(a, b)")
binary("minimum", "min(a, b)")
binary("fmax", "fmax(a, b)")
binary("fmin", "fmin(a, b)")
binary("hypot", "hypot(a, b)")
binary("copysign", "copysign(a, b)", promote=F)
binary("logaddexp", "logaddexp(a, b)")
binary("logaddexp2", "logaddexp2(a, b)")
binary("xlogy", "xlogy(a, b)", promote=F)
binary("heaviside", "where(a == 0, b, where(a > 0, 1, 0))", admit=_one_dtype)
binary("gcd", "gcd(a, b)")
binary("lcm", "lcm(a, b)")

_QUOTIENT = expression("div", "a / b", 2, promote=F)
_FLOOR_QUOTIENT = expression("div_floor", "a // b", 2, nonzero=("b",))
_TRUNC_QUOTIENT = expression("div_trunc", "trunc_divide(a, b)", 2, nonzero=("b",))
# torch rounds the quotient of two 16-bit tensors to their dtype before it truncates: 2.999 is 3 in bfloat16.
_TRUNC_STORED = {
    torch.float16: expression("div_trunc_f16", "trunc(half(a / b))", 2),
    torch.bfloat16: expression("div_trunc_bf16", "trunc(brain(a / b))", 2),
}


@choose("div")
def div_mode(self, other, rounding_mode):
    if rounding_mode is None:
        return _QUOTIENT, (self, other), ()
    if rounding_mode == "floor":
        return _FLOOR_QUOTIENT, (self, other), ()
    if rounding_mode == "trunc":
        if isinstance(other, torch.Tensor) and other.numel() > 1:
            return _TRUNC_STORED.get(torch.result_type(self, other), _TRUNC_QUOTIENT), (self, other), ()
        return _TRUNC_QUOTIENT, (self, other), ()
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" + rounding_mode + "'"
    )


_POWER = expression("pow", "a ** b", 2)
_SQUARE = expression("pow2", "a * a")
_CUBE = expression("pow3", "a * a * a")
_ROOT = expression("pow_half", "sqrt(a)")


@choose("pow")
def power(self, exponent):
    """Small exponents are products, as in torch's own kernels."""
    if exponent.__class__ in (int, float) and isinstance(self, torch.Tensor):
        if self.is_floating_point():
            if exponent == 2:
                return _SQUARE, (self,), ()
            if exponent == 3:
                return _CUBE, (self,), ()
            if exponent == 0.5:
                return _ROOT, (self,), ()
        elif exponent < 0 and isinstance(exponent, int) and not self.is_complex():
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        elif exponent == 2 and isinstance(exponent, int) and self.dtype != torch.bool:
            return _SQUARE, (self,), ()
    return _POWER, (self, exponent), ()


_NEXT = {
    torch.float16: expression("nextafter_f16", "nextafter_f16(a, b)", 2),
    torch.bfloat16: expression("nextafter_bf16", "nextafter_bf16(a, b)", 2),
}
_NEXT_F32 = expression("nextafter", "nextafter(a, b)", 2)


@choose("nextafter")
def nextafter(self, other):
    """The next value of the stored dtype, not of the one it is computed in."""
    return _NEXT.get(torch.result_type(self, other), _NEXT_F32), (self, other), ()


# comparison
binary("eq", "a == b", promote=B)
binary("ne", "a != b", promote=B)
binary("lt", "a < b", promote=B)
binary("le", "a <= b", promote=B)
binary("gt", "a > b", promote=B)
binary("ge", "a >= b", promote=B)
binary("logical_and", "bool(a) and bool(b)", promote=B)
binary("logical_or", "bool(a) or bool(b)", promote=B)
binary("logical_xor", "bool(a) != bool(b)", promote=B)
unary("logical_not", "not bool(a)", promote=B)

# bits
binary("bitwise_and", "a & b")
binary("bitwise_or", "a | b")
binary("bitwise_xor", "a ^ b")
binary("bitwise_left_shift", "a << b")
binary("bitwise_right_shift", "a >> b")
binary("__lshift__", "a << b")
binary("__rshift__", "a >> b")
unary("bitwise_not", "~a")

# signs and rounding
unary("neg", "-a")
unary("abs", "abs(a)", promote="complex_to_float")
unary("sign", "sign(a)")
unary("sgn", "sgn(a)")
unary("signbit", "signbit(a)", promote=B)
unary("floor", "floor(a)")
unary("ceil", "ceil(a)")
unary("trunc", "trunc(a)")
unary("round", "round(a)")
unary("frac", "frac(a)")
unary("isnan", "isnan(a)", promote=B)
unary("isinf", "isinf(a)", promote=B)
unary("isfinite", "isfinite(a)", promote=B)
unary("isposinf", "isinf(a) and a > 0", promote=B, admit=_real_for("isposinf"))
unary("isneginf", "isinf(a) and a < 0", promote=B, admit=_real_for("isneginf"))
unary("reciprocal", "recip(a)", promote=F, autocast="float32")
unary("conj_physical", "conj(a)")
unary("frexp", "out0 = frexp_mantissa(a)\nout1 = frexp_exponent(a)", outputs=("T", "i32"))

_ROUND_PLACES = expression("round_places", "round(a * ten) / ten", scalars=("ten",))
_ROUND_TENS = expression("round_tens", "round(a / ten) * ten", scalars=("ten",))
_ROUND = expression("round", "round(a)")


@choose("round")
def round_decimals(self, decimals):
    if not self.is_floating_point():
        name = "round_cpu" if decimals else "round_vml_cpu"
        raise NotImplementedError(f"\"{name}\" not implemented for '{_scalar_name(self.dtype)}'")
    if not decimals:
        return _ROUND, (self,), ()
    return _ROUND_PLACES if decimals > 0 else _ROUND_TENS, (self,), (10.0 ** abs(decimals),)


_ANGLE_COMPLEX = expression("angle_complex", "angle(a)", promote="complex_to_float")
_ANGLE = expression("angle", "where(isnan(a), a, where(a < 0, 3.141592653589793, 0))", promote=F)


@choose("angle")
def angle(self):
    return _ANGLE_COMPLEX if self.is_complex() else _ANGLE, (self,), ()


_COMPLEX = expression("complex", "complex(a, b)", 2, outputs=("complex",))
_POLAR = expression("polar", "z = sincos(b)\ncomplex(a * z.imag, a * z.real)", 2, outputs=("complex",))


def _complex_parts(first, second, entry):
    one, two = _scalar_name(first.dtype), _scalar_name(second.dtype)
    if not {one, two} <= {"Half", "Float", "Double"}:
        raise NotImplementedError(f"Expected both inputs to be Half, Float or Double tensors but got {one} and {two}")
    if one != two:
        raise RuntimeError(f"Expected object of scalar type {one} but got scalar type {two} for second argument")
    return entry, (first, second), ()


@choose("complex")
def complex_(real, imag):
    return _complex_parts(real, imag, _COMPLEX)


@choose("polar")
def polar(abs, angle):
    return _complex_parts(abs, angle, _POLAR)


_TAME = "where(isnan({0}), nan, where(isinf({0}), where({0} > 0, posinf, neginf), {0}))"
_TAME_SCALARS = ("nan", "posinf", "neginf")
_NAN_TO_NUM = expression("nan_to_num", _TAME.format("a"), scalars=_TAME_SCALARS)
_NAN_TO_NUM_COMPLEX = expression(
    "nan_to_num_complex",
    f"x = a.real\ny = a.imag\ncomplex({_TAME.format('x')}, {_TAME.format('y')})",
    scalars=_TAME_SCALARS,
    types=dict.fromkeys(_TAME_SCALARS, "real"),
)
_SAME = expression("same", "a")


@choose("nan_to_num")
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    if not (self.is_floating_point() or self.is_complex()):
        return _SAME, (self,), ()
    limits = torch.finfo(self.dtype)
    numbers = (
        0.0 if nan is None else nan,
        limits.max if posinf is None else posinf,
        limits.min if neginf is None else neginf,
    )
    return _NAN_TO_NUM_COMPLEX if self.is_complex() else _NAN_TO_NUM, (self,), numbers


_CLOSE = "d = abs({0} - {1})\na == b or (isfinite(d) and d <= atol + abs(rtol * {1}))"
_BOUNDS = {"rtol": "real", "atol": "real"}
_ISCLOSE = {
    kind: expression(f"isclose{kind}", source, 2, scalars=("rtol", "atol"), promote=B, types=types)
    for kind, source, types in (
        ("", _CLOSE.format("a", "b"), {}),
        ("_nan", _CLOSE.format("a", "b") + " or (isnan(a) and isnan(b))", {}),
        ("_complex", _CLOSE.format("a", "b"), _BOUNDS),
        ("_complex_nan", _CLOSE.format("a", "b") + " or (isnan(a) and isnan(b))", _BOUNDS),
        ("_same", "a == b", {}),
        ("_same_nan", "a == b or (isnan(a) and isnan(b))", {}),
        ("_whole", _CLOSE.format("float(a)", "float(b)"), dict.fromkeys(_BOUNDS, "f32")),
    )
}


@choose("isclose", composite=True)
def isclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    if self.dtype != other.dtype:
        raise RuntimeError(f"{_scalar_name(self.dtype)} did not match {_scalar_name(other.dtype)}")
    for name, bound in (("rtol", rtol), ("atol", atol)):
        if not bound >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {bound:g}")
    if not (self.is_floating_point() or self.is_complex()):
        return _ISCLOSE["_whole"], (self, other), (rtol, atol)
    one_byte = self.dtype.itemsize == 1 and not rtol and not atol  # of which torch takes no sums
    kind = ("_complex" if self.is_complex() else "_same" if one_byte else "") + ("_nan" if equal_nan else "")
    return _ISCLOSE[kind], (self, other), (rtol, atol)


# exponentials and logarithms
unary("exp", "exp(a)", promote=F, autocast="float32")
unary("exp2", "exp2(a)", promote=F)
unary("expm1", "expm1(a)", promote=F, autocast="float32")
unary("log", "log(a)", promote=F, autocast="float32")
unary("log2", "log2(a)", promote=F, autocast="float32")
unary("log10", "log10(a)", promote=F, autocast="float32")
unary("log1p", "log1p(a)", promote=F, autocast="float32")
unary("sqrt", "sqrt(a)", promote=F)
unary("rsqrt", "rsqrt(a)", promote=F, autocast="float32")

# trigonometry
for _name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"):
    unary(_name, f"{_name}(a)", promote=F)

# selection, bounds and mixing
ternary("where", "where(a, b, c)", types={"a": "bool"}, admit=_condition)
ternary("addcmul", "a + value * b * c", scalars=("value",), check=_check_value, autocast="widest")
ternary(
    "addcdiv", "a + value * b / c", scalars=("value",), check=_check_value, admit=_no_whole_quotient, autocast="widest"
)
ternary("lerp", "where(abs(c) < 0.5, a + c * (b - a), b - (b - a) * (1 - c))", admit=_lerp_dtypes)
binary("clamp_min", "max(a, b)", checked=True, bounds=bounds(b="min"), admit=ordered("maximum"))
binary("clamp_max", "min(a, b)", checked=True, bounds=bounds(b="max"), admit=ordered("minimum"))
_CLAMP = expression("clamp", "min(max(a, b), c)", 3, checked=True, bounds=bounds(b="min", c="max"), admit=ordered())
_CLAMP_MIN = expression("clamp_min", "max(a, b)", 2, checked=True, bounds=bounds(b="min"), admit=ordered())
_CLAMP_MAX = expression("clamp_max", "min(a, b)", 2, checked=True, bounds=bounds(b="max"), admit=ordered())


@choose("clamp")
def clamp(self, min=None, max=None):
    if max is None:
        if min is None:
            raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
        return _CLAMP_MIN, (self, min), ()
    if min is None:
        return _CLAMP_MAX, (self, max), ()
    return _CLAMP, (self, min, max), ()


_LDEXP = expression("ldexp", "ldexp(a, int(min(max(b, -5000), 5000)))", 2, promote=F)


def _scales(self, other) -> bool:
    """Floats by whole exponents: exact, where a power of two of its own might be infinite or zero."""
    return self.is_floating_point() and not (other.is_floating_point() or other.is_complex())


# torch 2.11 takes ldexp to a CPU kernel whatever the device.
@custom("ldexp.Tensor")
def ldexp(self, other):
    return runner(_LDEXP)(self, other) if _scales(self, other) else torch.mul(self, torch.pow(2.0, other))


@custom("ldexp.out")
def ldexp_out(self, other, *, out):
    if _scales(self, other):
        return runner(_LDEXP).into((self, other), (out,))
    return torch.mul(self, torch.pow(2.0, other), out=out)


@custom("ldexp_")
def ldexp_(self, other):
    return runner(_LDEXP).inplace(self, other) if _scales(self, other) else self.mul_(torch.pow(2.0, other))


autocast("float32", "acos", "asin", "cosh", "erfinv", "sinh", "tan")
autocast("float32", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
autocast("widest", "cross")
