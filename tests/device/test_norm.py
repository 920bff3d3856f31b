"""Layer, group, batch, instance and rms norm against the CPU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from tests import needs
from tests.device._compare import gradients

TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}
DTYPES = list(TOLERANCE)


def check(function, *inputs):
    gradients(function, *inputs, tolerance=TOLERANCE[inputs[0].dtype])


def data(shape, *parameters, dtype=torch.float32):
    torch.manual_seed(0)
    return [(torch.randn(shape) * 2 + 1).to(dtype)] + [torch.randn(p).to(dtype) for p in parameters]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("shape", "last"), [((4, 10), 1), ((3, 5, 64), 1), ((3, 4, 6), 2), ((2, 3, 1001), 1), ((7,), 1), ((2, 20000), 1)]
)
def test_layer_and_rms(shape, last, dtype):
    own = shape[-last:]
    x, w, b = data(shape, own, own, dtype=dtype)
    check(lambda x, w, b: F.layer_norm(x, own, w, b), x, w, b)
    check(lambda x: F.layer_norm(x, own), x)
    check(lambda x, w: F.layer_norm(x, own, w), x, w)
    check(lambda x, w: F.rms_norm(x, own, w), x, w)
    check(lambda x: F.rms_norm(x, own, eps=1e-3), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "groups"), [((2, 6, 5), 3), ((3, 8, 4, 4), 2), ((2, 4), 2), ((1, 12, 7, 9), 12)])
def test_group(shape, groups, dtype):
    x, w, b = data(shape, shape[1], shape[1], dtype=dtype)
    check(lambda x, w, b: F.group_norm(x, groups, w, b), x, w, b)
    check(lambda x: F.group_norm(x, groups), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(8, 5), (4, 6, 7), (2, 16, 8, 8), (3, 3, 2, 3, 4), (16, 3, 40, 40)], ids=str)
def test_batch(shape, dtype):
    channels = shape[1]
    x, w, b, mean = data(shape, channels, channels, channels, dtype=dtype)
    var = mean.abs() + 0.5
    for training in (True, False):
        running = {}

        def norm(x, w, b, training=training, running=running):
            own = mean.to(x.device, copy=True), var.to(x.device, copy=True)
            y = F.batch_norm(x, *own, w, b, training=training)
            running[x.device.type] = own
            return y

        check(norm, x, w, b)
        for got, expected in zip(running["webgpu"], running["cpu"], strict=True):
            torch.testing.assert_close(got.cpu(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    check(lambda x: F.batch_norm(x, None, None, training=True), x)
    if len(shape) > 2:
        check(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), x, w, b)


def test_layouts_and_mixed_dtypes():
    (x,) = data((2, 8, 5, 6))
    last = x.to(memory_format=torch.channels_last)
    check(lambda t: F.batch_norm(t, None, None, training=True), last)
    check(lambda t: F.group_norm(t, 4), last)
    check(lambda t: F.instance_norm(t), last)
    kept = torch.rand(8)
    check(lambda t: F.instance_norm(t, kept.to(t.device), kept.to(t.device) + 1, use_input_stats=False), x)
    check(lambda t: F.instance_norm(t, kept.to(t.device, copy=True), kept.to(t.device, copy=True)), x)
    check(lambda t: F.layer_norm(t.transpose(1, 3), (5, 8)), x)
    check(lambda t: F.layer_norm(t[:, 1:, :, 1:], (5,)), x)
    weight = torch.ones(6)
    for got, expected in zip(
        torch.native_layer_norm(x.half().to("webgpu"), (6,), weight.to("webgpu"), None, 1e-5),
        torch.native_layer_norm(x.half(), (6,), weight, None, 1e-5),
        strict=True,
    ):
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-3, atol=1e-3)


def test_empty_rows():
    x = torch.empty(0, 10)
    for function in (F.layer_norm, F.rms_norm):
        assert function(x.to("webgpu"), (10,)).shape == (0, 10)


def test_one_dispatch():
    x = torch.randn(16, 64).to("webgpu")
    w = torch.ones(64).to("webgpu")
    image = x.view(2, 8, 8, 8)
    calls = (lambda: F.layer_norm(x, (64,), w, w), lambda: F.rms_norm(x, (64,), w), lambda: F.instance_norm(image))
    for function in calls:
        function()
        before = webgpu_backend.stats()["dispatches"]
        function()
        assert webgpu_backend.stats()["dispatches"] - before == 1


@pytest.mark.parametrize("call", [lambda x: F.layer_norm(x, (9,)), lambda x: F.layer_norm(x, (10,), x[0, :9])])
def test_errors_are_torchs(call):
    x = torch.randn(4, 10)
    with pytest.raises(RuntimeError) as expected:
        call(x)
    with pytest.raises(RuntimeError) as got:
        call(x.to("webgpu"))
    assert str(got.value) == str(expected.value)


@pytest.mark.parametrize("weight", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.filterwarnings("ignore:Mismatch dtype")
def test_rms_norm_keeps_the_dtype_of_its_input(dtype, weight):
    if weight is torch.float64:
        needs.feature("f64")
    x, w = torch.randn(3, 8).to(dtype), torch.rand(8).to(weight)
    expected = F.rms_norm(x, (8,), w, 1e-6)
    got = F.rms_norm(x.to("webgpu"), (8,), w.to("webgpu"), 1e-6)
    assert got.dtype is expected.dtype is dtype
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-2, atol=1e-2)
    leaf = x.to("webgpu").requires_grad_()
    assert F.rms_norm(leaf, (8,), w.to("webgpu"), 1e-6).dtype is dtype


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_parameters_that_are_no_floats(dtype):
    for device in ("cpu", "webgpu"):
        x, one, w = (
            torch.randn(2, 4, device=device),
            torch.ones(4, device=device),
            torch.ones(4, device=device).to(dtype),
        )
        for call in (
            lambda: F.layer_norm(x, (4,), w, one),
            lambda: F.layer_norm(x, (4,), one, w),
            lambda: F.group_norm(x, 2, w, one),
            lambda: F.group_norm(x, 2, one, w),
            lambda: F.batch_norm(x, None, None, w, one, training=True),
            lambda: F.batch_norm(x, one, w, training=False),
        ):
            with pytest.raises(RuntimeError):
                call()
