"""The page of operators: overloads merged, dtypes by what a run found."""

from benchmarks.coverage import strictly
from benchmarks.optable import measured, merged, page


def _row(name, dtype, status="right", fallbacks=None, database="op"):
    row = {"name": name, "aten": name, "dtype": dtype, "samples": 1, "status": status, "detail": ""}
    return {**row, "database": database, "fallbacks": fallbacks or {}, "readings": []}


def test_functional_overloads_decide_the_tier():
    tiers = {"aten::mm": "native", "aten::mm.out": "decomposition", "aten::add_.Tensor": "fallback",
             "aten::add.Tensor": "native", "aten::add.Scalar": "composite", "aten::fill_diagonal_": "composite",
             "aten::cudnn_convolution": "fallback"}  # fmt: skip
    assert merged(tiers) == {"add": ["native", "composite"], "fill_diagonal_": ["composite"], "mm": ["native"]}


def test_all_entries_of_an_operator_must_be_right():
    rows = [
        _row("mm", "float32"),
        _row("mm", "float32", "wrong"),
        _row("mm", "int64"),
        _row("mm", "bool", "right", {"a": 1}),
    ]
    assert measured(rows)["mm"] == (["int64"], ["bool"])


def test_later_runs_replace_entries():
    first = {
        "torch": "2.0",
        "adapter": "x",
        "results": [_row("mm", "float32", "wrong"), _row("nn.ReLU", "float32", database="module")],
    }
    second = {"torch": "2.0", "adapter": "x", "results": [_row("mm", "float32")]}
    text = page([first, second], {"aten::mm": "native"})
    assert "| float32 | 1 | 1 | 1 | 1 |" in text and "| module_db: nn modules | 1 | 1 | 1 | 1 |" in text
    assert "| mm | native | f32 |  |" in text and "Nothing." in text


def test_what_is_right_by_a_reading_is_not_strictly_right():
    tied = {**_row("topk", "float32"), "readings": ["ties"]}
    text = page([{"torch": "2.0", "adapter": "x", "results": [tied, _row("mm", "float32")]}], {"aten::mm": "native"})
    assert "| float32 | 2 | 2 | 2 | 1 | 2 |" in text and "| topk | right by reading only: ties | f32 |" in text
    assert strictly(tied)["status"] == "wrong" and "ties" in strictly(tied)["detail"]
    assert strictly(_row("mm", "float32"))["status"] == "right"


def test_an_example_says_where_the_devices_differ():
    rounded = {**_row("mm", "float16"), "readings": ["rounding"], "example": "result for (2,): 1 of 2 differ; 1, CPU 2"}
    text = page([{"torch": "2.0", "adapter": "x", "results": [rounded]}], {"aten::mm": "native"})
    assert "| mm | right by reading only: rounding | f16 | f16: result for (2,): 1 of 2 differ; 1, CPU 2 |" in text
