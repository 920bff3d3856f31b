"""Pooling against the CPU, forward and backward: windows, padding, layouts, dtypes, NaN, errors."""

import pytest
import torch
import torch.nn.functional as F

from tests.device._adapter import kernels_of
from tests.device._compare import close, gradients

X = torch.randn(2, 3, 11, 13, generator=torch.Generator().manual_seed(5))
V = torch.randn(2, 3, 5, 7, 6, generator=torch.Generator().manual_seed(6))
LAYOUTS = [X, X[0], X.to(memory_format=torch.channels_last), X.transpose(2, 3), X[:, 1:, ::2]]
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "ceil_mode": True},
]


@pytest.mark.parametrize("window", WINDOWS)
def test_max_pool2d(window, adapter_class):
    for x in LAYOUTS:
        for extra in ({}, {"dilation": (1, 2)}):
            arguments = {**window, **extra, "return_indices": True}
            close(F.max_pool2d(x.to("webgpu"), **arguments), F.max_pool2d(x, **arguments))
            gradients(lambda t: F.max_pool2d(t, **window, **extra), x)  # noqa: B023
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        x = (X * 9).to(dtype)
        close(F.max_pool2d(x.to("webgpu"), **window), F.max_pool2d(x, **window))


def test_places_of_maxima_are_for_gradients():
    """What nothing differentiates does not write them."""
    for pool, x in ((F.max_pool2d, X), (F.max_pool3d, V)):
        inside = x.clone()
        inside[0, 0, 0, 0] = float("nan")
        for y in (x, inside, x.half(), x[:0]):
            close(pool(y.to("webgpu"), 2), pool(y, 2))
        device = x.to("webgpu")
        assert [k.split("_")[1] for k in kernels_of(lambda: pool(device, 2))] == ["largest"]  # noqa: B023
        leaf = device.clone().requires_grad_()
        assert [k.split("_")[1] for k in kernels_of(lambda: pool(leaf, 2))] == ["max"]  # noqa: B023
        with torch.no_grad():
            assert [k.split("_")[1] for k in kernels_of(lambda: pool(leaf, 2))] == ["largest"]  # noqa: B023


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("include_pad", [True, False])
@pytest.mark.parametrize("divisor", [None, 5, -3])
def test_avg_pool2d(window, include_pad, divisor):
    arguments = {**window, "count_include_pad": include_pad, "divisor_override": divisor}
    for x in LAYOUTS:
        gradients(lambda t: F.avg_pool2d(t, **arguments), x)
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        x = (X * 9).to(dtype)
        close(F.avg_pool2d(x.to("webgpu"), **arguments), F.avg_pool2d(x, **arguments))


@pytest.mark.parametrize("size", [(5, 7), (11, 13), (3, None), (20, 30), (1, 4)])
def test_adaptive(size, adapter_class):
    for x in (X, X[1], X.to(memory_format=torch.channels_last)):
        gradients(lambda t: F.adaptive_avg_pool2d(t, size), x)
        gradients(lambda t: F.adaptive_max_pool2d(t, size), x)
    ours, theirs = F.adaptive_max_pool2d(X.to("webgpu"), size, True), F.adaptive_max_pool2d(X, size, True)
    close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_windows_far_larger_than_the_image(dtype):
    """EfficientNet's last pool: as wide as it has channels. What lies outside is not visited, so no loop is long."""
    for x in (X.to(dtype), X.to(dtype).to(memory_format=torch.channels_last)):
        for size in (300, 2560, (3, 70000)):
            for include_pad in (True, False):
                arguments = {"kernel_size": size, "ceil_mode": True, "count_include_pad": include_pad}
                close(F.avg_pool2d(x.to("webgpu"), **arguments), F.avg_pool2d(x, **arguments))
                if dtype is torch.float32:
                    gradients(lambda t: F.avg_pool2d(t, **arguments), x)  # noqa: B023
            close(F.max_pool2d(x.to("webgpu"), size, ceil_mode=True), F.max_pool2d(x, size, ceil_mode=True))
    gradients(lambda t: F.max_pool2d(t, 300, ceil_mode=True), X)


def test_other_dimensions():
    gradients(lambda t: F.max_pool3d(t, 3, 2, 1), V)
    gradients(lambda t: F.max_pool3d(t, 2, ceil_mode=True), V.to(memory_format=torch.channels_last_3d))
    gradients(lambda t: F.avg_pool3d(t, 3, 2, 1, ceil_mode=True, count_include_pad=False), V)
    gradients(lambda t: F.adaptive_avg_pool3d(t, (2, 3, 5)), V)
    gradients(lambda t: F.adaptive_max_pool3d(t, (2, 3, 5)), V)
    row = X[0]
    gradients(lambda t: F.max_pool1d(t, 3, 2, 1), row)
    gradients(lambda t: F.avg_pool1d(t, 3, 2, 1), row)
    gradients(lambda t: F.adaptive_avg_pool1d(t, 7), row)
    gradients(lambda t: F.adaptive_max_pool1d(t, 7), row)


def test_fractional():
    flat, solid = torch.rand(2, 3, 2), torch.rand(2, 3, 3)
    two = torch.ops.aten.fractional_max_pool2d
    three = torch.ops.aten.fractional_max_pool3d
    close(two(X.to("webgpu"), [2, 3], [4, 5], flat.to("webgpu")), two(X, [2, 3], [4, 5], flat))
    close(three(V.to("webgpu"), [2, 3, 2], [2, 3, 4], solid.to("webgpu")), three(V, [2, 3, 2], [2, 3, 4], solid))


def test_special_values():
    x = X.clone()
    x[0, 0, 3, 3] = float("nan")
    x[1] = -float("inf")
    close(F.max_pool2d(x.to("webgpu"), 3, 2, 1, return_indices=True), F.max_pool2d(x, 3, 2, 1, return_indices=True))
    close(F.avg_pool2d(x.to("webgpu"), 3, 2, 1), F.avg_pool2d(x, 3, 2, 1))
    empty = torch.empty(0, 3, 8, 8)
    close(F.max_pool2d(empty.to("webgpu"), 2), F.max_pool2d(empty, 2))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda t: F.max_pool2d(t, 2, padding=2), "pad should be at most half"),
        (lambda t: F.avg_pool2d(t, 40), "Output size is too small"),
        (lambda t: F.max_pool2d(t, (2, 2, 2)), "kernel_size must either be a single int"),
    ],
)
def test_errors(call, words):
    for x in (X, X.to("webgpu")):
        with pytest.raises(RuntimeError, match=words):
            call(x)


def test_scattered_gradients():
    flat = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(14))

    def fractional(t):
        return torch.ops.aten.fractional_max_pool2d(t, [2, 3], [4, 5], flat.to(t.device))[0]

    def unpooled(t):
        return F.max_unpool2d(*F.max_pool2d(t, 2, return_indices=True), 2, output_size=t.shape[-2:])

    gradients(fractional, X)
    gradients(unpooled, X)
    gradients(lambda t: F.lp_pool2d(t, 2, 3), X)
    gradients(lambda t: F.adaptive_avg_pool2d(t, 1), X)


def test_fractional_pools_of_negative_windows_are_refused():
    """The CPU reads before the plane."""
    with pytest.raises(RuntimeError, match="pool height -2 is negative"):
        F.fractional_max_pool2d(torch.ones(1, 1, 8, 8, device="webgpu"), (-2, 2), output_size=(3, 3))
    with pytest.raises(RuntimeError, match="pool width -1 is negative"):
        F.fractional_max_pool3d(torch.ones(1, 1, 8, 8, 8, device="webgpu"), (2, 2, -1), output_size=(3, 3, 3))


def test_one_volume_is_no_batch_of_images():
    """It has four dimensions as well, and a pooled row of depths looks as if its channels were innermost."""
    x = torch.randn(2, 6, 3, 2, generator=torch.Generator().manual_seed(7))
    window = {"kernel_size": (3, 3, 2), "stride": 3}
    for pool in (
        lambda t: F.max_pool3d(t, **window),
        lambda t: F.avg_pool3d(t, **window),
        lambda t: F.adaptive_max_pool3d(t, (2, 1, 1)),
        lambda t: F.adaptive_avg_pool3d(t, (2, 1, 1)),
        lambda t: F.adaptive_avg_pool3d(t[..., :1, :1], (4, 1, 1)),
    ):
        gradients(pool, x)
        close(pool(x.to("webgpu")), pool(x))
        close(pool(x.to("webgpu", memory_format=torch.channels_last)), pool(x))  # the CPU refuses some of these
    close(F.max_pool3d(x.to("webgpu"), **window, return_indices=True), F.max_pool3d(x, **window, return_indices=True))


@pytest.mark.parametrize("shape", [(6, 5, 7, 8), (3, 4, 4, 4)], ids=str)
def test_one_volume_keeps_its_channels_innermost(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x = x.movedim(0, -1).contiguous().movedim(-1, 0)

    def run(device):
        given = x.to(device).requires_grad_()
        out, places = F.max_pool3d(given, 2, return_indices=True)
        out.backward(torch.ones_like(out))
        return out.detach(), places, given.grad

    for ours, theirs in zip(run("webgpu"), run("cpu")):
        assert ours.stride() == theirs.stride() and torch.equal(ours.cpu(), theirs)
