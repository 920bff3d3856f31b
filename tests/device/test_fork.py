"""After a fork: PyTorch's usual words in the child, and a parent that goes on working."""

import os

import pytest
import torch

D = "webgpu"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def in_child(work) -> str:
    """What `work` said or raised in a forked child; a child that hangs is ended."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            message = str(work())
        except BaseException as error:  # noqa: BLE001
            message = f"{type(error).__name__}: {error}"
        os.write(write, message.encode()[:4000])
        os._exit(0)
    os.close(write)
    import select

    ready, _, _ = select.select([read], [], [], 30)
    if not ready:
        os.kill(pid, 9)
    message = os.read(read, 8000).decode() if ready else "the child hangs"
    os.close(read)
    os.waitpid(pid, 0)
    return message


@pytest.mark.parametrize(
    "work",
    [
        lambda x: torch.ones(2, device=D),
        lambda x: x + 1,
        lambda x: x.cpu(),
        lambda x: x.sum().item(),
        lambda x: torch.ones(3).to(D),
        lambda x: torch.webgpu.synchronize() or torch.webgpu.init(),
    ],
)
def test_the_child_is_told(work):
    x = torch.ones(2, device=D) + 1
    message = in_child(lambda: work(x))
    assert message.startswith("RuntimeError: Cannot re-initialize webgpu in forked subprocess"), message
    assert "'spawn' start method" in message
    assert (x * 2).cpu().tolist() == [4.0, 4.0], "the parent goes on"


def test_cpu_work_in_the_child():
    x = torch.ones(2, device=D)
    assert in_child(lambda: (torch.manual_seed(1), torch.ones(3).sum().item())[1]) == "3.0"
    assert torch.webgpu._is_in_bad_fork() is False
    assert in_child(torch.webgpu._is_in_bad_fork) == "True"
    assert x.cpu().tolist() == [1.0, 1.0]


def test_data_loader_workers():
    torch.ones(1, device=D).cpu()
    data = torch.utils.data.TensorDataset(torch.arange(6.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2)
    assert sorted(sum(b[0].to(D).sum().item() for b in loader) for _ in range(1)) == [15.0]
