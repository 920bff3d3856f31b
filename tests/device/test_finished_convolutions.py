"""Compiled convolutions take in what follows them: every way of computing one against the CPU, and their dispatches."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.device._adapter import kernels_of
from webgpu_backend.ops.conv import winograd
from webgpu_backend.ops.conv.finished import serves
from webgpu_backend.plan import caps

D = "webgpu"
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
ROUGH = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.15}
ROUNDED = {torch.float32: "float({})", torch.float16: "half(float({}))", torch.bfloat16: "brain(float({}))"}
compiled = pytest.mark.usefixtures("compiled_by_inductor")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


# -- the operator, by each of the kernels

# image, weight, stride, padding, dilation, transposed, groups; and by which kernels a GPU computes it
WAYS = {
    "winograd": ((1, 8, 9, 12), (8, 8, 3, 3), 1, 1, 1, False, 1),
    "winograd_back": ((1, 8, 9, 11), (8, 8, 3, 3), 1, 1, 1, True, 1),
    "tables": ((2, 5, 9, 11), (12, 5, 3, 3), 2, 1, 1, False, 1),
    "tables_in_fours": ((2, 8, 8, 8), (16, 8, 1, 1), 1, 0, 1, False, 1),
    "tables_of_groups": ((2, 6, 6, 7), (24, 3, 3, 2), 1, 0, 2, False, 2),
    "tables_in_parts": ((1, 300, 4, 4), (9, 300, 3, 3), 1, 1, 1, False, 1),
    "tables_in_odd_parts": ((1, 300, 3, 3), (9, 300, 3, 3), 1, 1, 1, False, 1),
    "tables_back": ((2, 5, 6, 7), (5, 12, 2, 3), 1, 1, 1, True, 1),
    "depthwise": ((2, 3, 9, 10), (6, 1, 3, 3), 1, 1, 1, False, 3),
    "depthwise_back": ((2, 6, 5, 6), (6, 1, 3, 3), 2, 1, 1, True, 6),
    "few": ((2, 20, 9, 10), (3, 20, 3, 3), 1, 1, 1, False, 1),
    "few_in_parts": ((1, 256, 3, 3), (3, 256, 3, 3), 1, 1, 1, False, 1),
    "few_back": ((2, 20, 5, 6), (20, 3, 4, 4), 2, 1, 1, True, 1),
    "phases": ((2, 5, 6, 7), (5, 12, 3, 4), 2, 1, 1, True, 1),
    "phases_in_fours": ((2, 8, 4, 6), (8, 16, 2, 2), 2, 0, 1, True, 1),
    "phases_of_groups": ((1, 6, 5, 4), (6, 9, 3, 3), 3, 1, 1, True, 2),
    "phases_of_a_volume": ((1, 4, 3, 2, 4), (4, 10, 2, 3, 2), 2, 0, 1, True, 1),
    "line": ((2, 4, 13), (10, 4, 3), 1, 2, 2, False, 1),
    "volume": ((1, 3, 4, 5, 6), (10, 3, 2, 3, 2), 1, 1, 1, False, 1),
}  # fmt: skip
OTHERS = {
    "whole": lambda shape: torch.randn(shape),
    "last": lambda shape: torch.randn(shape).movedim(1, -1).contiguous().movedim(-1, 1),
    "part": lambda shape: torch.randn(*shape[:-1], shape[-1] + 3)[..., 2:-1],
    "image": lambda shape: torch.randn(shape[0], 1, *shape[2:]),
    "channel": lambda shape: torch.randn(*shape[:2], *[1] * (len(shape) - 2)),
    "column": lambda shape: torch.randn(shape[1], *shape[2:-1], 1),
}


@pytest.fixture
def small_winograd(monkeypatch):
    for name in ("CHANNELS", "FEWEST", "TILES"):
        monkeypatch.setattr(winograd, name, 8 if name == "CHANNELS" else 0)


def finished(x, w, bias, factor, other, how, dtype=None):
    """On the device: relu((conv + bias) * factor) + other, the first of them rounded, and the result in `dtype`."""
    rounded = ROUNDED[x.dtype].format
    after = f"t0 = {rounded('r + e0')}; t1 = {rounded('t0 * e1')}; t2 = max(t1, 0); t2 + d"
    table = torch.stack([bias, factor], 1).to(D)
    dtype = dtype or x.dtype
    return torch.ops.webgpu_backend.finished_convolution(x.to(D), w.to(D), table, other.to(D), *how, after, dtype)


def reference(x, w, bias, factor, other, how, dtype=None):
    stride, padding, dilation, transposed, output_padding, groups = how
    y = torch.convolution(x.double(), w.double(), None, stride, padding, dilation, transposed, output_padding, groups)
    shape = (-1, *[1] * (x.dim() - 2))
    y = (y + bias.view(shape)).to(x.dtype)
    return (torch.relu((y.double() * factor.view(shape)).to(x.dtype)).double() + other).to(dtype or x.dtype)


def arguments(name, dtype):
    image, window, stride, padding, dilation, transposed, groups = WAYS[name]
    dims = len(image) - 2
    how = ([stride] * dims, [padding] * dims, [dilation] * dims, transposed, [0] * dims, groups)
    x, w = torch.randn(image).to(dtype), (torch.randn(window) * (window[1] * window[2]) ** -0.5).to(dtype)
    shape = torch.convolution(x.float(), w.float(), None, *how).shape
    return x, w, torch.randn(shape[1]).to(dtype), torch.randn(shape[1]).to(dtype), shape, how


CASES = [("gpu", name, dtype) for i, name in enumerate(WAYS) for dtype in (FLOATS[0], FLOATS[1 + i % 2])]
PRODUCTS = ["tables", "tables_in_fours", "tables_of_groups", "tables_back", "volume"]
CASES += [("own", name, FLOATS[i % 3]) for i, name in enumerate(PRODUCTS)]


@pytest.mark.parametrize(("kind", "name", "dtype"), CASES, ids=str)
def test_ways(adapter_of, small_winograd, kind, name, dtype):
    torch.manual_seed(0)
    adapter_of(**{} if kind == "own" else {"kind": kind})
    x, w, bias, factor, shape, how = arguments(name, dtype)
    assert serves(x, w, *how)
    for other in OTHERS if dtype is torch.float32 else ("whole", "last"):
        given = (x, w, bias, factor, OTHERS[other](shape).to(dtype), how)
        found, expected = finished(*given).cpu(), reference(*given)
        assert found.dtype == dtype and found.shape == shape
        torch.testing.assert_close(found, expected, rtol=ROUGH[dtype], atol=ROUGH[dtype], msg=lambda m: f"{other}: {m}")
    for result in [d for d in FLOATS if d != dtype]:
        found, expected, rough = finished(*given, result).cpu(), reference(*given, result), ROUGH[dtype] + ROUGH[result]
        assert found.dtype == result and found.shape == shape
        torch.testing.assert_close(found, expected, rtol=rough, atol=rough)


@pytest.mark.parametrize("name", ["winograd", "tables", "tables_in_parts", "phases", "depthwise", "few", "product"])
def test_special_values(adapter_of, small_winograd, name):
    """Infinities stay where they are, and NaN goes through what follows."""
    torch.manual_seed(0)
    adapter_of(**{} if name == "product" else {"kind": "gpu"})
    name = "tables" if name == "product" else name
    x, w, bias, factor, shape, how = arguments(name, torch.float32)
    x[0, 0, 0, 0], x[0, 1, 2, 2] = float("inf"), float("nan")
    factor[1], bias[2] = float("-inf"), float("nan")
    other = torch.randn(shape)
    other[0, 0, 0, 1] = float("inf")
    given = (x, w, bias, factor, other, how)
    torch.testing.assert_close(finished(*given).cpu(), reference(*given), rtol=1e-4, atol=1e-4, equal_nan=True)


def test_images_that_lie_in_channels(adapter_class):
    x, w, bias, factor, shape, how = arguments("tables", torch.float32)
    x = x.contiguous(memory_format=torch.channels_last)
    given = (x, w, bias, factor, torch.randn(shape), how)
    found = finished(*given)
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found.cpu(), reference(*given), rtol=1e-4, atol=1e-4)


def test_parts_of_large_storages(adapter_of):
    """A part that fits a binding, of a storage that does not."""
    adapter_of(max_binding=1 << 14)
    x, w, bias, factor, shape, how = arguments("tables", torch.float32)
    given = (x, w, bias, factor, torch.randn(shape), how)
    storage = torch.randn(1 << 13)
    storage[100 : 100 + x.numel()] = x.flatten()
    moved = storage.to(D)[100 : 100 + x.numel()].view(x.shape)
    found = finished(moved, *given[1:])
    torch.testing.assert_close(found.cpu(), reference(*given), rtol=1e-4, atol=1e-4)


# -- in graphs


@compiled
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_casts(adapter_class, dtype):
    """Results of another dtype, and what is rounded on the way, are as eager operators have them."""
    to = torch.float16 if dtype is torch.float32 else torch.float32

    def f(x, w, b, r):
        return F.conv2d(x, w, b).to(to) * 0.3 + r.to(to), (F.conv2d(x, w).to(to) * 0.3).to(dtype) * r

    x, w = torch.randn(2, 4, 9, 10).to(dtype), (torch.randn(6, 4, 3, 3) * 0.2).to(dtype)
    given = [t.to(D) for t in (x, w, torch.randn(6).to(dtype), torch.randn(2, 6, 7, 8).to(dtype))]
    made = torch.compile(f)
    with torch.no_grad():
        found, expected = made(*given), f(*given)
        names = kernels_of(lambda: made(*given))
    assert not any(["wgsl" in n for n in names]), names
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype
        rough = 1e-6 if a.dtype is torch.float32 else 0.0  # drivers may make one rounding of a product and a sum
        torch.testing.assert_close(a, b, rtol=rough, atol=rough)


def check(f, *args, kernels=None, rough=1e-4, dynamic=None):
    """The compiled function, twice, against the plain one on the CPU, and its dispatches."""
    made = torch.compile(f, dynamic=dynamic)
    moved = [a.to(D) for a in args]
    with torch.no_grad():
        expected = f(*args)
        for _ in range(2):
            for a, b in zip(made(*moved), expected, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
                torch.testing.assert_close(a.cpu(), b, rtol=rough, atol=rough, equal_nan=True)
        names = kernels_of(lambda: made(*moved))
    assert kernels is None or len(names) == kernels, names


ACTS = {
    "gelu": F.gelu, "tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu": F.relu,
    "relu6": F.relu6, "hardswish": F.hardswish, "leaky": F.leaky_relu, "elu": F.elu, "mish": F.mish,
    "scaled": lambda x: x * 0.125 - 1,
}  # fmt: skip


@compiled
def test_biases(adapter_class):
    x, w, b = torch.randn(2, 4, 9, 10), torch.randn(12, 4, 3, 3), torch.randn(12)
    check(lambda x, w, b: [F.conv2d(x, w, b)], x, w, b, kernels=1)
    check(lambda x, w, b: [F.conv2d(x, w, b).sum(1)], x, w, b, kernels=2)


@compiled
def test_one_number_for_every_dimension(adapter_class):
    """As where the padding is given by name."""
    x, w, b = torch.randn(2, 4, 9, 10), torch.randn(12, 4, 3, 3), torch.randn(12)
    check(lambda x, w, b: [F.conv2d(x, w, b, 2, "valid").relu()], x, w, b, kernels=1)
    how = [2], [1], [1], False, [0], 1
    check(lambda x, w, b: [torch.ops.aten.convolution(x, w, b, *how).sigmoid()], x, w, b, kernels=1)


@compiled
def test_activations():
    x, w, b = torch.randn(2, 5, 7, 9), torch.randn(len(ACTS), 12, 5, 3, 3) * 0.2, torch.randn(12)
    f = lambda x, w, b: [act(F.conv2d(x, w[i], b, padding=1)) for i, act in enumerate(ACTS.values())]  # noqa: E731
    check(f, x, w, b, kernels=len(ACTS))


@compiled
@pytest.mark.parametrize("kind", ["gpu", "own"])
def test_narrow_dtypes(adapter_of, kind):
    adapter_of(**{} if kind == "own" else {"kind": kind})
    dtype = FLOATS[1 + (kind == "own")]
    x, w, b, r = torch.randn(2, 5, 7, 9), torch.randn(12, 5, 3, 3) * 0.2, torch.randn(12), torch.randn(2, 12, 7, 9)
    given = [t.to(dtype) for t in (x, w, b, r)]
    check(lambda x, w, b, r: [r + F.silu(F.conv2d(x, w, b, padding=1))], *given, kernels=1, rough=ROUGH[dtype])


class Block(nn.Module):
    """Of a ResNet-18."""

    def __init__(self, channels, outputs, stride):
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(channels, outputs, 3, stride, 1, bias=False),
            nn.Conv2d(outputs, outputs, 3, 1, 1),
        )
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs) for _ in range(3)])
        self.down = nn.Conv2d(channels, outputs, 1, stride, bias=False) if stride > 1 else None
        for norm in self.norms:
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self, x):
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(y + (x if self.down is None else self.norms[2](self.down(x))))


@compiled
@pytest.mark.parametrize(
    ("kind", "stride", "dtype"),
    [("gpu", 2, FLOATS[0]), ("gpu", 1, FLOATS[1]), ("own", 1, FLOATS[0]), ("own", 2, FLOATS[2])],
)
def test_blocks(adapter_of, kind, stride, dtype):
    """A dispatch for each convolution, and one for what is known of channels, or as many where buffers are few."""
    adapter_of(**{} if kind == "own" else {"kind": kind})
    net = Block(12, 12, stride).eval().to(dtype)
    x = torch.randn(2, 12, 10, 10).to(dtype)
    with torch.no_grad():
        expected = net.double()(x.double())
        net.to(dtype).to(D)
        made = torch.compile(net)
        for _ in range(2):
            torch.testing.assert_close(made(x.to(D)).cpu().double(), expected, rtol=ROUGH[dtype], atol=4 * ROUGH[dtype])
        names = kernels_of(lambda: made(x.to(D)))
    convolutions = 2 + (stride > 1)
    assert len(names) == convolutions + (1 if caps().max_bindings > 16 else convolutions), names


@compiled
def test_values_beside(adapter_of):
    adapter_of(kind="gpu")
    x, w = torch.randn(2, 5, 7, 8), torch.randn(12, 5, 3, 3) * 0.2
    number, channel, gate, mask = torch.tensor(0.5), torch.randn(12, 1, 1), torch.randn(2, 12, 1, 1), torch.randn(7, 8)
    conv = lambda x, w: F.conv2d(x, w, padding=1)  # noqa: E731
    check(lambda x, w, n, c: [conv(x, w) * n + c], x, w, number, channel, kernels=2)
    check(lambda x, w, c: [conv(x, w) * c], x, w, channel, kernels=1)
    check(lambda x, w, g: [torch.sigmoid(g * conv(x, w))], x, w, gate, kernels=1)
    check(lambda x, w, m: [conv(x, w).tanh() + m], x, w, mask, kernels=1)
    check(lambda x, w, g, m: [conv(x, w) * g + m], x, w, gate, mask)


@compiled
def test_channels_last(adapter_of):
    adapter_of(kind="gpu")
    x, w, b, r = torch.randn(2, 5, 6, 8), torch.randn(12, 5, 3, 3), torch.randn(12), torch.randn(2, 12, 6, 8)
    x, r = (t.contiguous(memory_format=torch.channels_last) for t in (x, r))
    check(lambda x, w, b, r: [F.relu(F.conv2d(x, w, b, padding=1)) + r], x, w, b, r)


@compiled
def test_what_others_see_is_stored():
    x, w, r = torch.randn(2, 5, 6, 8), torch.randn(12, 5, 3, 3), torch.randn(2, 12, 6, 8)

    def f(x, w, r):
        y = F.conv2d(x, w, padding=1)
        z = y * 2 + r
        return y, z, z.exp(), F.relu(F.conv2d(z, w.transpose(0, 1), padding=1)).sum()

    check(f, x, w, r)


@compiled
def test_what_is_left_alone(adapter_of):
    """Transposed convolutions whose stride is longer than their window, results that are broadcast, and none at all."""
    adapter_of(kind="gpu")
    x, w = torch.randn(2, 5, 6, 8), torch.randn(5, 12, 3, 3)
    check(lambda x, w: [F.relu(F.conv_transpose2d(x, w, stride=4) + 1)], x, w)
    check(lambda x, w: [F.relu(F.conv_transpose2d(x, w, stride=(2, 4), output_padding=1) - 1)], x, w)
    check(lambda x, w: [F.relu(F.conv2d(x, w[:, :5])) + torch.ones(3, 2, 5, 4, 6, device=x.device)], x, w)
    check(lambda x, w: [F.relu(F.conv2d(x[:0], w[:, :5]))], x, w)


@compiled
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_transposed_with_a_stride(adapter_of, dtype):
    """One product for each phase of the stride, the weights as those read them, and nothing else."""
    adapter_of(kind="gpu")
    x, w, b = torch.randn(2, 5, 6, 7).to(dtype), (torch.randn(5, 12, 4, 4) * 0.3).to(dtype), torch.randn(12).to(dtype)
    given = dict(kernels=5, rough=ROUGH[dtype])
    check(lambda x, w, b: [F.relu(F.conv_transpose2d(x, w, b, 2, 1))], x, w, b, **given)
    r = torch.randn(2, 12, 12, 14).to(dtype)
    check(lambda x, w, r: [F.conv_transpose2d(x, w, None, 2, 1) * 0.5 + r], x, w, r, **given)
    check(lambda x, w, r: [F.conv_transpose2d(x, w, None, 2, 1) * r[:, :1]], x, w, r, **given)
    wide = lambda y: y.half() if y.dtype is torch.float32 else y.float()  # noqa: E731
    check(lambda x, w, b: [wide(F.conv_transpose2d(x, w, b, 2, 1))], x, w, b, kernels=5, rough=0.2)


@compiled
@pytest.mark.parametrize("step", [1, 2])
def test_transposed_of_changing_sizes(adapter_class, step):
    """Whether those with a stride take something in is up to their sizes."""
    w, b = torch.randn(5, 12, 3, 3), torch.randn(12)

    def f(x, w, b):
        return F.silu(F.conv_transpose2d(x, w, b, step)) * 0.5

    made = torch.compile(f)
    for shape in ((2, 5, 6, 7), (3, 5, 9, 4), (2, 5, 2, 33)):
        x = torch.randn(shape)
        y = x.to(D)
        torch._dynamo.mark_dynamic(y, (0, 2, 3))
        with torch.no_grad():
            torch.testing.assert_close(made(y, w.to(D), b.to(D)).cpu(), f(x, w, b), rtol=1e-4, atol=1e-4)
            names = kernels_of(lambda: made(y, w.to(D), b.to(D)))  # noqa: B023
        assert step > 1 or not any(["silu" in n for n in names]), names


CHANGING = {
    "images": [(2, 4, 9, 9), (3, 4, 9, 9), (9, 4, 9, 9)],
    "sizes": [(2, 4, 9, 9), (2, 4, 12, 15), (2, 4, 31, 7)],
    "both": [(2, 4, 9, 9), (3, 4, 8, 16), (5, 4, 20, 7)],
}


@compiled
@pytest.mark.parametrize("kind", ["own", "gpu"])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("name", CHANGING)
def test_sizes_that_change(adapter_of, name, step, kind):
    adapter_of(**({"kind": "gpu"} if kind == "gpu" else {}))
    shapes = CHANGING[name]
    changes = [d for d in (0, 2, 3) if len({shape[d] for shape in shapes}) > 1]
    net = nn.Sequential(nn.Conv2d(4, 12, 3, step, 1), nn.BatchNorm2d(12), nn.ReLU()).eval()
    moved = nn.Sequential(nn.Conv2d(4, 12, 3, step, 1), nn.BatchNorm2d(12), nn.ReLU()).eval()
    moved.load_state_dict(net.state_dict())
    whole = torch.compile(moved.to(D))
    with torch.no_grad():
        for shape in shapes:
            x = torch.randn(shape)
            for given in (x, x.to(memory_format=torch.channels_last)):
                y = given.to(D)
                torch._dynamo.mark_dynamic(y, changes)
                got = whole(y)
                torch.testing.assert_close(got.cpu(), net(given), rtol=1e-4, atol=1e-4)
                assert got.stride() == moved(y).stride()
                names = kernels_of(lambda: whole(y))  # noqa: B023
                assert not any("relu" in n for n in names), names


@compiled
def test_more_images_than_one_binding(adapter_of):
    adapter_of(max_binding=1 << 16)

    def f(x, w, r):
        return F.relu(F.conv2d(x, w, padding=1)) + r

    whole, w = torch.compile(f), torch.randn(8, 4, 3, 3)
    with torch.no_grad():
        for count in (2, 40, 70):  # that fits, whose result does not, that does not fit itself
            x, r = torch.randn(count, 4, 9, 9), torch.randn(count, 8, 9, 9)
            given = [t.to(D) for t in (x, w, r)]
            for t in (given[0], given[2]):
                torch._dynamo.mark_dynamic(t, 0)
            torch.testing.assert_close(whole(*given).cpu(), f(x, w, r), rtol=1e-4, atol=1e-4)


@compiled
def test_training():
    net = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 3, 3, padding=1))
    x, found = torch.randn(2, 3, 8, 9), {}
    for device in ("cpu", D):
        net.to(device).zero_grad()
        f = lambda x: x + net(x)  # noqa: E731
        y = (torch.compile(f) if device == D else f)(x.to(device))
        y.square().sum().backward()
        found[device] = [y.detach().cpu(), *[p.grad.cpu().clone() for p in net.parameters()]]
    for a, b in zip(*found.values()):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
