"""One expression, every carrier: the WGSL text that comes out, and what is refused."""

import pytest

from webgpu_backend.dtypes import Unsupported
from webgpu_backend.kernels.text.expression import Emitter, convert, literal, names_in


def emit(source: str, result: str = "f32", **names: str) -> str:
    """The value of an expression for operands of these carriers."""
    return Emitter(names).expression(source, result)


def test_native_arithmetic():
    assert emit("a + b * alpha", a="f32", b="f32", alpha="f32") == "(a + (b * alpha))"
    assert emit("a - b", "i32", a="i32", b="i32") == "(a - b)"
    assert emit("-a", a="f32") == "(-a)"
    assert emit("a & b", "u32", a="u32", b="u32") == "(a & b)"


def test_emulated_integers_are_library_calls():
    assert emit("a + b", "i64", a="i64", b="i64") == "i64_add(a, b)"
    assert emit("a // b", "i64", a="i64", b="i64") == "i64_div_floor(a, b)"
    assert emit("a < b", "bool", a="i64", b="i64") == "i64_lt(a, b)"
    assert emit("a == b", "bool", a="i64", b="i64") == "all(a == b)"
    assert emit("a < b", "bool", a="u64", b="u64") == "u64_lt(a, b)"


def test_complex_numbers():
    assert emit("a * b", "c64", a="c64", b="c64").startswith("c64_mul(")
    assert emit("a + b", "c64", a="c64", b="c64") == "(a + b)"
    assert emit("a.real", a="c64") == "a.x" and emit("a.imag", a="c64") == "a.y"


def test_inequality_survives_nan():
    """`!=` is false for NaN on one software driver, and to compilers of Metal nothing is NaN."""
    assert emit("a != b", "bool", a="f32", b="f32") == "f32_ne(a, b)"


def test_inexact_functions_come_from_the_library():
    for name in ("exp", "log", "tanh", "sin", "pow"):
        call = f"{name}(a)" if name != "pow" else "a ** b"
        assert emit(call, a="f32", b="f32").startswith(f"f32_{name}(")
    assert emit("abs(a)", a="f32") == "abs(a)", "an exact built-in stays one"
    assert emit("a % b", a="f32", b="f32").startswith("f32_remainder(")


def test_literals_take_the_other_side_s_type():
    assert emit("a + 1", a="f32") == "(a + 1.0)"
    assert emit("a + 1", "i32", a="i32") == "(a + 1i)"
    assert emit("a + 1", "i64", a="i64") == "i64_add(a, vec2<u32>(1u, 0u))"
    assert emit("a + 1", "n64", a="n64") == "(a + 1li)"


def test_where_and_mixed_types():
    assert emit("where(a, b, c)", a="bool", b="f32", c="f32") == "select(c, b, a)"
    assert emit("b if a > 0 else c", a="f32", b="f32", c="f32") == "select(c, b, f32_gt(a, 0.0))"
    assert emit("a + b", a="i32", b="f32") == "(f32(a) + b)"


def test_statements():
    lines = Emitter({"a": "f32", "b": "f32"}).program("s = a * b\ns + s", [("out0", "f32")])
    assert lines == ["let s = (a * b);", "let out0 = (s + s);"]
    lines = Emitter({"a": "f32"}).program("out0 = a\nout1 = a + 1", [("out0", "f32"), ("out1", "f32")])
    assert lines == ["let out0 = a;", "let out1 = (a + 1.0);"]


def test_names():
    assert names_in("s = a * b.real\nwhere(s > inf, a, 0)") == {"s", "a", "b", "where", "inf"}


def test_booleans():
    assert emit("a + b", "bool", a="bool", b="bool") == "(a || b)"
    assert emit("a * b", "bool", a="bool", b="bool") == "(a && b)"
    assert emit("not a", "bool", a="f32") == "(!(!(a == 0.0)))"
    assert emit("bool(a) and bool(b)", "bool", a="i32", b="i32") == "((!(a == 0i)) && (!(b == 0i)))"
    with pytest.raises(Unsupported, match="bool"):
        emit("a - b", "bool", a="bool", b="bool")


def test_mistakes_are_named():
    with pytest.raises(NameError, match="beta"):
        emit("a * beta", a="f32")
    with pytest.raises(Unsupported, match="no WGSL for nonsense"):
        emit("nonsense(a)", a="f32")
    with pytest.raises(SyntaxError):
        emit("for i in a: pass", a="f32")
    with pytest.raises(SyntaxError, match="only assignments"):
        Emitter({"a": "f32"}).program("for i in a: pass", [("out0", "f32")])
    with pytest.raises(AssertionError, match="takes statements"):
        emit("trunc_divide(a, b)", a="f32", b="f32")  # made of others, with names of its own for the operands


@pytest.mark.parametrize(
    "number, carrier, text",
    [
        (1, "f32", "1.0"),
        (-2.5, "f32", "(-2.5)"),
        (float("inf"), "f32", "(f32_inf())"),
        (float("nan"), "f32", "f32_nan()"),
        (-(1 << 31), "i32", "(-2147483647i - 1i)"),
        (-1, "u32", "4294967295u"),
        (-1, "i64", "vec2<u32>(4294967295u, 4294967295u)"),
        (1 << 40, "i64", "vec2<u32>(0u, 256u)"),
        (-(1 << 63), "n64", "n64_load(0u, 0x80000000u)"),
        (1 + 2j, "c64", "vec2<f32>(1.0, 2.0)"),
        (0, "bool", "false"),
    ],
)
def test_literal(number, carrier, text):
    assert literal(number, carrier) == text


@pytest.mark.parametrize(
    "source, target, text",
    [
        ("f32", "f32", "x"),
        ("i32", "f32", "f32(x)"),
        ("f32", "i32", "i32_from_f32(x)"),
        ("bool", "i64", "select(vec2<u32>(0u, 0u), vec2<u32>(1u, 0u), x)"),
        ("i64", "bool", "any(x != vec2<u32>(0u))"),
        ("i64", "i32", "bitcast<i32>(x.x)"),
        ("f32", "c64", "vec2<f32>(x, 0.0)"),
        ("c64", "f32", "x.x"),
        ("n64", "f32", "n64_to_f32(x)"),
    ],
)
def test_convert(source, target, text):
    assert convert("x", source, target) == text
