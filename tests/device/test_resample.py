"""Interpolation against the CPU, forward and backward: every mode, enlarging and shrinking, layouts and dtypes."""

import re

import pytest
import torch
import torch.nn.functional as F

from tests import needs
from tests.device._compare import close, gradients

GENERATOR = torch.Generator().manual_seed(12)
X = {
    1: torch.randn(2, 3, 11, generator=GENERATOR),
    2: torch.randn(2, 3, 9, 11, generator=GENERATOR),
    3: torch.randn(1, 2, 5, 4, 6, generator=GENERATOR),
}
MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
}
SCALES = [
    {"scale_factor": 2},
    {"scale_factor": 1.7},
    {"scale_factor": 0.6},
    {"size": (7, 5, 3)},
    {"size": (1, 1, 1)},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]


def fit(arguments, dims):
    return {k: v[:dims] if k == "size" else v for k, v in arguments.items()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scale", SCALES)
def test_interpolate(mode, scale):
    for dims in MODES[mode]:
        for corners in (None,) if "nearest" in mode else (False, True):
            arguments = {"mode": mode, "align_corners": corners, **fit(scale, dims)}
            gradients(lambda t: F.interpolate(t, **arguments), X[dims], tolerance=2e-4)  # noqa: B023
            if dims == 2:
                y = X[2].to(memory_format=torch.channels_last)
                gradients(lambda t: F.interpolate(t, **arguments), y, tolerance=2e-4)  # noqa: B023
                gradients(lambda t: F.interpolate(t, **arguments), X[2].transpose(2, 3)[:, 1:], tolerance=2e-4)  # noqa: B023


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("sizes", [(1, 50, 3, 17), (23, 24, 24, 23), (7, 100, 40, 3)])
def test_gradients_find_every_output(mode, sizes):
    x = torch.randn(2, 2, sizes[0], sizes[2], generator=torch.Generator().manual_seed(3))
    for corners in (None,) if "nearest" in mode else (False, True):
        size = sizes[1::2]
        gradients(lambda t: F.interpolate(t, size=size, mode=mode, align_corners=corners), x, tolerance=2e-4)  # noqa: B023


def test_lines_of_the_same_length_are_copied():
    """As torch does, though a scale of 1.3 asks for other places."""
    x = X[1][:, :, :2]
    gradients(lambda t: F.interpolate(t, scale_factor=1.3, mode="linear"), x, tolerance=0)


ANTIALIASED = ["bilinear", "bicubic", *(["lanczos"] if hasattr(torch.ops.aten, "_upsample_lanczos2d_aa") else [])]


@pytest.mark.parametrize("mode", ANTIALIASED)
@pytest.mark.parametrize("scale", SCALES)
def test_antialiased(mode, scale, adapter_class):
    arguments = {"mode": mode, "antialias": True, **fit(scale, 2)}
    gradients(lambda t: F.interpolate(t, **arguments), X[2], tolerance=2e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision(dtype):
    x = X[2].to(dtype)
    for mode in ("bilinear", "bicubic", "nearest"):
        close(F.interpolate(x.to("webgpu"), scale_factor=1.7, mode=mode), F.interpolate(x, scale_factor=1.7, mode=mode))


def test_bytes_and_errors():
    x = (torch.rand(2, 3, 9, 11) * 255).to(torch.uint8)
    close(F.interpolate(x.to("webgpu"), scale_factor=1.7), F.interpolate(x, scale_factor=1.7))
    for mode in ANTIALIASED:
        for antialias in (False, True)[mode == "lanczos" :]:
            for size in ((15, 18), (4, 5), (9, 20)):
                arguments = {"size": size, "mode": mode, "antialias": antialias}
                close(F.interpolate(x.to("webgpu"), **arguments), F.interpolate(x, **arguments))
    for device in ("cpu", "webgpu"):
        with pytest.raises(RuntimeError, match="Input and output sizes should be greater than 0"):
            F.interpolate(X[2].to(device), size=(0, 3), mode="bilinear")


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [False, True])
def test_grid_sample(padding, corners):
    flat = torch.rand(2, 4, 6, 2, generator=GENERATOR) * 3 - 1.5
    solid = torch.rand(1, 3, 4, 2, 3, generator=GENERATOR) * 3 - 1.5
    for mode in ("bilinear", "nearest", "bicubic"):
        for x in (X[2], X[2].to(memory_format=torch.channels_last)):
            gradients(lambda a, b: F.grid_sample(a, b, mode, padding, corners), x, flat, tolerance=5e-4)  # noqa: B023
        if mode != "bicubic" or cubes_of_volumes():
            gradients(lambda a, b: F.grid_sample(a, b, mode, padding, corners), X[3], solid, tolerance=5e-4)  # noqa: B023


def cubes_of_volumes() -> bool:
    """Whether this torch samples volumes so, as 2.15 does. Where it does not, the device refuses it in its words."""
    image, points = torch.ones(2, 2, 2, 2, 2), torch.ones(2, 1, 1, 1, 3)
    try:
        F.grid_sample(image, points, "bicubic", align_corners=True)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=re.escape(str(error))):
            F.grid_sample(image.to("webgpu"), points.to("webgpu"), "bicubic", align_corners=True)
        return False
    return True


def test_affine_grid():
    theta = torch.randn(2, 2, 3, generator=GENERATOR)

    def sample(t):
        grid = F.affine_grid(t, (2, 3, 4, 4), align_corners=False)
        return F.grid_sample(X[2].to(t.device), grid, align_corners=False)

    gradients(sample, theta, tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dims", [2, 3])
def test_a_narrow_grid_s_gradient_is_rounded_as_on_the_cpu(dims, dtype):
    """At every operation: the same bits, up to a few where the CPU's vectors and its remainders differ."""
    needs.newer_torch("2.13", "its CPU rounds elsewhere")
    g = torch.Generator().manual_seed(dims)
    x = torch.randn(2, 3, *(5, 6, 7)[:dims], generator=g).to(dtype)
    grid = (torch.rand(2, *(4, 9, 8)[:dims], dims, generator=g) * 2.4 - 1.2).to(dtype)
    grad = torch.randn(2, 3, *(4, 9, 8)[:dims], generator=g).to(dtype)

    def gradient(device):
        points = grid.to(device).requires_grad_()
        y = torch.nn.functional.grid_sample(x.to(device), points, align_corners=False)
        return torch.autograd.grad(y, points, grad.to(device))[0].cpu()

    ours, theirs = gradient("webgpu"), gradient("cpu")
    assert (ours != theirs).float().mean() < 0.01
    torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_coordinates_that_are_none_sample_nan(mode):
    image = torch.arange(1.0, 17).view(1, 1, 4, 4)
    nan, inf = float("nan"), float("inf")
    grid = torch.tensor([[nan, 0.0], [0.0, nan], [inf, 0.0], [0.1, 0.1], [5.0, 0.0]]).view(1, 1, 5, 2)
    for corners in (True, False):
        expected = F.grid_sample(image, grid, mode, align_corners=corners)
        found = F.grid_sample(image.to("webgpu"), grid.to("webgpu"), mode, align_corners=corners).cpu()
        torch.testing.assert_close(found, expected, equal_nan=True)
        assert expected.isnan().sum() == 3


def test_smoothed_images_spread_no_nan_by_weights_of_zero():
    image = torch.arange(1.0, 26).view(1, 1, 5, 5)
    image[0, 0, 2, 2] = float("nan")
    expected = F.interpolate(image, (10, 10), mode="bilinear", antialias=True)
    found = F.interpolate(image.to("webgpu"), (10, 10), mode="bilinear", antialias=True).cpu()
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.bool, torch.int64, torch.uint8, torch.complex64])
@pytest.mark.parametrize("mode", MODES)
def test_dtypes_without_a_kernel_are_refused(mode, dtype):
    for dims in MODES[mode]:
        x = X[dims].to(dtype)
        if dtype is torch.uint8 and (mode.startswith("nearest") or dims == 2):
            close(F.interpolate(x.to("webgpu"), scale_factor=2, mode=mode), F.interpolate(x, scale_factor=2, mode=mode))
            continue
        for device in ("cpu", "webgpu"):
            with pytest.raises(NotImplementedError, match="not implemented for"):
                F.interpolate(x.to(device), scale_factor=2, mode=mode)


@pytest.mark.parametrize(
    ("mode", "inner", "factor"),
    [
        ("nearest", (11,), 1.05), ("linear", (11,), 1.05), ("nearest", (10, 20), (1.05, 0.5)),
        ("nearest-exact", (10, 20), (1.05, 0.5)), ("bilinear", (10, 20), (1.05, 0.5)),
        ("bilinear", (10, 20), (0.5, 1.04)),
        ("bicubic", (10, 20), (1.05, 0.5)), ("nearest", (4, 5, 6), 1.1), ("trilinear", (4, 5, 6), (1.1, 0.5, 1.1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("antialias", [False, True])
def test_as_many_outputs_as_inputs_are_copies_whatever_the_scale(mode, inner, factor, antialias):
    """A factor of 1.05 gives ten of ten. The CPU copies them but for some modes; gradients are those of the same places
    here, which the CPU's are not everywhere."""
    antialias = antialias and mode in ("bilinear", "bicubic")
    x = torch.randn(1, 2, *inner)

    def call(x):
        return F.interpolate(x, scale_factor=factor, mode=mode, antialias=antialias)

    expected, leaf = call(x), x.to("webgpu").requires_grad_()
    got = call(leaf)
    close(got, expected, 1e-4)
    weights = torch.randn(expected.shape)
    got.backward(weights.to("webgpu"))
    along = torch.randn(x.shape)  # a linear map's transpose: <A v, w> = <v, A^T w>
    torch.testing.assert_close((call(along) * weights).sum(), (leaf.grad.cpu() * along).sum(), rtol=1e-3, atol=1e-3)
