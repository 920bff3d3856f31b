"""Recurrent layers and cells against the CPU, forward and backward."""

import pytest
import torch
from torch import nn

from tests.device._compare import D, close


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
        results.append([*leaves, *grads])
    close(results[1], results[0], (1e-4, tolerance))


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


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_sequences_longer_than_a_plan(layer):
    both(lambda: layer(3, 5, bidirectional=True, batch_first=True), torch.randn(2, 70, 3), tolerance=1e-4)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_repeated_calls_with_states(layer):
    """Plans are replayed: later calls see other values, states and buffers."""
    torch.manual_seed(0)
    reference, device = layer(4, 5, 2), layer(4, 5, 2).to(D)
    device.load_state_dict(reference.state_dict())
    states = {"cpu": None, D: None}
    for _ in range(4):
        x = torch.randn(6, 3, 4)
        results = {}
        for module, place in ((reference, "cpu"), (device, D)):
            module.zero_grad()
            out, states[place] = module(x.to(place), states[place])
            out[2:].square().sum().backward()
            states[place] = torch.utils._pytree.tree_map(torch.Tensor.detach, states[place])
            results[place] = [out.detach().cpu(), *(p.grad.cpu() for p in module.parameters())]
        for expected, got in zip(results["cpu"], results[D]):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("frozen", ["weight_hh_l0", "bias_hh_l0", "weight_ih_l0", None])
def test_gradients_of_some(layer, frozen):
    """Of the last states alone, and where a parameter takes none."""
    results = []
    for place in ("cpu", D):
        torch.manual_seed(0)
        module, x = layer(4, 5).to(place), torch.randn(3, 2, 4).to(place)
        if frozen:
            getattr(module, frozen).requires_grad_(False)
        states = module(x)[1]
        (states[0] if layer is nn.LSTM else states).sum().backward()
        results.append([p.grad for p in module.parameters()])
    assert [g is None for g in results[0]] == [g is None for g in results[1]]
    for expected, got in zip(*results):
        if expected is not None:
            torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("backwards", [False, True])
def test_double_backward_of_a_layer(layer, backwards):
    results = []
    for place in ("cpu", D):
        torch.manual_seed(0)
        module = layer(3, 4, bidirectional=backwards).to(place)
        x = torch.randn(5, 2, 3).to(place).requires_grad_()
        out, last = module(x)
        last = last[1] if layer is nn.LSTM else last
        (g,) = torch.autograd.grad(out.square().sum() + last.sum(), x, create_graph=True)
        g.square().sum().backward()
        results.append([x.grad.cpu(), *(p.grad.cpu() for p in module.parameters())])
    for expected, got in zip(*results):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)


def test_transforms_see_the_layers():
    torch.manual_seed(0)
    module, x = nn.GRU(3, 4), torch.randn(4, 2, 3)
    loss = lambda p, x: torch.func.functional_call(module, p, (x,))[0].square().sum()  # noqa: E731
    expected = torch.func.grad(loss)(dict(module.named_parameters()), x)
    module.to(D)
    got = torch.func.grad(loss)(dict(module.named_parameters()), x.to(D))
    for name, value in expected.items():
        torch.testing.assert_close(got[name].detach().cpu(), value.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_low_precision_gradients(layer, dtype):
    torch.manual_seed(0)
    reference, device = layer(4, 5), layer(4, 5).to(D)
    device.load_state_dict(reference.state_dict())
    device.to(dtype)
    x = torch.randn(7, 3, 4)
    reference(x)[0].sum().backward()
    device(x.to(D, dtype))[0].sum().backward()
    for p, q in zip(reference.parameters(), device.parameters()):
        assert q.grad.dtype == dtype
        torch.testing.assert_close(q.grad.float().cpu(), p.grad, rtol=0.05, atol=0.2)


def test_autocast():
    torch.manual_seed(0)
    module, x = nn.LSTM(4, 5).to(D), torch.randn(3, 2, 4).to(D)
    expected = module(x)[0]
    with torch.autocast(D, dtype=torch.float16):
        got = module(x)[0]
    got.float().sum().backward()
    torch.testing.assert_close(got.float(), expected, rtol=0.02, atol=0.01)
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in module.parameters())


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
def test_batches_of_gradients(layer):
    torch.manual_seed(0)
    module, x = layer(3, 2), torch.randn(4, 1, 3)

    def jacobian(device):
        leaf = x.to(device).requires_grad_()
        out = module.to(device)(leaf)[0].flatten()
        rows = torch.eye(len(out), device=device)
        return torch.autograd.grad(out, leaf, rows, is_grads_batched=True)[0].cpu()

    torch.testing.assert_close(jacobian("webgpu"), jacobian("cpu"))
