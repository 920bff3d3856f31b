"""What only a kernel can see is raised at a later wait: it names the operator and the line that called, and no value of
others is lost. With WEBGPU_BLOCKING=1 it is raised at the call."""

import inspect
import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.nn import functional as F

D = "webgpu"

# name -> (the operator that is named, the call); `t` makes a tensor of numbers
GUILTY = {
    "embedding": ("embedding", "F.embedding(t(7), t([1.0, 2.0]).view(2, 1))"),
    "embedding_bag": ("embedding_bag", "F.embedding_bag(t([[1, 5]]), t([1.0, 2.0]).view(2, 1))"),
    "index": ("index", "t([1.0, 2.0])[t([0, 9])]"),
    "index_put": ("index_put", "t([1.0, 2.0]).index_put_((t([4]),), t(1.0))"),
    "gather": ("gather", "t([1.0, 2.0]).gather(0, t([3]))"),
    "scatter": ("scatter", "t([1.0, 2.0]).scatter_(0, t([-3]), 1.0)"),
    "index_add": ("index_add", "t([1.0, 2.0]).index_add_(0, t([2]), t([1.0]))"),
    "nll_loss": ("nll_loss", "F.nll_loss(t([[1.0, 2.0]]), t([4]))"),
    "masked_scatter": ("masked_scatter", "t([1.0, 2.0]).masked_scatter_(t([True, True]), t([1.0]))"),
}


def t(values):
    return torch.tensor(values).to(D)


@pytest.mark.parametrize("name", GUILTY)
def test_the_operator_and_the_line_are_named(name):
    op, code = GUILTY[name]
    others = [t([1.0, 2.0]) * k for k in range(3)]
    call = compile(f"\n\n{code}", "training.py", "eval")  # the third line
    kept = eval(call, {"t": t, "F": F})  # noqa: F841
    later = others[1] + others[2]
    with pytest.raises(
        (IndexError, RuntimeError), match=rf"in aten::{op}\w*, called at training.py:3; .*WEBGPU_BLOCKING"
    ):
        later.tolist()
    assert later.tolist() == [3.0, 6.0] and [x.tolist() for x in others] == [[0, 0], [1, 2], [2, 4]]
    torch.webgpu.synchronize()


def test_a_gradient_names_the_call_of_backward():
    x, index = t([1.0, 2.0]).requires_grad_(), t([0, 1])
    y = x.gather(0, index)
    index.data.fill_(5)  # a new version would be noticed
    y.sum().backward()
    line = inspect.currentframe().f_lineno - 1
    with pytest.raises((IndexError, RuntimeError), match=rf"test_late_errors.py:{line}"):
        torch.webgpu.synchronize()


def test_only_calls_of_that_operator_are_named():
    table, good = t([1.0, 2.0]), t([0])
    table.index_select(0, good)
    table.gather(0, t([3]))
    line = inspect.currentframe().f_lineno - 1
    table.take(good)
    with pytest.raises(IndexError, match=rf"in aten::gather, called at \S*test_late_errors.py:{line};"):
        torch.webgpu.synchronize()


def test_many_calls_are_watched_in_bounded_memory():
    from webgpu_backend.runtime.gpu import gpu

    table, good = t([1.0, 2.0]), t([0])
    codes = [compile("\n" * k + "table.gather(0, good)", "many.py", "eval") for k in range(400)]
    for code in codes:
        eval(code, {"table": table, "good": good})
    assert 0 < len(gpu().queue.watched) <= 256
    torch.webgpu.synchronize()
    assert not gpu().queue.watched


BLOCKING = """
    import json, os, sys, traceback
    import torch
    from torch.nn import functional as F
    import webgpu_backend

    def t(values):
        return torch.tensor(values).to("webgpu")

    found = {}
    for name, code in json.load(sys.stdin).items():
        others = t([1.0, 2.0]) * 3
        try:
            eval(compile("\\n\\n" + code, "training.py", "eval"))
        except (IndexError, RuntimeError) as error:
            frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "training.py"]
            found[name] = [frames, str(error), others.tolist()]
    x = torch.nn.Linear(3, 3).to("webgpu")
    x(torch.ones(2, 3, device="webgpu")).sum().backward()
    print(json.dumps([found, x.bias.grad.tolist()]))
"""


def test_blocking_raises_at_the_call():
    given = json.dumps({name: code for name, (_, code) in GUILTY.items()})
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BLOCKING)],
        input=given, capture_output=True, text=True, timeout=300, env={**os.environ, "WEBGPU_BLOCKING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found, gradient = json.loads(done.stdout)
    assert gradient == [2.0] * 3
    assert found.keys() == GUILTY.keys()
    for name, (lines, message, others) in found.items():
        assert lines == [3] and f"in aten::{GUILTY[name][0]}" in message and others == [3.0, 6.0], (
            name,
            lines,
            message,
        )
        assert "WEBGPU_BLOCKING" not in message
