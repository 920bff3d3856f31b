"""Strides of results are the CPU's: a part of the operator database here, all of it by `python -m benchmarks.strides`;
channels_last through the layers that keep it, forward and backward."""

import os
from functools import partial
from itertools import permutations

import pytest
import torch
import torch.nn.functional as F

from benchmarks.opcheck import name_of
from benchmarks.strides import DIFFERENT, differences, entries
from tests import needs
from tests.device._compare import D, close

THOROUGH = int(os.environ.get("WEBGPU_TEST_SAMPLES", "2")) >= 10
EVERY = 1 if THOROUGH else 6


def some() -> list:
    known = [op for op in entries() if name_of(op) not in DIFFERENT]
    return [pytest.param(op, id=name_of(op)) for op in known[::EVERY]]


@pytest.mark.parametrize("op", some())
@pytest.mark.fallback("*")
def test_as_on_the_cpu(op):
    with needs.float64_if_asked():
        assert not differences(op)[1]


LAYERS = {
    "conv2d": lambda x, w: F.conv2d(x, w(4, 4, 3, 3), w(4)),
    "strided": lambda x, w: F.conv2d(x, w(6, 4, 3, 2), stride=2, padding=1),
    "pointwise": lambda x, w: F.conv2d(x, w(6, 4, 1, 1)),
    "depthwise": lambda x, w: F.conv2d(x, w(4, 1, 3, 3), groups=4),
    "transposed": lambda x, w: F.conv_transpose2d(x, w(4, 3, 3, 3), stride=2),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w(4), w(4), training=True),
    "batch_norm_eval": lambda x, w: F.batch_norm(x, w(4).detach(), w(4).detach().abs(), w(4), w(4)),
    "instance_norm": lambda x, w: F.instance_norm(x),
    "pad": lambda x, w: F.pad(x, (1, 1, 2, 0)),
    "pad_cut": lambda x, w: F.pad(x, (-1, 0)),
    "reflect": lambda x, w: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replicate": lambda x, w: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "nearest": lambda x, w: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x, w: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "max_pool": lambda x, w: F.max_pool2d(x, 2),
    "avg_pool": lambda x, w: F.avg_pool2d(x, 2),
    "adaptive_pool": lambda x, w: F.adaptive_avg_pool2d(x, 2),
    "pixel_unshuffle": lambda x, w: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x, w: F.channel_shuffle(x, 2),
}


def strides(t: torch.Tensor) -> list[int]:
    return [0 if s == 1 else st for s, st in zip(t.shape, t.stride())]


@pytest.mark.parametrize("last", ["image", "weight"])
@pytest.mark.parametrize("name", LAYERS)
def test_channels_last(name, last):
    def run(device):
        torch.manual_seed(0)
        leaves = []

        def leaf(*shape):
            t = torch.randn(shape)
            if len(shape) == 4 and last == "weight":
                t = t.contiguous(memory_format=torch.channels_last)
            leaves.append(t.to(device).requires_grad_())
            return leaves[-1]

        x = torch.randn(2, 4, 6, 8)
        x = (x.contiguous(memory_format=torch.channels_last) if last == "image" else x).to(device).requires_grad_()
        y = LAYERS[name](x, leaf)
        leaves = [t for t in (x, *leaves) if t.requires_grad]
        grad = torch.randn(y.shape).to(device)
        grads = [g for g in torch.autograd.grad(y, leaves, grad, allow_unused=True) if g is not None]
        return [y.detach(), *grads]

    expected, found = run("cpu"), run(D)
    close(found, expected, 1e-4)
    assert [strides(t) for t in found] == [strides(t) for t in expected]


def test_channels_last_of_volumes():
    x = torch.randn(2, 4, 3, 6, 8).contiguous(memory_format=torch.channels_last_3d)
    w, one = torch.randn(5, 4, 3, 3, 3), torch.ones(4)
    for call in (
        lambda x, w, one: F.conv3d(x, w),
        lambda x, w, one: F.batch_norm(x, None, None, one, one, training=True),
        lambda x, w, one: F.pad(x, (1, 1, 1, 1, 1, 1)),
    ):
        expected, found = call(x, w, one), call(*[t.to(D) for t in (x, w, one)])
        close(found, expected, 1e-4)
        assert strides(found) == strides(expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_channels_last_in_half_precision(dtype):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 7, dtype=dtype).contiguous(memory_format=torch.channels_last)
    w = torch.randn(5, 3, 3, 3, dtype=dtype)
    found, expected = F.conv2d(x.to(D), w.to(D)), F.conv2d(x.float(), w.float())
    assert found.is_contiguous(memory_format=torch.channels_last)
    close(found.float(), expected, 5e-2)
    found, expected = F.pad(x.to(D), (1, 2)), F.pad(x, (1, 2))
    close(found, expected, 0)
    assert strides(found) == strides(expected)


def test_of_positions_and_indices():
    x = torch.randn(2, 4, 6, 8).contiguous(memory_format=torch.channels_last)
    i, j = torch.tensor([0, 1]), torch.tensor([3, 1])
    calls = (
        lambda x, i, j: (x > 0).nonzero(),
        lambda x, i, j: (x > 9).nonzero(),
        lambda x, i, j: torch.nonzero_static(x > 0, size=7),
        lambda x, i, j: x[i, :, j],
        lambda x, i, j: x[:, i, j],
        lambda x, i, j: x[:, :, i],
        lambda x, i, j: torch.fft.fft(x, dim=1),
        lambda x, i, j: torch.fft.rfft(x.contiguous(), dim=2),
        lambda x, i, j: torch.fft.fft2(x.contiguous(), dim=(1, 2)),
    )
    for call in calls:
        expected, found = call(x, i, j), call(*[t.to(D) for t in (x, i, j)])
        close(found, expected, 1e-4)
        assert strides(found) == strides(expected)


def same(call, *tensors):
    expected, found = call(*tensors), call(*[t.to(D) for t in tensors])
    close(found, expected, 1e-4)
    assert strides(found) == strides(expected)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_of_elements_at_indices_that_are_transposed(order):
    x, i = torch.randn(4, 5, 6, 7), torch.randint(0, 4, (2, 3, 5)).permute(order)
    same(lambda x, i: x[i], x, i)
    same(lambda x, i: x[:, i], x.permute(3, 1, 2, 0), i)
    same(lambda x, i, j: x[i, j], x, i, i.contiguous())
    same(lambda x, i, j: x[i, :, j], x, i[:1], i)


@pytest.mark.parametrize("dims", [0, 1, 3, (0, 2), None], ids=str)
def test_of_what_is_rolled(dims):
    x = torch.randn(4, 5, 6, 7)
    last = x.contiguous(memory_format=torch.channels_last)
    for given in (last, last[:, 1:3], x.permute(3, 0, 2, 1), x[:, ::2], x[:1].expand(4, 5, 6, 7), last[:, :1]):
        same(lambda x: x.roll((1, 2) if isinstance(dims, tuple) else 1, dims), given)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_of_spectra(order):
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    for name in ("fftn", "rfftn", "irfftn", "hfftn", "ihfftn"):
        x = torch.randn(4, 3, 5, dtype=torch.complex64 if name in ("fftn", "irfftn", "hfftn") else torch.float32)
        for dims in ((0, 1, 2), (2, 0, 1), (1, 0), (2,)):
            call, given = partial(getattr(torch.fft, name), dim=dims), x.permute(order)
            same(call, given)
            given = given.to(D)
            if torch.__version__ >= (2, 13):  # before, torch said that they lie by rows
                with mode:
                    faked = call(mode.from_tensor(given))
                assert strides(faked) == strides(call(given))


def test_graphs_know_the_strides_of_convolutions():
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    x, w = torch.randn(2, 4, 6, 8, device=D), torch.randn(4, 4, 3, 3, device=D)
    for image, weight in ((x, w), (x.contiguous(memory_format=torch.channels_last), w),
                          (x, w.contiguous(memory_format=torch.channels_last))):  # fmt: skip
        with mode:
            faked = F.conv2d(mode.from_tensor(image), mode.from_tensor(weight))
        assert faked.stride() == F.conv2d(image, weight).stride()


def test_running_statistics_of_an_instance_norm():
    def run(device):
        torch.manual_seed(0)
        x, mean, variance = torch.randn(2, 3, 5).to(device), torch.zeros(3, device=device), torch.ones(3, device=device)
        with torch.no_grad():
            y = F.instance_norm(x, mean, variance, use_input_stats=True)
        return [y, mean, variance]

    close(run(D), run("cpu"), 1e-5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
def test_parts_of_images_that_are_interpolated(dtype):
    """Strides that are like those of channels_last are enough, as torch asks; a batch of one may be either."""
    whole = (
        torch.randint(0, 255, (2, 3, 24, 20), dtype=torch.uint8).to(dtype).contiguous(memory_format=torch.channels_last)
    )
    for part in (whole, whole[:, :, ::2, ::2], whole[:, :, 5:-5, 3:-3], whole[:1], whole[0][None], whole[:, 1:]):
        for mode, more in (("bilinear", {}), ("bicubic", {"antialias": True}), ("nearest", {})):
            wanted = F.interpolate(part, size=(7, 9), mode=mode, **more)
            found = F.interpolate(
                whole.to(D).as_strided(part.shape, part.stride(), part.storage_offset()), size=(7, 9), mode=mode, **more
            )
            assert found.stride() == wanted.stride(), (mode, part.shape, part.stride())
            torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-3 if dtype is torch.float32 else 0)


def test_contiguous_clones_say_so_in_every_stride():
    """A dimension of one element has a stride too, and compiled graphs are guarded by it."""
    for shape, view in [
        ((1, 18), lambda t: t[:, -1:]),
        ((3, 1, 5), lambda t: t.transpose(0, 1)),
        ((0, 3), lambda t: t.t()),
    ]:
        for format in (None, torch.preserve_format, torch.contiguous_format):
            keywords = {} if format is None else {"memory_format": format}
            made = {d: view(torch.ones(shape, device=d)).clone(**keywords) for d in ("cpu", "webgpu")}
            assert made["webgpu"].stride() == made["cpu"].stride(), (shape, format)


def test_copies_of_dense_tensors_keep_strides_of_one_element():
    """An image taken from a channels_last batch and put into a batch of one is not channels_last any more."""

    def strides(device):
        x = torch.ones(2, 3, 4, 5, dtype=torch.uint8, device=device).contiguous(memory_format=torch.channels_last)
        one = x[0][None]
        copies = (one, one.float(), one.clone(), torch.zeros_like(one), one.to(torch.float16), one.bool())
        return [t.stride() for t in (*copies, F.max_pool2d(one.float(), 2), F.interpolate(one.float(), (2, 2)))]

    assert strides(D) == strides("cpu")


AMBIGUOUS = [
    lambda d: torch.rand(10, 3, 1, 1, device=d).to(memory_format=torch.channels_last),
    lambda d: torch.rand(1, 3, 4, 5, device=d).to(memory_format=torch.channels_last)[0][None],
    lambda d: torch.rand(12, device=d).as_strided((3, 1, 4), (4, 77, 1)),
    lambda d: torch.rand(2, 3, 4, device=d).permute(2, 0, 1),
    lambda d: torch.rand(1, 1, 4, 12, device=d)[:, :, :, ::2],
]
CALLS = {
    "number": lambda x: x * 5,
    "of a number": lambda x: 1 - x,
    "compared": lambda x: x < 0.5,
    "no dimensions": lambda x: x + torch.tensor(2.0, device=x.device),
    "row": lambda x: x + torch.rand(x.shape[-1], device=x.device),
    "power": lambda x: x**2,
    "clamp": lambda x: x.clamp(0, 0.5),
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "itself": lambda x: x + x,
    "one": lambda x: x.exp(),
    "out": lambda x: torch.exp(x, out=torch.empty(0, device=x.device)),
    "out of a number": lambda x: torch.add(x, 1, out=torch.empty(0, device=x.device)),
    "out of a row": lambda x: torch.eq(x, x[..., :1], out=torch.empty(0, device=x.device, dtype=torch.bool)),
}


@pytest.mark.parametrize("call", CALLS)
def test_elementwise_results_where_dimensions_have_one_element(call):
    """A number is an operand too, and outputs that are resized get the strides of a new result."""
    for made in AMBIGUOUS:
        assert CALLS[call](made(D)).stride() == CALLS[call](made("cpu")).stride(), made("cpu").stride()


@pytest.mark.parametrize("layer", [torch.nn.Conv2d, torch.nn.ConvTranspose2d])
@pytest.mark.parametrize("sizes", [(4, 2, 8, 8, 4, 2), (4, 1, 8, 8, 4, 2), (4, 2, 1, 8, 4, 1), (4, 1, 8, 8, 4, 1)])
def test_weights_alone_are_channels_last(layer, sizes):
    """Also where sizes of one leave both layouts possible: the strides tell, as on the CPU."""
    n, c, h, w, k, size = sizes
    for ours in (torch.contiguous_format, torch.channels_last):
        for theirs in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(n, c, h, w).to(memory_format=ours)
            conv = layer(c, k, size).to(memory_format=theirs)
            expected = conv(x)
            found = conv.to("webgpu")(x.to("webgpu"))
            assert found.stride() == expected.stride(), (ours, theirs)
            torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_of_layouts_that_are_neither_rows_nor_channels_last():
    x = torch.randn(3, 4, 6).mT  # [3, 6, 4]
    index, source = torch.tensor([2, 0, 71]), torch.randn(3)
    same(lambda x, i, s: x.put(i, s), x, index, source)
    same(lambda x: F.pixel_shuffle(x, 1), x)
    same(lambda x: F.pixel_unshuffle(x, 1), x)
    for training in (False, True):
        same(lambda x, m, v, t=training: F.batch_norm(x, m, v, training=t), x, torch.zeros(6), torch.ones(6))
    given = torch.ones(1, 4, 4, device=D)
    F.pixel_shuffle(given, 1).zero_()
    assert given.all()


_FACTORED = {
    "svd": lambda a, b: torch.linalg.svd(a, full_matrices=False),
    "svd_full": lambda a, b: torch.linalg.svd(a),
    "svd_lowrank": lambda a, b: torch.svd_lowrank(a, 3),
    "gels": lambda a, b: torch.linalg.lstsq(a, b, driver="gels")[0],
    "gelsy": lambda a, b: torch.linalg.lstsq(a, b)[0],
    "gelsd": lambda a, b: torch.linalg.lstsq(a, b[..., 0], driver="gelsd")[0],
    "lu_solve": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a.mT @ a), a, left=False),
    "renorm": lambda a, b: a.mT.renorm(2, 0, 1.0),
}


@pytest.mark.parametrize("sizes", [(7, 4), (2, 7, 4), (4, 4)], ids=str)
@pytest.mark.parametrize("name", _FACTORED)
def test_of_factors_and_solutions(name, sizes):
    a, b = torch.randn(sizes), torch.randn(*sizes[:-1], 2)
    a = torch.where(torch.eye(*a.shape[-2:], dtype=torch.bool), a + 4, a)
    want, got = _FACTORED[name](a, b), _FACTORED[name](a.to(D), b.to(D))
    if isinstance(want, torch.Tensor):
        want, got = [want], [got]
        close(got[0], want[0])
    assert [t.stride() for t in got] == [t.stride() for t in want]
