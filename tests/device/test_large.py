"""Tensors larger than one binding, and more workgroups than one dimension holds."""

import copy
import dataclasses
import gc

import pytest
import torch
import torch.nn.functional as F

from tests import needs
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"


def test_more_than_a_dimension_of_workgroups():
    n = 65535 * 256 + 77  # one element per thread of 256 would need a second row of groups
    x = torch.zeros(n, dtype=torch.uint8, device="webgpu")
    x[-1] = 3
    y = x + 1
    assert y[0].item() == 1 and y[-1].item() == 4


@pytest.fixture
def little_held():
    """What earlier tests of this process left is given back, machine code too: what follows takes half a gigabyte
    itself, and leaves nothing in the pool."""
    gc.collect()
    torch.webgpu.synchronize()
    torch.webgpu.empty_cache()
    for _ in range(2):  # generations of pipelines
        gpu().pipelines._release_earlier()
    yield
    torch.webgpu.synchronize()
    torch.webgpu.empty_cache()


def test_elementwise_beyond_one_binding(little_held):
    limit = gpu().caps.max_binding
    if limit > 256 << 20:
        limit = 256 << 20  # a discrete card's limit is gigabytes; the split is then forced below
    n = limit // 4 + 13
    device, queue = gpu(), gpu().queue
    own = device.caps
    x = torch.arange(n, dtype=torch.int32).remainder_(251)
    d = x.to("webgpu")
    assert d.untyped_storage().nbytes() > limit
    device.caps = queue.caps = dataclasses.replace(own, max_binding=limit)
    try:
        assert torch.equal((d + 1)[-1000:].cpu(), (x + 1)[-1000:])
        d.mul_(2)
        assert torch.equal(d[:1000].cpu(), x[:1000] * 2) and torch.equal(d[-1000:].cpu(), x[-1000:] * 2)
        narrow = d.to(torch.uint8)
        del d
        assert torch.equal(narrow.cpu(), x.mul_(2).to(torch.uint8))
    finally:
        device.caps = queue.caps = own


# -- the same by a limit so low that small tensors pass it


@pytest.fixture
def narrow():
    """Bindings of 64 KiB. Blocks that were bound whole before are given back, and their bind groups with them."""
    torch.webgpu.synchronize()
    torch.webgpu.empty_cache()
    device, queue = gpu(), gpu().queue
    own = device.caps
    device.caps = queue.caps = dataclasses.replace(own, max_binding=1 << 16)
    yield
    device.caps = queue.caps = own


def numbers(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-9, 9, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator, dtype=dtype if dtype.is_complex else torch.float32).to(dtype)


def test_gradients_of_slices(narrow):
    for dtype in (torch.float32, torch.int64):
        grad = numbers(150, 200).to(dtype)
        for args in ([180, 200], 0, 20, 170, 1), ([150, 230], 1, 30, 230, 1), ([300, 200], 0, 0, 300, 2):
            expected = torch.ops.aten.slice_backward(grad, *args)
            assert torch.equal(torch.ops.aten.slice_backward(grad.to(D), *args).cpu(), expected)


def compare(f, *inputs, tolerance=1e-5):
    """f of device tensors and the gradients of all of them, relative to the largest of the CPU's."""
    theirs = [x.clone().requires_grad_(x.is_floating_point() or x.is_complex()) for x in inputs]
    ours = [x.to(D).requires_grad_(y.requires_grad) for x, y in zip(inputs, theirs)]
    expected, found = f(*theirs), f(*ours)
    assert any(x.untyped_storage().nbytes() > 1 << 16 for x in (*ours, found))
    pairs = [(found, expected)]
    if expected.requires_grad:
        grad = numbers(*expected.shape, dtype=expected.dtype)
        expected.backward(grad)
        found.backward(grad.to(D))
        pairs += [(a.grad, b.grad) for a, b in zip(ours, theirs) if b.requires_grad]
    for a, b in pairs:
        assert a.device.type == D and a.shape == b.shape and a.dtype == b.dtype
        if not b.dtype.is_floating_point and not b.dtype.is_complex:
            assert torch.equal(a.cpu(), b)
            continue
        scale = b.detach().abs().max().item()
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=tolerance, atol=tolerance * scale)


TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.complex64: 1e-5}
PRODUCTS = {
    "linear": (F.linear, (3, 100), (700, 100), (700,)),
    "linear of odd sizes": (F.linear, (2, 5, 133), (701, 133), (701,)),
    "linear of a large input": (F.linear, (50, 7, 133), (301, 133), (301,)),
    "linear of a transposed input": (lambda x, w: F.linear(x.transpose(1, 2), w), (50, 133, 7), (71, 133)),
    "addmm": (torch.addmm, (701,), (5, 333), (333, 701)),
    "addmm scaled": (lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=0.5), (150, 301), (150, 333), (333, 301)),
    "mm": (torch.mm, (301, 133), (133, 201)),
    "mm of transposed matrices": (lambda a, b: a.t() @ b.t(), (133, 301), (201, 133)),
    "mm over a long k": (torch.mm, (2, 30001), (30001, 3)),
    "bmm": (torch.bmm, (20, 50, 70), (20, 70, 30)),
    "bmm of large matrices": (torch.bmm, (2, 150, 170), (2, 170, 130)),
    "baddbmm": (torch.baddbmm, (2, 150, 130), (2, 150, 170), (2, 170, 130)),
    "matmul of broadcast batches": (torch.matmul, (3, 1, 50, 100), (1, 4, 100, 50)),
    "mv": (torch.mv, (300, 401), (401,)),
    "dot": (torch.dot, (30001,), (30001,)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (10, 16, 10, 10), (160, 16, 3, 3), (160,)),
    "conv2d in steps": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), (10, 16, 10, 10), (160, 16, 3, 3)),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, padding=1, groups=4), (10, 64, 10, 10), (160, 16, 3, 3)),
    "conv2d of one tap": (F.conv2d, (10, 160, 10, 10), (160, 160, 1, 1)),
    "conv2d of one large image": (lambda x, w: F.conv2d(x, w, padding=1), (1, 20, 40, 40), (4, 20, 3, 3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (10, 16, 10, 10), (16, 60, 3, 3)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(narrow, name):
    f, *shapes = PRODUCTS[name]
    compare(f, *[numbers(*s) for s in shapes])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["linear of odd sizes", "addmm scaled", "mm", "bmm of large matrices"])
def test_products_of_other_dtypes(narrow, name, dtype):
    if dtype.is_complex and name.startswith("linear"):
        needs.newer_torch("2.13", "it has a complex linear's gradient for the CPU and CUDA alone")
    f, *shapes = PRODUCTS[name]
    compare(f, *[numbers(*s, dtype=dtype) for s in shapes], tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8], ids=str)
def test_products_of_integers(narrow, dtype):
    compare(torch.mm, numbers(300, 333, dtype=dtype), numbers(333, 200, dtype=dtype))


TOKENS = torch.tensor([[3, 2999, 0, 7], [7, 7, 1500, 3]])
CLASSES = (torch.arange(200) * 7 % 300).masked_fill(torch.arange(200) % 11 == 0, -100)
WEIGHTS = torch.arange(300) % 5 * 0.25

ROWS = {
    "embedding": (lambda w: F.embedding(TOKENS.to(w.device), w, padding_idx=7), (3000, 50)),
    "gelu": (F.gelu, (300, 301)),
    "multiply by a column": (lambda a, b: a * b, (300, 301), (300, 1)),
    "contiguous": (lambda x: x.t().contiguous(), (300, 301)),
    "slice": (lambda x: x[5:100, ::3] * 2, (300, 301)),
    "cat": (lambda a, b: torch.cat([a, b], 1), (300, 50), (300, 71)),
    "stack": (lambda a, b: torch.stack([a, b]), (300, 151), (300, 151)),
    "chunk": (lambda x: sum(x.chunk(3, -1)), (200, 300)),
    "sum over broadcasts": (lambda a, b: a + b, (4, 100, 200), (1, 100, 200)),
    "softmax": (lambda x: x.softmax(-1), (200, 301)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (301,), w, b), (200, 301), (301,), (301,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, CLASSES.to(x.device)), (200, 300)),
    "cross_entropy, weighted": (
        lambda x: F.cross_entropy(x, CLASSES.to(x.device), WEIGHTS.to(x), reduction="sum"),
        (200, 300),
    ),
    "cross_entropy, each": (lambda x: F.cross_entropy(x, CLASSES.to(x.device), reduction="none"), (200, 300)),
    "index_select": (lambda x: x.index_select(0, torch.tensor([3, 290], device=x.device)), (300, 301)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(narrow, name, dtype):
    f, *shapes = ROWS[name]
    compare(f, *[numbers(*s, dtype=dtype) for s in shapes], tolerance=3 * TOLERANCE[dtype])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(), lambda x: x.argmax(), lambda x: x.argmin(1), lambda x: x.t().argmax(), lambda x: x.argmax(0),
        lambda x: x.amax(), lambda x: x.std(), lambda x: x.logsumexp((0, 1)),
        lambda x: x.expand(2, 3, 30001).sum((0, 2)),
    ],
)  # fmt: skip
def test_reductions_of_few_long_rows(narrow, f):
    x = numbers(3, 30001)
    torch.testing.assert_close(f(x.to(D)).cpu(), f(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.max(x, 0), lambda x: torch.min(x.t(), 1), lambda x: x.argmax(0),
        lambda x: torch.aminmax(x, dim=0), lambda x: x.sum(0, dtype=torch.int64),
    ],
)  # fmt: skip
def test_reductions_whose_results_are_larger_than_their_input(narrow, f):
    x = numbers(2, 8200).mul(1000).round().to(torch.int32)
    for ours, theirs in zip(f(x.to(D)), f(x)):
        assert torch.equal(ours.cpu(), theirs)


def test_places_of_maxima_that_are_larger_than_one_binding(narrow):
    x = numbers(3, 8100).half()
    for ours, theirs in zip(
        F.max_pool1d(x.to(D), 3, 1, return_indices=True), F.max_pool1d(x, 3, 1, return_indices=True)
    ):
        assert torch.equal(ours.cpu(), theirs)
    assert torch.equal(F.max_pool1d(x.to(D), 3, 1).cpu(), F.max_pool1d(x, 3, 1))


@pytest.mark.parametrize("shapes", [((9000,), (9000,)), ((3, 1), (9000,)), ((1, 5000), (2, 1))], ids=str)
@pytest.mark.parametrize("apart", [False, True])
def test_several_indices_larger_than_one_binding(narrow, shapes, apart):
    x, generator = numbers(3, 4, 5), torch.Generator().manual_seed(1)
    i, j = (torch.randint(-2, 3, s, generator=generator) for s in shapes)
    where = (slice(None), i, j) if not apart else (i, slice(None), j)
    ours = x.to(D)[tuple(k.to(D) if isinstance(k, torch.Tensor) else k for k in where)]
    assert torch.equal(ours.cpu(), x[where])


def test_a_view_of_a_larger_buffer_after_one_that_fits(narrow):
    """What was planned over a buffer that fits one binding meets the same view of one that does not."""
    x = numbers(20, 301)
    for holder in (x, torch.cat([x, numbers(200, 301)])):
        part = holder.to(D)[:20]
        torch.testing.assert_close(F.layer_norm(part, (301,)).cpu(), F.layer_norm(x, (301,)), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close((part @ part.t()).cpu(), x @ x.t(), rtol=1e-5, atol=1e-3)
        torch.testing.assert_close(part.softmax(1).cpu(), x.softmax(1))


def test_random_numbers_do_not_depend_on_the_limit():
    def draws():
        torch.manual_seed(3)
        ones = torch.ones(50003, device=D)
        made = [
            torch.rand(50003, device=D), torch.randn(50003, device=D), torch.randint(0, 9, (50003,), device=D),
            torch.bernoulli(ones * 0.3), F.dropout(ones, 0.3), torch.rand(50003, device=D, dtype=torch.float16),
        ]  # fmt: skip
        return [x.cpu() for x in made]

    whole = draws()
    device, queue = gpu(), gpu().queue
    own = device.caps
    torch.webgpu.empty_cache()
    device.caps = queue.caps = dataclasses.replace(own, max_binding=1 << 16)
    try:
        parts = draws()
    finally:
        device.caps = queue.caps = own
    assert all(torch.equal(a, b) for a, b in zip(whole, parts))


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.AdamW,
        lambda p: torch.optim.AdamW(p, fused=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        torch.optim.Adafactor,
    ],
    ids=["adamw", "fused", "sgd", "adafactor"],
)
def test_optimizers(narrow, optimizer):
    theirs = torch.nn.Parameter(numbers(3000, 50))
    ours = torch.nn.Parameter(theirs.detach().to(D))
    steps = optimizer([theirs]), optimizer([ours])
    scaler = torch.amp.GradScaler(D, init_scale=4.0)
    for _ in range(2):
        grad = numbers(3000, 50) * 3
        theirs.grad, ours.grad = grad.clone(), grad.to(D) * 4
        scaler.scale(torch.ones((), device=D))
        scaler.unscale_(steps[1])
        for p, step in zip((theirs, ours), steps):
            torch.nn.utils.clip_grad_norm_([p], 1.0)
            step.step() if p is theirs else scaler.step(step)
        scaler.update()
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=1e-5, atol=1e-5)


def test_a_language_model_s_step(narrow):
    """Embedding, attention, a tied head and the loss over its words, all beyond the limit."""
    transformers = needs.package("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=1500, n_embd=48, n_layer=1, n_head=4, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(1500, (2, 16))
    losses = []
    for device in ("cpu", D):
        net = copy.deepcopy(model).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(3):
            loss = net(tokens.to(device), labels=tokens.to(device)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-3) and losses[0][-1] < losses[0][0]


# -- and by the adapter's own limit


def test_a_linear_layer_and_a_table_of_more_than_one_binding(little_held):
    """The smallest devices bind 128 MiB; this weight has more, whatever the adapter."""
    limit = min(gpu().caps.max_binding, 128 << 20)
    device, queue = gpu(), gpu().queue
    own = device.caps
    rows = limit // 4096 + 77
    weight = numbers(97, 1024).repeat(rows // 97 + 1, 1)[:rows].mul_(torch.arange(rows)[:, None] % 5 - 2)
    x, grad = numbers(2, 1024), numbers(2, rows)
    ours = weight.to(D).requires_grad_()
    assert ours.untyped_storage().nbytes() > limit
    device.caps = queue.caps = dataclasses.replace(own, max_binding=limit)
    try:
        given = x.to(D).requires_grad_()
        found = F.linear(given, ours)
        found.backward(grad.to(D))
        torch.testing.assert_close(found.detach().cpu(), x @ weight.t(), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(given.grad.cpu(), grad @ weight, rtol=1e-4, atol=5e-2)
        for some in (slice(None, None, 1000), slice(-3, None)):
            assert (ours.grad[some].cpu() - grad.t()[some] @ x).abs().max() < 1e-4

        ours.grad = None
        tokens = torch.tensor([0, rows - 1, 5, rows - 1])
        F.embedding(tokens.to(D), ours).square().sum().backward()
        expected = 2 * weight[[0, 5, rows - 1]] * torch.tensor([1.0, 1.0, 2.0])[:, None]
        torch.testing.assert_close(ours.grad[torch.tensor([0, 5, rows - 1], device=D)].cpu(), expected)
        assert ours.grad.count_nonzero().item() == expected.count_nonzero()
    finally:
        device.caps = queue.caps = own


# -- compiled


COMPILED = {
    "elementwise": lambda x: x * 2 + 1,
    "softmax": lambda x: x.softmax(-1) * 2,
    "sum": lambda x: (x * 2).sum(0),
    "product": lambda x: (x @ x.t()).relu() * 0.01,
    "written": lambda x: x.clone().mul_(2).add_(x),
}


@pytest.mark.filterwarnings("ignore:.*replays a graph as it is written")
@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled(narrow, name, changing):
    """Kernels that Inductor wrote take no tensor in parts: such graphs are replayed as they are written."""
    torch._dynamo.reset()
    f, compiled = COMPILED[name], torch.compile(COMPILED[name])
    for rows in (7, 300, 5):
        x = numbers(rows, 301)
        own, ours = x.requires_grad_(), x.detach().to(D).requires_grad_()
        if changing:
            torch._dynamo.mark_dynamic(ours, 0)
        wanted, got = f(own), compiled(ours)
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-3)
        wanted.square().sum().backward()
        got.square().sum().backward()
        torch.testing.assert_close(ours.grad.cpu(), own.grad, rtol=1e-4, atol=1e-2)


@pytest.mark.filterwarnings("ignore:.*replays a graph as it is written")
def test_compiled_writes(narrow):
    def f(x):
        x.mul_(2)
        return x + 1

    torch._dynamo.reset()
    x = numbers(300, 301)
    ours = x.to(D)
    torch.testing.assert_close(torch.compile(f)(ours).cpu(), f(x))
    torch.testing.assert_close(ours.cpu(), x)
