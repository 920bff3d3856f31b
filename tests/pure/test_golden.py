"""Golden WGSL: the whole text of a few programs, so that a change to the generator shows as a change of text.

`WEBGPU_REWRITE_GOLDEN=1 pytest tests/pure/test_golden.py` writes the files anew.
"""

import os
from pathlib import Path

import pytest

from webgpu_backend import dtypes
from webgpu_backend.kernels.image import pool
from webgpu_backend.kernels.indexing import scatter
from webgpu_backend.kernels.indexing.read import Axis
from webgpu_backend.kernels.layout import View, contiguous_strides
from webgpu_backend.kernels.lists import elementwise as lists
from webgpu_backend.kernels.matmul import matmul
from webgpu_backend.kernels.matmul.product import Matrix, Product
from webgpu_backend.kernels.pointwise.elementwise import Spec, plan
from webgpu_backend.kernels.reduce import reduction
from webgpu_backend.kernels.rnn import rnn
from webgpu_backend.program import Caps, Step

FOLDER = Path(__file__).parent / "golden"
GPU = Caps(
    kind="gpu", f16=True, i64=True, f64=True, subgroups=True, immediate_bytes=128, max_binding=1 << 30,
    max_buffer=1 << 31, max_bindings=16, workgroup_bytes=32768, workgroup_size=1024,
)  # fmt: skip
BASELINE = Caps(
    kind="cpu", f16=False, i64=False, f64=False, subgroups=False, immediate_bytes=0, max_binding=1 << 27,
    max_buffer=1 << 28, max_bindings=8, workgroup_bytes=16384, workgroup_size=256,
)  # fmt: skip
ADD = Spec("add", "a + b * alpha", ("a", "b"), ("alpha",))


def dense(dtype, *sizes, offset=0):
    return View(dtype, sizes, contiguous_strides(sizes), offset)


def case(spec, compute, inputs, outputs, caps):
    step, _ = plan(spec, compute, inputs, outputs, [True] * len(outputs), [None] * len(inputs), caps)
    return step


F32, F16, BF16, I64, BOOL = dtypes.FLOAT32, dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.INT64, dtypes.BOOL
LERP = Spec("lerp", "a + (b - a) * w", ("a", "b", "w"))
SUM = reduction.Spec("sum", "acc + a", "acc + o_acc")
CENTRED = reduction.Spec("centred", "acc + a", "acc + o_acc", finish="acc / n", map="a - out", maps=(("y", "T"),))


def reduced(spec, dtype, sizes, dims, maps, caps):
    """The first step of a reduction of a dense tensor."""
    kept = tuple(1 if d in dims else s for d, s in enumerate(sizes))
    results = [] if maps else [dense(dtype, *kept)]
    mapped = [dense(dtype, *sizes)] if maps else []
    return reduction.plan(spec, dtype, [dense(dtype, *sizes)], frozenset(dims), results, mapped, (), caps).steps[0]


def listed():
    operands = (lists.Operand("t", F32), lists.Operand("t", BF16), lists.Operand("n"))
    return lists.plan(LERP, operands, ((F32, 0),), [100, 7], (), BASELINE)


def added():
    axis = Axis(8, (1, 0), 0, limit=50, step=8, site=0)
    return scatter.plan((3, 8), F16, "sum", ((0, 1), 0), ((8, 1), 0), [axis], BASELINE)


def biased_product():
    a, b, out = Matrix(BF16, 0, 64, 1), Matrix(BF16, 0, 1, 40), Matrix(F32, 0, 40, 1)
    return matmul.plan(Product(20, 40, 64, a, b, out, Matrix(BF16, 0, 0, 1), alpha=2.0), BASELINE).steps[-1]


CASES = {
    "add_f32_linear": lambda: case(ADD, F32, [dense(F32, 100), dense(F32, 100)], [dense(F32, 100)], GPU),
    "add_bf16_broadcast": lambda: case(
        ADD, F32, [dense(BF16, 6, 8), View(BF16, (6, 1), (1, 1))], [dense(BF16, 6, 8)], GPU
    ),
    "mul_i64_emulated": lambda: case(
        Spec("mul", "a * b", ("a", "b")), I64, [dense(I64, 33), None], [dense(I64, 33)], BASELINE
    ),
    "where_strided": lambda: case(
        Spec("where", "where(a, b, c)", ("a", "b", "c"), types=(("a", "bool"),)),
        F32,
        [dense(BOOL, 5, 7), View(F32, (5, 7), (1, 5)), dense(F32, 1, 1)],
        [View(F32, (5, 7), (14, 2))],
        GPU,
    ),
    "lt_to_bool": lambda: case(
        Spec("lt", "a < b", ("a", "b"), outputs=("bool",)), F32, [dense(F32, 9), None], [dense(BOOL, 9)], BASELINE
    ),
    "frexp_two_outputs": lambda: case(
        Spec("frexp", "out0 = frexp_mantissa(a)\nout1 = frexp_exponent(a)", outputs=("T", "i32")),
        F32,
        [dense(F32, 64)],
        [dense(F32, 64), dense(dtypes.INT32, 64)],
        GPU,
    ),
    "sum_rows": lambda: reduced(SUM, BF16, (6, 100), {1}, False, GPU),
    "centred_columns": lambda: reduced(CENTRED, F32, (6, 8), {0}, True, BASELINE),
    "lerp_lists": listed,
    "scatter_add_f16": added,
    "matmul_bias": biased_product,
    "lstm_cell": lambda: rnn.plan("lstm", ("ig", "hg", "cx", "hb"), ("hy", "cy"), F16, 2, 3, [0] * 6, BASELINE),
    "max_pool": lambda: Step(pool.kernel("max", "fixed", BF16, False, False, False, 2, GPU).program, b"", (1, 1, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    program = CASES[name]().program
    text = f"// {program.name}, bindings {program.access}, {program.param_bytes} parameter bytes\n{program.wgsl}"
    path = FOLDER / f"{name}.wgsl"
    if os.environ.get("WEBGPU_REWRITE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_shapes_are_not_text():
    """Another size of the same layout class is the same program object: nothing compiles anew."""
    programs = {case(ADD, F32, [dense(F32, n), dense(F32, n)], [dense(F32, n)], GPU).program for n in (4, 100, 1 << 20)}
    assert len(programs) == 1


def test_every_golden_file_has_its_case():
    assert {p.stem for p in FOLDER.glob("*.wgsl")} == set(CASES)
