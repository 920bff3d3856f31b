"""torchvision's operators: boxes, regions and deformed windows, against definitions in plain PyTorch on the CPU.

Where torchvision is not installed its schemas are defined by a stand-in, which the device takes for it.
"""

import importlib
import sys
from importlib.util import find_spec

import pytest
import torch
from torch.nn import functional as F

import webgpu_backend
from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.kernels.vision import nms as nms_kernels
from webgpu_backend.kernels.vision import roi as roi_kernels
from webgpu_backend.plan import cache

D = "webgpu"
REGION = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
IMAGE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
WINDOW = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align(Tensor input, {REGION}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, {REGION}, {IMAGE}, int sampling_ratio, bool aligned) -> Tensor",
    f"ps_roi_align(Tensor input, {REGION}, int sampling_ratio) -> (Tensor, Tensor)",
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    f"SymInt pooled_height, SymInt pooled_width, int sampling_ratio, {IMAGE}) -> Tensor",
    f"roi_pool(Tensor input, {REGION}) -> (Tensor, Tensor)",
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    f"SymInt pooled_width, {IMAGE}) -> Tensor",
    f"deform_conv2d({WINDOW}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {WINDOW}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@pytest.fixture(scope="module", autouse=True)
def vision(tmp_path_factory):
    if find_spec("torchvision") is not None:
        needs.package("torchvision")
        yield
        return
    folder = tmp_path_factory.mktemp("stand_in")
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").write_text("")
    defined = "\n".join(f"library.define({schema!r})" for schema in SCHEMAS)
    text = f'import torch\nlibrary = torch.library.Library("torchvision", "FRAGMENT")\n{defined}\n'
    (folder / "torchvision" / "extension.py").write_text(text)
    sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module("torchvision.extension")
    finally:
        sys.path.remove(str(folder))
        for name in ("torchvision", "torchvision.extension"):  # for others it is not there
            sys.modules.pop(name, None)
    yield
    assert module.library is not None


def op(name: str):
    return getattr(torch.ops.torchvision, name)


def device(*tensors):
    return [t.to(D) if isinstance(t, torch.Tensor) else t for t in tensors]


# -- nms


def suppressed(boxes, scores, threshold: float):
    """One box after the other, from the best on."""
    x1, y1, x2, y2 = boxes.unbind(1)
    areas = (x2 - x1) * (y2 - y1)
    zero = torch.zeros(())
    left, gone = [], torch.zeros(len(boxes), dtype=torch.bool)
    for i in torch.sort(scores, descending=True, stable=True)[1].tolist():
        if gone[i]:
            continue
        left.append(i)
        # As std::max and std::min, which keep their first argument where it does not compare.
        w = torch.where(x2 < x2[i], x2, x2[i]) - torch.where(x1 > x1[i], x1, x1[i])
        h = torch.where(y2 < y2[i], y2, y2[i]) - torch.where(y1 > y1[i], y1, y1[i])
        inter = torch.where(w > 0, w, zero) * torch.where(h > 0, h, zero)
        gone |= (inter / (areas[i] + areas - inter)).double() > threshold
    return torch.tensor(left, dtype=torch.int64)


def boxes_of(n: int, generator, whole: bool = False):
    boxes = torch.rand(n, 4, generator=generator) * 40
    boxes[:, 2:] += boxes[:, :2]
    return boxes.round() if whole else boxes


@pytest.mark.parametrize("n", [0, 1, 2, 31, 33, 64, 257, 1000])
def test_nms(n, adapter_class):
    g = torch.Generator().manual_seed(n)
    for whole in (False, True):
        boxes, scores = boxes_of(n, g, whole), torch.rand(n, generator=g)
        for threshold in (0.0, 0.3, 0.5, 0.9):
            found = op("nms")(*device(boxes, scores, threshold))
            assert found.dtype is torch.int64
            assert torch.equal(found.cpu(), suppressed(boxes, scores, threshold))


def test_nms_ties_and_what_is_no_number():
    g = torch.Generator().manual_seed(5)
    boxes, scores = boxes_of(500, g), torch.randint(0, 4, (500,), generator=g).float()
    assert torch.equal(op("nms")(*device(boxes, scores, 0.4)).cpu(), suppressed(boxes, scores, 0.4))
    scores[::7], boxes[::11, 1], boxes[3::13], boxes[5::17, 2] = float("nan"), float("nan"), float("inf"), -1.0
    assert torch.equal(op("nms")(*device(boxes, scores, 0.4)).cpu(), suppressed(boxes, scores, 0.4))


def test_nms_in_windows(monkeypatch):
    """Overlaps of more boxes than are kept at a time."""
    monkeypatch.setattr(nms_kernels, "BITS_BYTES", 1 << 13)
    cache.clear()
    g = torch.Generator().manual_seed(6)
    boxes, scores = boxes_of(901, g), torch.rand(901, generator=g)
    assert nms_kernels.window(901) < 901
    assert torch.equal(op("nms")(*device(boxes, scores, 0.2)).cpu(), suppressed(boxes, scores, 0.2))
    cache.clear()


def test_nms_strided_half_and_reads_back_once():
    g = torch.Generator().manual_seed(7)
    boxes, scores = boxes_of(90, g).half(), torch.rand(90, generator=g).half()
    found = op("nms")(boxes.to(D)[::2], scores.to(D)[::2], 0.4)
    assert torch.equal(found.cpu(), suppressed(boxes[::2].float(), scores[::2].float(), 0.4))
    b, s = device(boxes.float(), scores.float())
    op("nms")(b, s, 0.4)
    before = webgpu_backend.stats()["bytes_read"]
    op("nms")(b, s, 0.4)
    assert 0 < webgpu_backend.stats()["bytes_read"] - before <= 16  # how many are left


def test_nms_refuses():
    b, s = torch.rand(4, 4, device=D), torch.rand(4, device=D)
    for boxes, scores, message in (
        (b[0], s, "boxes should be a 2d tensor, got 1D"),
        (b[:, :3], s, "boxes should have 4 elements in dimension 1, got 3"),
        (b, b, "scores should be a 1d tensor, got 2D"),
        (b, s[:3], "same number of elements in dimension 0, got 4 and 3"),
        (b, s.half(), "dets should have the same type as scores"),
    ):
        with pytest.raises(RuntimeError, match=message):
            op("nms")(boxes, scores, 0.5)


# -- regions


def averaged(x, rois, scale, bins, ratio, aligned: bool, mapped: bool = False):
    """Samples of each bin, read between elements, and their mean. Differentiable by x."""
    height, width = x.shape[2:]
    made = []
    for roi in rois:
        image = x[int(roi[0])]
        left, top, right, bottom = (roi[1:] * scale - (0.5 if aligned else 0)).tolist()
        wide, high = right - left, bottom - top
        if not aligned:
            wide, high = max(wide, 1.0), max(high, 1.0)
        steps = [high / bins[0], wide / bins[1]]
        counts = [ratio if ratio > 0 else max(-int(-s // 1), 0) for s in steps]
        if 0 in counts:
            made.append(x.new_zeros(x.shape[1], *bins))
            continue
        places = [
            start + torch.arange(n * count, dtype=x.dtype).add(0.5) * step / count
            for start, n, count, step in zip((top, left), bins, counts, steps)
        ]
        inside = [(p >= -1) & (p <= size) for p, size in zip(places, (height, width))]
        y, x_ = [p.clamp(0, size - 1) / max(size - 1, 1) * 2 - 1 for p, size in zip(places, (height, width))]
        grid = torch.stack(torch.meshgrid(y, x_, indexing="ij")[::-1], -1)[None]
        read = F.grid_sample(image[None], grid, align_corners=True, padding_mode="border")[0]
        read = read * (inside[0][:, None] & inside[1])
        made.append(F.avg_pool2d(read[None], counts)[0])
    out = torch.stack(made)
    if not mapped:
        return out
    split = out.reshape(len(rois), -1, bins[0] * bins[1], bins[0] * bins[1])
    return split.diagonal(dim1=2, dim2=3).reshape(len(rois), -1, *bins)


ROIS = torch.tensor([
    [0, 2.3, 1.1, 14.7, 9.2], [2, -5.0, -3.0, 8.2, 30.0], [1, 4.0, 4.0, 4.0, 4.0], [1, 30.0, 30.0, 40.0, 41.0],
    [2, 0.0, 0.0, 22.9, 16.9], [0, 9.9, 3.3, 10.2, 3.4], [1, -40.0, -40.0, 60.0, 60.0],
])  # fmt: skip


@pytest.mark.parametrize("bins", [(7, 7), (1, 3), (2, 1)])
@pytest.mark.parametrize("ratio", [-1, 1, 3])
def test_roi_align(bins, ratio, adapter_class):
    x = torch.randn(3, 11, 17, 23, generator=torch.Generator().manual_seed(1), requires_grad=True)
    for aligned in (True, False):
        expected = averaged(x, ROIS, 0.7, bins, ratio, aligned)
        grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
        (wanted,) = torch.autograd.grad(expected, x, grad)
        got = op("roi_align")(*device(x.detach(), ROIS), 0.7, *bins, ratio, aligned)
        torch.testing.assert_close(got.cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
        found = op("_roi_align_backward")(*device(grad, ROIS), 0.7, *bins, *x.shape, ratio, aligned)
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ratio", [-1, 2])
def test_ps_roi_align(ratio):
    rois, bins = ROIS[[0, 1, 3, 4, 5]], (3, 2)
    x = torch.randn(3, 12, 17, 23, generator=torch.Generator().manual_seed(1), requires_grad=True)
    expected = averaged(x, rois, 0.7, bins, ratio, True, mapped=True)
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    (wanted,) = torch.autograd.grad(expected, x, grad)
    got, channels = op("ps_roi_align")(*device(x.detach(), rois), 0.7, *bins, ratio)
    torch.testing.assert_close(got.cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
    assert channels.dtype is torch.int32
    assert torch.equal(channels.cpu(), torch.arange(12, dtype=torch.int32).reshape(1, 2, 3, 2).expand(5, 2, 3, 2))
    found = op("_ps_roi_align_backward")(grad.to(D), rois.to(D), channels, 0.7, *bins, ratio, *x.shape)
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_and_layouts_of_regions(dtype):
    """Whole places, which every dtype holds; channels last, and gradients that are views."""
    with needs.float64_if_asked():
        torch.empty(1, dtype=dtype, device=D)
    g = torch.Generator().manual_seed(3)
    x = torch.randn(2, 6, 9, 8, generator=g).to(dtype)
    rois = torch.tensor([[0, 0, 0, 8, 8], [1, 2, 1, 6, 7], [1, -2, 0, 4, 4.0]])
    wide = x.to(torch.promote_types(dtype, torch.float32)).requires_grad_()
    grad = torch.randn(3, 6, 4, 2, generator=g).to(dtype)
    expected = averaged(wide, rois, 1.0, (4, 2), 2, False)
    (wanted,) = torch.autograd.grad(expected, wide, grad.to(wide.dtype))
    close = dict(rtol=2e-2, atol=2e-2) if dtype.itemsize == 2 else dict(rtol=1e-9, atol=1e-9)
    strided = x.to(D).to(memory_format=torch.channels_last)
    got = op("roi_align")(strided, rois.to(D, dtype), 1.0, 4, 2, 2, False)
    torch.testing.assert_close(got.cpu().to(wide.dtype), expected.detach(), **close)
    back = grad.to(D).permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    found = op("_roi_align_backward")(back, rois.to(D, dtype), 1.0, 4, 2, *x.shape, 2, False)
    torch.testing.assert_close(found.cpu().to(wide.dtype), wanted, **close)


def test_regions_in_several_dispatches(monkeypatch, adapter_of):
    """A software driver stops a thread that loops for long."""
    adapter_of(kind="cpu")
    x = torch.randn(1, 3, 40, 37, generator=torch.Generator().manual_seed(4), requires_grad=True)
    rois = torch.cat([torch.zeros(9, 1), torch.rand(9, 4, generator=torch.Generator().manual_seed(5)) * 20], 1)
    rois[:, 3:] += 20
    expected = averaged(x, rois, 1.0, (2, 2), 0, False)
    (wanted,) = torch.autograd.grad(expected.sum(), x)
    monkeypatch.setattr(roi_kernels, "TRIPS", 900)
    cache.clear()
    ours, places = device(x.detach(), rois)
    ones = torch.ones(9, 3, 2, 2, device=D)
    got = op("roi_align")(ours, places, 1.0, 2, 2, 0, False)
    found = op("_roi_align_backward")(ones, places, 1.0, 2, 2, *x.shape, 0, False)
    names = kernels_of(lambda: op("roi_align")(ours, places, 1.0, 2, 2, 0, False))
    names += kernels_of(lambda: op("_roi_align_backward")(ones, places, 1.0, 2, 2, *x.shape, 0, False))
    assert sum("backward" in name for name in names) == 3
    assert sum("roi_align_adaptive" in name for name in names) > 1
    torch.testing.assert_close(got.cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)


def test_regions_of_nothing_and_of_what_is_no_number():
    x, rois = torch.randn(2, 3, 5, 6, device=D), torch.zeros(0, 5, device=D)
    assert op("roi_align")(x, rois, 1.0, 2, 3, 0, False).shape == (0, 3, 2, 3)
    assert not op("_roi_align_backward")(torch.empty(0, 3, 2, 3, device=D), rois, 1.0, 2, 3, 2, 3, 5, 6, 0, False).any()
    assert op("roi_align")(x[:, :0], torch.zeros(4, 5, device=D), 1.0, 2, 3, 0, False).shape == (4, 0, 2, 3)
    odd = torch.tensor([[0, float("nan"), 0, 4, 4], [1, 0, 0, float("inf"), 3], [0, 1e30, 1, 2e30, 3]], device=D)
    for ratio in (0, 2):
        got = op("roi_align")(x, odd, 1.0, 2, 3, ratio, False)
        assert torch.isfinite(got[2]).all() and not got[2].any()
        op("_roi_align_backward")(got, odd, 1.0, 2, 3, 2, 3, 5, 6, ratio, False).cpu()


def test_regions_of_an_image_that_is_not_there():
    x, rois = torch.randn(2, 3, 5, 6, device=D), torch.tensor([[2.0, 0, 0, 3, 3]], device=D)
    for name, rest in (("roi_align", (0, False)), ("roi_pool", ())):
        op(name)(x, rois, 1.0, 2, 2, *rest)
        with pytest.raises(
            IndexError, match=f"index 2 is out of bounds for dimension 0 with size 2 .in torchvision::{name}"
        ):
            torch.webgpu.synchronize()
    with pytest.raises(RuntimeError, match="rois must have shape as Tensor.K, 5."):
        op("roi_align")(x, rois[:, :4], 1.0, 2, 2, 0, False)
    with pytest.raises(RuntimeError, match="input should have the same type as rois"):
        op("roi_align")(x.half(), rois, 1.0, 2, 2, 0, False)


def largest(x, rois, scale: float, bins):
    """The largest element of each bin, and where it is."""
    out, where = torch.zeros(len(rois), x.shape[1], *bins), torch.full((len(rois), x.shape[1], *bins), -1)
    for k, roi in enumerate(rois.tolist()):
        left, top, right, bottom = (int(abs(v) * scale + 0.5) * (-1 if v < 0 else 1) for v in roi[1:])
        high, wide = max(bottom - top + 1, 1) / bins[0], max(right - left + 1, 1) / bins[1]
        for i in range(bins[0]):
            for j in range(bins[1]):
                ys = [min(max(int(v) + top, 0), x.shape[2]) for v in (i * high // 1, -(-(i + 1) * high // 1))]
                xs = [min(max(int(v) + left, 0), x.shape[3]) for v in (j * wide // 1, -(-(j + 1) * wide // 1))]
                part = x[int(roi[0]), :, ys[0] : ys[1], xs[0] : xs[1]]
                if part.numel():
                    value, place = part.flatten(1).max(1)
                    out[k, :, i, j] = value
                    size = part.shape[2]
                    where[k, :, i, j] = (place // size + ys[0]) * x.shape[3] + place % size + xs[0]
    return out, where


def test_roi_pool(adapter_class):
    x = torch.randn(3, 5, 17, 23, generator=torch.Generator().manual_seed(8))
    for bins in ((3, 2), (7, 7)):
        expected, places = largest(x, ROIS, 0.75, bins)
        got, where = op("roi_pool")(*device(x, ROIS), 0.75, *bins)
        assert torch.equal(got.cpu(), expected) and torch.equal(where.cpu().long(), places)
        grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9))
        wanted = torch.zeros(3, 5, 17 * 23)
        for k, image in enumerate(ROIS[:, 0].long()):
            sent = torch.where(places[k] < 0, 0, grad[k]).flatten(1)
            wanted[image].scatter_add_(1, places[k].clamp(min=0).flatten(1), sent)
        found = op("_roi_pool_backward")(grad.to(D), ROIS.to(D), where, 0.75, *bins, *x.shape)
        torch.testing.assert_close(found.cpu(), wanted.reshape(x.shape))


# -- deformed windows


def deformed(x, weight, offset, mask, bias, steps, pads, gaps, groups, offset_groups):
    """One tap after the other, read between elements. Differentiable by all tensors."""
    batch, channels, height, width = x.shape
    high, wide = weight.shape[2:]
    oh, ow = offset.shape[2:]
    offset = offset.reshape(batch, offset_groups, high * wide, 2, oh, ow)
    columns = []
    for tap in range(high * wide):
        y = torch.arange(oh)[:, None] * steps[0] - pads[0] + tap // wide * gaps[0] + offset[:, :, tap, 0]
        x_ = torch.arange(ow) * steps[1] - pads[1] + tap % wide * gaps[1] + offset[:, :, tap, 1]
        grid = torch.stack([2 * x_ / (width - 1) - 1, 2 * y / (height - 1) - 1], -1).flatten(0, 1)
        planes = x.reshape(batch * offset_groups, channels // offset_groups, height, width)
        read = F.grid_sample(planes, grid, align_corners=True).reshape(batch, channels, oh, ow)
        if mask is not None:
            own = mask.reshape(batch, offset_groups, 1, high * wide, oh, ow)[:, :, :, tap]
            read = read * own.expand(batch, offset_groups, channels // offset_groups, oh, ow).flatten(1, 2)
        columns.append(read)
    columns = torch.stack(columns, 2).reshape(batch, groups, -1, oh * ow)
    out = weight.reshape(groups, weight.shape[0] // groups, -1) @ columns
    return out.reshape(batch, -1, oh, ow) + bias[:, None, None]


CASES = [  # batch, channels in and out, window, steps, pads, gaps, groups, groups of offsets, mask
    (2, 6, 4, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True),
    (3, 6, 4, (3, 2), (2, 1), (0, 1), (1, 2), 2, 3, True),
    (1, 4, 6, (1, 3), (1, 2), (2, 0), (2, 1), 2, 2, False),
]


def windows_of(case, generator):
    batch, channels, outs, taps, steps, pads, gaps, groups, offset_groups, masked = case
    size = (9, 11)
    oh, ow = ((n + 2 * p - g * (k - 1) - 1) // s + 1 for n, p, g, k, s in zip(size, pads, gaps, taps, steps))
    x = torch.randn(batch, channels, *size, generator=generator)
    weight = torch.randn(outs, channels // groups, *taps, generator=generator) * 0.3
    offset = torch.randn(batch, 2 * offset_groups * taps[0] * taps[1], oh, ow, generator=generator) * 2
    mask = torch.rand(batch, offset_groups * taps[0] * taps[1], oh, ow, generator=generator)
    bias = torch.randn(outs, generator=generator)
    numbers = (*steps, *pads, *gaps, groups, offset_groups, masked)
    return [x, weight, offset, mask if masked else torch.zeros(batch, 1), bias], numbers


@pytest.mark.parametrize("case", CASES)
def test_deform_conv2d(case, adapter_class):
    tensors, numbers = windows_of(case, torch.Generator().manual_seed(11))
    masked = case[-1]
    leaves = [t.clone().requires_grad_() for t in tensors]
    inner = (*leaves[:3], leaves[3] if masked else None, leaves[4])
    expected = deformed(*inner, *case[4:9])
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(12))
    expected.backward(grad)
    got = op("deform_conv2d")(*device(*tensors), *numbers)
    torch.testing.assert_close(got.cpu(), expected.detach(), rtol=1e-4, atol=1e-4)
    found = op("_deform_conv2d_backward")(*device(grad, *tensors), *numbers)
    for name, leaf, f in zip(("input", "weight", "offset", "mask", "bias"), leaves, found):
        wanted = leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)
        torch.testing.assert_close(f.cpu(), wanted, rtol=1e-3, atol=1e-3, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_of_deform_conv2d(dtype):
    """Offsets in quarters, which every dtype holds."""
    with needs.float64_if_asked():
        torch.empty(1, dtype=dtype, device=D)
    tensors, numbers = windows_of(CASES[0], torch.Generator().manual_seed(13))
    tensors[2] = (tensors[2] * 4).round() / 4
    tensors = [t.to(dtype) for t in tensors]
    wide = [t.to(torch.promote_types(dtype, torch.float32)) for t in tensors]
    expected = deformed(*wide, *CASES[0][4:9])
    got = op("deform_conv2d")(*device(*tensors), *numbers)
    assert got.dtype is dtype
    close = dict(rtol=3e-2, atol=6e-2) if dtype.itemsize == 2 else dict(rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(got.cpu().to(wide[0].dtype), expected, **close)


def test_deform_conv2d_of_nothing_and_far_away():
    tensors, numbers = windows_of(CASES[0], torch.Generator().manual_seed(14))
    none = [t[:0] if i in (0, 2, 3) else t for i, t in enumerate(tensors)]
    assert op("deform_conv2d")(*device(*none), *numbers).shape == (0, 4, 9, 11)
    grads = op("_deform_conv2d_backward")(*device(torch.empty(0, 4, 9, 11), *none), *numbers)
    assert [g.shape for g in grads] == [t.shape for t in none] and not grads[1].any()
    tensors[2][0], tensors[2][1, :9] = 1e12, float("inf")
    got = op("deform_conv2d")(*device(*tensors), *numbers).cpu()
    torch.testing.assert_close(got[0], tensors[4][:, None, None].expand(4, 9, 11))
    with pytest.raises(RuntimeError, match="offset.shape.1. is not valid: got: 17 expected: 18"):
        op("deform_conv2d")(*device(tensors[0], tensors[1], tensors[2][:, 1:], *tensors[3:]), *numbers)
    with pytest.raises(RuntimeError, match="stride_h: 0 stride_w: 1"):
        op("deform_conv2d")(*device(*tensors), 0, *numbers[1:])


# -- the library itself


def test_autocast_goes_on_in_float32():
    x, rois = torch.randn(3, 4, 9, 9, device=D).half(), ROIS.to(D)
    with torch.autocast(D, dtype=torch.float16):
        got = op("roi_align")(x, rois, 0.5, 2, 2, 2, True)
        kept = op("nms")(rois[:, 1:], torch.rand(7, device=D).half(), 0.5)
    assert got.dtype is torch.float16 and kept.dtype is torch.int64
    wide = op("roi_align")(x.float(), rois, 0.5, 2, 2, 2, True)
    torch.testing.assert_close(got, wide.half())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_as_torchvision_has_it_on_the_cpu(dtype):
    """Its functions and its gradients, with coordinates that float16 rounds."""
    ops = needs.package("torchvision").ops
    tolerance = dict(rtol=1e-4, atol=1e-4) if dtype is torch.float32 else dict(rtol=4e-2, atol=4e-2)
    g = torch.Generator().manual_seed(15)
    x, rois = torch.randn(3, 12, 17, 23, generator=g).to(dtype), ROIS[[0, 1, 3, 4, 5, 6]].to(dtype)
    tensors, numbers = windows_of(CASES[1], g)
    windows = [tensors[i].to(dtype) for i in (0, 2, 1, 4, 3)]  # as the function has them
    calls = (
        (ops.roi_align, (x, rois), ((7, 5), 0.7, 0, True)),
        (ops.roi_align, (x, rois), ((7, 5), 0.7, 2, False)),
        (ops.ps_roi_align, (x, rois), ((3, 2), 0.7, 2)),
        (lambda *t: ops.deform_conv2d(*t[:4], numbers[:2], numbers[2:4], numbers[4:6], t[4]), windows, ()),
    )
    for function, arguments, rest in calls:
        found = []
        for place in ("cpu", D):
            leaves = [a.clone().to(place).requires_grad_(i == 0 or len(arguments) > 2) for i, a in enumerate(arguments)]
            out = function(*leaves, *rest)
            weights = torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(place, dtype)
            (out * weights).sum().backward()
            found.append([out.detach().cpu(), *[leaf.grad.cpu() for leaf in leaves if leaf.grad is not None]])
        for ours, theirs in zip(found[1], found[0]):
            torch.testing.assert_close(ours, theirs, **tolerance)
