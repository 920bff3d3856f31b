"""One expression, every type: a table entry's Python-syntax expression becomes WGSL for a given carrier.

`a + b * alpha` is native text for f32 and i32, library calls for emulated int64 and complex. Names resolve to
operands, scalar parameters or earlier assignments; a call `exp(a)` becomes the library's `<carrier>_exp`, or the
WGSL built-in where the library has none and the built-in is exact.
"""

import ast
from dataclasses import dataclass
from struct import pack, unpack

from ...dtypes import REAL, WGSL_TYPE, Unsupported
from . import library

_FLOATS = ("f32", "f64")
_NATIVE = {
    "f32": "+-*/",
    "f64": "+-*/",
    "i32": "+-*&|^",
    "u32": "+-*&|^",
    "n64": "+-*&|^",
    "nu64": "+-*&|^",
    "c64": "+-",
    "c128": "+-",
}
_CALLS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "%": "remainder", "**": "pow",
    "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr",
    "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
# Library names that differ from torch's.
_ALIASES = {"floor_divide": "div_floor", "trunc_divide": "div_trunc", "sgn": "sign"}
# Functions made of others, for carriers without a library function of the name.
_DERIVED = {
    "recip": (("x",), "1 / x"),
    "softplus": (("x",), "max(x, 0) + log1p(exp(-abs(x)))"),
    "trunc_divide": (("x", "y"), "trunc(x / y)"),
}
# Carriers without fractions, infinities or NaN: what functions come down to there.
_WHOLE = ("bool", "i32", "u32", "i64", "n64", "u64", "nu64")
_WHOLE_SAME = {"floor", "ceil", "trunc", "round", "conj"}
_WHOLE_CONSTANT = {"isnan": "false", "isinf": "false", "isfinite": "true"}
_WHOLE_ALIASES = {"fmax": "max", "fmin": "min"}
_BOOL_SAME = {"conj", "sign", "sgn"}
_BOOL_OPERATORS = {"max": "||", "min": "&&"}
# Exact built-ins. Others have a library function because drivers disagree about them.
_BUILTINS = {
    "f32": {"abs", "floor", "ceil", "trunc", "sqrt", "round", "fma"},
    "f64": {"abs", "floor", "ceil", "sqrt"},
    "i32": {"abs", "min", "max"},
    "u32": {"min", "max"},
    "n64": {"abs", "min", "max"},
    "nu64": {"min", "max"},
}
_BIN = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_CMP = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_CARRIER_OF = {"f32": "f32", "i32": "i32", "u32": "u32", "bool": "bool", "f64": "f64", "vec2<f32>": "c64",
               "vec2<f64>": "c128", "i64": "n64", "u64": "nu64"}  # fmt: skip


@dataclass(frozen=True)
class Value:
    text: str
    type: str  # a carrier, or "literal"
    number: object = None


def literal(number, type_: str) -> str:
    """A constant of a carrier."""
    if type_ == "bool":
        return "true" if number else "false"
    if type_ in _FLOATS:
        number = float(number)
        if type_ == "f32":
            number = _nearest_f32(number)
        if number != number:
            return "f32_nan()" if type_ == "f32" else "f64(f32_nan())"
        if number in (float("inf"), float("-inf")):
            sign = "-" if number < 0 else ""
            return f"({sign}f32_inf())" if type_ == "f32" else f"f64({sign}f32_inf())"
        text = repr(number)
        text = text if any(c in text for c in ".e") else text + ".0"
        text = f"{text}lf" if type_ == "f64" else text
        return f"({text})" if number < 0 else text
    if type_ in REAL:
        number, part = complex(number), REAL[type_]
        return f"vec2<{part}>({literal(number.real, part)}, {literal(number.imag, part)})"
    number = int(number)
    if type_ in ("i64", "u64"):
        return f"vec2<u32>({number & 0xFFFFFFFF}u, {(number >> 32) & 0xFFFFFFFF}u)"
    if type_ == "u32":
        return f"{number & 0xFFFFFFFF}u"
    if type_ == "n64":
        if number == -(1 << 63):
            return "n64_load(0u, 0x80000000u)"  # constant i64 subtraction does not compile
        return f"({number}li)" if number < 0 else f"{number}li"
    if type_ == "nu64":
        return f"{number & 0xFFFFFFFFFFFFFFFF}lu"
    if number == -(1 << 31):
        return "(-2147483647i - 1i)"
    return f"({number}i)" if number < 0 else f"{number}i"


def _nearest_f32(number: float) -> float:
    """WGSL refuses a constant beyond the type's range."""
    try:
        return unpack("<f", pack("<f", number))[0] if abs(number) > 3e38 else number
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def convert(text: str, source: str, target: str) -> str:
    """Text of a value of one carrier as another, with torch's cast semantics."""
    if source == target:
        return text
    if target == "bool":
        if source in ("i64", "u64"):
            return f"any({text} != vec2<u32>(0u))"
        if source in REAL:
            return f"(!all({text} == {literal(0, source)}))"
        return f"(!({text} == {literal(0, source)}))"
    if source == "bool":
        if target in ("i64", "u64", "c64", "c128", "f64", "n64", "nu64"):
            return f"select({literal(0, target)}, {literal(1, target)}, {text})"
        return f"{target}({text})"
    if source in REAL and target in REAL:
        return f"{WGSL_TYPE[target]}({text})"
    if target in REAL:
        part = REAL[target]
        return f"vec2<{part}>({convert(text, source, part)}, {literal(0, part)})"
    if source in REAL:
        return convert(f"{text}.x", REAL[source], target)
    direct = {
        ("i32", "f32"): "f32", ("u32", "f32"): "f32", ("i32", "u32"): "u32", ("u32", "i32"): "i32",
        ("f32", "i32"): "i32_from_f32", ("f32", "u32"): "u32_from_f32",
        ("i32", "f64"): "f64", ("u32", "f64"): "f64", ("f32", "f64"): "f64", ("f64", "f32"): "f32",
        ("f64", "i32"): "i32_from_f64", ("f64", "u32"): "u32_from_f64",
        ("i32", "i64"): "i64_from_i32", ("u32", "i64"): "i64_from_u32", ("f32", "i64"): "i64_from_f32",
        ("i32", "u64"): "i64_from_i32", ("u32", "u64"): "i64_from_u32", ("f32", "u64"): "u64_from_f32",
        ("i64", "f32"): "i64_to_f32", ("u64", "f32"): "u64_to_f32",
        ("n64", "f32"): "n64_to_f32", ("nu64", "f32"): "f32",
        ("f32", "n64"): "n64_from_f32",
        ("i32", "n64"): "n64_from_i32", ("u32", "n64"): "n64_from_u32", ("u32", "nu64"): "u64",
        ("n64", "i32"): "i32", ("n64", "u32"): "u32", ("nu64", "i32"): "i32", ("nu64", "u32"): "u32",
        ("n64", "nu64"): "u64", ("nu64", "n64"): "i64",
        ("n64", "f64"): "f64", ("f64", "n64"): "n64_from_f64", ("nu64", "f64"): "f64", ("f64", "nu64"): "nu64_from_f64",
    }  # fmt: skip
    if (source, target) in direct:
        return f"{direct[source, target]}({text})"
    if target == "nu64" and source in ("f32", "i32"):
        return f"u64({convert(text, source, 'n64')})"
    if {source, target} == {"i64", "u64"}:
        return text
    if source in ("i64", "u64") and target in ("i32", "u32"):
        return f"bitcast<{target}>({text}.x)"
    raise Unsupported(f"webgpu: no conversion from {source} to {target}")


def names_in(source: str) -> set[str]:
    """Every name that an expression, or several lines of them, mentions."""
    return {node.id for node in ast.walk(ast.parse(source.strip())) if isinstance(node, ast.Name)}


class Emitter:
    """Turns expressions over typed names into WGSL text."""

    def __init__(self, names: dict[str, str], texts: dict[str, str] | None = None, native64: bool = True):
        self.types = dict(names)
        self.texts = dict(texts or {})
        self.native64 = native64
        self.number = "f64" if {"f64", "c128"}.intersection(names.values()) else "f32"  # what literals alone make
        self.lines: list[str] = []

    def program(self, source: str, outputs: list[tuple[str, str]]) -> list[str]:
        """Statements for `source`; `outputs` are (name, carrier), the last expression standing for the first one."""
        body = ast.parse(source.strip()).body
        for statement in body[:-1] if isinstance(body[-1], ast.Expr) else body:
            self._assign(statement)
        if isinstance(body[-1], ast.Expr):
            self.lines.append(f"let {outputs[0][0]} = {self.as_type(body[-1].value, outputs[0][1])};")
        return self.lines

    def expression(self, source: str, type_: str) -> str:
        """One expression as a carrier, where no statement has to come before it."""
        text = self.as_type(ast.parse(source, mode="eval").body, type_)
        assert not self.lines, f"{source} takes statements"
        return text

    def _assign(self, statement: ast.stmt) -> None:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            raise SyntaxError(f"only assignments are understood here: {ast.unparse(statement)}")
        name = statement.targets[0].id
        value = self.visit(statement.value)
        type_ = self.types.get(name) or (self.number if value.type == "literal" else value.type)
        self.lines.append(f"let {name} = {self._as(value, type_)};")
        self.types[name] = type_

    def as_type(self, node: ast.expr, type_: str) -> str:
        return self._as(self.visit(node), type_)

    def _as(self, value: Value, type_: str) -> str:
        return literal(value.number, type_) if value.type == "literal" else convert(value.text, value.type, type_)

    def visit(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant):
            return Value("", "literal", node.value)
        if isinstance(node, ast.Name):
            if node.id in ("inf", "nan") and node.id not in self.types:
                return Value("", "literal", float(node.id))
            if node.id not in self.types:
                raise NameError(f"unknown name {node.id!r} in an operator expression")
            return Value(self.texts.get(node.id, node.id), self.types[node.id])
        if isinstance(node, ast.BinOp):
            return self._binary(_BIN[type(node.op)], node.left, node.right)
        if isinstance(node, ast.Compare):
            return self._binary(_CMP[type(node.ops[0])], node.left, node.comparators[0])
        if isinstance(node, ast.BoolOp):
            op = " && " if isinstance(node.op, ast.And) else " || "
            return Value("(" + op.join(self.as_type(v, "bool") for v in node.values) + ")", "bool")
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.IfExp):
            return self._select(node.test, node.body, node.orelse)
        if isinstance(node, ast.Attribute):
            value = self.visit(node.value)
            if value.type not in REAL:
                raise Unsupported(f"webgpu: .{node.attr} of {value.type}")
            return Value(f"{value.text}.{ {'real': 'x', 'imag': 'y'}[node.attr] }", REAL[value.type])
        if isinstance(node, ast.Call):
            return self._call(node.func.id, node.args)
        raise SyntaxError(f"not understood: {ast.unparse(node)}")

    def _pair(self, left: ast.expr, right: ast.expr) -> tuple[str, str, str]:
        a, b = self.visit(left), self.visit(right)
        if a.type == "literal" and b.type == "literal":
            return literal(a.number, self.number), literal(b.number, self.number), self.number
        type_ = b.type if a.type == "literal" else a.type
        if a.type != "literal" and b.type != "literal" and a.type != b.type:
            type_ = _wider(a.type, b.type)
        return self._as(a, type_), self._as(b, type_), type_

    def _binary(self, op: str, left: ast.expr, right: ast.expr) -> Value:
        a, b, t = self._pair(left, right)
        if op in ("==", "!=", "<", "<=", ">", ">="):
            return Value(self._compare(op, a, b, t), "bool")
        if t == "bool":
            symbol = {"+": "||", "|": "||", "*": "&&", "&": "&&", "^": "!="}.get(op)
            if symbol is None:
                raise Unsupported(f"webgpu: operator {op} of bool")
            return Value(f"({a} {symbol} {b})", "bool")
        if op in _NATIVE.get(t, ""):
            return Value(f"({a} {op} {b})", t)
        return self._function(_CALLS[op], t, [a, b])

    def _compare(self, op: str, a: str, b: str, t: str) -> str:
        if t in ("i64", "u64", *REAL):
            if op in ("==", "!="):
                equal = f"all({a} == {b})"
                return equal if op == "==" else f"(!{equal})"
            if t in REAL:
                raise Unsupported("webgpu: complex numbers have no order")
            return f"{t}_{_CALLS[op]}({a}, {b})"
        # Compilers of Metal take it that nothing is NaN, and NVIDIA's make a maximum of `select(a, 0.0, a < 0.0)`.
        if t == "f32":
            return f"f32_{_CALLS[op]}({a}, {b})"
        # `!=` is false for NaN on one software driver; `!(x == y)` is right everywhere.
        if op == "!=":
            return f"(!({a} == {b}))"
        if t == "bool" and op != "==":
            return self._compare(op, f"u32({a})", f"u32({b})", "u32")
        return f"({a} {op} {b})"

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(f"(!{self.as_type(node.operand, 'bool')})", "bool")
        value = self.visit(node.operand)
        if isinstance(node.op, ast.USub):
            if value.type == "literal":
                return Value("", "literal", -value.number)
            if value.type in ("i64", "u64"):
                return self._function("neg", "i64", [value.text], value.type)
            if value.type in ("u32", "nu64"):
                return Value(f"({literal(0, value.type)} - {value.text})", value.type)
            if value.type == "bool":
                raise Unsupported("webgpu: negation of bool")
            return Value(f"(-{value.text})", value.type)
        if isinstance(node.op, ast.Invert):
            if value.type not in _WHOLE:
                raise Unsupported(f"webgpu: the bits of {value.type}")
            if value.type == "bool":
                return Value(f"(!{value.text})", "bool")
            return Value(f"(~{value.text})", value.type)
        raise SyntaxError(ast.unparse(node))

    def _select(self, test: ast.expr, yes: ast.expr, no: ast.expr) -> Value:
        a, b, t = self._pair(yes, no)
        return Value(f"select({b}, {a}, {self.as_type(test, 'bool')})", t)

    def _call(self, name: str, args: list[ast.expr]) -> Value:
        if name == "where":
            return self._select(*args)
        if name == "complex":
            return self._complex([self.visit(a) for a in args])
        if name in ("float", "int", "bool", "long"):
            target = {"float": "f32", "int": "i32", "bool": "bool"}.get(name)
            target = target or ("n64" if self.native64 else "i64")
            return Value(self.as_type(args[0], target), target)
        values = [self.visit(a) for a in args]
        typed = [v.type for v in values if v.type != "literal"]
        t = typed[0] if typed else self.number
        for other in typed[1:]:
            t = _wider(t, other) if other != t else t
        simple = self._whole(name, t, values) if t in _WHOLE else None
        if name == "conj" and t in _FLOATS:
            simple = values[0]
        if simple is not None:
            return simple
        item = library.function(f"{t}_{name}")
        if item is not None:
            wanted = [_carrier_of(w, t) for w in item.args]
            return self._function(name, t, [self._as(v, w) for v, w in zip(values, wanted, strict=True)])
        if name in _DERIVED and t not in _WHOLE:
            return self._derived(name, t, [self._as(v, t) for v in values])
        return self._function(name, t, [self._as(v, t) for v in values])

    def _complex(self, values: list[Value]) -> Value:
        """Of two parts, or of any number."""
        type_ = "c128" if any(v.type in ("f64", "c128") for v in values) else "c64"
        if len(values) == 1:
            return Value(self._as(values[0], type_), type_)
        real, imag = (self._as(v, REAL[type_]) for v in values)
        return Value(f"{WGSL_TYPE[type_]}({real}, {imag})", type_)

    def _derived(self, name: str, t: str, texts: list[str]) -> Value:
        parameters, source = _DERIVED[name]
        saved = self.types, self.texts
        self.types, self.texts = dict.fromkeys(parameters, t), {}
        for parameter, text in zip(parameters, texts, strict=True):
            bound = f"{parameter}_{len(self.lines)}"
            self.lines.append(f"let {bound} = {text};")
            self.texts[parameter] = bound
        value = self.visit(ast.parse(source, mode="eval").body)
        self.types, self.texts = saved
        return value

    def _whole(self, name: str, t: str, values: list[Value]) -> Value | None:
        """Functions that are trivial for integers and bool."""
        if name in (_BOOL_SAME if t == "bool" else _WHOLE_SAME) or (t in ("u32", "nu64") and name == "abs"):
            return values[0]
        if name in _WHOLE_CONSTANT:
            return Value(_WHOLE_CONSTANT[name], "bool")
        if name == "signbit":
            negative = (
                "false" if t in ("bool", "u32", "nu64", "u64") else self._compare("<", values[0].text, literal(0, t), t)
            )
            return Value(negative, "bool")
        name = _WHOLE_ALIASES.get(name, name)
        texts = [self._as(v, t) for v in values]
        if t == "bool" and name in _BOOL_OPERATORS:
            return Value(f"({texts[0]} {_BOOL_OPERATORS[name]} {texts[1]})", "bool")
        if name in _WHOLE_ALIASES.values():
            return self._function(name, t, texts)
        return None

    def _function(self, name: str, t: str, args: list[str], result: str | None = None) -> Value:
        for candidate in (name, _ALIASES.get(name, name)):
            item = library.function(f"{t}_{candidate}")
            if item is None and t == "u64":
                item = library.function(f"i64_{candidate}")
            if item is not None:
                return Value(f"{item.name}({', '.join(args)})", result or _carrier_of(item.result, t))
        if name in _BUILTINS.get(t, ()):
            return Value(f"{name}({', '.join(args)})", result or t)
        raise Unsupported(f"webgpu: no WGSL for {name} of {t}")


def _carrier_of(wgsl: str, t: str) -> str:
    """The carrier a WGSL type stands for, seen from a function on carrier `t`."""
    if wgsl == "vec2<u32>":
        return t if t in ("i64", "u64") else "i64"
    return _CARRIER_OF[wgsl]


_WIDTH = ("bool", "i32", "u32", "i64", "n64", "u64", "nu64", "f32", "f64", "c64", "c128")


def _wider(a: str, b: str) -> str:
    if {a, b} == {"f64", "c64"}:
        return "c128"
    return max(a, b, key=_WIDTH.index)


def wgsl_type(carrier: str) -> str:
    return WGSL_TYPE[carrier]
