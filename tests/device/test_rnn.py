"""Recurrent layers and cells against the CPU, forward and backward."""

import pytest
import torch
from torch import nn

D = "webgpu"


def both(make, *inputs, tolerance=1e-5):
    """Outputs, input gradients and parameter gradients on the CPU and on the device."""
    torch.manual_seed(0)
    reference = make()
    device = make().to(D)
    device.load_state_dict(reference.state_dict())
    results = []
    for module, place in ((reference, "cpu"), (device, D)):
        args = [x.detach().to(place).requires_grad_() for x in inputs]
        leaves = torch.utils._pytree.tree_leaves(module(*args))
        sum((x * x).sum() for x in leaves).backward()
        grads = [x.grad for x in args] + [p.grad for p in module.parameters()]
        results.append([t.detach().cpu() for t in (*leaves, *grads)])
    assert len(results[0]) == len(results[1])
    for expected, got in zip(*results):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}],
    ids=["plain", "two_ways", "no_bias"],
)
def test_layers(layer, options):
    both(lambda: layer(4, 5, **options), torch.randn(3, 2, 4))


def test_projection_and_relu():
    both(lambda: nn.LSTM(4, 6, proj_size=3, num_layers=2), torch.randn(3, 2, 4))
    both(lambda: nn.RNN(4, 5, nonlinearity="relu"), torch.randn(3, 2, 4))


def test_cells():
    both(lambda: nn.LSTMCell(4, 5), torch.randn(3, 4))
    both(lambda: nn.GRUCell(4, 5), torch.randn(3, 4))
    both(lambda: nn.RNNCell(4, 5), torch.randn(3, 4))


def test_without_a_batch():
    both(lambda: nn.LSTM(4, 5), torch.randn(3, 4))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_packed_sequences(layer):
    torch.manual_seed(0)
    reference, device = layer(4, 5), layer(4, 5).to(D)
    device.load_state_dict(reference.state_dict())
    x, lengths = torch.randn(3, 5, 4), torch.tensor([5, 3, 2])
    results = []
    for module, place in ((reference, "cpu"), (device, D)):
        packed = nn.utils.rnn.pack_padded_sequence(x.to(place), lengths, batch_first=True)
        out, _ = nn.utils.rnn.pad_packed_sequence(module(packed)[0], batch_first=True)
        results.append(out.detach().cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision(dtype):
    torch.manual_seed(0)
    reference = nn.LSTM(4, 5)
    device = nn.LSTM(4, 5).to(D)
    device.load_state_dict(reference.state_dict())
    x = torch.randn(3, 2, 4)
    out = device.to(dtype)(x.to(D, dtype))[0]
    assert out.dtype == dtype
    torch.testing.assert_close(out.detach().float().cpu(), reference(x)[0].detach(), rtol=0.05, atol=0.03)


def test_dropout_between_layers():
    torch.manual_seed(0)
    x = torch.ones(20, 4, 8, device=D)
    layer = nn.LSTM(8, 8, num_layers=2, dropout=0.9).to(D)
    quiet = nn.LSTM(8, 8, num_layers=2).to(D)
    quiet.load_state_dict(layer.state_dict())
    assert not torch.allclose(layer(x)[0].detach().cpu(), quiet(x)[0].detach().cpu())
    layer.eval()
    assert torch.allclose(layer(x)[0].detach().cpu(), quiet(x)[0].detach().cpu())


def test_double_backward_of_a_cell():
    results = []
    for device in ("cpu", D):
        torch.manual_seed(0)
        cell = nn.LSTMCell(3, 4).to(device)
        x = torch.randn(2, 3).to(device).requires_grad_()
        (g,) = torch.autograd.grad(cell(x)[0].sum(), x, create_graph=True)
        g.square().sum().backward()
        results.append(x.grad.cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)
