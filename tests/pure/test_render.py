"""From parts of text to programs: heads, the library, and how elements are read. No GPU."""

from itertools import product

import pytest

from tests.pure.test_golden import BASELINE, GPU
from webgpu_backend import dtypes
from webgpu_backend.kernels.text import elements, library
from webgpu_backend.kernels.text.numbers import PACKERS, packed, scalar_fields, scalar_text
from webgpu_backend.kernels.text.render import render_program


def test_a_program_follows_from_its_fields_and_bindings():
    bindings = [("a", "read", "array<f32>"), ("out", "read_write", "array<vec4<f32>>")]
    program = render_program(
        "x", "text/interface.wgsl", ["n", "scale: f32"], bindings, GPU, declarations=["const A = 1;"]
    )
    assert (program.name, program.access, program.param_bytes, program.guarded) == ("x", "rw", 8, False)
    assert program.wgsl == (
        "struct P {\n    n: u32,\n    scale: f32,\n}\n"
        "@group(0) @binding(0) var<storage, read> a: array<f32>;\n"
        "@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;\n"
        "const A = 1;\n"
    )


def test_a_guarded_program_has_one_more_buffer_and_reports():
    program = render_program("x", "text/interface.wgsl", ["n"], [("a", "read", "array<u32>")], GPU, guarded=True)
    assert program.access == "r" and program.guarded, "the runtime binds the faults"
    assert "@binding(1) var<storage, read_write> faults" in program.wgsl and "fn report()" in program.wgsl


def test_the_library_is_included_by_need():
    text = library.include("let y = f32_sigmoid(x);")
    assert "fn f32_sigmoid(" in text and "fn f32_exp(" in text and "fn f32_tanh(" not in text
    assert library.include("let y = x + 1.0;") == ""


def test_an_adapter_s_own_integers_serve_under_the_same_name():
    ours, native = (library.include("u32_mul_wide(a, b)", native64) for native64 in (False, True))
    assert ours != native and all(text.count("fn u32_mul_wide(") == 1 for text in (ours, native))
    assert "n64_mul_wide" not in native


@pytest.mark.parametrize("dtype, caps", [*product(dtypes.ALL.values(), (GPU, BASELINE))])
def test_a_vector_is_what_four_lanes_are_read_as(dtype, caps):
    if dtype.size > 4 or dtype.name == "complex32":
        return
    lines, lanes = elements.read4(dtype, "b", "g", "x", caps)
    assert lanes == ["x.x", "x.y", "x.z", "x.w"]
    if elements.is_packed(dtype, caps):
        assert lines == ["let x_w = b[g];", f"let x = {elements.vector(dtype, 'x_w', caps)};"]
        (function,) = elements.wideners((dtype, dtype), caps)
        assert elements.widened(dtype, "b[g]", caps) == f"widen_{dtype.short}(b[g])"
        assert function.startswith(f"fn widen_{dtype.short}(w: ") and elements.vector(dtype, "w", caps) in function
    else:
        assert lines == [f"let x = {elements.widened(dtype, 'b[g]', caps)};"]
        assert elements.wideners((dtype,), caps) == []


@pytest.mark.parametrize("carrier", PACKERS)
def test_numbers_fill_their_fields(carrier):
    fields = scalar_fields("alpha", carrier)
    assert len(PACKERS[carrier](1)) == 4 * len(fields)
    assert all(f"p.{field.partition(':')[0]}" in scalar_text("alpha", carrier) for field in fields)


def test_words():
    assert packed([1, 0xFFFFFFFF]) == b"\x01\0\0\0\xff\xff\xff\xff" and packed(()) == b""
