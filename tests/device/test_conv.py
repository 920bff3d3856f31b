"""Convolutions and their gradients against CPU torch."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.kernels.conv import by_tables, few_outputs
from webgpu_backend.kernels.matmul import tiles
from webgpu_backend.ops.conv import winograd
from webgpu_backend.plan import caps

TOLERANCE = {torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}
# function, input, weight, options
CASES = {
    "1d": (F.conv1d, (2, 4, 11), (6, 4, 3), {}),
    "1d_strided": (F.conv1d, (2, 4, 12), (6, 4, 4), {"stride": 2, "padding": 3, "dilation": 2}),
    "2d": (F.conv2d, (2, 3, 9, 10), (5, 3, 3, 3), {"padding": 1}),
    "2d_same": (F.conv2d, (2, 3, 9, 10), (5, 3, 3, 4), {"padding": "same"}),
    "2d_valid": (F.conv2d, (2, 3, 9, 10), (5, 3, 3, 4), {"padding": "valid", "stride": 2}),
    "2d_pointwise": (F.conv2d, (3, 8, 6, 6), (12, 8, 1, 1), {}),
    "2d_pointwise_strided": (F.conv2d, (3, 8, 7, 6), (12, 8, 1, 1), {"stride": 2}),
    "2d_strided": (F.conv2d, (2, 4, 11, 9), (18, 4, 3, 2), {"stride": (2, 3), "padding": (1, 0), "dilation": (1, 2)}),
    "2d_groups": (F.conv2d, (2, 6, 7, 7), (9, 2, 3, 3), {"groups": 3, "padding": 1}),
    "2d_depthwise": (F.conv2d, (2, 6, 8, 7), (12, 1, 3, 3), {"groups": 6, "stride": 2, "padding": 1}),
    "2d_phases": (F.conv2d, (2, 3, 12, 13), (4, 3, 2, 5), {"stride": (3, 2), "padding": (1, 2)}),
    "3d": (F.conv3d, (1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": (1, 0, 2), "stride": (1, 2, 1)}),
    "2d_wide": (F.conv2d, (2, 12, 9, 10), (20, 12, 3, 3), {"padding": 1}),
    "2d_wide_strided": (F.conv2d, (3, 12, 11, 9), (20, 12, 3, 3), {"stride": 2, "padding": 1}),
    "2d_wide_groups": (F.conv2d, (2, 24, 7, 7), (36, 12, 3, 2), {"groups": 2, "stride": (2, 1), "padding": (0, 1)}),
    "2d_wide_dilated": (F.conv2d, (2, 11, 12, 9), (13, 11, 3, 3), {"stride": 2, "dilation": 2, "padding": 1}),
    "2d_wide_pointwise": (F.conv2d, (3, 20, 6, 6), (12, 20, 1, 1), {}),
    "2d_wide_pointwise_odd": (F.conv2d, (3, 18, 7, 7), (34, 18, 1, 1), {}),
    "2d_wide_pointwise_strided": (F.conv2d, (3, 16, 7, 6), (12, 16, 1, 1), {"stride": 2}),
    "2d_large_window": (F.conv2d, (2, 9, 21, 18), (10, 9, 7, 7), {"stride": 2, "padding": 3}),
    "1d_large_window": (F.conv1d, (2, 10, 60), (12, 10, 31), {"padding": 15}),
    "1d_wide": (F.conv1d, (2, 10, 41), (12, 10, 5), {"padding": 2}),
    "1d_depthwise": (F.conv1d, (2, 6, 19), (6, 1, 4), {"groups": 6, "padding": 3}),
    "3d_wide": (F.conv3d, (2, 10, 5, 4, 5), (12, 10, 2, 3, 3), {"padding": 1, "stride": (1, 2, 1)}),
    "3d_depthwise": (F.conv3d, (2, 3, 5, 6, 5), (6, 1, 3, 3, 2), {"groups": 3, "padding": 1, "dilation": (1, 2, 1)}),
    "t2d_wide": (F.conv_transpose2d, (2, 12, 5, 6), (12, 10, 3, 4), {"stride": 2, "padding": 1, "output_padding": 1}),
    "t2d_depthwise": (F.conv_transpose2d, (2, 6, 5, 6), (6, 2, 3, 3), {"groups": 6, "stride": 2, "padding": 1}),
    "2d_tiles": (F.conv2d, (2, 32, 6, 8), (36, 32, 3, 3), {"padding": 1}),
    "2d_tiles_odd": (F.conv2d, (3, 33, 5, 7), (34, 33, 3, 3), {"padding": (0, 2)}),
    "t2d_tiles": (F.conv_transpose2d, (1, 32, 5, 4), (32, 33, 3, 3), {"padding": 1}),
    "t1d": (F.conv_transpose1d, (2, 4, 7), (4, 5, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "t2d": (F.conv_transpose2d, (2, 4, 5, 6), (4, 3, 3, 3), {"stride": (2, 1), "padding": 1}),
    "t2d_groups": (F.conv_transpose2d, (2, 6, 5, 4), (6, 2, 3, 2), {"groups": 3, "dilation": 2, "stride": 2}),
    "2d_few": (F.conv2d, (2, 40, 12, 11), (3, 40, 3, 3), {"padding": 1}),
    "2d_few_strided": (F.conv2d, (2, 19, 9, 8), (5, 19, 3, 2), {"padding": 1, "dilation": (1, 2), "stride": (2, 1)}),
    "2d_few_pointwise": (F.conv2d, (3, 18, 7, 7), (2, 18, 1, 1), {}),
    "2d_few_image": (F.conv2d, (2, 3, 20, 22), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
    "2d_few_groups": (F.conv2d, (2, 12, 9, 8), (8, 6, 3, 3), {"groups": 2, "padding": 1, "stride": (1, 2)}),
    "2d_few_skipping": (F.conv2d, (2, 3, 20, 17), (10, 3, 2, 3), {"stride": (5, 4), "padding": 1}),
    "1d_few": (F.conv1d, (2, 130, 40), (1, 130, 5), {"padding": 2, "stride": 3}),
    "3d_few": (F.conv3d, (2, 5, 4, 5, 6), (3, 5, 3, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
    "t1d_few": (F.conv_transpose1d, (2, 70, 9), (70, 1, 16), {"stride": 8, "padding": 4}),
    "t2d_few": (F.conv_transpose2d, (2, 17, 9, 8), (17, 3, 4, 4), {"stride": 2, "padding": 1}),
    "t2d_few_odd": (
        F.conv_transpose2d,
        (2, 17, 5, 8),
        (17, 6, 4, 5),
        {"stride": (3, 2), "padding": 1, "output_padding": 1},
    ),
    "t2d_few_dilated": (F.conv_transpose2d, (2, 18, 9, 8), (18, 2, 3, 5), {"padding": (0, 3), "dilation": 2}),
    "t3d_few": (F.conv_transpose3d, (2, 5, 4, 3, 4), (5, 3, 3, 3, 2), {"stride": 2, "padding": 1}),
    "t3d": (F.conv_transpose3d, (1, 2, 3, 4, 3), (2, 3, 2, 3, 2), {"stride": 2, "output_padding": (1, 0, 1)}),
}


@pytest.fixture
def big_gpu(monkeypatch, adapter_of):
    adapter_of(kind="gpu", matrix=0)
    monkeypatch.setattr(winograd, "FEWEST", 1)
    monkeypatch.setattr(winograd, "TILES", 1)
    monkeypatch.setattr(tiles, "_used", replace(tiles.GPU, tiles=(tiles.Tile(32, 32, 8, 4, 4),), halves=()))
    monkeypatch.setattr(by_tables, "ROWS", (by_tables.Row(tiles.Tile(32, 32, 8, 4, 4), 1, 1, 1, 1, 0),))


def run(case, dtype, bias=True, change=lambda x: x, times=1):
    """Results of the last of `times` calls: a repeated one is recorded without being planned."""
    function, x_shape, w_shape, options = CASES[case]
    out_channels = w_shape[0] if "conv_t" not in function.__name__ else w_shape[1] * options.get("groups", 1)
    tensors = [torch.randn(x_shape), torch.randn(w_shape), torch.randn(out_channels)][: 3 if bias else 2]
    results = []
    for device in ("cpu", "webgpu"):
        leaves = [t.to(dtype).to(device).requires_grad_() for t in tensors]
        for _ in range(times if device == "webgpu" else 1):
            y = function(change(leaves[0]), *leaves[1:], **options)
            weights = torch.linspace(-1, 1, y.numel()).view(y.shape).to(dtype).to(device)
            grads = torch.autograd.grad(y, leaves, weights)
        results.append([y, *grads])
    for wanted, got in zip(*results):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        scale = max(1.0, wanted.abs().max().item())
        torch.testing.assert_close(got.cpu(), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("case", [c for c in CASES if not {"wide", "large", "tiles", "few"} & {*c.split("_")}])
def test_forward_and_gradients(case):
    run(case, torch.float32)


BIG = [c for c in CASES if "wide" in c or "large" in c or "depthwise" in c] + ["2d", "2d_strided", "2d_groups", "t2d"]


@pytest.mark.parametrize("case", BIG)
def test_big_gpu_kernels(case, big_gpu):
    run(case, torch.float32, times=3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", ["2d_tiles", "2d_tiles_odd", "t2d_tiles"])
def test_big_gpu_tiles(case, dtype, big_gpu):
    kernels = kernels_of(lambda: run(case, dtype, times=3))
    assert any(name.startswith("winograd") for name in kernels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_big_gpu_tiles_keep_infinities_in_their_places(dtype, big_gpu):
    x, w = torch.randn(2, 32, 9, 10), torch.randn(33, 32, 3, 3)
    x[0, 3, 4, 5], x[0, 7, 0, 0], x[1, 30, 8, 9] = math.inf, -math.inf, math.nan
    x[1, 2, 2, 2] = 3e38 if dtype == torch.float32 else 6e4  # the transforms alone overflow
    x, w = x.to(dtype), (w * 0.1).to(dtype)
    w[5, 1, 1, 2 if dtype == torch.float32 else 1] = -math.inf  # the CPU's other kernels multiply the padding, too
    results = []

    def both_passes(device):
        leaf = x.to(device).requires_grad_()
        y = F.conv2d(leaf, w.to(device), padding=1)
        dy = torch.linspace(-1, 1, y.numel()).view(y.shape).to(dtype)
        dy[0, 2, 3, 3], dy[1, 4, 7, 2] = math.inf, math.nan
        results.append((y.detach(), *torch.autograd.grad(y, leaf, dy.to(device))))

    both_passes("cpu")
    kernels = kernels_of(lambda: both_passes("webgpu"))
    assert any(name.startswith("winograd") for name in kernels)
    for wanted, got in zip(*results):
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-2, atol=1e-2, equal_nan=True)


@pytest.mark.parametrize("case", [c for c in CASES if "few" in c])
def test_big_gpu_few_outputs(case, big_gpu):
    kernels = kernels_of(lambda: run(case, torch.float32, times=3))
    assert any(name.startswith("conv_few_weight") for name in kernels)


@pytest.fixture(params=[1, 2])
def units(request, monkeypatch, adapter_of):
    """Matrix units, with tiles of one and of two stages."""
    needs.feature("matrix")
    adapter_of(kind="gpu")
    n = caps().matrix
    tile = tiles.UnitTile(2 * n, 2 * n, 2 * n, n, n, request.param)
    monkeypatch.setattr(by_tables, "UNIT_ROWS", (by_tables.Row(tile, 1, 1, 1, 1, 0),))
    torch.manual_seed(0)


@pytest.mark.parametrize("case", [c for c in CASES if {"wide", "tiles"} & {*c.split("_")}] + ["2d_large_window"])
def test_matrix_units(case, units):
    kernels = kernels_of(lambda: run(case, torch.float16, times=2))
    assert any("units" in name for name in kernels), kernels


def test_matrix_units_layouts_and_split_sums(units):
    run("2d_wide", torch.float16, bias=False, change=lambda x: x.contiguous(memory_format=torch.channels_last))
    run("2d_wide", torch.float16, change=lambda x: x.transpose(2, 3)[:, :, 1:])
    run("2d_wide_pointwise", torch.float16, change=lambda x: x[:, :, ::2, 1:])
    x, w, b = torch.randn(3, 600, 3, 3) / 8, torch.randn(11, 600, 1, 1) / 8, torch.randn(11)
    x, w, b = (t.half() for t in (x, w, b))
    moved, made = [t.to("webgpu") for t in (x, w, b)], []
    kernels = kernels_of(lambda: made.append(F.conv2d(*moved)))
    assert "units" in kernels[0]
    torch.testing.assert_close(made[0].cpu(), F.conv2d(x, w, b), rtol=2e-3, atol=2e-3)


def test_matrix_units_keep_infinities_in_their_places(units):
    x, w = torch.randn(2, 32, 9, 10), torch.randn(33, 32, 3, 3) * 0.1
    x[0, 3, 4, 5], x[0, 7, 0, 0], x[1, 30, 8, 9] = math.inf, -math.inf, math.nan
    x, w = x.half(), w.half()
    w[5, 1, 1, 1] = -math.inf
    results = []

    def both_passes(device):
        leaf = x.to(device).requires_grad_()
        y = F.conv2d(leaf, w.to(device), padding=1)
        dy = torch.linspace(-1, 1, y.numel()).view(y.shape).half()
        dy[0, 2, 3, 3], dy[1, 4, 7, 2] = math.inf, math.nan
        results.append((y.detach(), *torch.autograd.grad(y, leaf, dy.to(device))))

    both_passes("cpu")
    kernels = kernels_of(lambda: both_passes("webgpu"))
    assert any("units" in name for name in kernels)
    for wanted, got in zip(*results):
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-2, atol=1e-2, equal_nan=True)


@pytest.mark.parametrize("pixels", [2, 4, 8])
def test_big_gpu_few_outputs_of_many_pixels(pixels, big_gpu, monkeypatch):
    """As on images large enough for the whole card, whose sums are not split either."""
    monkeypatch.setattr(few_outputs, "pixels", lambda *_: pixels)
    monkeypatch.setattr(few_outputs, "SPLIT", 1 << 20)
    for case in ("2d_few", "2d_few_image", "t2d_few_odd"):
        run(case, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "case", ["2d_wide", "2d_wide_pointwise", "2d_wide_strided", "2d_depthwise", "2d_few", "2d_few_image", "t2d_few"]
)
def test_big_gpu_narrow_dtypes(case, dtype, big_gpu):
    run(case, dtype)


def test_big_gpu_layouts(big_gpu):
    run("2d_wide", torch.float32, bias=False, change=lambda x: x.contiguous(memory_format=torch.channels_last))
    run("2d_wide", torch.float32, change=lambda x: x.transpose(2, 3)[:, :, 1:])
    run("2d_wide_pointwise", torch.float32, change=lambda x: x[:, :, ::2, 1:])
    run("2d_depthwise", torch.float32, change=lambda x: x.transpose(2, 3)[:, :, 1:])
    run("2d_few", torch.float32, change=lambda x: x.transpose(2, 3)[:, :, 1:])
    run("t2d_few", torch.float32, change=lambda x: x[:, :, ::2, 1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_big_gpu_sums_are_split(dtype, big_gpu):
    """Few outputs of long sums: the parts are added up by a second kernel, with the bias."""
    x, w, b = torch.randn(3, 600, 3, 3) / 8, torch.randn(11, 600, 1, 1) / 8, torch.randn(11)
    x, w, b = (t.to(dtype) for t in (x, w, b))
    moved, made = [t.to("webgpu") for t in (x, w, b)], []
    kernels = kernels_of(lambda: made.append(F.conv2d(*moved)))
    assert len(kernels) == 2 and kernels[1].startswith("conv_finish") and kernels[1].endswith("_bias")
    torch.testing.assert_close(made[0].cpu(), F.conv2d(x, w, b), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(
    "case", ["2d_wide_pointwise_odd", "2d_wide_strided", "2d_large_window", "2d_few_strided", "2d_few_image"]
)
def test_big_gpu_infinities_stay_where_they_are(case, big_gpu):
    """What is read past the end of a sum or outside the image counts as zero, whatever is there. (Some of the CPU's
    kernels multiply the padding: there it computes with large numbers instead of infinities.)"""
    function, x_shape, w_shape, options = CASES[case]
    x, w = torch.randn(x_shape), torch.randn(w_shape)
    x[0, -1, 0, 0] = x[-1, 0, -1, -1] = float("inf")
    dy = torch.randn(function(x, w, **options).shape)
    dy[0, -1, 0, 0] = dy[-1, 0, -1, -1] = float("-inf")

    def all_of(x, w, dy):
        x, w = x.requires_grad_(), w.requires_grad_()
        y = function(x, w, **options)
        return [y.detach(), *torch.autograd.grad(y, (x, w), dy)]

    got = all_of(*[t.to("webgpu") for t in (x, w, dy)])
    wanted = all_of(*[t.double().nan_to_num(posinf=1e100, neginf=-1e100) for t in (x, w, dy)])
    for mine, theirs in zip(got, wanted):
        finite = theirs.abs() < 1e50
        assert torch.equal(mine.cpu().isfinite(), finite)
        torch.testing.assert_close(mine.cpu()[finite], theirs[finite].float(), rtol=2e-4, atol=2e-3)


def meets_what_it_reaches(function, finite, other, dtype):
    """`function` of two operands, of which the second has an infinity at its first place: the outputs that it reaches
    are infinite, and nothing else is touched. (Some of the CPU's kernels multiply the padding, too.)"""
    one = torch.zeros_like(other)
    one.view(-1)[0] = 1
    reached, sign = function(torch.ones_like(finite), one) > 0, function(finite, one)
    wanted = torch.where(reached, sign * math.inf, function(finite, other * (1 - one)))
    spoilt = other.clone()
    spoilt.view(-1)[0] = math.inf
    got = function(finite.to(dtype).to("webgpu"), spoilt.to(dtype).to("webgpu")).cpu().double()
    assert reached.any() and not reached.all()
    tolerance = TOLERANCE.get(dtype, 1e-12)
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=10 * tolerance)


def infinities_by_all_ways(case, dtype):
    function, x_shape, w_shape, options = CASES[case]
    x, w = torch.randn(x_shape).double(), torch.randn(w_shape).double()

    def of_image(dy, w):
        image = torch.ones(x_shape, dtype=dy.dtype, device=dy.device).requires_grad_()
        return torch.autograd.grad(function(image, w, **options), image, dy)[0]

    def of_weight(x, dy):
        weight = torch.ones(w_shape, dtype=x.dtype, device=x.device).requires_grad_()
        return torch.autograd.grad(function(x, weight, **options), weight, dy)[0]

    dy = torch.randn(function(x, w, **options).shape).double()
    x, w, dy = (t.to(dtype).double() for t in (x, w, dy))
    meets_what_it_reaches(lambda x, w: function(x, w, **options), x, w, dtype)
    meets_what_it_reaches(of_image, dy, w, dtype)
    meets_what_it_reaches(of_weight, x, dy, dtype)


INFINITE = ["1d_strided", "2d", "2d_strided", "2d_groups", "2d_phases", "3d", "t1d", "t2d", "t2d_groups"]


@pytest.mark.parametrize("case", INFINITE)
def test_infinite_weights_and_gradients_meet_what_they_reach(case):
    infinities_by_all_ways(case, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_infinite_weights_in_other_dtypes(dtype):
    with needs.float64_if_asked():
        infinities_by_all_ways("2d", dtype)
        infinities_by_all_ways("t1d", dtype)


BIG_INFINITE = [
    "2d_wide", "2d_wide_strided", "2d_wide_groups", "2d_wide_dilated", "1d_large_window", "1d_wide", "3d_wide",
    "t2d_wide", "2d_few", "2d_few_strided", "2d_few_image", "2d_depthwise", "t1d_few", "t2d_few_odd", "t3d_few",
]  # fmt: skip


@pytest.mark.parametrize("case", BIG_INFINITE)
def test_big_gpu_infinite_weights_and_gradients_meet_what_they_reach(case, big_gpu):
    infinities_by_all_ways(case, torch.float32)


def test_big_gpu_infinite_weights_of_narrow_dtypes(big_gpu):
    for case in ("2d_wide", "2d_few", "t2d_wide"):
        infinities_by_all_ways(case, torch.float16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", ["2d", "2d_pointwise", "t1d"])
def test_narrow_dtypes(case, dtype):
    run(case, dtype)


def test_layouts():
    run("2d", torch.float32, bias=False, change=lambda x: x.contiguous(memory_format=torch.channels_last))
    run("2d", torch.float32, change=lambda x: x.transpose(2, 3)[:, :, 1:])
    x, w, b = (torch.randn(s, dtype=torch.complex64) for s in ((2, 3, 9), (4, 3, 3), (4,)))  # parts are strided views
    got = F.conv1d(*(t.to("webgpu") for t in (x, w, b)))
    torch.testing.assert_close(got.cpu(), F.conv1d(x, w, b), rtol=1e-4, atol=1e-4)
    run("2d_pointwise", torch.float32, change=lambda x: x[:, :, ::2, 1:])


def test_many_images_split_the_sum():
    x, w = torch.randn(40, 3, 6, 6), torch.randn(4, 3, 3, 3)
    results = []
    for device in ("cpu", "webgpu"):
        leaf = w.to(device).requires_grad_()
        y = F.conv2d(x.to(device), leaf)
        results.append(torch.autograd.grad(y, leaf, y.detach())[0].cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-3)


def test_empty_batch_and_integers():
    x, w = torch.randn(0, 3, 6, 6), torch.randn(4, 3, 3, 3)
    assert F.conv2d(x.to("webgpu"), w.to("webgpu")).shape == (0, 4, 4, 4)
    x, w = torch.randint(-9, 9, (2, 3, 6, 6)), torch.randint(-9, 9, (4, 3, 3, 3))
    assert torch.equal(F.conv2d(x.to("webgpu"), w.to("webgpu")).cpu(), F.conv2d(x, w))


def test_double_backward():
    x, w = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    results = []
    for device in ("cpu", "webgpu"):
        a, b = x.to(device).requires_grad_(), w.to(device).requires_grad_()
        y = F.conv2d(a, b, padding=1)
        (g,) = torch.autograd.grad(y, a, y.detach(), create_graph=True)
        results.append(torch.autograd.grad(g, b, torch.ones_like(g))[0].cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "shapes", [((2, 3, 5, 5), (4, 2, 3, 3)), ((2, 3, 2, 2), (4, 3, 3, 3)), ((2, 3, 5), (4, 3, 3, 3))], ids=str
)
def test_errors_are_torchs(shapes):
    with pytest.raises(RuntimeError) as wanted:
        F.conv2d(*(torch.ones(s) for s in shapes))
    with pytest.raises(RuntimeError) as got:
        F.conv2d(*(torch.ones(s, device="webgpu") for s in shapes))
    assert str(got.value).split("\n")[0] == str(wanted.value).split("\n")[0]
