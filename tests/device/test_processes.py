"""Device tensors between processes: copies through shared host memory, by torch.multiprocessing."""

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

D = "webgpu"


def _answer(inbox, outbox, given):
    """In the other process: what arrives is on its device, and goes back changed."""
    outbox.put((given.device.type, given * 2))
    while (item := inbox.get()) is not None:
        if isinstance(item, torch.UntypedStorage):
            outbox.put((item.device.type, item))
            continue
        facts = item.device.type, type(item).__name__, item.requires_grad, tuple(item.shape), item.dtype
        outbox.put((facts, item.detach().clone()))
    outbox.put("done")


def test_queues_and_arguments():
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    given = torch.arange(3.0, device=D)
    process = context.Process(target=_answer, args=(inbox, outbox, given))
    process.start()
    try:
        kind, doubled = outbox.get(timeout=120)
        assert kind == D and doubled.device.type == D and doubled.tolist() == [0, 2, 4]
        tensors = [
            torch.randn(5, 3).to(D),
            torch.randn(4, 6).to(D)[1:, ::2],
            torch.arange(7, dtype=torch.int16).to(D),
            torch.empty(0, 3, device=D),
            torch.randn(2, device=D, requires_grad=True),
            nn.Parameter(torch.randn(3, device=D)),
        ]
        for tensor in tensors:
            inbox.put(tensor)
            facts, back = outbox.get(timeout=60)
            expected = D, type(tensor).__name__, tensor.requires_grad, tuple(tensor.shape), tensor.dtype
            assert facts == expected
            assert back.device.type == D and torch.equal(back.cpu(), tensor.detach().cpu())
        inbox.put(tensors[0].untyped_storage())
        kind, storage = outbox.get(timeout=60)
        assert kind == D and storage.device.type == D and storage.nbytes() == 60
        inbox.put(None)
        assert outbox.get(timeout=60) == "done"
    finally:
        process.join(20)
        if process.is_alive():
            process.kill()
    assert process.exitcode == 0


def test_sharing_is_refused():
    for shared in (torch.ones(2, device=D), nn.Linear(2, 2).to(D)):
        with pytest.raises(RuntimeError, match="cannot be shared between processes"):
            shared.share_memory_() if isinstance(shared, torch.Tensor) else shared.share_memory()
    assert torch.ones(2).share_memory_().is_shared()


def test_what_torch_refuses_stays_refused():
    from multiprocessing.reduction import ForkingPickler

    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(torch.ones(2, device=D, requires_grad=True) * 2)
