"""Tensors of torch's quantised dtypes, against the CPU's: how they are made, what is done with them, where they go."""

import copy
import io
import pickle

import pytest
import torch

from webgpu_backend.frontend.dispatch.quantized import QuantizedTensor

D = "webgpu"
DTYPES = [torch.quint8, torch.qint8, torch.qint32]
SHAPES = [(3, 4), (7,), (), (0, 3), (5, 1030), (2, 3, 5, 5)]
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*quantized:UserWarning", "ignore::FutureWarning", "ignore:TypedStorage"
)


def numbers(shape) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(shape) * 20
    special = torch.tensor([torch.inf, -torch.inf, 1e20, -1e20, 0.25, -3.35])
    if x.numel() > len(special):
        x.view(-1)[: len(special)] = special
    return x


def same(ours, theirs):
    assert isinstance(ours, QuantizedTensor) and ours.is_quantized and ours.device.type == D
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.qscheme() == theirs.qscheme()
    assert torch.equal(ours.int_repr().cpu(), theirs.int_repr()) and ours.stride() == theirs.stride()
    assert ours.int_repr().stride() == theirs.int_repr().stride()
    assert torch.equal(ours.dequantize().cpu(), theirs.dequantize())
    back = ours.cpu()
    assert type(back) is torch.Tensor and torch.equal(back, theirs) and back.stride() == theirs.stride()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_scale(shape, dtype):
    x = numbers(shape)
    for scale, zero in ((0.1, 3), (0.37, 0), (1e-3, 5)):
        expected = torch.quantize_per_tensor(x, scale, zero, dtype)
        made = torch.quantize_per_tensor(x.to(D), scale, zero, dtype)
        same(made, expected)
        assert (made.q_scale(), made.q_zero_point()) == (expected.q_scale(), expected.q_zero_point())
        same(expected.to(D), expected)
    scale, zero = torch.tensor(0.2), torch.tensor(4)
    same(
        torch.quantize_per_tensor(x.to(D), scale.to(D), zero.to(D), dtype),
        torch.quantize_per_tensor(x, scale, zero, dtype),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 5, 5), (1, 1030), (0, 3)], ids=str)
def test_a_scale_for_each_channel(shape, dtype):
    x = numbers(shape)
    for axis in range(len(shape)):
        scales = torch.rand(shape[axis]) + 0.01  # kept in float64, of which kernels take the float32 part
        zeros = torch.arange(shape[axis]) % 7
        expected = torch.quantize_per_channel(x, scales, zeros, axis, dtype)
        made = torch.quantize_per_channel(x.to(D), scales.to(D), zeros.to(D), axis, dtype)
        for found in (made, expected.to(D)):
            same(found, expected)
            assert found.q_per_channel_axis() == axis
            assert torch.equal(found.q_per_channel_scales().cpu().double(), scales.double())
            assert torch.equal(found.q_per_channel_zero_points().cpu(), zeros)


def test_how_else_they_are_made():
    x = numbers((4, 5))[1:]
    for dtype, narrow in ((torch.quint8, False), (torch.qint8, True)):
        expected = torch.quantize_per_tensor_dynamic(x, dtype, narrow)
        same(torch.quantize_per_tensor_dynamic(x.to(D), dtype, narrow), expected)
    lists = [x, x[:1]], torch.tensor([0.1, 0.2]), torch.tensor([1, 2])
    moved = [x.to(D), x[:1].to(D)], lists[1].to(D), lists[2].to(D)
    for a, b in zip(torch.quantize_per_tensor(*moved, torch.qint8), torch.quantize_per_tensor(*lists, torch.qint8)):
        same(a, b)
    codes = torch.arange(12, dtype=torch.uint8).view(3, 4)
    make = torch._make_per_tensor_quantized_tensor
    same(make(codes.to(D), 0.5, 2), make(codes, 0.5, 2))
    how = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 2, 3])
    make = torch._make_per_channel_quantized_tensor
    same(make(codes.to(D), *[h.to(D) for h in how], 0), make(codes, *how, 0))
    same(torch.quantize_per_tensor(x.to(D).requires_grad_(), 0.1, 0, torch.qint8),
         torch.quantize_per_tensor(x, 0.1, 0, torch.qint8))  # fmt: skip
    for last in (x.t(), torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)):
        same(torch.quantize_per_tensor(last.to(D), 0.1, 0, torch.qint8),
             torch.quantize_per_tensor(last, 0.1, 0, torch.qint8))  # fmt: skip


MOVES = {
    "view": lambda t: t.view(4, -1), "transposed": lambda t: t.t(), "slice": lambda t: t[1:, ::2],
    "select": lambda t: t[1], "index": lambda t: t[torch.tensor([2, 0], device=t.device)],
    "taken": lambda t: t.index_select(1, torch.tensor([1, 1], device=t.device)), "flip": lambda t: t.flip(0),
    "unsqueezed": lambda t: t.unsqueeze(1), "chunk": lambda t: t.chunk(2, 1)[1], "expand": lambda t: t[:1].expand(3, 4),
    "detached": lambda t: t.detach(), "data": lambda t: t.data, "clone": lambda t: t.clone(),
    "reshaped": lambda t: t.t().reshape(12), "contiguous": lambda t: t.t().contiguous(), "copy": copy.deepcopy,
    "pickled": lambda t: pickle.loads(pickle.dumps(t)), "largest": lambda t: t.max(), "least": lambda t: t.min(1)[0],
    "sorted": lambda t: t.sort(1)[0], "top": lambda t: t.topk(2, 1)[0], "relu": lambda t: t.relu(),
    "relu_": lambda t: t.clone().relu_(), "filled": lambda t: t.clone().fill_(0.7),
    "like": lambda t: torch.empty_like(t).copy_(t), "set": lambda t: _set(t.clone()),
    "of numbers": lambda t: t.clone().copy_(torch.full((3, 4), 0.31, device=t.device)),
}  # fmt: skip


def _set(t):
    t[1] = 1.5
    return t


@pytest.mark.parametrize("name", MOVES)
def test_what_keeps_them_quantized(name):
    x = torch.randn(3, 4)
    expected = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    ours, theirs = MOVES[name](expected.to(D)), MOVES[name](expected)
    assert isinstance(ours, QuantizedTensor) and torch.equal(ours.cpu(), theirs)
    assert torch.equal(ours.dequantize().cpu(), theirs.dequantize())


def test_views_share_their_memory():
    q = torch.quantize_per_tensor(torch.zeros(3, 4, device=D), 0.1, 3, torch.quint8)
    q[1].fill_(0.5)
    q.view(-1)[11] = 2.0
    assert q.dequantize().cpu().sum().item() == pytest.approx(4 * 0.5 + 2)


def test_comparisons():
    a, b = (torch.quantize_per_tensor(torch.randn(3, 4), s, 3, torch.quint8) for s in (0.1, 0.2))
    for op in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
        assert torch.equal(op(a.to(D), b.to(D)).cpu(), op(a, b))
        assert torch.equal(op(a.to(D), 0.2).cpu(), op(a, 0.2))
    assert torch.equal(a.to(D), a.to(D)) and not torch.equal(a.to(D), b.to(D))
    with pytest.raises(RuntimeError, match="same device"):
        torch.equal(a.to(D), a)


def test_copies_between_devices():
    q = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 3, torch.quint8)
    other = torch.quantize_per_tensor(torch.randn(3, 4), 0.3, 1, torch.quint8)
    assert torch.equal(q.clone().copy_(other.to(D)), other)
    assert torch.equal(q.to(D).copy_(other).cpu(), other)
    module = torch.nn.Module()
    module.register_buffer("q", q)
    assert isinstance(module.to(D).q, QuantizedTensor) and torch.equal(module.cpu().q, q)
    for saved in (q, torch.quantize_per_channel(torch.randn(3, 4), torch.rand(3), torch.arange(3), 0, torch.qint8)):
        file = io.BytesIO()
        torch.save(saved.to(D), file)
        for place in (None, "cpu"):
            file.seek(0)
            found = torch.load(file, map_location=place)
            assert found.device.type == (place or D) and torch.equal(found.cpu(), saved)
    assert "quantization_scheme=torch.per_tensor_affine, scale=0.1" in " ".join(repr(q.to(D)).split())


def test_as_the_first_thing_that_a_program_does(tmp_path):
    import subprocess
    import sys

    code = "import torch, webgpu_backend; q = torch.quantize_per_tensor(torch.rand(3), 0.1, 1, torch.quint8)\n"
    code += "assert torch.equal(q.to('webgpu').cpu(), q)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, cwd=tmp_path)


def test_errors():
    x, per_tensor = torch.randn(3, 4, device=D), torch.quantize_per_tensor
    q, other = per_tensor(x, 0.1, 3, torch.quint8), per_tensor(x, 0.1, 3, torch.qint8)
    each = torch.quantize_per_channel(x, torch.rand(3), torch.arange(3), 0, torch.qint8)
    for error, match, call in (
        (RuntimeError, "only works on Float Tensor, got Half", lambda: per_tensor(x.half(), 0.1, 0, torch.quint8)),
        (RuntimeError, "zero_point 300 is above upper bound", lambda: per_tensor(x, 0.1, 300, torch.quint8)),
        (RuntimeError, "scales and zero_points must match",
         lambda: torch.quantize_per_channel(x, torch.rand(2), torch.arange(3), 0, torch.qint8)),
        (NotImplementedError, "quint4x2 cannot be on the device", lambda: per_tensor(x, 0.1, 0, torch.quint4x2)),
        (NotImplementedError, "quantized tensors are not supp", lambda: torch.empty(3, dtype=torch.quint8, device=D)),
        (NotImplementedError, "aten::sigmoid is not there for tensors of quantized dtypes", lambda: q.sigmoid()),
        (NotImplementedError, "aten::t is not there for tensors with a scale for each channel", lambda: each.t()),
        (RuntimeError, "please use dequantize to get a float Tensor", lambda: q.float()),
        (RuntimeError, "please use dequantize to get a float Tensor", lambda: x.copy_(q)),
        (RuntimeError, "kPerTensorAffine to be true", lambda: each.q_scale()),
        (RuntimeError, "kPerChannelAffine to be true", lambda: q.q_per_channel_axis()),
        (RuntimeError, "with the same shape", lambda: q.copy_(x[:1])),
        (RuntimeError, "same dtype", lambda: q.copy_(other)),
        (RuntimeError, "same qscheme", lambda: each.copy_(other)),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            call()
    assert torch.equal(x.half().dequantize().cpu(), x.half().float().cpu())
