"""Fake quantisation and its gradients, and what is said of torch's quantised dtypes."""

import pytest
import torch

from tests.device._compare import gradients, same

D = "webgpu"
ODD = torch.tensor([0.25, 0.35, -0.15, 1e30, -1e30, float("nan"), 1.2, -0.3])
SHAPES = [(7, 5), (3, 4, 6), (1,), (0, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_per_tensor(shape, dtype):
    x = (torch.randn(shape) * 3).to(dtype)
    call = lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 31)  # noqa: E731
    same(call, x, tolerance=1e-6)
    same(lambda x: call(x.t()), x if x.dim() == 2 else x.reshape(-1, 1), tolerance=1e-6)
    if x.numel() and dtype == torch.float32:
        gradients(call, x, tolerance=1e-6)


def test_per_tensor_of_tensors_and_odd_values():
    same(lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 3, 0, 15), ODD, tolerance=1e-6)
    zero = torch.tensor(3, dtype=torch.int32)
    call = lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -8, 7)  # noqa: E731
    same(call, ODD[:3], torch.tensor(0.07), zero, tolerance=1e-6)
    grad = [torch.randn(9).requires_grad_().to(D).detach().requires_grad_()]
    call(grad[0], torch.tensor(0.07, device=D), zero.to(D)).sum().backward()
    assert set(grad[0].grad.cpu().tolist()) <= {0.0, 1.0}
    for on in (0, 1):
        fake = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        same(
            lambda x, s, z, e: fake(x, s, z, e, 0, 9),
            torch.randn(20), torch.tensor([0.3]), torch.tensor([2], dtype=torch.int32), torch.tensor([on]),
            tolerance=1e-6,
        )  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_per_channel(axis):
    x = torch.randn(3, 4, 6) * 2
    n = x.shape[axis]
    scale, zero = torch.rand(n) * 0.2 + 0.02, torch.randint(-3, 4, (n,), dtype=torch.int32)
    call = lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, axis, -8, 7)  # noqa: E731
    same(call, x, scale, zero, tolerance=1e-6)
    gradients(lambda x: call(x, scale.to(x.device), zero.to(x.device)), x, tolerance=1e-6)


def test_learnable():
    x = torch.linspace(-3, 3, 30).reshape(5, 6) + 0.013
    one = lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x, s, z, 0, 15, 0.7)  # noqa: E731
    gradients(one, x, torch.tensor([0.21]), torch.tensor([3.2]), tolerance=1e-4)
    for axis, n in ((0, 5), (1, 6)):
        each = lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, axis, 0, 15, 0.7)  # noqa: E731
        gradients(each, x, torch.rand(n) * 0.2 + 0.1, torch.rand(n) * 5, tolerance=1e-4)


def test_errors():
    x = torch.randn(3, 4, device=D)
    with pytest.raises(RuntimeError, match="zero_point"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 300, 0, 255)
    with pytest.raises(RuntimeError, match="quant_min"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 9, 2)
    with pytest.raises(RuntimeError, match="not consistent"):
        scale, zero = torch.rand(2, device=D), torch.zeros(2, dtype=torch.int32, device=D)
        torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero, 0, 0, 255)


def test_decomposed_operators():
    import torch.ao.quantization.fx._decomposed  # noqa: F401

    q, x = torch.ops.quantized_decomposed, torch.randn(4, 6)
    same(lambda x: q.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8), x)
    codes = q.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)
    same(lambda c: q.dequantize_per_tensor(c, 0.1, 3, 0, 255, torch.uint8), codes, tolerance=1e-6)
    scale, zero = torch.rand(4) * 0.1 + 0.01, torch.zeros(4, dtype=torch.int64)
    same(lambda x, s, z: q.quantize_per_channel(x, s, z, 0, -128, 127, torch.int8), x, scale, zero)


def observe(x, device, state, on=(1, 1), codes=(0, 255), per_row=False, symmetric=False):
    """The rounded input, and the state that the call leaves: extremes, scale and zero point."""
    held = [t.clone().to(device) for t in state]
    switches = [torch.tensor([s], device=device) for s in on]
    call = torch.fused_moving_avg_obs_fake_quant
    return [call(x.to(device), *switches, *held, 0.1, *codes, 0, per_row, symmetric), *held]


def of_rows(n):
    return [-torch.rand(n), torch.rand(n), torch.rand(n), torch.zeros(n, dtype=torch.int32)]


@pytest.mark.parametrize("on", [(1, 1), (0, 1), (1, 0)], ids=str)
@pytest.mark.parametrize("symmetric", [False, True])
def test_moving_averages(on, symmetric):
    """Of a tensor and of its rows; nothing observed before, and something; values so small that torch takes a larger
    scale, of one sign, zero, NaN."""
    fresh = [torch.tensor([torch.inf]), torch.tensor([-torch.inf]), torch.ones(1), torch.zeros(1, dtype=torch.int32)]
    empty = [torch.tensor([]), torch.tensor([]), torch.ones(1), torch.zeros(1, dtype=torch.int32)]
    x = torch.randn(3, 4, 5)
    for values in (x, x * 1e-9, x * 1e-4, x.abs(), -x.abs(), x * 0, torch.where(x > 1, torch.nan, x), x[:0]):
        for codes in ((0, 255), (-8, 7)):
            for per_row, state in ((False, fresh), (False, of_rows(1)), (True, empty), (True, of_rows(len(values)))):
                if state is empty and (not on[1] or not len(values)):
                    continue  # scales stay as they were made: anything
                if per_row and values.isnan().any():
                    continue  # the CPU refuses the zero points that come of it
                wanted = observe(values, "cpu", state, on, codes, per_row, symmetric)
                for got, right in zip(observe(values, D, state, on, codes, per_row, symmetric), wanted):
                    torch.testing.assert_close(got.cpu(), right, rtol=1e-6, atol=1e-12, equal_nan=True)


def test_training_that_knows():
    """A model prepared with torch's fused observers: outputs, gradients, and what was observed."""
    from torch.ao.quantization import FusedMovingAvgObsFakeQuantize as Fused
    from torch.ao.quantization import MovingAveragePerChannelMinMaxObserver

    class Layer(torch.nn.Linear):
        def __init__(self):
            super().__init__(6, 4)
            self.inputs = Fused(quant_min=0, quant_max=255)
            self.weights = Fused(
                MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8,
                qscheme=torch.per_channel_symmetric,
            )  # fmt: skip

        def forward(self, x):
            return torch.nn.functional.linear(self.inputs(x), self.weights(self.weight), self.bias)

    torch.manual_seed(1)
    layer = Layer()
    there = Layer().to(D)
    there.load_state_dict(layer.state_dict())
    for step in range(3):
        if step == 2:
            for module in (layer, there):
                module.apply(torch.ao.quantization.disable_observer)
        x = torch.randn(5, 6) * (step + 1)
        outputs = layer(x), there(x.to(D))
        for module, out in zip((layer, there), outputs):
            module.zero_grad()
            out.square().sum().backward()
        torch.testing.assert_close(outputs[1].cpu(), outputs[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(there.weight.grad.cpu(), layer.weight.grad, rtol=1e-4, atol=1e-4)
    for name, buffer in layer.state_dict().items():
        torch.testing.assert_close(there.state_dict()[name].cpu(), buffer, rtol=1e-5, atol=1e-6)


def test_moving_averages_of_a_wrong_dimension():
    with pytest.raises(RuntimeError, match="ch_axis must be < self.dim"):
        torch.fused_moving_avg_obs_fake_quant(
            *(t.to(D) for t in (torch.randn(3), torch.ones(1), torch.ones(1), *of_rows(1))), 0.1, 0, 255, 1
        )
