"""Nested tensors of the strided kind: the parts' values and gradients are those of the CPU's nested tensors."""

import pytest
import torch
import torch.nn.functional as F

D = "webgpu"
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
LENGTHS = (2, 5, 1)


def parts(width: int = 8, lengths=LENGTHS) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return [torch.randn(n, width, generator=g) for n in lengths]


def nested(place: str, requires_grad: bool = False, tensors=None) -> torch.Tensor:
    return torch.nested.nested_tensor(tensors or parts(), device=place, requires_grad=requires_grad)


def flat(result) -> list[torch.Tensor]:
    """Dense tensors, of one result or several."""
    if isinstance(result, (tuple, list)):
        return [x for one in result for x in flat(one)]
    return list(result.unbind()) if result.is_nested else [result]


def compare(function, gradients: bool = True, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """`function` takes a nested tensor, and what brings dense ones to its device."""
    found = []
    for place in ("cpu", D):
        x = nested(place, gradients)
        out = flat(function(x, lambda dense, place=place: dense.to(place)))
        assert all(part.device.type == place for part in out)
        if gradients:
            weighed = [(part * torch.linspace(0, 1, part.numel(), device=place).view(part.shape)).sum() for part in out]
            sum(weighed[1:], weighed[0]).backward()
            out += flat(x.grad)
        found.append([part.detach().cpu() for part in out])
    assert [x.shape for x in found[1]] == [x.shape for x in found[0]]
    for expected, got in zip(*found):
        torch.testing.assert_close(got, expected, rtol=rtol, atol=atol, equal_nan=True)


WEIGHT, BIAS = torch.linspace(-1, 1, 48).view(6, 8), torch.linspace(0, 1, 6)
GAIN, SHIFT = torch.linspace(0.5, 2, 8), torch.linspace(-1, 1, 8)
DIFFERENTIABLE = {
    "relu": lambda x, to: F.relu(x),
    "gelu": lambda x, to: F.gelu(x),
    "silu": lambda x, to: F.silu(x),
    "sin": lambda x, to: x.sin(),
    "abs": lambda x, to: x.abs().neg(),
    "add": lambda x, to: x + x * 2.5,
    "sub": lambda x, to: x - x / 3,
    "mul": lambda x, to: x * x,
    "mul by a number on the device": lambda x, to: x * to(torch.tensor(2.0)),
    "linear": lambda x, to: F.linear(x, to(WEIGHT), to(BIAS)),
    "layer_norm": lambda x, to: F.layer_norm(x, (8,), to(GAIN), to(SHIFT)),
    "softmax": lambda x, to: F.softmax(x, -1),
    "softmax of rows": lambda x, to: F.softmax(x, 1),
    "sum": lambda x, to: x.sum(-1, keepdim=True),
    "matmul": lambda x, to: torch.matmul(x, x.transpose(1, 2)),
    "bmm": lambda x, to: torch.bmm(x, x.transpose(1, 2)),
    "padded": lambda x, to: torch.nested.to_padded_tensor(x, -1.0),
    "transposed": lambda x, to: x.transpose(1, 2),
    "contiguous": lambda x, to: x.transpose(1, 2).contiguous(),
    "a part": lambda x, to: x[1],
    "parts": lambda x, to: x.unbind(),
    "splits": lambda x, to: torch.split(x, [3, 5], -1),
    "view": lambda x, to: x.view(3, -1, 2, 4),
    "reshape": lambda x, to: x.transpose(1, 2).reshape(3, 8, -1),
    "unsqueezed": lambda x, to: x.unsqueeze(2).squeeze(2).unsqueeze(1),
    "masked_fill": lambda x, to: x.masked_fill(x > 0, 1.5),
    "of another dtype": lambda x, to: x.half().float(),
    "dropout that drops nothing": lambda x, to: F.dropout(x, 0.0, True),
    "attention": lambda x, to: F.scaled_dot_product_attention(
        *[x.view(3, -1, 2, 4).transpose(1, 2).contiguous()] * 3
    ).transpose(1, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_operators_and_gradients(name):
    compare(DIFFERENTIABLE[name], rtol=1e-3 if "dtype" in name else 1e-5)


OTHERS = {  # of some, torch has no gradient
    "chunks": lambda x, to: x.chunk(2, -1),
    "cat": lambda x, to: torch.cat([x, x]),
    "comparisons": lambda x, to: [x >= 0, x > 0.5, x == 0, (x > 0).logical_not()],
    "isnan": lambda x, to: x.mul(0).div(0).isnan(),
    "like": lambda x, to: [torch.zeros_like(x), torch.ones_like(x), x.clone(), x.detach()],
    "in place": lambda x, to: [
        x.clone().relu_(), x.clone().add_(x), x.clone().mul_(2.0), x.clone().fill_(3), x.clone().zero_(),
        torch.zeros_like(x).copy_(x), x.clone().tanh_(), x.clone().neg_(),
    ],
    "drawn": lambda x, to: [torch.randn_like(x).mul(0), x.clone().normal_().mul(0)],
    "from padded": lambda x, to: torch._nested_from_padded(
        to(torch.arange(60.0).view(2, 5, 6)), torch.tensor([[2, 6], [4, 5]])
    ),
    "from a mask": lambda x, to: torch._nested_tensor_from_mask(
        to(torch.arange(30.0).view(2, 5, 3)), to(torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]]).bool())
    ),
    "embedding": lambda x, to: F.embedding(
        torch.nested.nested_tensor([to(torch.tensor([1, 0])), to(torch.tensor([5]))]), to(WEIGHT)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_without_gradients(name):
    compare(OTHERS[name], gradients=False)


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers_of_an_encoder(norm_first):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first).eval()
    attention = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()

    def run(x, to):
        place = x.device.type
        layer.to(place), attention.to(place)
        x = torch.nested.nested_tensor([torch.cat([part, -part], 1) for part in x.unbind()])
        return [layer(x), attention(x, x, x, need_weights=False)[0]]

    with torch.no_grad():
        compare(run, gradients=False, rtol=1e-4)


def test_to_the_device_and_back():
    host = nested("cpu")
    there = host.to(D)
    assert there.is_nested and there.device.type == D and "device='webgpu:0'" in repr(there)
    assert all(torch.equal(a, b) for a, b in zip(there.cpu().unbind(), host.unbind()))
    assert torch.equal(there._nested_tensor_size(), host._nested_tensor_size())


@pytest.mark.parametrize("tensors", [[torch.randn(0, 3), torch.randn(4, 3)], [torch.randn(1, 1)], [torch.randn(3)]])
def test_empty_and_single_parts(tensors):
    there = nested(D, tensors=tensors)
    for got, expected in zip((there * 2).unbind(), tensors):
        assert torch.equal(got.cpu(), expected * 2)


ERRORS = {
    "one nested": lambda x, to: x + to(torch.ones(5)),
    "sum of rows": lambda x, to: x.sum(1, keepdim=True),
    "sum that drops its dimension": lambda x, to: x.sum(-1),
    "sum of two dimensions": lambda x, to: x.sum((1, 2), keepdim=True),
    "sum in another dtype": lambda x, to: x.sum(-1, keepdim=True, dtype=torch.float64),
    "norm of rows": lambda x, to: F.layer_norm(x, (2, 8), to(torch.ones(2, 8)), to(torch.ones(2, 8))),
    "norm without a weight": lambda x, to: F.layer_norm(x, (8,)),
    "first dimension transposed": lambda x, to: x.transpose(0, 1),
    "too far": lambda x, to: x[7],
    "other sizes": lambda x, to: x + torch.nested.nested_tensor([to(p) for p in parts(8, (5, 2, 1))]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_the_cpus(name):
    told = []
    for place in ("cpu", D):
        with pytest.raises((RuntimeError, IndexError, ValueError)) as error:
            ERRORS[name](nested(place), lambda dense, place=place: dense.to(place))
        told.append((type(error.value), str(error.value).splitlines()[0]))
    assert told[0][0] is told[1][0]
    assert told[0][1] == told[1][1]


def test_what_is_not_there_is_refused_in_words():
    """In the middle of a gradient, too, where torch asks for sizes once more."""
    with pytest.raises(NotImplementedError, match=r"webgpu: nested \(strided layout\) tensors are not supported"):
        nested(D).sort()
    x = nested(D, True)
    with pytest.raises(NotImplementedError, match="tanh_backward"):
        torch.nested.to_padded_tensor(x.tanh(), 0.0).sum().backward()
