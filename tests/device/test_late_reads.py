"""Reads that nobody waits for yet: what a tensor held at a point of the queue, whatever is recorded after it."""

from time import sleep

import pytest
import torch

from tests import needs
from webgpu_backend import tensor as T
from webgpu_backend.program import Program, Step
from webgpu_backend.runtime.errors import DeviceError
from webgpu_backend.runtime.gpu import gpu
from webgpu_backend.runtime.handing import Batch, pass_on

D = "webgpu"
FILL = """
    @group(0) @binding(0) var<storage, read_write> o: array<f32>;
    @compute @workgroup_size(1)
    fn main() { o[0] = 1.0; }
"""


@pytest.fixture(params=[False, True], ids=["submitted", "handed"])
def way(request, monkeypatch):
    """The program submits batches itself, or a thread does."""
    if request.param:
        needs.limit("immediate_bytes", 128)
    torch.webgpu.synchronize()
    monkeypatch.setattr(gpu().queue, "hands_over", request.param)
    yield
    torch.webgpu.synchronize()
    assert not gpu().queue._hand.waiting
    assert not gpu().queue._transfer.late


@pytest.mark.parametrize("backwards", [False, True])
def test_each_has_the_values_of_its_place(way, backwards):
    x = torch.zeros(3, 2, device=D)
    late = []
    for _ in range(30):
        x.add_(1)
        late.append(T.read_later(x[1:]))
    x.fill_(-1)
    order = reversed(range(30)) if backwards else range(30)
    for i in order:
        assert torch.equal(late[i](), torch.full((2, 2), i + 1.0))
    assert torch.equal(late[4](), torch.full((2, 2), 5.0))  # again
    assert x.cpu().eq(-1).all()


def test_staging_buffers_are_taken_again(way):
    x = torch.arange(4, device=D)
    for _ in range(3):
        assert T.read_later(x)().tolist() == [0, 1, 2, 3]
    kept = len(gpu().queue._transfer.small[4096])
    for _ in range(20):
        assert T.read_later(x)().tolist() == [0, 1, 2, 3]
    assert len(gpu().queue._transfer.small[4096]) == kept


def test_a_batch_that_is_refused(way):
    """Whoever waits is told, and what comes after it is read."""
    from webgpu_backend.plan import launch

    x, lost = torch.ones(4, device=D), torch.zeros(4, device=D)
    torch.webgpu.synchronize()
    x.add_(1)
    launch(Step(Program("too_many", FILL, "w", 0), b"", (gpu().caps.max_groups + 1, 1, 1)), lost)
    with pytest.raises(DeviceError, match="too_many"):
        T.read_later(x)()
    assert T.read_later(x)().tolist() == [2.0] * 4


def test_a_batch_before_the_copy_is_refused(way, monkeypatch):
    """It is told too, once; the values are there."""
    from webgpu_backend.plan import launch

    end = Batch.end
    monkeypatch.setattr(Batch, "end", lambda *args: sleep(0.05) or end(*args))  # not done when the copy is asked for
    x, lost = torch.ones(4, device=D), torch.zeros(4, device=D)
    torch.webgpu.synchronize()
    launch(Step(Program("too_many", FILL, "w", 0), b"", (gpu().caps.max_groups + 1, 1, 1)), lost)
    pass_on(gpu().queue)
    with pytest.raises(DeviceError, match="too_many"):
        T.read_later(x)()
    assert T.read_later(x)().tolist() == [1.0] * 4


def test_a_bad_index_is_told(way):
    table, x = torch.ones(5, 4, device=D), torch.ones(4, device=D)
    rows = torch.nn.functional.embedding(torch.tensor([7], device=D), table)
    late = T.read_later(rows)
    x.add_(1)
    with pytest.raises(IndexError):
        late()
    assert T.read_later(x)().tolist() == [2.0] * 4


def test_not_while_a_region_is_captured(way):
    x = torch.ones(4, device=D)
    with pytest.raises(RuntimeError, match="cannot read a tensor's values"):
        with torch.webgpu.graph(torch.webgpu.WebGPUGraph()):
            T.read_later(x)
