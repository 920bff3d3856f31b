"""Tensors of more than 2^31 bytes and more than 2^31 elements, where the adapter has buffers and memory for them.

Answers are compared with the CPU's in windows: at both ends, and around the places where 31 bits or one binding end.
"""

import pytest
import torch
import torch.nn.functional as F

from tests import needs
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
N = 600_000_000  # float32: 2.4 GB
BYTES = 3_000_000_000  # elements of one byte
WIDTH = 4096


@pytest.fixture(autouse=True)
def room():
    torch.zeros(1, device=D)
    caps = gpu().caps
    if caps.kind == "cpu":
        needs.missing(f"{gpu().name} computes on the processor, which takes hours for 2^31 elements: run on a GPU")
    if caps.max_buffer <= BYTES:
        needs.missing(f"{gpu().name} has buffers of up to {caps.max_buffer} bytes, and this needs {BYTES}")
    if torch.webgpu.mem_get_info()[0] < 24 << 30:
        needs.missing(f"{gpu().name} has {torch.webgpu.mem_get_info()[0]} bytes free, and this needs 24 GiB")
    yield
    torch.webgpu.empty_cache()


def places(n: int, item: int) -> list[int]:
    """Where windows of WIDTH elements begin."""
    found = {0, n // 2, n - WIDTH}
    for edge in (1 << 31, gpu().caps.max_binding, 1 << 30):
        found |= {edge // item - WIDTH // 2, edge - WIDTH // 2}
    return sorted(at for at in found if 0 <= at <= n - WIDTH)


def ramp(start: int, dtype=torch.float32, width: int = WIDTH) -> torch.Tensor:
    """What `numbers` holds from `start`."""
    return (torch.arange(start, start + width) % 251).to(dtype)


def numbers(n: int | None = None, dtype=torch.float32) -> torch.Tensor:
    n = n or N
    if dtype is torch.float32:
        x = torch.arange(n, dtype=torch.int32, device=D)
        return x.remainder_(251).float()
    return torch.cat([(torch.arange(s, min(s + (1 << 28), n), device=D) % 251).to(dtype) for s in range(0, n, 1 << 28)])


def agree(got: torch.Tensor, want, **tolerance) -> None:
    """`want(start)` is the CPU's window of a long vector."""
    flat = got.view(-1)
    for at in places(flat.numel(), flat.element_size()):
        torch.testing.assert_close(flat[at : at + WIDTH].cpu(), want(at), **tolerance)


def around_the_end_of_a_binding(rows: torch.Tensor) -> list[int]:
    """Some rows, two of them there, and the first and the last."""
    end = gpu().caps.max_binding // (rows.shape[1] * rows.element_size())
    return [0, 1, end - 1, end, rows.shape[0] - 1]


def total(n: int, power: int = 1) -> int:
    """The sum of the first n numbers, or of their powers."""
    whole, rest = divmod(n, 251)
    return whole * sum(i**power for i in range(251)) + sum(i**power for i in range(rest))


def test_elementwise():
    x = numbers()
    agree(x, ramp)
    agree(x * 2 + 1, lambda at: ramp(at) * 2 + 1)
    y = x.clone().mul_(x)
    agree(y, lambda at: ramp(at) ** 2)
    agree(torch.where(x > 100, x, y), lambda at: torch.where(ramp(at) > 100, ramp(at), ramp(at) ** 2))
    agree(x.half(), lambda at: ramp(at).half())
    agree((x == 7), lambda at: ramp(at) == 7)
    y.fill_(3.5)
    agree(y, lambda at: torch.full((WIDTH,), 3.5))
    y.copy_(x)
    agree(y, ramp)
    y[100:-100].zero_()
    agree(y[:WIDTH], lambda at: torch.cat((ramp(0, width=100), torch.zeros(WIDTH - 100))))
    assert torch.equal(y[-100:].cpu(), ramp(N - 100, width=100))


def test_reductions():
    x = numbers()
    assert abs(x.sum().item() / total(N) - 1) < 5e-6
    assert abs(x.mean().item() / (total(N) / N) - 1) < 5e-6
    x[N - 77] = 1000
    assert x.argmax().item() == N - 77 and x.max().item() == 1000
    x[12] = -5
    assert x.argmin().item() == 12 and [v.item() for v in torch.aminmax(x)] == [-5, 1000]
    rows = x.view(1000, -1)
    some = around_the_end_of_a_binding(rows)
    wanted = torch.stack([rows[r].cpu() for r in some])
    torch.testing.assert_close(rows.sum(1)[some].cpu(), wanted.double().sum(1).float(), rtol=1e-6, atol=0)
    assert torch.equal(rows.argmax(1)[some].cpu(), torch.stack([w.argmax() for w in wanted]))
    columns = x.view(-1, 1000)
    wanted = torch.stack([columns[:, c].cpu().amax() for c in (0, 999)])
    assert torch.equal(columns.amax(0)[[0, 999]].cpu(), wanted)
    mask = x > 249.5
    assert mask.sum().item() == len(range(250, N, 251)) + 1  # N - 77 was not one of them
    assert abs(torch.linalg.vector_norm(numbers()).item() / total(N, 2) ** 0.5 - 1) < 1e-5


def test_rows():
    """Each row for itself: softmax, layer_norm, cumsum, sort, topk."""
    x = numbers().view(-1, 10_000).mul_(0.01)
    some = around_the_end_of_a_binding(x)
    wanted = torch.stack([x[r].cpu() for r in some])

    def same(function, **tolerance):
        got = function(x)
        torch.testing.assert_close(torch.stack([got[r].cpu() for r in some]), function(wanted), **tolerance)

    same(lambda t: t.softmax(1))
    same(lambda t: t.log_softmax(1))
    same(lambda t: F.layer_norm(t, (10_000,)), rtol=1e-4, atol=1e-5)
    same(lambda t: t.cumsum(1), rtol=1e-5, atol=1e-3)
    same(lambda t: t.flip(1))
    same(lambda t: t.roll(3, 1))
    same(lambda t: t.topk(5)[0])
    same(lambda t: t.logsumexp(1))
    part = x[some[2] - 50 : some[2] + 50]
    assert torch.equal(part.sort(stable=True)[1].cpu(), part.cpu().sort(stable=True)[1])


def test_moving():
    x = numbers()
    both = torch.cat((x[: N // 2], x[: N // 2]))
    half = N // 2
    agree(both, lambda at: (torch.arange(at, at + WIDTH) % half % 251).float())
    m = x.view(-1, 25_000)
    t = m.t().contiguous()
    for row in around_the_end_of_a_binding(t):
        assert torch.equal(t[row].cpu(), (torch.arange(m.shape[0]) * 25_000 + row).remainder(251).float())
    flipped = x.flip(0)
    agree(flipped, lambda at: ((N - 1 - torch.arange(at, at + WIDTH)) % 251).float())
    pieces = x.split(N // 5 * 2)
    assert torch.equal(pieces[2][-WIDTH:].cpu(), ramp(N - WIDTH))
    padded = F.pad(x, (5, 3))
    assert padded[:5].sum().item() == 0 and padded[-3:].sum().item() == 0
    assert torch.equal(padded[-3 - WIDTH : -3].cpu(), ramp(N - WIDTH))


def test_indexing():
    x = numbers()
    end = gpu().caps.max_binding // 4
    index = torch.tensor([0, 1, N - 1, end - 1, end, end + 1, end + 2, N // 2])
    wanted = (index % 251).float()
    given = index.to(D)
    assert torch.equal(x.index_select(0, given).cpu(), wanted)
    assert torch.equal(x[given].cpu(), wanted)
    assert torch.equal(x.gather(0, given).cpu(), wanted)
    x[given] = -1.0
    assert torch.equal(x[given].cpu(), torch.full((8,), -1.0))
    x.index_add_(0, given, torch.ones(8, device=D))
    assert torch.equal(x[given].cpu(), torch.zeros(8))
    assert torch.equal((x < 0).nonzero().cpu(), torch.empty((0, 1), dtype=torch.int64))
    x[given] = 900.0
    assert torch.equal((x > 800).nonzero().view(-1).cpu(), index.unique())


def test_embedding():
    weight = numbers().view(-1, 1000).requires_grad_()
    first, _, low, high, last = around_the_end_of_a_binding(weight)
    index = torch.tensor([[first, 5, last], [low, high, 5]])
    out = F.embedding(index.to(D), weight)
    assert torch.equal(out.cpu(), ((index.unsqueeze(-1) * 1000 + torch.arange(1000)) % 251).float())
    out.sum().backward()
    grad = weight.grad
    assert grad.sum().item() == 6000
    assert grad[5].unique().cpu().tolist() == [2.0] and grad[last].unique().cpu().tolist() == [1.0]


def test_products():
    a = numbers().view(-1, 1000)
    b = (torch.arange(8000).view(1000, 8) % 5).float()
    got = torch.mm(a, b.to(D))
    for row in around_the_end_of_a_binding(a):
        torch.testing.assert_close(got[row].cpu(), a[row].cpu() @ b, rtol=1e-5, atol=0)
    got = F.linear(a, b.t().contiguous().to(D), torch.ones(8, device=D))
    torch.testing.assert_close(got[row].cpu(), a[row].cpu() @ b + 1, rtol=1e-5, atol=0)


def test_random_and_optimizer():
    torch.manual_seed(3)
    p = torch.randn(N, device=D)
    assert abs(p.mean().item()) < 1e-3 and abs(p.var().item() - 1) < 1e-3
    torch.manual_seed(3)
    again = torch.randn(N // 150, device=D)
    assert torch.equal(p[: N // 150].cpu(), again.cpu())
    del again
    start = {at: p[at : at + WIDTH].cpu() for at in places(N, 4)}
    p.requires_grad_()
    p.grad = numbers()
    torch.optim.AdamW([p], lr=0.1, fused=True).step()
    for at, before in start.items():
        q = before.clone().requires_grad_()
        q.grad = ramp(at)
        torch.optim.AdamW([q], lr=0.1).step()
        torch.testing.assert_close(p.detach()[at : at + WIDTH].cpu(), q.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_more_than_two_to_the_31_elements(dtype):
    limit = 251 if dtype is torch.uint8 else 120

    def window(at, width=WIDTH):
        return (torch.arange(at, at + width) % 251 % limit).to(dtype)

    x = numbers(BYTES, torch.uint8)
    x = (x % limit).to(dtype)
    agree(x, window)
    agree(x + 3, lambda at: window(at) + 3)
    agree(x > 50, lambda at: window(at) > 50)
    agree(x[BYTES // 3 :].clone(), lambda at: window(at + BYTES // 3))
    x[BYTES - 9] = 125
    x[7] = 126
    assert x.max().item() == max(126, limit - 1)
    x[7] = 0
    if dtype is torch.int8:
        assert x.argmax().item() == BYTES - 9
        assert (x == 125).nonzero().item() == BYTES - 9
    index = torch.tensor([0, 1, BYTES // 2, BYTES - 1, *(e for e in ((1 << 31) - 1, 1 << 31) if e < BYTES)])
    assert torch.equal(x[index.to(D)].cpu(), (index % 251 % limit).to(dtype))
    ones = torch.ones(BYTES, dtype=dtype, device=D)
    assert ones.sum().item() == BYTES


def test_beyond_a_buffer():
    x = torch.zeros(N, device=D)
    with pytest.raises(torch.OutOfMemoryError, match="larger than the adapter's limit"):
        torch.cat((x, x))
    assert x[-1].item() == 0
