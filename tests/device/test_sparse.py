"""Sparse tensors: made, moved, made dense, added and multiplied as on the CPU; the rest is refused."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from tests import needs

D = "webgpu"
aten = torch.ops.aten


def same(ours, theirs, **tolerance):
    assert ours.device.type == D and ours.layout == theirs.layout
    if theirs.is_sparse:
        assert ours.shape == theirs.shape and ours.sparse_dim() == theirs.sparse_dim()
        assert ours.is_coalesced() == theirs.is_coalesced() and ours._nnz() == theirs._nnz()
        same(ours._indices(), theirs._indices())
        same(ours._values(), theirs._values(), **tolerance)
    else:
        torch.testing.assert_close(ours.cpu(), theirs, **tolerance)


def some(*shape, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(-9, 9, shape, generator=g).to(dtype)
    return x * (torch.rand(shape, generator=g) < 0.3).to(dtype)


def repeated():
    """Not coalesced: places come twice, out of order."""
    g = torch.Generator().manual_seed(5)
    places = torch.stack((torch.randint(0, 6, (40,), generator=g), torch.randint(0, 7, (40,), generator=g)))
    return torch.sparse_coo_tensor(places, torch.randn(40, generator=g), (6, 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_to_and_from_dense(dtype):
    x = some(6, 7, dtype=dtype)
    same(x.to(D).to_sparse(), x.to_sparse())
    same(x.to(D).to_sparse().to_dense(), x)
    assert torch.equal(x.to(D).to_sparse().cpu().to_dense(), x)


def test_shapes():
    x = some(4, 5, 3)
    for dims in (1, 2, 3):
        same(x.to(D).to_sparse(dims), x.to_sparse(dims))
        same(x.to(D).to_sparse(dims).to_dense(), x)
    for y in (torch.tensor(3.0), torch.zeros(0, 3), torch.zeros(4)):
        same(y.to(D).to_sparse(), y.to_sparse())
        same(y.to(D).to_sparse().to_dense(), y)


def test_making_and_moving():
    s = repeated()
    t = torch.sparse_coo_tensor(s._indices(), s._values(), s.shape, device=D)
    same(t, s)
    same(s.to(D), s)
    same(s.to(D).coalesce(), s.coalesce(), rtol=1e-5, atol=1e-6)
    same(s.to(D).to_dense(), s.to_dense(), rtol=1e-5, atol=1e-6)
    same(s.to(D).clone(), s.clone())
    same(s.to(D).t().to_dense(), s.t().to_dense(), rtol=1e-5, atol=1e-6)
    same(torch.sparse_coo_tensor(torch.tensor([[1, 2]]), torch.ones(2), device=D).to_dense(), torch.tensor([0.0, 1, 1]))
    assert torch.sparse_coo_tensor((3, 4), device=D)._nnz() == 0
    assert torch.empty(3, 4, layout=torch.sparse_coo, device=D).to_dense().shape == (3, 4)
    assert "webgpu" in repr(t) and "sparse_coo" in repr(t)


def test_arithmetic():
    s, x = repeated(), some(6, 7, seed=3)
    t, y = s.to(D), x.to(D)
    near = {"rtol": 1e-5, "atol": 1e-5}
    same((y + t), x + s, **near)
    same(y.clone().add_(t, alpha=-0.5), x.clone().add_(s, alpha=-0.5), **near)
    same((t + t).to_dense(), (s + s).to_dense(), **near)
    same((t * 3).to_dense(), (s * 3).to_dense(), **near)
    same((-t / 2).to_dense(), (-s / 2).to_dense(), **near)
    same(y.sparse_mask(t.coalesce()), x.sparse_mask(s.coalesce()))


def test_products_and_gradients():
    def work(device):
        s = repeated().to(device).coalesce()
        x = some(7, 4, seed=4).to(device).requires_grad_()
        y = torch.sparse.mm(s, x)
        z = torch.sparse.addmm(torch.ones(6, 4, device=device), s, x, beta=2, alpha=0.5)
        return y, z, *torch.autograd.grad((y * y).sum() + z.sum(), x)

    for ours, theirs in zip(work(D), work("cpu")):
        same(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-4)
    x = some(5, 6).requires_grad_()
    y = x.detach().to(D).requires_grad_()
    (x.to_sparse().to_dense() * 3).sum().backward()
    (y.to_sparse().to_dense() * 3).sum().backward()
    same(y.grad, x.grad)


@pytest.mark.parametrize("optimizer", [torch.optim.SparseAdam, torch.optim.SGD, torch.optim.Adagrad])
def test_sparse_gradients_of_embeddings(optimizer):
    def train(device):
        torch.manual_seed(0)
        table = torch.nn.Embedding(20, 4, sparse=True).to(device)
        step = optimizer(table.parameters(), lr=0.1)
        for k in range(3):
            step.zero_grad()
            (table(torch.tensor([1, 5, 5, 19 - k], device=device)) ** 2).sum().backward()
            assert table.weight.grad.is_sparse
            step.step()
        return table.weight.detach()

    torch.testing.assert_close(train(D).cpu(), train("cpu"), rtol=1e-5, atol=1e-6)


def test_sums_are_joined():
    """As they are accumulated: put in order only where both were."""
    table = torch.nn.Embedding(10, 3, sparse=True).to(D)
    for _ in range(2):
        table(torch.tensor([7, 1, 3], device=D)).sum().backward()
    assert table.weight.grad._indices().tolist() == [[7, 1, 3, 7, 1, 3]]
    same(table.weight.grad._values(), torch.ones(6, 3))
    s = repeated().to(D)
    total = s.coalesce() + s.coalesce()
    assert total.is_coalesced() and not (s + s.coalesce()).is_coalesced()
    same(total.to_dense(), repeated().to_dense() * 2)
    same((s + s.coalesce()).to_dense(), repeated().to_dense() * 2)


def test_the_rest_is_refused():
    s = repeated().to(D)
    for call in (
        lambda: torch.eye(2, device=D).to_sparse_bsr((1, 1)) @ torch.eye(2, device=D).to_sparse_csr(),
        lambda: torch.eye(2, device=D).to_sparse_csr().index_select(0, torch.tensor([1], device=D)),
        lambda: torch.cos(s),
    ):
        with pytest.raises(NotImplementedError, match="webgpu: .*not supported"):
            call()


# -- products, in coordinates and in compressed rows and columns

LAYOUTS = ("to_sparse", "to_sparse_csr", "to_sparse_csc")
PRODUCTS = {
    "sparse @ dense": lambda s, b, c: s @ b,
    "sparse @ vector": lambda s, b, c: s @ b[:, 0],
    "dense @ sparse": lambda s, b, c: c @ s,
    "transposed": lambda s, b, c: s.t() @ c.t(),
    "torch.sparse.mm": lambda s, b, c: torch.sparse.mm(s, b),
    "addmm": lambda s, b, c: torch.addmm(b.new_ones(5, 3), s, b, beta=2, alpha=0.5),
    "scaled": lambda s, b, c: (-(s * 2)).to_dense(),
    "linear": lambda s, b, c: F.linear(c.new_ones(2, 7), s),
}


def matrices():
    generator = torch.Generator().manual_seed(4)
    a, b, c = (torch.randn(shape, generator=generator) for shape in ((5, 7), (7, 3), (4, 5)))
    a[torch.rand(a.shape, generator=generator) < 0.6] = 0
    a[2] = 0  # a row with nothing
    return a, b, c


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(layout, name):
    a, b, c = matrices()
    expected = PRODUCTS[name](getattr(a, layout)(), b, c)
    ours = PRODUCTS[name](getattr(a.to(D), layout)(), b.to(D), c.to(D))
    assert ours.device.type == D
    torch.testing.assert_close(ours.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_products(layout):
    a, b, _ = matrices()
    found = []
    for device in ("cpu", D):
        s = getattr(a.to(device), layout)().detach().requires_grad_()
        dense = b.clone().to(device).requires_grad_()
        ((s @ dense) ** 2).sum().backward()
        found.append((s.grad.to_dense().cpu(), dense.grad.cpu()))
    for ours, theirs in zip(found[1], found[0]):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_csc"])
def test_compressed_there_and_back(layout):
    a, _, _ = matrices()
    s = getattr(a.to(D), layout)()
    there = getattr(a, layout)().to(D)
    for sparse in (s, there, s.clone()):
        assert sparse.device.type == D and sparse._nnz() == int((a != 0).sum())
        assert torch.equal(sparse.to_dense().cpu(), a) and torch.equal(sparse.cpu().to_dense(), a)
    assert "size=(5, 7)" in repr(s)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_of_bags(mode):
    found = []
    for device in ("cpu", D):
        torch.manual_seed(0)
        bag = torch.nn.EmbeddingBag(10, 4, sparse=True, mode=mode).to(device)
        for _ in range(2):  # accumulated
            bag(
                torch.tensor([1, 3, 1, 7], device=device), torch.tensor([0, 3], device=device)
            ).square().sum().backward()
        assert bag.weight.grad.is_sparse
        found.append(bag.weight.grad.to_dense().cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)


ZERO_TO_ZERO = (
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor", "frac", "isinf",
    "isnan", "isneginf", "isposinf", "log1p", "nan_to_num", "neg", "rad2deg", "relu", "round", "sgn", "sign", "signbit",
    "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip


def in_places(device, dtype=torch.float32, dense=()):
    """One place twice, out of order."""
    indices = torch.tensor([[2, 0, 1, 2], [0, 1, 3, 0]])
    count = 4 * len(torch.zeros(dense).flatten())
    values = torch.linspace(-0.9, 0.8, count).view(4, *dense).to(dtype)
    return torch.sparse_coo_tensor(indices, values, (3, 5, *dense), check_invariants=True).to(device)


@pytest.mark.parametrize("name", ZERO_TO_ZERO)
def test_elementwise_functions_that_leave_zeros(name):
    for dense in ((), (2,)):
        results = [getattr(torch, name)(in_places(device, dense=dense)) for device in ("cpu", D)]
        assert all(r.is_sparse for r in results)
        torch.testing.assert_close(results[1].cpu().to_dense(), results[0].to_dense(), equal_nan=True)
    if hasattr(torch.Tensor, f"{name}_"):
        results = [getattr(in_places(device).coalesce(), f"{name}_")() for device in ("cpu", D)]
        torch.testing.assert_close(results[1].cpu().to_dense(), results[0].to_dense(), equal_nan=True)


CALLS = {
    "sub": lambda x, d: x - x * 2,
    "sub_": lambda x, d: x.sub_(in_places(d) * 3),
    "dense sub": lambda x, d: x.to_dense() - x,
    "mul": lambda x, d: x * (x * 2).coalesce().narrow_copy(0, 0, 2).sparse_resize_((3, 5), 2, 0),
    "mul none": lambda x, d: x * torch.zeros(3, 5, device=d).to_sparse(),
    "mul dense": lambda x, d: x * torch.arange(15.0, device=d).view(3, 5),
    "dense mul": lambda x, d: torch.arange(15.0, device=d).view(3, 5) * x,
    "mul out": lambda x, d: torch.mul(x, 2.5, out=torch.zeros(3, 5, device=d).to_sparse()),
    "cat": lambda x, d: torch.cat([x, x], 1),
    "permute": lambda x, d: x.permute(1, 0),
    "sum": lambda x, d: torch.sparse.sum(x, 0),
    "norm": lambda x, d: x.norm(),
    "pow": lambda x, d: x.pow(2),
    "unsqueeze": lambda x, d: x.unsqueeze(0),
    "narrow": lambda x, d: x.narrow_copy(1, 1, 2),
    "zero": lambda x, d: x.zero_(),
    "copy": lambda x, d: torch.zeros(3, 5, device=d).to_sparse().copy_(x.half()),
    "any": lambda x, d: x.any(),
}


@pytest.mark.parametrize("name", CALLS)
def test_operators_made_of_the_parts(name):
    expected, found = (CALLS[name](in_places(device), device) for device in ("cpu", D))
    assert found.device.type == D and found.is_sparse == expected.is_sparse
    expected, found = (t.cpu().to_dense() if t.is_sparse else t.cpu() for t in (expected, found))
    torch.testing.assert_close(found, expected)


def test_gradients_through_elementwise_functions():
    def gradient(device):
        dense = torch.linspace(0.1, 0.9, 15, device=device).view(3, 5).requires_grad_()
        torch.sparse.sum(torch.log1p(dense.to_sparse())).backward()
        return dense.grad.cpu()

    torch.testing.assert_close(gradient(D), gradient("cpu"))


def test_division_by_a_sparse_tensor_is_refused():
    for device in ("cpu", D):
        with pytest.raises(RuntimeError, match=r"Sparse division requires .* \(got shape \[3, 5\] for divisor\)"):
            in_places(device) / in_places(device)


MIXED = {
    "dense plus": lambda d, s: d.int() + s,
    "dense plus, many": lambda d, s: torch.add(d.half(), s.int(), alpha=3),
    "plus": lambda d, s: s.int() + s,
    "minus": lambda d, s: s - s.long(),
    "times a row": lambda d, s: s * d[0],
    "into dense": lambda d, s: d.mul_(s.long()),
    "into sparse": lambda d, s: s.mul_(s.long()),
    "into sparse by dense": lambda d, s: s.mul_(d),
    "by a number": lambda d, s: s.mul_(3),
    "over a number": lambda d, s: s.div_(4),
    "over, rounded": lambda d, s: s.int().div(2, rounding_mode="floor"),
    "over, rounded, in place": lambda d, s: s.div_(2, rounding_mode="trunc"),
    "complex": lambda d, s: torch.view_as_complex(torch.stack([d, d], -1).to_sparse(1)),
}
REFUSED = {
    "a number": lambda d, s: s + 1,
    "minus a number": lambda d, s: s.sub_(1),
    "dense": lambda d, s: s + d,
    "another shape": lambda d, s: d[:1] + s,
    "sparse of another shape": lambda d, s: s + d[:1].to_sparse(),
    "another density": lambda d, s: s + d.to_sparse(1),
    "into integers": lambda d, s: d.int().add_(s),
    "into sparse integers": lambda d, s: s.int().add_(s),
    "times, into integers": lambda d, s: s.int().mul_(s),
    "over, into integers": lambda d, s: s.int().div_(2),
    "a fraction of integers": lambda d, s: torch.add(s.int(), s.int(), alpha=1.5),
    "masks": lambda d, s: s.bool() - s.bool(),
    "over dense": lambda d, s: d.div_(s),
}


@pytest.mark.parametrize("name", MIXED)
def test_dtypes_and_writes(name):
    """What dense and sparse tensors of two dtypes give, and what is written in place."""
    d, s = some(6, 7, seed=1), some(6, 7, seed=2).to_sparse()
    ours, theirs = MIXED[name](d.to(D), s.to(D)), MIXED[name](d, s)
    assert ours.dtype == theirs.dtype and ours.layout == theirs.layout
    same(ours.to_dense(), theirs.to_dense())


@pytest.mark.parametrize("name", REFUSED)
def test_the_cpu_s_words(name):
    d, s = some(6, 7, seed=1), some(6, 7, seed=2).to_sparse()
    with pytest.raises(RuntimeError) as theirs:
        REFUSED[name](d, s)
    with pytest.raises(RuntimeError) as ours:
        REFUSED[name](d.to(D), s.to(D))
    assert str(ours.value) == str(theirs.value)


def _in_every_layout(device):
    dense = some(6, 7).to(device)
    hybrid = torch.sparse_coo_tensor(torch.tensor([[4, 0, 1, 0], [3, 2, 0, 1]]), some(4, 2) + 1, (6, 7, 2)).to(device)
    return {
        "dense": dense, "coordinates": dense.to_sparse(), "repeated": repeated().to(device), "hybrid": hybrid,
        "rows": dense.to_sparse_csr(), "columns": dense.to_sparse_csc(),
    }  # fmt: skip


CONVERSIONS = {
    "coordinates": lambda t: t.to_sparse(),
    "of two dimensions": lambda t: t.to_sparse(2) if t.dim() == 2 else t.to_sparse(),
    "rows": lambda t: t.to_sparse(layout=torch.sparse_csr),
    "columns": lambda t: t.to_sparse_csc(),
    "there and back": lambda t: t.to_sparse_csr().to_sparse_csc().to_sparse().to_dense(),
    "many": lambda t: torch.ops.aten._sparse_broadcast_to(t.to_sparse(), (3, *t.shape)),
    "masked": lambda t: torch.ones_like(t.to_dense()).sparse_mask(t) if t.layout is not torch.strided else t,
}


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("layout", _in_every_layout("cpu"))
def test_layouts_become_one_another(layout, name):
    ours, theirs = [CONVERSIONS[name](_in_every_layout(device)[layout]) for device in (D, "cpu")]
    if theirs.layout in (torch.sparse_csr, torch.sparse_csc):
        by_rows = theirs.layout is torch.sparse_csr
        for part in ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices"):
            same(getattr(ours, part)(), getattr(theirs, part)())
        ours, theirs = ours.values(), theirs.values()
    same(ours, theirs, rtol=1e-5, atol=1e-6)


def test_gradients_of_conversions():
    for device in ("cpu", D):
        x = some(6, 7).to(device).requires_grad_()
        (x.to_sparse_csr().to_dense() * 3).sum().backward()
        assert torch.equal(x.grad.cpu(), 3.0 * (x != 0).cpu())


def test_a_mask_of_another_shape_is_refused():
    for device in ("cpu", D):
        with pytest.raises(RuntimeError, match="operands have incompatible sizes"):
            torch.ones(6, 7, device=device).sparse_mask(_in_every_layout(device)["hybrid"])


def test_small_indices_stay_small():
    for device in ("cpu", D):
        ends, columns = torch.tensor([0, 2, 3], dtype=torch.int32), torch.tensor([0, 2, 1], dtype=torch.int32)
        x = torch.sparse_csr_tensor(ends.to(device), columns.to(device), torch.ones(3, device=device), (2, 3))
        assert x.to_sparse_csc().ccol_indices().dtype == x.to_sparse_csc().row_indices().dtype == torch.int32
        assert torch.equal(x.to_sparse_csc().to_dense().cpu(), torch.tensor([[1.0, 0, 1], [0, 1, 0]]))


# Compressed indices, plain indices, how many there are in a row, and how many in all.
_INDICES = [
    ([0, 2, 4], [0, 1, 0, 2], 3, 4),
    ([1, 2, 4], [0, 1, 0, 2], 3, 4),
    ([0, 2, 3], [0, 1, 0, 2], 3, 4),
    ([0, 4, 4], [0, 1, 2, 0], 3, 4),
    ([0, 3, 2, 4], [0, 1, 0, 2], 3, 4),
    ([0, 2, 4], [0, 3, 0, 2], 3, 4),
    ([0, 2, 4], [0, -1, 0, 2], 3, 4),
    ([0, 2, 4], [1, 0, 0, 2], 3, 4),
    ([0, 2, 4], [1, 1, 0, 2], 3, 4),
    ([[0, 1, 2], [0, 2, 2]], [[0, 1], [0, 1]], 3, 2),
    ([[0, 1, 2], [0, 2, 2]], [[0, 1], [1, 0]], 3, 2),
    ([0, 0, 0], [], 3, 0),
]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("case", range(len(_INDICES)))
def test_indices_are_checked_on_the_device(case, rows, dtype):
    compressed, plain, size, count = _INDICES[case]
    said = []
    for device in ("cpu", D):
        parts = [torch.tensor(x, dtype=dtype).to(device) for x in (compressed, plain)]
        try:
            said.append(aten._validate_compressed_sparse_indices(rows, *parts, parts[0].shape[-1] - 1, size, count))
        except RuntimeError as error:
            said.append(str(error))
    assert said[0] == said[1]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
def test_compressed_rows_as_coordinates(narrow, transpose):
    rows, columns = torch.tensor([0, 2, 2, 5]), torch.tensor([0, 1, 0, 2, 3])
    call = partial(aten._convert_indices_from_csr_to_coo.out, out_int32=narrow, transpose=transpose)
    found = []
    for device in ("cpu", D):
        out = torch.empty(0, dtype=torch.int32 if narrow else torch.int64, device=device)
        found.append(call(rows.to(device), columns.to(device), out=out).cpu())
    assert torch.equal(*found) and found[0].dtype == found[1].dtype


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("narrow", [False, True])
def test_sorted_coordinates_as_compressed_rows(narrow, dtype):
    for rows in ([0, 0, 2, 2, 2, 5], [], [3]):
        x = torch.tensor(rows, dtype=dtype)
        expected = torch._convert_indices_from_coo_to_csr(x, 7, out_int32=narrow)
        same(torch._convert_indices_from_coo_to_csr(x.to(D), 7, out_int32=narrow), expected)
        expected = torch._convert_indices_from_coo_to_csr(x, 300, out_int32=narrow)  # more than a byte counts
        same(torch._convert_indices_from_coo_to_csr(x.to(D), 300, out_int32=narrow), expected)
    rows = torch.tensor([0, 9, 1, 9, 4, 9], dtype=dtype)[::2]
    expected = torch._convert_indices_from_coo_to_csr(rows.contiguous(), 5)  # the CPU reads past strides
    same(torch._convert_indices_from_coo_to_csr(rows.to(D), 5), expected)
    with pytest.raises(RuntimeError, match="supposed to be a vector"):
        torch._convert_indices_from_coo_to_csr(torch.zeros(2, 2, dtype=dtype, device=D), 3)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin", "max"])
def test_products_whose_terms_are_reduced_otherwise(reduce, dtype, kind):
    """Among the rows are one without elements and one with a tie; then none has any. The CPU rounds every term of a
    gradient, and this device their sum."""
    torch.manual_seed(0)
    full = torch.randn(5, 7) * (torch.rand(5, 7) > 0.4)
    full[2], full[3, 1:3] = 0, 2
    for dense in (full, full * 0):
        csr, x = dense.to(dtype).to_sparse_csr(), torch.randn(7, 3).to(dtype)
        x[1] = x[2]
        indices = csr.crow_indices().to(kind), csr.col_indices().to(kind)
        found = []
        for device in ("cpu", D):
            a = torch.sparse_csr_tensor(*[i.to(device) for i in indices], csr.values().to(device), csr.shape)
            a, b = a.requires_grad_(), x.clone().to(device).requires_grad_()
            out = torch.sparse.mm(a, b, reduce)
            out.backward(torch.arange(15.0).view(5, 3).to(device, dtype))
            which = aten._sparse_mm_reduce_impl(a, b, reduce)[1]
            found.append(
                (out, which, a.grad.values(), b.grad, aten._sparse_mm_reduce_impl(a.detach(), x.to(device), reduce)[1])
            )
        for theirs, ours in zip(*found):
            rounded = 4 * torch.finfo(dtype).eps * max(1.0, theirs.abs().float().max().item() if len(theirs) else 0)
            same(ours, theirs, **{} if not theirs.is_floating_point() else {"rtol": 0, "atol": rounded})


def test_products_with_other_reductions_refuse_what_the_cpu_does():
    eye, dense = torch.eye(3), torch.ones(3, 2)
    cases = [
        (eye.to_sparse_csr(), torch.ones(4, 2), "mean"), (eye.to_sparse_csr(), torch.ones(3), "mean"),
        (eye.to_sparse_csr(), dense.half(), "mean"), (eye.to_sparse_csr(), dense, "prod"),
        (eye.to_sparse_csr(), dense, "median"), (eye.to_sparse_csc(), dense, "amax"),
        (eye.to_sparse_csr(), eye.to_sparse_csr(), "amax"),
    ]  # fmt: skip
    for a, b, reduce in cases:
        for device in ("cpu", D):
            with pytest.raises(RuntimeError, match="sparse_mm_reduce|Expected a tensor|reduce argument"):
                torch.sparse.mm(a.to(device), b.to(device), reduce)


def test_sums_with_nothing_however_its_dimensions_are_divided():
    x = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 5), (3, 4, 5))
    nothing = torch.zeros(3, 4, 5, layout=torch.sparse_coo)
    for a, b in ((x, nothing), (nothing, x.half()), (x.coalesce(), nothing), (nothing, nothing)):
        same(torch.add(a.to(D), b.to(D), alpha=2), torch.add(a, b, alpha=2))


def test_zeros_like_a_dense_tensor():
    x = torch.ones(3, 4)
    for layout in (torch.sparse_coo, torch.strided):
        same(torch.zeros_like(x.to(D), layout=layout), torch.zeros_like(x, layout=layout))


BROADCAST = [
    ((3, 2, 1, 1), (3, 2, 1, 2), 0), ((3, 1), (4, 3, 5), 0), ((1, 3), (5, 3), 0), ((3, 1, 2), (3, 4, 2), 1),
    ((2, 3), (2, 3), 0), ((2, 1, 1), (2, 3, 4), 1),
]  # fmt: skip


@pytest.mark.parametrize("shape, size, dense", BROADCAST)
def test_broadcasting(shape, size, dense):
    x = torch.arange(float(math.prod(shape))).view(shape) % 3
    wanted, got = (torch._sparse_broadcast_to(x.to_sparse(x.dim() - dense).to(d), size) for d in ("cpu", D))
    assert got.is_coalesced() == wanted.is_coalesced() and got.shape == wanted.shape
    assert torch.equal(got._indices().cpu(), wanted._indices())
    assert torch.equal(got._values().cpu(), wanted._values())
    for wrong in ((2,), (*size[:-1], 7)):
        for d in ("cpu", D):
            with pytest.raises(RuntimeError, match="has fewer dimensions|does not broadcast over the requested shape"):
                torch._sparse_broadcast_to(torch.ones(2, 3).to_sparse().to(d), wrong)


@pytest.mark.parametrize("name", ["sum", "prod", "amin", "amax"])
def test_masked_reductions(name):
    """`torch.masked`, with a mask that is broadcast, and of compressed rows."""
    x, mask = torch.arange(1.0, 13.0).view(3, 4), torch.arange(3).view(3, 1) % 2 == 0
    reduce = getattr(torch.masked, name)
    narrow = mask.to_sparse()
    wanted = reduce(x.to_sparse(), 1, mask=narrow).to_dense()
    torch.testing.assert_close(reduce(x.to_sparse().to(D), 1, mask=narrow.to(D)).to_dense().cpu(), wanted)
    if name in ("amin", "amax"):
        some = (x % 3 > 0).to_sparse_csr()
        wanted = reduce(x.to_sparse_csr(), 1, keepdim=True, mask=some).to_dense()
        got = reduce(x.to_sparse_csr().to(D), 1, keepdim=True, mask=some.to(D)).to_dense()
        torch.testing.assert_close(got.cpu(), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.int8], ids=str)
@pytest.mark.parametrize("dims", [(0,), (1,), (-1,), (0, 1)], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_reductions_of_compressed_rows(name, dims, dtype):
    if dtype is torch.float64:
        needs.feature("f64")
    x = torch.tensor([[0, 1, 2, 0, 1, 2, 1], [0, 0, 0, 0, 0, 0, 0], [3, 0, 4, 0, 1, 0, 0]]).to(dtype)
    reduce = getattr(torch.ops.aten, f"_sparse_csr_{name}").dim_dtype
    for given in (x, x[1:2], x[:1]):
        if name == "sum" and dims == (0, 1) and not given.any():
            continue  # of which the CPU leaves a number that it has not computed
        wanted, got = (reduce(given.to_sparse_csr().to(d), dims, True) for d in ("cpu", D))
        assert got.layout == wanted.layout and got.shape == wanted.shape and got.dtype == wanted.dtype
        if given.any():
            for part in ("crow_indices", "col_indices", "values"):
                torch.testing.assert_close(getattr(got, part)().cpu(), getattr(wanted, part)())
        assert torch.equal(
            got.to_dense().cpu(), wanted.to_dense() if given.any() else torch.zeros(wanted.shape).to(dtype)
        )
    for d in ("cpu", D):
        with pytest.raises(RuntimeError, match="keepdim=False is unsupported"):
            reduce(x.to_sparse_csr().to(d), dims, False)
        with pytest.raises(NotImplementedError, match=f"\"_sparse_csr_{name}_cpu\" not implemented for 'Bool'"):
            reduce(x.bool().to_sparse_csr().to(d), dims, True)


def test_gradients_through_masks():
    a = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]).to_sparse()
    mask = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]).to_sparse()
    twice = torch.sparse_coo_tensor([[0, 0, 1], [0, 0, 1]], [1.0, float("nan"), 2.0], (2, 3))
    for x, m in ((a, mask), (twice, mask), (mask, twice), (a, a)):
        for accumulate in (False, True):
            wanted, got = (torch.ops.aten._sparse_mask_projection(x.to(d), m.to(d), accumulate) for d in ("cpu", D))
            assert torch.equal(got._indices().cpu(), wanted._indices())
            torch.testing.assert_close(got._values().cpu(), wanted._values(), equal_nan=True)
    grads = []
    for d in ("cpu", D):
        x = a.to(d).detach().requires_grad_()
        x.sparse_mask(mask.to(d)).to_dense().square().sum().backward()
        grads.append(x.grad.to_dense().cpu())
    assert torch.equal(*grads)


EVERY = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc, torch.sparse_coo)
_X = torch.arange(24.0).view(4, 6) * (torch.arange(24).view(4, 6) % 3 > 0)
_Y = torch.stack([_X + 1, _X + 2])
_Y[0, 0, 0] = _Y[1, 2, 1] = 0  # as many in each matrix
WHOLE = {
    "matrix": (_X, None), "batch": (_Y, None), "dense dimension": (torch.stack([_X, _X * 2], -1), 1),
    "both": (torch.stack([torch.stack([_X, _X], -1), torch.stack([_X * 3, _X], -1)]), 1),
    "no rows": (torch.zeros(0, 6), None), "nothing": (torch.zeros(4, 6), None), "uneven": (_Y * (_Y != 3), None),
}  # fmt: skip


def told(call):
    """What a sparse tensor is made of, or the error."""
    try:
        x = call()
    except Exception as error:  # noqa: BLE001
        return type(error).__name__, str(error)
    if x.layout is torch.strided:
        return x.cpu().tolist()
    if x.layout is torch.sparse_coo:
        parts, rest = (x._indices(), x._values()), x.is_coalesced()
    else:
        by_rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
        parts, rest = (
            (x.values(), *((x.crow_indices(), x.col_indices()) if by_rows else (x.ccol_indices(), x.row_indices()))),
            None,
        )
    return x.layout, x.shape, rest, [(t.dtype, t.shape, t.cpu().tolist()) for t in parts]


@pytest.mark.parametrize("layout", EVERY, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_every_layout_becomes_every_other(name, layout):
    x, dense = WHOLE[name]
    if layout is torch.sparse_coo and name in ("both", "batch", "uneven"):
        dense = None

    def block(of):
        return (2, 3) if of in (torch.sparse_bsr, torch.sparse_bsc) else None

    def make(d):
        if layout is torch.sparse_coo:
            return x.to(d).to_sparse(x.dim() - (dense or 0))
        return x.to(d).to_sparse(layout=layout, blocksize=block(layout), dense_dim=dense)

    calls = [
        make,
        lambda d: make(d).to_dense(),
        lambda d: make(d).to_sparse_csr(),
        lambda d: make(d).to_sparse_bsr((1, 1)),
    ]
    for other in EVERY:
        calls += [
            lambda d, other=other: make(d).to_sparse(layout=other, blocksize=block(other)),
            lambda d, other=other: make(d).to_sparse(layout=other, blocksize=block(other), dense_dim=1),
            lambda d, other=other: make(d).to_sparse(layout=other, blocksize=(4, 4) if block(other) else None),
        ]
    for call in calls:
        assert told(lambda: call(D)) == told(lambda: call("cpu"))  # noqa: B023


@pytest.mark.parametrize("layout", EVERY[:4], ids=str)
def test_gradients_of_blocks(layout):
    def run(d):
        x = _X.to(d).to_sparse(layout=layout, blocksize=(2, 3) if "bs" in str(layout) else None).requires_grad_()
        (grad,) = torch.autograd.grad(x.to_dense().square().sum(), x)
        assert grad.layout is layout
        return grad.to_dense().cpu()

    assert torch.equal(run(D), run("cpu"))


def test_sums_of_compressed_tensors():
    for layout in EVERY[:2]:
        for dims in ((0,), (1,), (0, 1)):
            for keep in (False, True):
                assert told(lambda: _X.to(D).to_sparse(layout=layout).sum(dims, keepdim=keep)) == told(  # noqa: B023
                    lambda: _X.to_sparse(layout=layout).sum(dims, keepdim=keep)  # noqa: B023
                )
        assert _X.to(D).to_sparse(layout=layout).sum().item() == _X.sum().item()
    drawn = torch.zeros_like(_X.to(D).to_sparse_csr()).normal_(3.0, 0.0)
    assert drawn.layout is torch.sparse_csr


_A, _B = torch.tensor([[1.0, 0, 2], [0, 3, 0]]).to_sparse(), torch.arange(6.0).view(2, 3)
_H = torch.arange(12.0).view(2, 3, 2).to_sparse(2)
FACTORS = {
    "dense": (_A, _B), "a row": (_A, _B[0]), "more dimensions": (_A, torch.ones(2, 2, 3)),
    "sparse": (_A, _B.to_sparse()), "whole numbers": (torch.ones(()).int().to_sparse(), torch.tensor(2)),
    "another dtype": (_A, _A.to(torch.int32)), "another shape": (_A, torch.ones(2, 1, 3).to_sparse()),
    "places twice": (repeated(), torch.arange(42.0).view(6, 7)), "dense dimensions": (_H, torch.ones(2)),
    "both have them": (_H, torch.arange(6.0).view(2, 3, 1).to_sparse(2)), "a number": (_A, torch.tensor(3.0)),
    "a sparse number": (_A, torch.tensor(2.0).to_sparse()), "numbers": (torch.tensor(2.0).to_sparse(),) * 2,
    "places of a number": (torch.sparse_coo_tensor(torch.zeros(0, 2), [1.0, 2.0], ()), torch.tensor(2.0).to_sparse()),
    "a sparse number and dense": (torch.tensor(2.0).to_sparse(), _B),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORS)
def test_elementwise_products(name):
    a, b = FACTORS[name]
    for x, y in ((a, b), (b, a)):
        wanted, got = (told(lambda: (x.to(d) * y.to(d)).to_dense()) for d in ("cpu", D))  # noqa: B023
        if name == "places twice":
            torch.testing.assert_close(torch.tensor(got), torch.tensor(wanted))
        else:
            assert got == wanted
        if not isinstance(wanted, tuple):
            ours, theirs = x.to(D) * y.to(D), x * y
            assert ours.layout is theirs.layout
            assert name == "places twice" or not ours.is_sparse or ours._nnz() == theirs._nnz()


# -- elements that meet others


def both(f, *given):
    """On the CPU and on the device."""
    return f(*[t.to(D) for t in given]), f(*given)


def dense_lines():
    """Two sparse dimensions and a dense one, with places that come twice."""
    s = repeated()
    return torch.sparse_coo_tensor(
        s._indices(), torch.stack([s._values(), s._values() * 2, -s._values()], 1), (6, 7, 3)
    )


@pytest.mark.parametrize("index", [[], [2], [5, 0, 0, 3, -1, 0]], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_chosen_rows(dim, index):
    index = torch.tensor(index, dtype=torch.int64)
    for s in (repeated(), repeated().coalesce(), dense_lines(), torch.zeros(6, 7).to_sparse()):
        ours, theirs = both(lambda s, index: s.index_select(dim, index.remainder(s.shape[dim])), s, index)
        same(ours.to_dense(), theirs.to_dense())
        assert ours._nnz() == theirs._nnz() and (not ours.is_coalesced() or theirs._nnz() < 2 or dim == 0)


def test_rows_that_are_not_there():
    s = repeated().to(D)
    for dim, index, error, words in (
        (0, torch.tensor([2, 6]), IndexError, "index contains 6 that is out of range"),
        (2, torch.tensor([2]), IndexError, "Dimension out of range"),
        (0, torch.tensor(2), IndexError, "1-D strided"),
        (0, torch.tensor([2], dtype=torch.int32), IndexError, "long-tensor"),
    ):
        with pytest.raises(error, match=words):
            s.index_select(dim, index.to(D))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_products_of_two(dtype):
    a, b = some(5, 7, dtype=dtype), some(7, 6, dtype=dtype, seed=1)
    for x, y in ((a, b), (a, torch.zeros_like(b)), (a[:0], b)):
        same(*both(lambda x, y: torch.sparse.mm(x.to_sparse(), y.to_sparse()), x, y))
    whole = some(5, 7, dtype=torch.int64)  # which the CPU refuses
    same((whole.to(D).to_sparse() @ whole.t().to(D).to_sparse()).to_dense(), whole @ whole.t())
    twice = repeated().to(dtype)
    same(*both(lambda s: (s @ s.t()).to_dense(), twice), rtol=1e-5, atol=1e-5)
    if dtype.is_floating_point:
        for f in (
            lambda a, b: a.to_sparse_csr() @ b.to_sparse_csr(),
            lambda a, b: a.to_sparse_csc() @ b.to_sparse_csr(),
            lambda a, b: torch.addmm(b.new_ones(5, 6).to_sparse_csr(), a.to_sparse_csr(), b.to_sparse_csr(), beta=2),
        ):
            ours, theirs = both(f, a, b)
            assert ours.layout is theirs.layout
            same(ours.to_dense(), theirs.to_dense())
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(a.to(D).to_sparse(), a.to(D).to_sparse())


def test_gradients_of_products_of_two():
    found = []
    for device in ("cpu", D):
        a, b = (x.to_sparse().detach().to(device).requires_grad_() for x in (some(5, 7), some(7, 6, seed=1)))
        torch.sparse.sum(torch.sparse.mm(a, b) * 3).backward()
        found.append([x.grad.to_dense().cpu() for x in (a, b)])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("shape", [(3, 4, 5, 6), (1, 7, 1, 33), (0, 4, 5, 6), (3, 0, 5, 6), (3, 4, 0, 6), (3, 4, 5, 0)])
def test_products_of_batches(shape, dtype):
    if dtype is torch.float64:
        needs.feature("f64")
    batches, m, k, n = shape
    x, y = some(batches, m, k, dtype=dtype), torch.randn(batches, k, n, dtype=dtype)
    turned = torch.randn(batches, n, k, dtype=dtype).transpose(1, 2)
    twice = torch.sparse_coo_tensor(x.to_sparse()._indices().repeat(1, 2), x.to_sparse()._values().repeat(2), x.shape)
    for left, right in ((x.to_sparse(), y), (x.to_sparse(), turned), (twice, y)):
        same(torch.bmm(left.to(D), right.to(D)), torch.bmm(left, right))
        out = torch.empty(0, dtype=dtype, device=D)
        assert torch.bmm(left.to(D), right.to(D), out=out) is out
        same(out, torch.bmm(left, right))


def test_gradients_of_products_of_batches():
    def grads(device):
        x, y = (t.to(device).requires_grad_() for t in (some(3, 4, 5).to_sparse(), some(3, 5, 6, seed=1)))
        torch.bmm(x, y).pow(2).sum().backward()
        return x.grad, y.grad

    for ours, theirs in zip(grads(D), grads("cpu"), strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_products_by_rows_that_are_not_empty(dtype):
    empty = torch.zeros(6, 7, dtype=dtype)
    for left in (repeated().to(dtype), some(6, 7, dtype=dtype).to_sparse(), empty.to_sparse()):
        for right in (
            torch.randn(7, 5, dtype=dtype),
            torch.randn(5, 7, dtype=dtype).t(),
            torch.zeros(7, 0, dtype=dtype),
        ):
            added = some(6, right.shape[1], dtype=dtype, seed=3).to_sparse()
            ours = [t.to(D) for t in (added, left, right)]
            same(torch.hspmm(*ours[1:]), torch.hspmm(left, right))
            same(torch.smm(*ours[1:]), torch.smm(left, right))
            same(torch.sspaddmm(*ours, beta=2, alpha=3), torch.sspaddmm(added, left, right, beta=2, alpha=3))


def test_products_of_wrong_sizes():
    x, y = some(3, 4, 5).to_sparse(), torch.randn(3, 5, 6)
    wrong = {
        torch.bmm: [(x, y.to_sparse()), (x, y[0]), (x[0], y), (some(3, 4, 5).to_sparse(2), y), (x, y[:2]),
                    (x, y[:, :4]), (x, y.half())],
        torch.hspmm: [(x[0], y), (x, y[0]), (x[0], y[0, :4]), (x[0], y[0].half())],
        torch.sspaddmm: [(x[0], x[0], y[0]), (x[0], x[0], y[0, :4]), (x[0], x, y[0])],
    }  # fmt: skip
    for f, calls in wrong.items():
        for args in calls:
            with pytest.raises(RuntimeError) as theirs:
                f(*args)
            with pytest.raises(RuntimeError) as ours:
                f(*[t.to(D) for t in args])
            assert str(ours.value) == str(theirs.value)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Half"):
        torch.bmm(x.to(D), y.to(D), out=torch.empty(3, 4, 6, dtype=torch.float16, device=D))


@pytest.mark.parametrize("f", [torch.sparse.softmax, torch.sparse.log_softmax])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_softmax_of_what_is_there(f, dim):
    for s in (repeated(), dense_lines(), torch.zeros(6, 7).to_sparse()):
        if dim < s.dim():
            same(*both(lambda s: f(s, dim), s), rtol=1e-5, atol=1e-6)
    s = repeated().coalesce()
    s.values()[3] = -torch.inf
    same(*both(lambda s: f(s, dim % 2), s), rtol=1e-5, atol=1e-6)
    found = []
    for device in ("cpu", D):
        x = dense_lines().coalesce().to(device).requires_grad_()
        weight = some(6, 7, 3, seed=2).to(device)
        torch.sparse.sum(f(x, dim) * weight).backward()
        found.append(x.grad.to_dense().cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_gradients_of_sums(dims):
    found = []
    for device in ("cpu", D):
        x = dense_lines().coalesce().to(device).requires_grad_()
        total = torch.sparse.sum(x, dims)
        total = total.to_dense() if total.is_sparse else total
        (total * (torch.arange(total.numel(), device=device).view(total.shape) + 1.0)).sum().backward()
        found.append(x.grad)
    same(found[1], found[0])


def test_what_is_said_to_be_coalesced_is_checked():
    with torch.sparse.check_sparse_tensor_invariants():
        for places, wrong in (
            ([[0, 1, 1], [2, 0, 3]], False),
            ([[0, 1, 1], [2, 3, 3]], True),
            ([[1, 0], [0, 1]], True),
        ):
            places = torch.tensor(places, device=D)
            values = torch.ones(places.shape[1], device=D, requires_grad=True)
            for size in ((), ((2, 4),)):
                if wrong:
                    with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
                        torch.sparse_coo_tensor(places, values, *size, is_coalesced=True)
                else:
                    made = torch.sparse_coo_tensor(places, values, *size, is_coalesced=True)
                    assert made.is_coalesced() and made.requires_grad
                    same(made.narrow_copy(1, 0, 3).to_dense(), made.cpu().narrow_copy(1, 0, 3).to_dense())
        with pytest.raises(RuntimeError, match="size is inconsistent"):
            torch.sparse_coo_tensor(places, values, (1, 1), is_coalesced=True)


COMPRESSED = {
    "times compressed": lambda a, b: a * b,
    "times dense": lambda a, b: a * b.to_dense(),
    "dense times": lambda a, b: a.to_dense() * b,
    "plus": lambda a, b: torch.add(a, b, alpha=3),
    "minus": lambda a, b: a - b,
    "plus dense": lambda a, b: a + b.to_dense(),
    "dense plus": lambda a, b: torch.add(a.to_dense(), b, alpha=2),
    "sin": lambda a, b: a.sin(),
    "abs": lambda a, b: a.abs(),
    "isnan": lambda a, b: a.isnan(),
    "one row": lambda a, b: a[2],
    "like": lambda a, b: torch.empty_like(a, dtype=torch.float16).normal_() * 0,
}


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed(name, layout):
    """As dense tensors have it: the CPU has most of it for rows alone."""
    a, b = (some(5, 7, seed=seed) for seed in (0, 1))
    ours, expected = COMPRESSED[name](*[getattr(x.to(D), layout)() for x in (a, b)]), COMPRESSED[name](a, b)
    kind = torch.strided if "plus" in name and "dense" in name else torch.sparse_coo if name == "one row" else None
    assert ours.layout is (kind or getattr(torch, layout[3:])) and ours.dtype == expected.dtype
    same(ours.to_dense(), expected)


def test_dense_summands_of_compressed_tensors_have_their_size():
    rows = some(5, 7).to(D).to_sparse_csr()
    for other in (2, torch.tensor(2.0, device=D), torch.ones(7, device=D)):
        with pytest.raises(RuntimeError, match="to have same size"):
            rows + other


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("k", [1, 3, 50])
def test_products_at_some_places(dtype, k):
    needs.feature("f64") if dtype is torch.float64 else None
    mask = some(5, 7, dtype=dtype)
    g = torch.Generator().manual_seed(3)
    a, b = torch.randn(5, k, dtype=dtype, generator=g), torch.randn(k, 7, dtype=dtype, generator=g)
    for given in ({}, {"beta": 0}, {"alpha": 0.5, "beta": 2.0}):
        ours, theirs = both(lambda m, a, b: torch.sparse.sampled_addmm(m.to_sparse_csr(), a, b, **given), mask, a, b)
        same(ours.to_dense(), theirs.to_dense(), rtol=1e-4, atol=1e-4)
    found = []
    for device in ("cpu", D):
        x, y = (t.detach().clone().to(device).requires_grad_() for t in (a, b))
        torch.sparse.sampled_addmm(mask.to(device).to_sparse_csr(), x, y).to_dense().abs().sum().backward()
        found.append((x.grad.cpu(), y.grad.cpu()))
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.sparse.sampled_addmm(mask.to(D).to_sparse_csr(), a.to(D), b.to(D)[:, :0].t())


def test_made_inside_of_a_mode():
    """Which sees the parts, as on the CPU."""
    seen = {}

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func.name())
            return func(*args, **(kwargs or {}))

    for device in ("cpu", D):
        names = seen[device] = []
        places, values = torch.tensor([[0, 1], [2, 0]], device=device), torch.ones(2, device=device)
        with Log():
            made = torch.sparse_coo_tensor(places, values, (2, 3), is_coalesced=True)
        assert made.is_coalesced() and made.device.type == torch.device(device).type
    assert seen[D] == seen["cpu"]


@pytest.mark.parametrize("layout", ["to_sparse_bsr", "to_sparse_bsc"])
def test_blocks(layout):
    a, b = some(4, 6), some(4, 6, seed=1)
    x, y = (getattr(t.to(D), layout)((2, 3)) for t in (a, b))
    for ours, expected in ((x * y, a * b), (x + y, a + b), (x * b.to(D), a * b), (x.sin(), a.sin())):
        assert ours.layout is x.layout
        same(ours.to_dense(), expected)
    same(x @ b.t().to(D), a @ b.t())
    same(b.t().to(D) @ x, b.t() @ a)
