"""Several threads at once, with gradients."""

import gc
import threading

import torch
from torch import nn

import webgpu_backend

D = "webgpu"


def in_threads(work, count=4):
    failures = []

    def guarded(k):
        try:
            work(k)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=60)
        assert not t.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def test_forward_and_backward():
    def work(k):
        for n in range(8):
            x = torch.full((4, 4), float(k + 1), device=D, requires_grad=True)
            ((x @ x).relu() * (n + 1)).sum().backward()
            expected = torch.full((4, 4), 8.0 * (k + 1) * (n + 1))
            assert torch.equal(x.grad.cpu(), expected)

    gc.collect()
    live = webgpu_backend.stats()["buffers_live"]
    in_threads(work)
    gc.collect()
    assert webgpu_backend.stats()["buffers_live"] <= live + 2, "threads leave no tensors behind"


def test_shapes_differ_between_threads():
    """Each thread describes tensors in its own memory."""

    def work(k):
        for n in range(20):
            shape = (k + 1, n % 5 + 1)
            x = torch.full(shape, float(k), device=D)
            assert torch.equal((x + n).t().contiguous().cpu(), torch.full(shape[::-1], float(k + n)))

    in_threads(work)


def test_one_tensor_read_by_many():
    x = torch.arange(1000.0, device=D)
    in_threads(lambda k: [torch.equal((x * k).cpu(), torch.arange(1000.0) * k) or 1 / 0 for _ in range(5)])


def test_a_model_shared_by_threads():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(D)
    reference = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    reference.load_state_dict({k: v.cpu() for k, v in net.state_dict().items()})
    inputs = [torch.randn(3, 4) for _ in range(4)]

    def work(k):
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(net(inputs[k].to(D)).cpu(), reference(inputs[k]), rtol=1e-5, atol=1e-5)

    in_threads(work)


def test_tensors_die_on_other_threads():
    gc.collect()
    live = webgpu_backend.stats()["buffers_live"]
    box = [torch.ones(100, device=D) for _ in range(10)]
    in_threads(lambda k: box.clear() if k == 0 else None, 2)
    gc.collect()
    assert webgpu_backend.stats()["buffers_live"] == live
