"""Views are metadata: every kind against the CPU, and none of them dispatches."""

import pytest
import torch

import webgpu_backend
from tests.device._compare import D, both

VIEWS = {
    "slice": lambda x: x[1:3, ::2],
    "select": lambda x: x[2],
    "transpose": lambda x: x.t(),
    "permute": lambda x: x.view(2, 2, 6).permute(2, 0, 1),
    "expand": lambda x: x[:, :1].expand(4, 5),
    "unsqueeze": lambda x: x.unsqueeze(1).squeeze(1),
    "view": lambda x: x.view(3, 8),
    "reshape": lambda x: x.reshape(2, 12),
    "flatten": lambda x: x.flatten(),
    "narrow": lambda x: x.narrow(1, 2, 3),
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "as_strided": lambda x: x.as_strided((2, 3), (6, 2), 1),
    "unbind": lambda x: x.unbind(1)[3],
    "chunk": lambda x: x.chunk(3, 1)[1],
    "split": lambda x: x.split([1, 3])[1],
    "tensor_split": lambda x: x.tensor_split(3, 1)[2],
    "movedim": lambda x: x.view(2, 2, 6).movedim(0, 2),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "mT": lambda x: x.mT,
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "view_as": lambda x: x.view_as(torch.empty(6, 4)),
    "alias": lambda x: torch.ops.aten.alias(x),
    "ellipsis": lambda x: x[..., None, 1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_values_and_layout(name):
    base = torch.arange(24.0).view(4, 6)
    mine = base.to(D)
    before = webgpu_backend.stats()["dispatches"]
    expected, got = VIEWS[name](base), VIEWS[name](mine)
    assert webgpu_backend.stats()["dispatches"] == before, "a view runs no kernel"
    assert (got.shape, got.stride(), got.storage_offset()) == (
        expected.shape,
        expected.stride(),
        expected.storage_offset(),
    )
    assert got.untyped_storage()._cdata == mine.untyped_storage()._cdata
    assert torch.equal(got.cpu(), expected)
    assert torch.equal((got + 1).cpu(), expected + 1)


@pytest.mark.parametrize("name", [n for n in VIEWS if n not in ("expand", "unfold")])  # these overlap
def test_writing_through_a_view_reaches_the_base(name):
    base = torch.arange(24.0).view(4, 6)
    mine = base.clone().to(D)
    VIEWS[name](base).mul_(10).add_(1)
    VIEWS[name](mine).mul_(10).add_(1)
    assert torch.equal(mine.cpu(), base)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int16, torch.float16, torch.int64])
def test_narrow_dtypes_keep_their_neighbours(dtype):
    base = (torch.arange(35) % 2).to(dtype).view(5, 7)
    mine = base.clone().to(D)
    value = torch.ones((), dtype=dtype)
    for x in (base, mine):
        x[1:4, 1:6:2] = value.to(x.device)
        x[:, 3].fill_(0)
        x[0, 5:].copy_(torch.ones(2, dtype=dtype).to(x.device))
    assert torch.equal(mine.cpu(), base)


def test_view_as_another_dtype():
    bits = torch.ones(4, device=D).view(torch.int32)
    assert bits.cpu().tolist() == [0x3F800000] * 4
    assert torch.arange(4, dtype=torch.int64, device=D).view(torch.int32).cpu().tolist() == [0, 0, 1, 0, 2, 0, 3, 0]
    assert torch.ones(2, device=D).view(torch.uint8).cpu().tolist() == torch.ones(2).view(torch.uint8).tolist()


def test_complex_views():
    z = torch.randn(4, dtype=torch.complex64)
    both(lambda d: torch.view_as_real(z.to(d) * 1j))
    both(lambda d: torch.view_as_complex(torch.view_as_real(z).to(d)) + 1)
    both(lambda d: z.to(d).real + z.to(d).imag)
    both(lambda d: z.to(d).conj() * 2)
    both(lambda d: torch.view_as_real(z.to(d).conj().resolve_conj()))


def test_memory_formats():
    x = torch.randn(2, 3, 4, 5)
    mine = x.to(D).contiguous(memory_format=torch.channels_last)
    assert mine.stride() == x.contiguous(memory_format=torch.channels_last).stride()
    assert torch.equal(mine.cpu(), x)
    assert mine.clone().is_contiguous(memory_format=torch.channels_last)
    assert (mine + 1).is_contiguous(memory_format=torch.channels_last)
    assert mine.contiguous().is_contiguous()
    y = torch.empty_like(mine)
    assert y.stride() == mine.stride()
    copy = x.contiguous(memory_format=torch.channels_last).to(D)
    assert copy.stride() == mine.stride() and torch.equal(copy.cpu(), x)
    assert torch.empty(2, 3, 4, 5, device=D, memory_format=torch.channels_last).stride() == mine.stride()


def test_expanded_tensors_are_not_written():
    t = torch.ones(1, 3, device=D)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        t.expand(4, 3).add_(1)


def test_base_and_version_are_tracked():
    t = torch.ones(3, 3, device=D)
    v = t[0]
    assert v._base is t
    before = t._version
    v.zero_()
    assert t._version == before + 1 == v._version


_SLICES = (
    (0, 2**63 - 1, 1),
    (1, 3, 1),
    (-2, 2**63 - 1, 1),
    (0, -1, 1),
    (0, 2**63 - 1, 2),
    (1, 9, 3),
    (2, 2, 1),
    (9, 12, 1),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("sizes", [(7,), (5, 6), (2, 3, 8, 4)])
def test_gradients_of_slices_and_selections(dtype, sizes):
    """Put into their places among zeros, as torch's own composites do; every call twice: a plan is made, then found."""
    aten = torch.ops.aten

    def check(op, grad, *rest):
        expected = op(grad, list(sizes), *rest)
        for _ in range(2):
            got = op(grad.to(D), list(sizes), *rest)
            assert got.is_contiguous() and torch.equal(got.cpu(), expected), (op, rest)

    for dim in range(-len(sizes), len(sizes)):
        for cut in _SLICES:
            grad = (torch.randn(aten.slice(torch.zeros(sizes), dim, *cut).shape) * 9).to(dtype)
            check(aten.slice_backward, grad, dim, *cut)
            check(aten.slice_backward, grad.movedim(0, -1).contiguous().movedim(-1, 0), dim, *cut)
        for index in (0, -1, 1):
            grad = (torch.randn(torch.zeros(sizes).select(dim, index).shape) * 9).to(dtype)
            check(aten.select_backward, grad, dim, index)


def test_gradients_of_slices_see_conjugates_and_have_gradients():
    grad = torch.complex(torch.randn(3), torch.randn(3))
    both(lambda d: torch.ops.aten.slice_backward(grad.to(d), [8], 0, 2, 5, 1))
    both(lambda d: torch.ops.aten.slice_backward(grad.to(d).conj(), [8], 0, 2, 5, 1).resolve_conj())

    def twice(d):
        x = torch.randn(4, 6).to(d).requires_grad_()
        (g,) = torch.autograd.grad((x[1:3, ::2] ** 3).sum() + (x[2] ** 3).sum(), x, create_graph=True)
        return g, *torch.autograd.grad((g**2).sum(), x)

    both(twice)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.view(5, 5),
        lambda x: x.t().view(24),
        lambda x: x.select(0, 9),
        lambda x: x.expand(5, 6),
        lambda x: x.permute(0, 0),
        lambda x: x.unfold(0, 9, 1),
        lambda x: x.narrow(1, 4, 4),
        lambda x: x.as_strided((2, 2), (-1, 1)),
    ],
)
def test_errors_are_torch_s(call):
    raised = []
    for device in ("cpu", D):
        with pytest.raises((RuntimeError, IndexError)) as error:
            call(torch.zeros(4, 6, device=device))
        raised.append((type(error.value), str(error.value).split("\n")[0]))
    assert raised[0] == raised[1]


def test_conjugates_are_made_of_conjugated_views():
    x = torch.randn(4, 3, dtype=torch.complex64)
    for view in (lambda x: x.conj(), lambda x: x.t()[1:].conj(), lambda x: torch._neg_view(x.conj()), lambda x: x):
        expected = view(x).conj_physical()
        found = view(x.to(D)).conj_physical()
        assert torch.equal(expected, found.cpu()) and not found.is_conj()
        assert torch.equal(torch._conj_physical(view(x)), torch._conj_physical(view(x.to(D))).cpu())


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unbind(dim):
    x = torch.arange(24.0).view(2, 3, 4)[:, 1:].transpose(1, 2)
    ours = x.to(D).transpose(0, 1)
    for expected, found in zip(x.transpose(0, 1).unbind(dim), ours.unbind(dim), strict=True):
        assert torch.equal(expected, found.cpu()) and found.data_ptr() >= ours.data_ptr()
    ours.unbind(dim)[1].fill_(7)
    assert (ours.select(dim, 1) == 7).all()
    leaf = torch.ones(3, 4, device=D, requires_grad=True)
    rows = leaf.unbind(0)
    (rows[0] * 2 + rows[2] * 3).sum().backward()
    assert leaf.grad.tolist() == [[2] * 4, [0] * 4, [3] * 4]
    with torch.inference_mode():
        assert [len(row) for row in leaf.unbind(1)] == [3] * 4
    for call in (lambda t: t.unbind(5), lambda t: t[0][0].unbind()):
        said = []
        for t in (x, ours):
            with pytest.raises(IndexError) as raised:
                call(t.reshape(4, -1))
            said.append(str(raised.value))
        assert said[0] == said[1]


def test_a_walk_over_a_tensor_forgets_no_plan():
    before = webgpu_backend.stats()["plans_live"]
    assert len(list(torch.arange(5000.0, device=D))) == 5000
    assert webgpu_backend.stats()["plans_live"] < before + 10
