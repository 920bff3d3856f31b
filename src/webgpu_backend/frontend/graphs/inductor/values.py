"""Operations on values: the expressions that the operator table has for eager calls, and the few that are Inductor's
own. A value is a variable of the text with a dtype, and is held as that dtype's carrier."""

import math
from functools import cache

import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer, OpOverrides
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.utils import get_bounds_index_expr, sympy_index_symbol
from torch._inductor.virtualized import V

from .... import tensor as T
from ....dtypes import carrier
from ....kernels.text import elements
from ....kernels.text.by_index import function
from ....kernels.text.expression import Emitter, convert, literal, wgsl_type
from ....ops.table import POINTWISE
from ....plan import caps

# Inductor's operations that the table has under another name or with more arguments.
SOURCES = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "mul_rn": "a * b", "truediv": "a / b", "div_rn": "a / b",
    "int_truediv": "float(a) / float(b)", "floordiv": "a // b", "truncdiv": "trunc_divide(a, b)", "pow": "a ** b",
    "remainder": "a % b", "mod": "fmod(a, b)", "square": "a * a",
    "and_": "a & b", "or_": "a | b", "xor": "a ^ b", "lshift": "a << b", "rshift": "a >> b", "round": "round(a)",
    "bitwise_and": "a & b", "ldexp": "ldexp(a, int(b))", "nextafter": "nextafter(a, b)", "where": "where(a, b, c)",
}  # fmt: skip
_NARROW = {torch.int8: (8, True), torch.uint8: (8, False), torch.int16: (16, True), torch.uint16: (16, False)}
# Computed in float32; how those are rounded.
_HALVES = {torch.float16: "f32_half({})", torch.bfloat16: "f32_brain({})"}
_BYTES = {dtype: elements.rounded(T.STORED[dtype], "{}") for dtype in T.STORED.keys() - T.DTYPES.keys()}
_ROUNDED = _HALVES | _BYTES
_LETTERS = "abc"
_dtypes = DtypePropagationOpsHandler()


def computed(dtype: torch.dtype) -> torch.dtype:
    """The dtype that a value is computed in."""
    return torch.float32 if dtype in _ROUNDED else dtype


def carrier_of(dtype: torch.dtype) -> str:
    return carrier(T.STORED[dtype], caps())


def type_of(dtype: torch.dtype) -> str:
    return wgsl_type(carrier_of(dtype))


@cache
def source_of(name: str) -> str | None:
    """The expression of an operation in a, b and c, or None."""
    if name in SOURCES:
        return SOURCES[name]
    for aten in (name, f"special_{name}"):
        entry = POINTWISE.get(aten)
        if entry is not None and not entry.spec.scalars and len(entry.spec.outputs) == 1:
            return entry.spec.source
    return None


def named(text: str, dtype: torch.dtype, **rest) -> CSEVariable:
    """A variable that has this value."""
    return V.kernel.computed(text, dtype, **rest)


def as_carrier(value, target: str) -> str:
    """The text of a variable or a number as a carrier."""
    if isinstance(value, CSEVariable):
        return convert(str(value), carrier_of(value.dtype), target)
    return literal(value, target)


def rounded(x, dtype: torch.dtype) -> CSEVariable:
    """A value as a float of one or two bytes would hold it; what is such a one already stays."""
    kernel = V.kernel
    if isinstance(x, CSEVariable) and x.name in kernel.rounded[dtype]:
        return x
    found = named(_ROUNDED[dtype].format(as_carrier(x, "f32")), torch.float32)
    kernel.rounded[dtype].add(found.name)
    return found


def wrapped(text: str, dtype: torch.dtype) -> str:
    """Small integers as their dtype would hold them."""
    if dtype not in _NARROW:
        return text
    bits, signed = _NARROW[dtype]
    return f"extractBits({text}, 0u, {bits}u)" if signed else f"({text} & {(1 << bits) - 1})"


def apply(name: str, source: str, args: tuple, dtype: torch.dtype) -> CSEVariable:
    """An expression of values: in line where it is one, else as a function of the kernel."""
    own = [carrier_of(a.dtype) for a in args if isinstance(a, CSEVariable)]
    common = own[-1] if own else carrier_of(dtype)
    types, texts = {}, {}
    for letter, a in zip(_LETTERS, args):
        types[letter] = carrier_of(a.dtype) if isinstance(a, CSEVariable) else common
        texts[letter] = str(a) if isinstance(a, CSEVariable) else literal(a, common)
    target = carrier_of(dtype)
    emitter = Emitter(types, texts, caps().i64)
    lines = emitter.program(source, [("result_", target)])
    if len(lines) == 1:
        text = lines[0].removeprefix("let result_ = ").removesuffix(";")
    else:
        called = f"{name}_{'_'.join(types.values())}_{target}"
        V.kernel.helpers.update({called: function(called, source, types, target, caps())})
        text = f"{called}({', '.join(texts.values())})"
    return named(wrapped(text, dtype), dtype)


def _pointwise(name: str):
    def operation(*args) -> CSEVariable:
        source = source_of(name)
        if source is None:
            raise NotImplementedError(f"webgpu: no expression for {name}")
        return apply(name, source, args, computed(getattr(_dtypes, name)(*args)))

    operation.__name__ = name
    return staticmethod(operation)


# -- what drivers compute with zeros, by rules that know neither infinities nor NaN: x * 0.0, 0.0 / x, x - x


def _zero(x) -> bool | None:
    """Whether a constant zero is negative; None for anything else."""
    if isinstance(x, CSEVariable):
        return V.kernel.zeros.get(str(x))
    return math.copysign(1, x) < 0 if isinstance(x, float) and x == 0 else None


def _floats(*args) -> bool:
    return all([isinstance(x, CSEVariable) and carrier_of(x.dtype) in ("f32", "f64") for x in args])


def _times_zero(a, b) -> CSEVariable | None:
    """The product where one of them is a constant zero."""
    for zero, x in ((a, b), (b, a)):
        negative = _zero(zero)
        if negative is not None and _floats(x):
            source = f"where(isfinite(a), copysign(b, {'-' * negative}a), c)"
            return apply(f"times_zero{'_' * negative}", source, (x, 0.0, math.nan), x.dtype)
    return None


def _nothing(x: CSEVariable) -> CSEVariable:
    """x - x"""
    return apply("less_itself", "where(isfinite(a), b, c)", (x, 0.0, math.nan), x.dtype)


# What is no operation on values, or stands in the class below.
_APART = {
    "load_seed", "rand", "randn", "randint64", "rand_eager", "load", "store", "reduction", "sort", "store_reduction",
    "scan", "bucketize", "partial_accumulate", "check_bounds", "halide_clamp", "dot", "inline_asm_elementwise",
    "output", "placeholder", "device_assert_async", "paren",
}  # fmt: skip
_OPERATIONS = [n for n in dir(OpOverrides) if n[0] != "_" and n not in _APART and callable(getattr(OpOverrides, n))]
_Table = type("_Table", (OpOverrides,), {name: _pointwise(name) for name in _OPERATIONS})


class Values(_Table):
    """The handler that Inductor calls for every operation of a kernel."""

    @staticmethod
    def constant(value, dtype: torch.dtype) -> CSEVariable:
        own, dtype = dtype, computed(dtype)
        found = named(literal(value, carrier_of(dtype)), dtype)
        V.kernel.rounded[own].add(found.name)  # beside halves a number has all of its digits, as in eager operators
        if dtype.is_floating_point and value == 0:
            V.kernel.zeros.update({str(found): math.copysign(1, value) < 0})
        return found

    @staticmethod
    def mul(a, b) -> CSEVariable:
        return _times_zero(a, b) or _Table.mul(a, b)

    @staticmethod
    def mul_rn(a, b) -> CSEVariable:
        return _times_zero(a, b) or _Table.mul_rn(a, b)

    @staticmethod
    def truediv(a, b) -> CSEVariable:
        negative = _zero(a)
        if negative is None or not _floats(b):
            return _Table.truediv(a, b)
        source = f"where(isnan(a) | (a == b), c, copysign(b, {'-' * negative}a))"
        return apply(f"zero_over{'_' * negative}", source, (b, 0.0, math.nan), b.dtype)

    @staticmethod
    def sub(a, b) -> CSEVariable:
        return _nothing(a) if str(a) == str(b) and _floats(a) else _Table.sub(a, b)

    @staticmethod
    def neg(x) -> CSEVariable:
        found = _Table.neg(x)
        V.kernel.negated.update({str(found): str(x)})
        return found

    @staticmethod
    def add(a, b) -> CSEVariable:
        opposite = V.kernel.negated.get(str(a)) == str(b) or V.kernel.negated.get(str(b)) == str(a)
        return _nothing(a) if opposite and _floats(a, b) else _Table.add(a, b)

    @staticmethod
    def to_dtype(x, dtype: torch.dtype, src_dtype=None, use_compute_types: bool = True) -> CSEVariable:
        if dtype in _ROUNDED:
            return rounded(x, dtype)
        if isinstance(x, CSEVariable) and x.dtype == dtype:
            return x
        return named(wrapped(as_carrier(x, carrier_of(dtype)), dtype), dtype)

    @staticmethod
    def to_dtype_bitcast(x, dtype: torch.dtype, src_dtype: torch.dtype) -> CSEVariable:
        if src_dtype == dtype:
            return x
        words = {torch.float32, torch.int32, torch.uint32}
        if {src_dtype, dtype} <= words:
            return named(f"bitcast<{type_of(dtype)}>({x})", dtype)
        if src_dtype in _HALVES and dtype in (torch.int16, torch.uint16):
            pattern = f"{'f16' if src_dtype is torch.float16 else 'bf16'}_bits({x})"
            return named(wrapped(f"bitcast<i32>({pattern})", dtype), dtype)
        if dtype in _HALVES and src_dtype in (torch.int16, torch.uint16):
            pattern = f"(bitcast<u32>({x}) & 0xffffu)"
            text = f"unpack2x16float({pattern}).x" if dtype is torch.float16 else f"bf16_value({pattern})"
            return named(text, torch.float32)
        if src_dtype in _BYTES and dtype in (torch.int8, torch.uint8):
            return named(wrapped(f"bitcast<i32>({elements.bits(T.STORED[src_dtype], str(x))})", dtype), dtype)
        if dtype in _BYTES and src_dtype in (torch.int8, torch.uint8):
            return named(elements.of_byte(T.STORED[dtype], f"bitcast<u32>({x}) & 0xffu"), torch.float32)
        raise NotImplementedError(f"webgpu: the bits of {src_dtype} as {dtype}")

    @staticmethod
    def index_expr(expr, dtype: torch.dtype) -> CSEVariable:
        kernel = V.kernel
        index = kernel.index_to_str(kernel.prepare_indexing(expr))
        whole = expr.is_integer or not dtype.is_floating_point
        target = carrier_of(computed(dtype))
        text = convert(f"i32({index})" if whole else f"f32({index})", "i32" if whole else "f32", target)
        found = named(text, computed(dtype), bounds=get_bounds_index_expr(expr))
        kernel.indices.update({found.name: kernel.prepare_indexing(expr)})
        return found

    @staticmethod
    def value_expr(expr, dtype: torch.dtype) -> CSEVariable:
        return Values.index_expr(expr, dtype)

    @staticmethod
    def load_seed(name: str, offset: int) -> CSEVariable:
        return V.kernel.stream(name, int(offset))

    @staticmethod
    def rand(seed, offset) -> CSEVariable:
        return V.kernel.random("uniform", seed, offset)

    @staticmethod
    def randn(seed, offset) -> CSEVariable:
        return V.kernel.random("normal", seed, offset)

    @staticmethod
    def masked(mask, body, other) -> CSEVariable:
        """What `body` computes where the mask is set: it reads nothing elsewhere."""
        kernel = V.kernel
        scope = IndentedBuffer()
        with kernel.swap_buffers(scope), kernel.inside_mask():
            value = body()
        dtype = value.dtype
        key = f"{mask}:{scope.getvalue()}:{value}:{other}"
        found = kernel.cse.try_get(key)
        if not found:
            found = kernel.cse.newvar(dtype=dtype)
            kernel.cse.put(key, found)
            start = as_carrier(other, carrier_of(dtype))
            kernel.compute.writeline(f"var {found}: {type_of(dtype)} = {start};")
            kernel.compute.writeline(f"if ({mask}) {{")
            with kernel.compute.indent():
                kernel.compute.splice(scope)
                kernel.compute.writeline(f"{found} = {value};")
            kernel.compute.writeline("}")
        return found

    @staticmethod
    def where(condition, a, b) -> CSEVariable:
        dtype = computed(_dtypes.where(condition, a, b))
        target = carrier_of(dtype)
        test, no, yes = as_carrier(condition, "bool"), as_carrier(b, target), as_carrier(a, target)
        return named(f"select({no}, {yes}, {test})", dtype)

    @staticmethod
    def fma(a, b, c) -> CSEVariable:
        if (product := _times_zero(a, b)) is not None:
            return Values.add(product, c)
        dtype = computed(_dtypes.fma(a, b, c))
        return apply("fma", "a * b + c" if carrier_of(dtype) == "f64" else "fma(a, b, c)", (a, b, c), dtype)

    @staticmethod
    def identity(x):
        return x

    @staticmethod
    def isnan(x) -> CSEVariable:
        return apply("isnan", "isnan(a)", (x,), torch.bool)

    @staticmethod
    def floor_to_int(x, dtype: torch.dtype) -> CSEVariable:
        return apply("floor", "floor(a)", (x,), dtype)

    @staticmethod
    def ceil_to_int(x, dtype: torch.dtype) -> CSEVariable:
        return apply("ceil", "ceil(a)", (x,), dtype)

    @staticmethod
    def trunc_to_int(x, dtype: torch.dtype) -> CSEVariable:
        return apply("trunc", "trunc(a)", (x,), dtype)

    @staticmethod
    def round_to_int(x, dtype: torch.dtype) -> CSEVariable:
        return apply("round", "round(a)", (x,), dtype)

    @staticmethod
    def frexp(x):
        mantissa = apply("frexp_mantissa", "frexp_mantissa(a)", (x,), torch.float32)
        return mantissa, apply("frexp_exponent", "frexp_exponent(a)", (x,), torch.int32)

    @staticmethod
    def polygamma(n, x) -> CSEVariable:
        return apply("polygamma", "polygamma(int(a), b)", (n, x), torch.float32)

    def indirect_indexing(self, var, size, check: bool = True, wrap_neg: bool = True):
        """An index that was read: one that leads out is reported, and 0 is taken for it."""
        return sympy_index_symbol(str(V.kernel.checked_index(var, size)))
