"""nn.Module on the device: moving, copying, training and evaluating real layers."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.device._compare import D, both


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def trained(make, *shapes, tolerance=1e-4):
    """Output, input gradients and parameter gradients of a module."""

    def run(d):
        module = make().to(d)
        inputs = [torch.randn(s).to(d).requires_grad_() for s in shapes]
        out = module(*inputs)
        out = out[0] if isinstance(out, tuple) else out
        (out * out).sum().backward()
        return out, [x.grad for x in inputs], [p.grad for p in module.parameters()]

    both(run, tolerance)


def test_moving():
    layer = nn.Linear(2, 2)
    assert layer.to(D).weight.device == torch.device(D, 0)
    assert nn.Linear(2, 2).webgpu().weight.is_webgpu
    assert layer.half().weight.dtype == torch.float16 and layer.weight.is_webgpu
    assert layer.bfloat16().weight.dtype == torch.bfloat16
    assert layer.cpu().weight.device.type == "cpu"
    norm = nn.BatchNorm1d(3).to(D)
    assert norm.running_mean.is_webgpu and norm.num_batches_tracked.is_webgpu


def test_moving_keeps_ties_and_optimizers():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net.to(D)
    assert net[1].weight is net[0].weight
    net(torch.ones(1, 2, device=D)).sum().backward()
    before = net[0].weight.detach().cpu().clone()
    optimizer.step()
    assert not torch.equal(net[0].weight.detach().cpu(), before)


def test_deepcopy():
    assert copy.deepcopy(torch.ones(2, device=D)).device.type == D
    layer = nn.Linear(2, 2).to(D)
    other = copy.deepcopy(layer)
    assert other.weight.data_ptr() != layer.weight.data_ptr()
    assert torch.equal(other.weight.detach().cpu(), layer.weight.detach().cpu())
    parameter = copy.deepcopy(nn.Parameter(torch.ones(2, device=D)))
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad


def test_deepcopy_keeps_sharing():
    t = torch.arange(6.0, device=D)
    a, b = copy.deepcopy([t, t[2:]])
    assert a.untyped_storage()._cdata == b.untyped_storage()._cdata
    assert b.cpu().tolist() == [2, 3, 4, 5]


def test_load_state_dict():
    net = mlp().to(D)
    source = mlp()
    net.load_state_dict(source.state_dict())
    assert torch.equal(net[0].weight.detach().cpu(), source[0].weight.detach())
    fresh = mlp()
    fresh.load_state_dict(net.state_dict(), assign=True)
    assert fresh[0].weight.device.type == D


def test_mlp_and_loss():
    def run(d):
        net, x, y = mlp().to(d), torch.randn(5, 6).to(d), torch.tensor([0, 2, 1, 1, 0]).to(d)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss, [p.grad for p in net.parameters()]

    both(run)


def test_convolution_net():
    trained(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)), (2, 3, 8, 8))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv1d(3, 4, 3, padding=1),
        lambda: nn.ConvTranspose1d(3, 4, 3, stride=2),
        lambda: nn.LayerNorm(8),
        lambda: nn.GroupNorm(1, 3),
        lambda: nn.BatchNorm1d(3),
        lambda: nn.RMSNorm(8),
        lambda: nn.InstanceNorm1d(3, affine=True),
        lambda: nn.AvgPool1d(2),
        lambda: nn.AdaptiveAvgPool1d(3),
        lambda: nn.GELU(),
        lambda: nn.Softmax(-1),
        lambda: nn.PReLU(),
        lambda: nn.Flatten(),
        lambda: nn.Upsample(scale_factor=2),
        lambda: nn.ZeroPad1d(1),
    ],
)
def test_layers(make):
    trained(make, (2, 3, 8))


def test_batch_norm_statistics():
    def run(d):
        norm = nn.BatchNorm1d(3).to(d)
        for _ in range(2):
            norm(torch.randn(5, 3).to(d))
        norm.eval()
        return norm(torch.ones(2, 3, device=d)), norm.running_mean, norm.running_var, norm.num_batches_tracked

    both(run)


def test_embedding():
    def run(d):
        table = nn.Embedding(4, 3, padding_idx=0).to(d)
        table(torch.tensor([1, 2, 1, 0]).to(d)).sum().backward()
        return table.weight.grad

    both(run)


def test_attention():
    def run(d):
        q = torch.randn(1, 2, 4, 8).to(d).requires_grad_()
        out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        out.sum().backward()
        return out, q.grad

    both(run)


def test_multihead_attention():
    def run(d):
        layer, x = nn.MultiheadAttention(8, 2, batch_first=True).to(d), torch.randn(2, 4, 8).to(d)
        out, weights = layer(x, x, x)
        out.sum().backward()
        return out, weights, layer.in_proj_weight.grad

    both(run)


def encoder(**options):
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)


def test_transformer_layer_in_training():
    trained(encoder, (2, 4, 8))


@torch.no_grad()
def test_transformer_layer_in_evaluation():
    """torch takes its one-operator path here."""
    hidden = torch.tensor([[False] * 4, [False, False, True, True]])
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    for options in ({}, {"norm_first": True, "activation": "gelu"}):
        both(lambda d, o=options: encoder(**o).to(d).eval()(torch.randn(2, 4, 8).to(d)))
    both(lambda d: encoder().to(d).eval()(torch.randn(2, 4, 8).to(d), src_mask=causal.to(d)))
    for options in ({"src_key_padding_mask": hidden}, {"src_mask": causal, "src_key_padding_mask": hidden}):

        def run(d, options=options):
            masks = {k: v.to(d) for k, v in options.items()}
            return encoder().to(d).eval()(torch.randn(2, 4, 8).to(d), **masks)

        both(run)


@torch.no_grad()
def test_multihead_attention_in_evaluation():
    for average in (True, False):

        def run(d, average=average):
            layer, x = nn.MultiheadAttention(8, 2, batch_first=True).to(d).eval(), torch.randn(2, 4, 8).to(d)
            return layer(x, x, x, average_attn_weights=average), layer(x, x, x, need_weights=False)[0]

        both(run)


def test_parametrize_and_weight_norm():
    trained(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), (4, 6))


def test_searching_and_sorting():
    def run(d):
        x = torch.randn(6).to(d)
        return x.sort()[0], x.topk(2)[0], x.round().unique(), (x > 0).nonzero(), x.argmax()

    both(run)


def test_fft():
    both(lambda d: torch.fft.fft(torch.randn(8).to(d)).abs())


def test_solve():
    both(lambda d: torch.linalg.solve(torch.eye(3).to(d) * 2, torch.ones(3).to(d)))


def test_complex_arithmetic():
    both(lambda d: torch.view_as_real(torch.randn(4, dtype=torch.complex64).to(d) * 1j))


class Tied(nn.Module):
    """An embedding that is also the output's weight."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(self.embedding(x))


def test_moving_keeps_parameters_the_same_objects():
    def run(d):
        model = Tied()
        weight = model.embedding.weight
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # before the move, as with any other device
        model(torch.arange(5)).square().sum().backward()
        model.to(d)
        assert model.out.weight is model.embedding.weight is weight
        model(torch.arange(5).to(d)).square().sum().backward()  # onto a gradient that moved along
        optimizer.step()
        return weight, weight.grad

    both(run)


def test_lazy_modules_may_be_moved_before_they_have_shapes():
    def run(d):
        model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()).to(d)
        model(torch.randn(5, 3).to(d))
        assert model[0].weight.device.type == d and model[0].weight.shape == (4, 3)
        nn.init.ones_(model[0].weight)  # the values drawn are the device's own
        nn.init.ones_(model[0].bias)
        return model(torch.arange(15.0).reshape(5, 3).sin().to(d))

    both(run)


def test_data_may_be_assigned_across_devices():
    x = torch.nn.Parameter(torch.zeros(3))
    (x * 2).sum().backward()
    x.grad = None
    x.data = torch.ones(2, 2, device=D, dtype=torch.float16)
    assert x.device.type == D and x.dtype is torch.float16
    (x * 3).sum().backward()
    assert x.grad.device.type == D and x.grad.cpu().tolist() == [[3, 3], [3, 3]]
    x.data = torch.ones(4)
    x.grad = None
    (x * 5).sum().backward()
    assert x.is_cpu and x.grad.tolist() == [5] * 4


@pytest.mark.parametrize("make", [lambda: nn.LazyLinear(3), lambda: nn.LazyBatchNorm1d()])
def test_lazy_modules_change_their_dtype_before_their_first_call(make):
    for move in (
        lambda m: m.to(D).half(),
        lambda m: m.half().to(D),
        lambda m: m.to(D, torch.half),
    ):
        module = move(make())
        assert module(torch.ones(2, 4, device=D, dtype=torch.half)).dtype is torch.half
