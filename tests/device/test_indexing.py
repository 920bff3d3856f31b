"""Reading through indices and masks, and what happens when an index is bad."""

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from tests.device._compare import MOVED, gradients, same, values

DEVICE = "webgpu"


@pytest.fixture(autouse=True)
def seed():
    torch.default_generator.manual_seed(0)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_gather_family(dtype):
    x = values((5, 7, 9), dtype)
    index = torch.randint(0, 7, (4, 3, 9))
    same(lambda x, i: x.gather(1, i), x, index)
    same(lambda x, i: x.transpose(0, 1).gather(0, i.transpose(0, 1)), x, index)
    same(lambda x, i: x[1:, :, ::2].gather(1, i[..., :5]), x, index)
    same(lambda x, i: x.index_select(1, i), x, torch.tensor([3, 1, 6, 1], dtype=torch.int32))
    same(lambda x, i: x.index_select(-1, i[::2]), x, torch.tensor([3, 1, 8]))
    same(lambda x, i: x.take(i), x, torch.tensor([[3, -1], [314, 0]]))
    same(lambda x, i: x.t().take(i), values((6, 5), dtype), torch.tensor([3, -1, 7]))
    same(lambda x, i: F.embedding(i, x), values((50, 8), dtype), torch.randint(0, 50, (3, 4)))
    same(lambda x, i: F.embedding(i, x), values((50, 7), dtype), torch.randint(0, 50, (), dtype=torch.int32))


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_advanced_indexing(dtype):
    x = values((5, 7, 9), dtype)
    i, j = torch.tensor([[3], [-1]]), torch.tensor([3, 1, -2])
    mask = torch.rand(5, 7) > 0.5
    for function in (
        lambda x, i, j, m: x[i],
        lambda x, i, j, m: x[:, j],
        lambda x, i, j, m: x[..., j],
        lambda x, i, j, m: x[i, j],
        lambda x, i, j, m: x[i, :, j],
        lambda x, i, j, m: x[:, i, j],
        lambda x, i, j, m: x[1:, None, j.int(), 2:4],
        lambda x, i, j, m: x[m],
        lambda x, i, j, m: x[m, 2:5],
        lambda x, i, j, m: x[:, m[0], 1],
        lambda x, i, j, m: x[m & False],
        lambda x, i, j, m: x.permute(2, 0, 1)[:, m],
        lambda x, i, j, m: x[j[:0]],
        lambda x, i, j, m: x[3, 2, 1][None][m[0, :1]],
    ):
        same(function, x, i, j, mask)


def test_many_indices():
    y = values((2, 3, 2, 3, 2, 3), torch.float32)
    indices = [torch.randint(-s, s, (4,)) for s in y.shape]
    same(lambda y, *i: y[i[0], i[1], i[2], i[3], i[4]], y, *indices)
    same(lambda y, *i: y[:, i[1], i[2], i[3], i[4], i[5]], y, *indices)
    bad = [i.to(DEVICE) for i in indices]
    bad[3] = torch.full((4,), 3, device=DEVICE)
    with pytest.raises(IndexError):
        y.to(DEVICE)[tuple(bad)].cpu()


def test_cpu_index_tensors_are_uploaded():
    x = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(x.to(DEVICE)[torch.tensor([2, 0])].cpu(), x[[2, 0]])
    assert torch.equal(x.to(DEVICE)[[2, 0], :2].cpu(), x[[2, 0], :2])


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_nonzero_and_masks(dtype):
    x = values((5, 7, 9), dtype, 0.7).masked_fill(torch.rand(5, 7, 9) > 0.4, 0)
    same(lambda x: x.nonzero(), x)
    same(lambda x: x.transpose(0, 2).nonzero(), x)
    same(lambda x: x[1].nonzero(as_tuple=True), x)
    same(lambda x: x[0, 0, 0].nonzero(), x)
    same(lambda x: torch.ops.aten.nonzero_static(x, size=7), x)
    same(lambda x: torch.ops.aten.nonzero_static(x, size=400, fill_value=-3), x)
    mask = torch.rand(7, 9) > 0.5
    same(lambda x, m: x.masked_select(m), x, mask)
    same(lambda x, m: x.masked_scatter(m, x.flatten() * 3), x, mask) if dtype is not torch.bool else None
    same(lambda x, m: x.masked_fill(m, 1), x, mask)
    same(lambda x, m: x.masked_fill(m, x[0, 0, 0]), x, mask)
    same(lambda x, m: x.transpose(0, 1).masked_fill_(m.unsqueeze(1), 2), x, mask)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 4096, 4097, 300_001])
def test_nonzero_sizes(n):
    same(lambda x: x.nonzero(), torch.rand(n) > 0.7)
    same(lambda x: x.nonzero(), torch.zeros(n, dtype=torch.bool))
    same(lambda x: x.nonzero(), torch.ones(n, dtype=torch.int32))


def test_nan_is_nonzero():
    same(lambda x: x.nonzero(), torch.tensor([0.0, float("nan"), -0.0, float("inf")]))


def test_nonzero_reads_back_once():
    x = (torch.rand(100, 100) > 0.5).to(DEVICE)
    x.nonzero()
    before = webgpu_backend.stats()
    x.nonzero()
    after = webgpu_backend.stats()
    assert after["bytes_read"] - before["bytes_read"] in (4, 16)  # the count, and on GPUs what lies beside it
    assert after["pipelines_compiled"] == before["pipelines_compiled"]


def test_gather_is_one_dispatch_and_shapes_compile_nothing():
    x, i = torch.randn(8, 8).to(DEVICE), torch.zeros(8, 8, dtype=torch.int64).to(DEVICE)
    x.gather(1, i), F.embedding(i, x)
    before = webgpu_backend.stats()
    x[:4].gather(1, i[:3])
    after = webgpu_backend.stats()
    assert after["dispatches"] - before["dispatches"] == 1
    assert after["pipelines_compiled"] == before["pipelines_compiled"]


def test_gradients():
    x = values((5, 7, 9), torch.float32)
    gradients(lambda x, i: x.gather(1, i), x, torch.randint(0, 7, (4, 3, 9)))
    gradients(lambda x, i: x.index_select(1, i), x, torch.tensor([3, 1, 1]))
    gradients(lambda x, i: x[i, :, i], x, torch.tensor([3, 1, -1, 1]))
    gradients(lambda x, m: x[m], x, torch.rand(5, 7) > 0.5)
    gradients(lambda x, m: x.masked_select(m), x, torch.rand(7, 9) > 0.5)
    gradients(lambda x, m: x.masked_fill(m, 1.0), x, torch.rand(7, 9) > 0.5)
    gradients(lambda x, i: x.take(i), x, torch.tensor([3, -1, 3]))
    for freq in (False, True):
        gradients(
            lambda x, i: F.embedding(i, x, padding_idx=3, scale_grad_by_freq=freq),
            values((20, 6), torch.float32), torch.randint(0, 20, (50,)),
        )  # fmt: skip


BAD = {
    "index": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: x[0].take(i),
    "embedding": lambda x, i: F.embedding(i, x),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x[:1, :1]),
    "index_put": lambda x, i: x.index_put((i,), x[0]),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "put_": lambda x, i: x[0].clone().put_(i, x[0, :1]),
}


@pytest.mark.parametrize("op", BAD)
@pytest.mark.parametrize("bad", [4, -5, 2**31, 2**32, 2**32 + 1, -(2**32), 2**62, -(2**63)])
def test_bad_index_is_an_error_at_the_next_wait(op, bad):
    x = torch.arange(16.0).reshape(4, 4).to(DEVICE)
    y = BAD[op](x, torch.tensor([bad]).to(DEVICE))
    with pytest.raises(
        IndexError, match=rf"index {bad} is out of bounds for dimension 0 with size 4 \(in aten::{op}[,;]"
    ):
        y.cpu()
    torch.webgpu.synchronize()
    assert torch.equal(x.cpu(), torch.arange(16.0).reshape(4, 4))
    assert torch.equal(x[torch.tensor([1]).to(DEVICE)].cpu(), torch.arange(4.0, 8.0)[None])


def test_bad_index_shows_at_synchronize_and_item():
    x = torch.zeros(3, device=DEVICE)
    x[torch.tensor([3]).to(DEVICE)]
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        torch.webgpu.synchronize()
    x[torch.tensor([-4]).to(DEVICE)]
    with pytest.raises(IndexError, match="index -4"):
        x[0].item()
    x[0].item()
    for negative in (lambda i: x.gather(0, i), lambda i: x.index_select(0, i), lambda i: F.embedding(i, x[None])):
        negative(torch.tensor([-1]).to(DEVICE))
        with pytest.raises(IndexError, match="index -1"):
            torch.webgpu.synchronize()


def test_empty_dimension():
    x = torch.zeros(0, 3).to(DEVICE)
    none = torch.zeros(0, dtype=torch.int64).to(DEVICE)
    assert x[none].shape == (0, 3)
    assert x.index_select(0, none).shape == (0, 3)
    with pytest.raises(IndexError, match="out of bounds for dimension with size 0"):
        x[torch.tensor([0]).to(DEVICE)]


@pytest.mark.parametrize("function", [
    lambda x, i: x.gather(3, i),
    lambda x, i: x.gather(0, i.float()),
    lambda x, i: x.gather(0, i[0]),
    lambda x, i: x.gather(0, i.repeat(1, 4)),
    lambda x, i: x.index_select(0, i),
    lambda x, i: x[i, i, i],
    lambda x, i: x[i[:, :2], i[:, :1].expand(3, 3)],
    lambda x, i: x[i.float()],
    lambda x, i: x[i[:, 0] > 3],
    lambda x, i: x.masked_fill(i, 1.0),
    lambda x, i: x.masked_fill(i[:1] > 0, x),
    lambda x, i: x.scatter(0, i, x[:1]),
    lambda x, i: x.scatter_add(0, i, x.long()),
    lambda x, i: x.index_add(0, i[0], x),
    lambda x, i: x.index_put((i[0],), i),
    lambda x, i: x.index_put((i[0],), x[:2]),
    lambda x, i: x.scatter_reduce(0, i, x, "nothing"),
])  # fmt: skip
def test_wrong_arguments_raise_as_on_the_cpu(function):
    x, i = torch.randn(5, 4), torch.zeros(3, 3, dtype=torch.int64)
    with pytest.raises(Exception) as expected:
        function(x, i)
    with pytest.raises(type(expected.value)):
        function(x.to(DEVICE), i.to(DEVICE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64, torch.float16, torch.int8])
@pytest.mark.parametrize("n", [1, 255, 1024, 1025, 2047, 5001])
def test_every_element_of_several_workgroups(n, dtype):
    source = torch.arange(-50, 50).to(dtype)
    index = torch.randint(0, 100, (n,), generator=torch.Generator().manual_seed(n))
    assert torch.equal(source.to("webgpu").gather(0, index.to("webgpu")).cpu(), source.gather(0, index))
    wide = source.view(10, 10)
    index = index % 10
    expected = wide.gather(1, index.expand(10, n)[:, : min(n, 10)])
    assert torch.equal(wide.to("webgpu").gather(1, index.to("webgpu").expand(10, n)[:, : min(n, 10)]).cpu(), expected)


@pytest.mark.parametrize("place", [0, 1, 1030, 2999])
def test_one_bad_index_among_many_is_named(place):
    index = torch.arange(3000) % 7
    index[place] = 7 + place
    out = torch.zeros(7, device="webgpu").gather(0, index.to("webgpu"))
    with pytest.raises(IndexError, match=f"index {7 + place} is out of bounds for dimension 0 with size 7"):
        out.cpu()
    assert torch.equal(torch.ones(7, device="webgpu").gather(0, (index % 7).to("webgpu")).cpu(), torch.ones(3000))


def test_no_index_at_all_is_refused():
    for device in ("cpu", DEVICE):
        with pytest.raises(IndexError, match="at least one index must be provided"):
            torch.ops.aten.index.Tensor(torch.ones(1, device=device), [])
