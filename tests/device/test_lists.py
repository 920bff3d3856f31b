"""Lists of tensors, several to a dispatch: against one at a time on the CPU."""

from dataclasses import replace

import pytest
import torch

import webgpu_backend
from webgpu_backend.plan import caps
from webgpu_backend.plan.lists import Lists
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
SHAPES = [(3, 5), (4,), (), (1,), (64, 9), (1025,), (7, 4), (2, 2, 2)] * 3


def tensors(seed, shapes=SHAPES, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.rand(s, generator=generator) + 0.5).to(dtype) for s in shapes]


def on_device(lists):
    return [[t.to(D) for t in column] for column in lists]


def check(got, expected, rtol=1e-5):
    assert len(got) == len(expected)
    for g, e in zip(got, expected):
        assert g.dtype == e.dtype
        torch.testing.assert_close(g.cpu(), e, rtol=rtol, atol=rtol, equal_nan=True)


def dispatches(call):
    before = webgpu_backend.stats()["dispatches"]
    result = call()
    return webgpu_backend.stats()["dispatches"] - before, result


CALLS = {
    "add_list": lambda a, b, c: torch._foreach_add(a, b, alpha=0.5),
    "mul_number": lambda a, b, c: torch._foreach_mul(a, 3),
    "numbers": lambda a, b, c: torch._foreach_div(a, [float(k + 1) for k in range(len(a))]),
    "addcdiv": lambda a, b, c: torch._foreach_addcdiv(a, b, c, [0.1 * k for k in range(len(a))]),
    "lerp": lambda a, b, c: torch._foreach_lerp(a, b, 0.25),
    "sqrt": lambda a, b, c: torch._foreach_sqrt(a),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_functional(name, dtype):
    columns = [tensors(seed, dtype=dtype) for seed in range(3)]
    expected = CALLS[name](*columns)
    moved = on_device(columns)
    count, got = dispatches(lambda: CALLS[name](*moved))
    check(got, expected, 1e-5 if dtype is torch.float32 else 1e-2)
    assert count < len(SHAPES) or caps().kind == "cpu"


def test_inplace_writes_nothing_beside():
    """Tensors that are parts of larger storages keep their neighbours; others on whole storages go together."""
    host = [torch.arange(8.0), torch.arange(7.0), torch.arange(12.0)]
    device = [t.to(D) for t in host]
    parts = lambda column: [column[0][:5], column[1], column[2][4:8]]  # noqa: E731
    torch._foreach_add_(parts(host), 1.0)
    torch._foreach_add_(parts(device), 1.0)
    check(device, host)


def test_the_same_tensor_twice():
    a, b = torch.ones(8), torch.ones(8)
    x, y = a.to(D), b.to(D)
    torch._foreach_mul_([a, b, a], [2.0, 3.0, 5.0])
    torch._foreach_mul_([x, y, x], [2.0, 3.0, 5.0])
    check([x, y], [a, b])
    torch._foreach_add_([a, b], [b, a])
    torch._foreach_add_([x, y], [y, x])
    check([x, y], [a, b])


def test_a_change_in_place_is_counted():
    """What autograd kept may not be changed before it is used."""
    for change in (
        lambda w: torch._foreach_add_(w, 1.0),
        lambda w: torch._foreach_mul_(w, [t.clone() for t in w]),
        lambda w: torch._foreach_copy_(w, [t.clone() for t in w]),
        lambda w: torch._foreach_zero_(w),
    ):
        x, w = torch.ones(3, device=D, requires_grad=True), torch.ones(3, device=D)
        y = x * w
        before = w._version
        change([w])
        assert w._version == before + 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_one_element_for_all():
    a = tensors(0)
    x = [t.to(D) for t in a]
    torch._foreach_mul_(a, torch.tensor(0.5))
    torch._foreach_mul_(x, torch.tensor(0.5, device=D))
    check(x, a)


def test_shapes_that_broadcast_or_stride():
    a = [torch.rand(4, 4), torch.rand(4, 4).t(), torch.rand(2, 3)]
    b = [torch.rand(4, 1), torch.rand(4, 4), torch.rand(2, 3)]
    check(torch._foreach_add([t.to(D) for t in a], [t.to(D) for t in b]), torch._foreach_add(a, b))


def test_mixed_dtypes_promote():
    a, b = tensors(0, dtype=torch.float16), tensors(1)
    check(torch._foreach_add(*on_device([a, b])), torch._foreach_add(a, b), 1e-3)


def test_empty_members():
    a = [torch.ones(4), torch.ones(0), torch.ones(2)]
    check(torch._foreach_add([t.to(D) for t in a], 2.0), torch._foreach_add(a, 2.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_adamw_of_many(dtype):
    def run(device):
        parameters = [torch.nn.Parameter(t.to(device)) for t in tensors(0, dtype=dtype)]
        optimizer = torch.optim.AdamW(parameters, lr=0.01, fused=True)
        for step in range(3):
            for p, g in zip(parameters, tensors(step + 1, dtype=dtype)):
                p.grad = g.to(device)
            optimizer.step()
        return [p.detach() for p in parameters]

    check(run(D), run("cpu"), 1e-5 if dtype is torch.float32 else 2e-2)


def change_nothing(tensors):
    return tensors


def transpose(tensors):
    tensors[0].t_()
    return tensors


def other_shape(tensors):
    return [t.view(-1)[:16].view(2, 8) for t in tensors]


def other_dtype(tensors):
    return [t.view(torch.bfloat16).fill_(0.5) for t in tensors]


def other_storage(tensors):
    """The same pointers and sizes, with somebody else's elements behind them."""
    kept = [t.cpu() for t in tensors]
    shape, device = tensors[0].shape, tensors[0].device
    tensors.clear()
    whole = [torch.full((16,), 7.0, device=device) for _ in kept]
    parts = [w[: shape.numel()].view(shape) for w in whole]
    for part, values in zip(parts, kept):
        part.copy_(values)
    return parts


def new_memory(tensors):
    kept = [t.cpu() for t in tensors]
    device = tensors[0].device
    tensors.clear()
    if device.type == D:
        torch.webgpu.synchronize()
        torch.webgpu.empty_cache()
    return [t.to(device) for t in kept]


@pytest.mark.parametrize("change, shape", [
    (change_nothing, (3, 3)), (transpose, (3, 3)), (other_storage, (3, 3)), (new_memory, (3, 3)),
    (transpose, (4, 4)), (other_shape, (4, 4)), (other_dtype, (4, 4)),
])  # fmt: skip
def test_what_is_known_of_a_list_is_looked_at_again(change, shape):
    """The third call finds the lists held; after a change of the tensors there, the fourth must not."""

    def run(device):
        a, b = ([t.to(device) for t in tensors(seed, [shape] * 3)] for seed in range(2))
        for _ in range(3):
            torch._foreach_addcmul_(a, b, b, value=0.5)
        a = change(a)
        b = other_shape(b) if change is other_shape else other_dtype(b) if change is other_dtype else b
        torch._foreach_addcmul_(a, b, b, value=0.5)
        return [t.clone() if t._base is None else t._base.clone() for t in a]

    check(run(D), run("cpu"), 2e-2 if change is other_dtype else 1e-5)


def test_held_lists_are_not_looked_at_again(monkeypatch):
    a, b = on_device([tensors(0), tensors(1)])
    expected = [x + 3 * y for x, y in zip(tensors(0), tensors(1))]
    torch._foreach_add_(a, b)
    torch._foreach_add_(a, b)
    monkeypatch.setattr(Lists, "_look", None)
    torch._foreach_add_(a, b)
    check(a, expected)


@pytest.fixture
def big_gpu(adapter_of):
    adapter_of(kind="gpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norms_go_together_on_a_gpu(order, dtype, big_gpu):
    column = tensors(0, [*SHAPES, (70, 1001), (16384,), (16385,)], dtype)
    given = [t.to(D) for t in column]
    count, got = dispatches(lambda: torch._foreach_norm(given, order))
    check(got, torch._foreach_norm(column, order), 1e-5 if dtype is torch.float32 else 1e-2)
    assert count < len(column) / 3


def test_norms_of_nan_infinity_parts_and_nothing(big_gpu):
    host = [torch.tensor([1.0, float("nan"), 2.0]), torch.tensor([float("inf"), 1.0]), torch.zeros(3), torch.ones(5)]
    for order in (1, 2, float("inf"), 3):
        check(torch._foreach_norm([t.to(D) for t in host], order), torch._foreach_norm(host, order))
    parts = lambda device: [torch.arange(9.0, device=device)[2:], torch.ones(4, 6, device=device).t()]  # noqa: E731
    check(torch._foreach_norm(parts(D)), torch._foreach_norm(parts("cpu")))
    check(
        torch._foreach_norm([torch.ones(0, device=D), torch.ones(2, device=D)]),
        [torch.tensor(0.0), torch.tensor(2**0.5)],
    )
    wide = torch._foreach_norm([torch.ones(9, device=D, dtype=torch.float16)] * 2, 2, dtype=torch.float32)
    check(wide, [torch.tensor(3.0)] * 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch._foreach_sub(x, True),
        lambda x: torch._foreach_sub_(x, [True] * len(x)),
        lambda x: torch._foreach_add(x, x, alpha=True),
        lambda x: torch._foreach_norm([*x, x[0][:0]], float("inf")),
        lambda x: torch._foreach_norm([x[0][:0].int()], float("inf")),
    ],
)
def test_numbers_and_sizes_that_are_refused(call):
    found = []
    for device in ("cpu", D):
        with pytest.raises(RuntimeError) as raised:
            call([torch.ones(3, device=device), torch.ones(2, 2, device=device)])
        found.append(str(raised.value))
    assert found[0] == found[1]


def test_booleans_are_numbers_elsewhere():
    xs = tensors(0)
    for numbers in (True, [k % 2 == 0 for k in range(len(xs))]):
        check(torch._foreach_mul([t.to(D) for t in xs], numbers), torch._foreach_mul(xs, numbers))


def test_clipping_gradients(big_gpu):
    norms, results = [], []
    for device in ("cpu", D):
        parameters = [torch.nn.Parameter(t.to(device)) for t in tensors(1)]
        for p in parameters:
            p.grad = p.detach() * 3
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0).cpu())
        results.append([p.grad.cpu() for p in parameters])
    torch.testing.assert_close(norms[1], norms[0])
    check(results[1], results[0])


def test_what_is_known_of_tensors_belongs_to_the_adapter(monkeypatch):
    """Lists that come again are remembered with their plan, which another adapter's kernels are not in."""
    xs = [t.to(D) for t in tensors(0)]

    def texts():
        queue = gpu().queue
        queue.recording = []
        torch._foreach_mul_(xs, 1.5)
        found, queue.recording = {r.step.program.wgsl for r in queue.recording}, None
        return found

    before = [texts() for _ in range(3)][-1]
    own = gpu().caps
    monkeypatch.setattr(gpu(), "caps", replace(own, kind="gpu" if own.kind == "cpu" else "cpu"))
    assert texts().isdisjoint(before)


def test_numbers_are_refused_in_their_order():
    for device in ("cpu", "webgpu"):
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch._foreach_minimum_([torch.ones(2, dtype=torch.int8, device=device) for _ in range(2)], [2.5, 2j])


@pytest.mark.parametrize("number", [1 + 2j, [1.0, 2j]], ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum", "clamp_min", "clamp_max", "maximum_", "clamp_max_"])
def test_complex_numbers_are_no_bounds(name, number):
    said = []
    for device in ("cpu", "webgpu"):
        with pytest.raises(NotImplementedError) as raised:
            getattr(torch, f"_foreach_{name}")([torch.ones(2, device=device), torch.ones(3, device=device)], number)
        said.append(str(raised.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "numbers",
    [torch.ones(4)[::2], torch.tensor([[0.0, 1], [2, 3]])[:, 1], torch.ones(3), torch.ones(()), torch.ones(1, 2)],
)
@pytest.mark.parametrize("function", [torch._foreach_addcmul, torch._foreach_addcdiv])
def test_numbers_in_a_tensor_are_checked_as_on_the_cpu(function, numbers):
    messages = []
    for device in ("cpu", D):
        tensors = [torch.ones(2, device=device) for _ in range(2)]
        with pytest.raises(RuntimeError) as raised:
            function(tensors, tensors, tensors, numbers)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    tensors = [torch.ones(2, device=D) for _ in range(2)]
    with pytest.raises(RuntimeError, match="Expected scalars to be on CPU, got webgpu:0 instead."):
        function(tensors, tensors, tensors, torch.ones(2, device=D))
