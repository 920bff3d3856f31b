"""What the benchmarks report: ratios, floors, disagreements, and children that die."""

import sys

from benchmarks import report
from benchmarks.__main__ import chosen
from benchmarks.lockstep import Child
from benchmarks.peers import table
from benchmarks.workloads import all_workloads

CHILD = """
import sys
from benchmarks.lockstep import serve
def answer(request):
    if request["n"] == 3: raise ValueError("no threes")
    if request["n"] == 4: sys.exit("gone")
    print("chatter")
    return {"twice": 2 * request["n"]}
serve(answer)
"""


def row(**more) -> dict:
    return {
        "name": "a",
        "group": "reduce",
        "bytes": 4e9,
        "flops": 0.0,
        "target": 1.1,
        "cuda": 1.0,
        "webgpu": 2.0,
    } | more


def test_ratio_floor_and_share():
    found = report.finish(row(), ["cuda", "webgpu"], {"bytes": 4e12, "flops": 1e13})
    assert found["ratio"] == 2.0 and found["slow"]
    assert found["floor_ms"] == 1.0 and found["share"] == 0.5 and found["rate"] == "2000.0 GB/s"
    products = report.finish(row(flops=2e10), ["cuda", "webgpu"], {"bytes": 4e12, "flops": 1e13})
    assert products["floor_ms"] == 2.0 and products["rate"] == "10.00 TFLOP/s"
    assert not report.finish(row(target=2.0), ["cuda", "webgpu"], {})["slow"]
    failed = report.finish(row(webgpu=None), ["cuda", "webgpu"], {"bytes": 4e12, "flops": 1e13})
    assert failed["ratio"] is None and not failed["slow"] and "-" in report.cells(failed, ["cuda", "webgpu"])


def test_markdown_marks_what_is_slow():
    rows = [report.finish(row(name=n, webgpu=ms), ["cuda", "webgpu"], {}) for n, ms in (("slow", 2.0), ("quick", 0.5))]
    text = report.markdown(rows, ["cuda", "webgpu"])
    assert "**2.00**" in text and "| 0.50 |" in text and text.count("|---") == 10


def test_an_aim_over_the_floor():
    ceilings = {"bytes": 4e12, "flops": 1e13}
    rows = [row(target=None, floor_target=1.3, webgpu=ms) for ms in (1.25, 1.35)]
    quick, slow = (report.finish(r, ["cuda", "webgpu"], ceilings) for r in rows)
    assert slow["slow"] and not quick["slow"]  # whatever CUDA takes
    text = report.markdown([quick, slow], ["cuda", "webgpu"])
    assert "| 80 % |" in text and "**74 %**" in text and text.count("1.3 of floor") == 2
    unknown = report.finish(row(target=None, floor_target=1.3), ["cuda", "webgpu"], {})
    assert not unknown["slow"] and not report.has_aim(unknown) and report.has_aim(quick)
    few = [w for w in all_workloads(1) if w.name.startswith("linear M=")]
    assert len(few) > 16 and all(w.floor_target == 1.3 for w in few)


def test_devices_that_disagree():
    assert report.differ([1.0, 2.0], [1.0, 2.01]) == ""
    assert "differs" in report.differ([1.0, 2.0], [1.0, 2.2])
    assert "differs" in report.differ([1.0], [1.0, 2.0])


def test_the_order_of_a_choice_is_kept():
    works = all_workloads(8)
    assert len({w.name for w in works}) == len(works)
    names = [w.name for w in chosen(works, ["softmax", "host"], [])]
    assert names[0].startswith("softmax") and names[-1].startswith("read back") and len(names) == len(set(names))
    assert not any(w.group == "conv" for w in chosen(works, [], ["conv"]))


def test_the_many_operators_run_only_when_named():
    works = all_workloads(8)
    assert not any(w.group == "operators" for w in chosen(works, [], []) + chosen(works, ["conv"], []))
    assert len(chosen(works, ["operators"], [])) > 80


def test_a_child_answers_fails_and_dies():
    child = Child([sys.executable, "-c", CHILD])
    assert child.ask(n=2) == {"twice": 4}
    assert "no threes" in child.ask(n=3)["error"]
    assert child.ask(n=5) == {"twice": 10}
    assert "gone" in child.ask(n=4)["error"]
    assert "gone" in child.ask(n=2)["error"]
    child.close()
    hangs = Child([sys.executable, "-c", "import time; time.sleep(60)"])
    assert "no answer" in hangs.ask(timeout=0.5, n=1)["error"]
    hangs.close()


def test_peers_are_compared_with_ours():
    rows = [
        {"name": "add", "ms": {"us": 2.0, "them": 5.0}, "least": {"us": 1.0, "them": 4.0}, "notes": {"other": "none"}}
    ]
    text = table(rows, ["us", "them", "other"])
    assert "| add | 2.00 | 5.00 (2.5x) | none |" in text
    assert "4.00 (4x)" in table(rows, ["us", "them", "other"], "least")


def test_a_plot_needs_matplotlib_and_two_devices(monkeypatch, tmp_path):
    rows = [report.finish(row(), ["cuda", "webgpu"], {})]
    alone = [report.finish(row(), ["webgpu"], {})]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install matplotlib" in report.plot(rows, ["cuda", "webgpu"], str(tmp_path / "a.png"))
    monkeypatch.undo()
    assert "two devices" in report.plot(alone, ["webgpu"], str(tmp_path / "b.png"))
    assert str(tmp_path / "c.png") in report.plot(rows, ["cuda", "webgpu"], str(tmp_path / "c.png"))
    assert (tmp_path / "c.png").stat().st_size > 1000
