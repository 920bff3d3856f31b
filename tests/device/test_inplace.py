"""In-place operators, out= and assignment."""

import pytest
import torch

from tests.device._compare import D, both


def test_through_views():
    def run(d):
        t = torch.arange(24.0).view(4, 6).to(d)
        v = t[1:3, ::2].t()
        v.mul_(10).add_(1)
        return t, v

    t, v = both(run)
    assert v._base is not None and v.storage_offset() == 6
    assert v.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.add_(2),
        lambda x: x.mul_(x),
        lambda x: x.sub_(x.t().clone()),
        lambda x: x.add_(x[0].clone()),
        lambda x: x.div_(torch.tensor(2.0)),
        lambda x: x.clamp_(0.2, 0.7),
        lambda x: x.relu_(),
        lambda x: x.sigmoid_(),
        lambda x: x.pow_(2),
        lambda x: x.neg_(),
        lambda x: x.fill_(3),
        lambda x: x.zero_(),
        lambda x: x.copy_(x.t().clone()),
        lambda x: x.addcmul_(x, x, value=0.5),
        lambda x: x.lerp_(x * 2, 0.3),
        lambda x: x.masked_fill_(x > 0.5, -1.0),
        lambda x: x.t_(),
        lambda x: x.squeeze_().unsqueeze_(0),
        lambda x: x.transpose_(0, 1),
        lambda x: x.tril_(),
        lambda x: x.clip_(max=0.5),
    ],
)
def test_methods(call):
    def run(d):
        x = torch.rand(5, 5).to(d)
        address = x.data_ptr()
        result = call(x)
        assert result is x and x.data_ptr() == address
        return x

    both(run)


def test_out_is_resized_when_empty():
    def run(d):
        out = torch.empty(0, device=d)
        torch.add(torch.ones(3, device=d), 1, out=out)
        return out

    both(run)
    with pytest.warns(UserWarning, match="resized"):
        torch.add(torch.ones(3, device=D), 1, out=torch.empty(5, device=D))


def test_out_may_be_strided_another_dtype_or_an_input():
    def run(d):
        base = torch.zeros(4, 6).to(d)
        torch.mul(torch.full((4, 3), 3.0).to(d), 2, out=base[:, ::2])
        half = torch.empty(3, device=d, dtype=torch.float16)
        torch.add(torch.ones(3).to(d), 0.5, out=half)
        own = torch.ones(3).to(d)
        torch.add(own, own, out=own)
        return base, half, own

    both(run)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch.add(torch.ones(3, device=D), 1.5, out=torch.empty(3, dtype=torch.int32, device=D))


def test_setitem():
    def run(d):
        x = torch.ones(3, 3).to(d)
        x[:, 1] = 0.0
        x[1] = torch.tensor([5.0, 6.0, 7.0]).to(d)
        x[0, 0] = x[1, 2]
        x[2, 1:] = x[1, :2]
        x[..., -1:] += 1
        return x

    both(run)


def test_indexing_reads_and_writes():
    def run(d):
        x = torch.randn(6).to(d)
        taken = x[torch.tensor([0, 2]).to(d)], x[x > 0].sum(), x[[1, 3]]
        y = x.clone()
        y.index_put_((torch.tensor([0]).to(d),), torch.tensor(5.0).to(d))
        y[y < 0] = 0
        y[torch.tensor([1, 4]).to(d)] = torch.tensor([7.0, 8.0]).to(d)
        return *taken, y

    both(run)


def test_versions_guard_saved_tensors():
    x = torch.ones(3, device=D, requires_grad=True)
    y = x.exp()
    z = y.sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_leaf_that_requires_grad_is_protected():
    x = torch.ones(3, device=D, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)


def test_mixed_devices_are_refused():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device=D).add_(torch.ones(2))
    assert (torch.ones(2, device=D) + torch.tensor(2.0)).cpu().tolist() == [3.0, 3.0], "0-dim CPU tensors join"


def test_out_of_operators_that_torch_asks_for_another_device():
    x = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 5.0]])
    for device in ("cpu", "webgpu"):
        values, indices = torch.zeros(2, 2, device=device)[:, 0], torch.zeros(2, dtype=torch.int64, device=device)
        torch.mode(x.to(device), 1, out=(values, indices))
        assert values.tolist() == [3.0, 2.0] and indices.tolist() == [2, 1] and values.stride() == (2,)
        with pytest.raises(RuntimeError, match="expected scalar type 'Float' but got 'Int' for values output"):
            torch.mode(x.to(device), 1, out=(values.int(), indices))
        with pytest.raises(TypeError, match="can't be cast to the desired output type Int"):
            torch.cat([x.to(device)], out=torch.empty(0, dtype=torch.int32, device=device))


def test_out_beside_arguments_that_are_changed():
    """Batch norm with out= also writes the running statistics."""
    results = []
    for device in ("cpu", "webgpu"):
        x = torch.arange(12.0).view(3, 4).to(device)
        mean, variance = torch.zeros(4, device=device), torch.ones(4, device=device)
        out = [torch.empty(0, device=device) for _ in range(3)]
        names = dict(zip(("out", "save_mean", "save_invstd"), out))
        torch.ops.aten._native_batch_norm_legit.out(x, None, None, mean, variance, True, 0.1, 1e-5, **names)
        results.append([t.cpu() for t in (*out, mean, variance)])
    for got, want in zip(*reversed(results)):
        torch.testing.assert_close(got, want)


def _one_into_the_rest(x):
    x[1:] = x[0]
    return x


@pytest.mark.parametrize(
    "change",
    [
        lambda r: _one_into_the_rest(torch._neg_view(r)),
        lambda r: _one_into_the_rest(r.conj()),
        lambda r: _one_into_the_rest(r.conj().imag),
        lambda r: torch._neg_view(r).copy_(torch._neg_view(r)[0].expand(4)),
        lambda r: r.conj().copy_(r),
        lambda r: r.copy_(r.conj()[3].expand(4)),
    ],
)
def test_copies_within_a_conjugated_or_negated_tensor(change):
    results = []
    for device in ("cpu", "webgpu"):
        r = torch.complex(torch.arange(4.0), torch.arange(4.0) + 1).to(device)
        change(r)
        results.append(r.tolist())
    assert results[0] == results[1]


def test_sums_are_computed_in_the_dtype_of_out():
    x = torch.linspace(-9, 11, 48).view(3, 16)
    for call in (torch.sum, torch.prod, torch.cumsum, torch.cumprod):
        for dtype in (torch.int32, torch.int8, torch.uint8):
            results = [call(x.to(d), 0, out=torch.empty(0, dtype=dtype, device=d)).tolist() for d in ("cpu", "webgpu")]
            assert results[0] == results[1], (call, dtype)


def test_an_output_that_is_refused_stays_as_it_is():
    out = torch.ones(3, dtype=torch.int32, device="webgpu")
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Int"):
        torch.add(torch.ones(5, device="webgpu"), 1.5, out=out)
    assert out.tolist() == [1, 1, 1]


@pytest.mark.parametrize("number", [2, 2.5, True, 1 + 2j])
def test_copying_a_number(number):
    def call(device):
        dtype = torch.complex64 if isinstance(number, complex) else torch.float32
        x = torch.zeros(3, 4, dtype=dtype, device=device)
        x[:, 1].copy_(number)
        return x

    both(call, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8], ids=str)
def test_a_threshold_of_an_expanded_tensor(dtype):
    """Elements are one in memory, and what is done twice to them is the same: torch does not refuse it."""

    def run(d):
        x = torch.arange(6).to(dtype).view(1, 6).to(d)
        torch.nn.functional.threshold_(x.expand(5, 6), 2, 1)
        return x

    both(run)
