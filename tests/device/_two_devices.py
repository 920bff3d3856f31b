"""What is true of two devices in one process; run by `test_devices.py` in a process that has them.

The current device is 0 unless a test says otherwise, and most tensors are on 1: nothing may come out right by chance.
"""

import copy
import io
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import webgpu_backend
from tests import needs
from tests.device._compare import close
from webgpu_backend.frontend.integrations import packages

ONE, ZERO = torch.device("webgpu", 1), torch.device("webgpu", 0)


@pytest.fixture(autouse=True)
def current_device_stays():
    torch.manual_seed(0)
    before = torch.webgpu.current_device()
    yield
    assert torch.webgpu.current_device() == before == 0


def on_one(function, *args, tolerance=1e-5):
    """A function of tensors on device 1 gives what it gives on the CPU, on device 1."""
    expected = function(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
    got = function(*[a.to(ONE) if isinstance(a, torch.Tensor) else a for a in args])
    close(got, expected, tolerance)
    for leaf in got if isinstance(got, (tuple, list)) else [got]:
        assert not isinstance(leaf, torch.Tensor) or leaf.device == ONE, leaf.device


# -- the device module


def test_devices():
    assert torch.webgpu.device_count() == torch.accelerator.device_count() == 2
    assert [torch.webgpu.get_device_properties(i).index for i in range(2)] == [0, 1]
    assert torch.ones(2, device="webgpu").device == ZERO and torch.ones(2, device="webgpu:1").device == ONE


def test_selecting_a_device():
    with torch.webgpu.device(1):
        assert torch.webgpu.current_device() == torch.accelerator.current_device_index() == 1
        for made in (
            torch.zeros(3, device="webgpu"),
            torch.tensor([1.0], device="webgpu"),
            torch.ones(2).to("webgpu"),
            torch.ones(2, device="webgpu:0").to("webgpu"),
            nn.Linear(2, 2).to("webgpu").weight,
            torch.as_tensor([1], device="webgpu"),
            torch.ones(2).to(device=torch.device("webgpu")),
        ):
            assert made.device == ONE
        assert torch.zeros(3, device="webgpu:0").device == ZERO
        with torch.webgpu.device(-1), torch.webgpu.device_of(torch.ones(1)):
            assert torch.webgpu.current_device() == 1
    with torch.webgpu.device_of(torch.ones(1, device=ONE)):
        assert torch.webgpu.current_device() == 1
    with torch.accelerator.device_index(1):
        assert torch.webgpu.current_device() == 1
    torch.accelerator.set_device_index(1)
    try:
        assert torch.webgpu.current_device() == 1 and torch.ones(1, device="webgpu").device == ONE
        with torch.device("webgpu"):
            assert torch.tensor([1.0]).device == ONE and torch.zeros(1).device == ONE
    finally:
        torch.webgpu.set_device(0)


def test_scripts_and_graphs_where_another_device_is_selected():
    @torch.jit.script
    def scripted(x: torch.Tensor):
        return x.to(torch.float32) + torch.tensor([1.0]).to(x.device) + torch.tensor(2.0)

    def traced(x):
        return x.to(torch.float32) + torch.tensor([1.0]).to(x.device) + torch.as_tensor(2.0)

    with torch.webgpu.device(1):
        x = torch.ones(3, device="webgpu")
        for function in (scripted, traced, torch.compile(traced, backend="webgpu", fullgraph=True)):
            out = function(x)
            assert out.device == ONE and out.tolist() == [4.0] * 3


def test_lazy_modules_are_moved_to_the_current_device():
    with torch.webgpu.device(1):
        model = nn.LazyLinear(3).to("webgpu")
        assert model(torch.ones(2, 4, device="webgpu")).device == ONE


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.empty(2, device="webgpu:2"),
        lambda: torch.ones(2).to("webgpu:7"),
        lambda: torch.webgpu.set_device(2),
        lambda: torch.webgpu.device(2),
        lambda: torch.webgpu.memory_allocated(2),
        lambda: torch.rand(2, device="webgpu:3"),
        lambda: torch.tensor([1], device="webgpu:2"),
        lambda: torch.accelerator.set_device_index(2),
    ],
)
def test_a_device_that_is_not_there(use):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        use()


def test_memory_is_counted_by_device():
    torch.ones(1, device=ONE)
    before = [torch.webgpu.memory_allocated(i) for i in range(2)]
    x = torch.empty(1 << 18, device=ONE)
    assert [torch.webgpu.memory_allocated(i) for i in range(2)] == [before[0], before[1] + (1 << 20)]
    assert torch.webgpu.memory_stats(1)["active.all.current"] >= 1
    assert torch.webgpu.max_memory_allocated(1) >= torch.webgpu.memory_allocated(1) > 0
    assert torch.accelerator.memory_allocated(1) == torch.webgpu.memory_allocated(ONE)
    torch.webgpu.reset_peak_memory_stats(1)
    del x
    assert torch.webgpu.memory_allocated(1) == before[1] < torch.webgpu.max_memory_allocated(1)
    torch.webgpu.empty_cache()
    assert torch.webgpu.mem_get_info(1)[0] > 0


def test_streams_and_events():
    a, b = torch.webgpu.current_stream(0), torch.webgpu.current_stream(ONE)
    assert a != b and a.device == ZERO and b.device == ONE and b == torch.webgpu.Stream(1) == torch.Stream(ONE)
    with b:
        assert torch.webgpu.current_device() == 1
        start, end = torch.webgpu.Event(enable_timing=True), torch.webgpu.Event(enable_timing=True)
        start.record()
        x = torch.ones(64, 64, device="webgpu") @ torch.ones(64, 64, device="webgpu")
        end.record(b)
    assert x.device == ONE and start.elapsed_time(end) >= 0 and end.query()
    a.wait_event(end)
    a.wait_stream(b)
    torch.webgpu.synchronize(1)
    assert b.query() and a.query()


# -- random numbers


def test_random_streams_are_apart():
    torch.manual_seed(5)
    first = [torch.rand(8, device=d).cpu() for d in (ZERO, ONE)]
    assert torch.equal(*first)  # one seed for all, as with CUDA
    torch.rand(100, device=ZERO)
    second = torch.rand(8, device=ONE).cpu()
    torch.manual_seed(5)
    assert torch.equal(torch.rand(8, device=ONE).cpu(), first[1]) and torch.equal(
        torch.rand(8, device=ONE).cpu(), second
    )


def test_random_states():
    states = torch.webgpu.get_rng_state_all()
    assert len(states) == len(torch.webgpu.default_generators) == 2
    state = torch.webgpu.get_rng_state(1)
    x = torch.randn(9, device=ONE)
    assert torch.equal(torch.webgpu.get_rng_state(0), states[0]) and not torch.equal(
        torch.webgpu.get_rng_state(1), state
    )
    torch.webgpu.set_rng_state(state, "webgpu:1")
    assert torch.equal(torch.randn(9, device=ONE), x)
    torch.webgpu.set_rng_state_all(states)
    assert torch.equal(torch.randn(9, device=ONE), x)
    with torch.webgpu.fork_rng():
        inside = torch.rand(3, device=ONE)
    assert torch.equal(torch.rand(3, device=ONE), inside)
    with torch.webgpu.device(1):
        torch.webgpu.manual_seed(11)
        assert torch.webgpu.initial_seed() == 11
    assert torch.webgpu.initial_seed() != 11


def test_generators():
    g = torch.Generator(device="webgpu:1").manual_seed(3)
    assert g.device == ONE and pickle.loads(pickle.dumps(g)).device == ONE
    x = torch.rand(5, device=ONE, generator=g)
    h = torch.Generator(device="webgpu").manual_seed(3)
    assert h.device == ZERO and torch.equal(x.cpu(), torch.rand(5, device=ZERO, generator=h).cpu())
    assert torch.equal(
        F.dropout(torch.ones(64, device=ONE)).cpu() > 0, F.dropout(torch.ones(64, device=ZERO)).cpu() > 0
    )


# -- operators on device 1 while the current device is 0

M = [torch.randn(5, 7), torch.randn(5, 7)]
OPERATORS = {
    "add": lambda a, b: a + b,
    "number": lambda a, b: 2 - a * 3 / 4,
    "broadcast": lambda a, b: a[:, :1] * b[0],
    "inplace": lambda a, b: a.add_(b).mul_(2),
    "out": lambda a, b: torch.sub(a, b, out=torch.empty_like(a)),
    "out of another size": lambda a, b: torch.exp(a, out=torch.empty(0, device=a.device)),
    "where": lambda a, b: torch.where(a > b, a, b),
    "masked": lambda a, b: a.masked_fill(b > 0, 1.5),
    "compare": lambda a, b: (a > b) | (a == b),
    "cast": lambda a, b: (a.half(), a.long(), a.to(torch.complex64)),
    "clamp": lambda a, b: a.clamp(-1, 1),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5),
    "sums": lambda a, b: (a.sum(), b.mean(0), a.var(1)),
    "max": lambda a, b: a.max(1),
    "argmax": lambda a, b: a.argmax(),
    "item": lambda a, b: a.sum().item() * 0 + 1,
    "norms": lambda a, b: (torch.linalg.norm(a), torch.linalg.vector_norm(b, 3)),
    "cumsum": lambda a, b: a.cumsum(1),
    "softmax": lambda a, b: F.softmax(a, -1),
    "log_softmax": lambda a, b: F.log_softmax(a, 0),
    "layer_norm": lambda a, b: F.layer_norm(a, (7,), b[0], b[1]),
    "rms_norm": lambda a, b: F.rms_norm(a, (7,)),
    "mm": lambda a, b: a @ b.t(),
    "bmm": lambda a, b: torch.matmul(a.expand(3, 5, 7), b.t()),
    "linear": lambda a, b: F.linear(a, b, b[:, 0]),
    "addmm": lambda a, b: torch.addmm(b[:, :5], a, b.t()),
    "cat": lambda a, b: torch.cat([a, b], 1),
    "stack": lambda a, b: torch.stack([a, b]),
    "pad": lambda a, b: F.pad(a, (1, 2)),
    "views": lambda a, b: a[1:, ::2].t().reshape(-1),
    "flip": lambda a, b: a.flip(0).roll(2, 1),
    "index": lambda a, b: a[torch.tensor([3, 1], device=a.device)],
    "mask": lambda a, b: a[a > 0],
    "index of the host": lambda a, b: a[torch.tensor([3, 1])],
    "setitem": lambda a, b: a.index_put_((b > 0,), b.sum()),
    "gather": lambda a, b: a.gather(1, b.argsort(1)),
    "scatter": lambda a, b: a.scatter_add(1, b.argsort(1), b),
    "sort": lambda a, b: a.sort(1),
    "topk": lambda a, b: a.topk(3),
    "nonzero": lambda a, b: (a > 0).nonzero(),
    "unique": lambda a, b: (a > 0).long().unique(return_counts=True),
    "search": lambda a, b: torch.bucketize(a, b[0].sort()[0]),
    "embedding": lambda a, b: F.embedding(torch.tensor([1, 3], device=a.device), b),
    "conv2d": lambda a, b: F.conv2d(a.view(1, 1, 5, 7), b[:3, :3].reshape(1, 1, 3, 3), padding=1),
    "pool": lambda a, b: (F.max_pool2d(a.view(1, 1, 5, 7), 2), F.avg_pool2d(b.view(1, 1, 5, 7), 2)),
    "interpolate": lambda a, b: F.interpolate(a.view(1, 1, 5, 7), scale_factor=2, mode="bilinear"),
    "attention": lambda a, b: F.scaled_dot_product_attention(
        a.view(1, 1, 5, 7), b.view(1, 1, 5, 7), b.view(1, 1, 5, 7)
    ),
    "losses": lambda a, b: (
        F.mse_loss(a, b),
        F.cross_entropy(a, torch.arange(5, device=a.device)),
        F.smooth_l1_loss(a, b),
    ),
    "fft": lambda a, b: torch.fft.rfft(a, 6),
    "solve": lambda a, b: torch.linalg.solve(a[:, :5] + 5 * torch.eye(5, device=a.device), b),
    "cholesky": lambda a, b: torch.linalg.cholesky(a @ a.t() + torch.eye(5, device=a.device)),
    "einsum": lambda a, b: torch.einsum("ij,kj->ik", a, b),
    "tril": lambda a, b: a.tril(),
    "cdist": lambda a, b: torch.cdist(a, b),
    "factories": lambda a, b: (
        torch.zeros_like(a),
        torch.full((2,), 3.0, device=a.device),
        torch.arange(4, device=a.device),
        a.new_ones(2),
        torch.linspace(0, 1, 5, device=a.device),
        torch.scalar_tensor(2.0, device=a.device),
    ),
    "nothing": lambda a, b: (a[:0] + b[:0], a[:0].sum(), torch.cat([a[:0], b])),
    "no dimensions": lambda a, b: a[0, 0] + b[1, 1],
    "foreach": lambda a, b: torch._foreach_add([a, b], [b, a], alpha=2),
    "foreach norm": lambda a, b: torch._foreach_norm([a, b]),
    "sparse": lambda a, b: torch.sparse.mm((a * (a > 0)).to_sparse(), b.t()),
    "rows": lambda a, b: (a * (a > 0)).to_sparse_csr() @ b.t(),
    "complex": lambda a, b: torch.view_as_real(torch.complex(a, b).conj() * 2),
    "copy": lambda a, b: b.clone().t().contiguous(),
    "resize": lambda a, b: a.clone().resize_(3, 3),
    "set": lambda a, b: torch.empty(0, device=a.device).set_(a),
    "unfold": lambda a, b: F.unfold(a.view(1, 1, 5, 7), 2),
    "dot": lambda a, b: torch.dot(a[0], b[0]),
    "outer": lambda a, b: torch.outer(a[0], b[0]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    if name == "item":
        assert torch.ones(3, device=ONE).sum().item() == 3
    on_one(OPERATORS[name], *[m.clone() for m in M], tolerance=1e-4)
    on_one(OPERATORS[name], *[m.clone() for m in M], tolerance=1e-4)  # from the plan


def test_kernels_of_both_devices_give_the_same():
    """By turns, which plans of the one must not be taken for the other's."""
    for k in range(3):
        for d in (ZERO, ONE):
            x = (torch.arange(12.0, device=d).view(3, 4) + k).softmax(-1) @ torch.ones(4, 2, device=d)
            assert x.device == d and torch.allclose(x.cpu(), torch.ones(3, 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: b - a,
        lambda a, b: a.add_(b),
        lambda a, b: a @ b,
        lambda a, b: F.linear(a, b),
        lambda a, b: torch.cat([a, b]),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: torch.add(a.detach(), a.detach(), out=b),
        lambda a, b: torch.mm(a.detach(), a.detach(), out=b),
        lambda a, b: F.embedding(a.long(), b),
        lambda a, b: a[b.long()],
        lambda a, b: a.index_add(0, b[0].long(), a),
        lambda a, b: F.mse_loss(a, b),
        lambda a, b: torch.stack([a, b]),
        lambda a, b: F.layer_norm(a, (2,), b[0]),
        lambda a, b: F.conv2d(a.view(1, 1, 2, 2), b.view(1, 1, 2, 2)),
        lambda a, b: torch.equal(a, b),
        lambda a, b: a + b[0, 0],
        lambda a, b: a.gather(0, b.long()),
        lambda a, b: F.scaled_dot_product_attention(*[t.view(1, 1, 2, 2) for t in (a, b, b)]),
        lambda a, b: torch.addcmul(a, a, b),
        lambda a, b: a.masked_fill(b > 0, 1.0),
        lambda a, b: torch.linalg.solve(a, b),
        lambda a, b: a[:0] + b[:0],
    ],
)
@pytest.mark.parametrize("grad", [False, True])
def test_tensors_of_two_devices(call, grad):
    a, b = torch.ones(2, 2, device=ZERO), torch.zeros(2, 2, device=ONE)
    if grad:
        a = nn.Parameter(a) * 1
    words = (
        "Expected all tensors to be on the same device, but found at least two devices, webgpu:[01] and webgpu:[01]!"
    )
    with pytest.raises(RuntimeError, match=words):
        call(a, b)
    assert a.sum().item() == 4 and b.sum().item() == 0  # neither is written


def test_numbers_of_the_host_join():
    x = torch.ones(3, device=ONE)
    assert (x + torch.tensor(2.0)).tolist() == [3.0] * 3 and (torch.tensor(2.0) * x).device == ONE


# -- copies


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.uint8, torch.complex64])
def test_copies_between_devices(dtype):
    x = (torch.randn(6, 5) * 3).to(dtype)
    a = x.to(ZERO)
    for source in (a, a.t(), a[1::2, 3:], a[0], a[:0], a[:, :1].expand(6, 4), a[2, 2]):
        there = source.to(ONE)
        assert (
            there.device == ONE
            and torch.equal(there.cpu(), source.cpu())
            and there.stride() == source.cpu().clone().stride()
        )
        back = torch.zeros_like(source)
        assert back.copy_(there) is back and torch.equal(back.cpu(), source.cpu())
    strided = torch.zeros(5, 6, dtype=dtype, device=ONE)
    strided.t().copy_(a)
    assert torch.equal(strided.t().cpu(), x)
    strided[:, ::2].copy_(a[0, :3])  # broadcast, into a part
    assert torch.equal(strided[:, ::2].cpu(), x[0, :3].expand(5, 3))


def test_copies_that_convert():
    a = torch.randn(4, 4, device=ZERO)
    assert torch.equal(a.to(ONE, torch.float16).cpu(), a.cpu().half())
    assert torch.equal(torch.zeros(4, 4, dtype=torch.int32, device=ONE).copy_(a).cpu(), a.cpu().int())
    z = torch.randn(3, dtype=torch.complex64).to(ZERO)
    assert torch.equal(z.conj().to(ONE).cpu(), z.cpu().conj().resolve_conj())
    assert torch.zeros_like(a, device=ONE).device == ONE and torch.rand_like(a, device=ONE).device == ONE
    assert a.new_zeros(2, device=ONE).device == ONE and torch.empty_like(a, device=ONE).device == ONE
    assert a.to(ZERO) is a and a.to("webgpu") is a


def test_copies_come_after_what_was_asked_for_before():
    a, b = torch.zeros(1000, device=ZERO), torch.zeros(1000, device=ONE)
    for _ in range(20):
        a.add_(1)
        b.add_(a.to(ONE)).mul_(2)
        a.copy_(b)
    expected, there = torch.zeros(1000), torch.zeros(1000)
    for _ in range(20):
        expected += 1
        there = (there + expected) * 2
        expected = there.clone()
    assert torch.allclose(a.cpu(), expected)


def test_keeping_and_loading():
    x = nn.Parameter(torch.randn(3, 2, device=ONE))
    file = io.BytesIO()
    torch.save({"x": x}, file)
    for where, device in (
        (None, ONE),
        ("webgpu:0", ZERO),
        ("webgpu:1", ONE),
        ("webgpu", ZERO),
        ({"webgpu:1": "webgpu:0"}, ZERO),
    ):
        file.seek(0)
        loaded = torch.load(file, map_location=where)["x"]
        assert loaded.device == device and torch.equal(loaded.cpu(), x.cpu())
    file.seek(0)
    with torch.webgpu.device(1):
        assert torch.load(file, map_location="webgpu")["x"].device == ONE
    assert copy.deepcopy(x).device == ONE and pickle.loads(pickle.dumps(x)).device == ONE
    assert x.untyped_storage().device == ONE and copy.deepcopy(x.untyped_storage()).device == ONE
    layer = nn.Linear(2, 2).to(ZERO)
    weight = layer.weight
    assert layer.to(ONE).weight is weight and weight.device == ONE


# -- training


def layers():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


class Split(nn.Module):
    """Half of the layers on each device."""

    def __init__(self, devices):
        super().__init__()
        self.first, self.second = layers()[:3].to(devices[0]), layers()[3:].to(devices[1])
        self.devices = devices

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("loss_on_the_host", [False, True])
def test_a_model_over_two_devices_trains(optimizer, loss_on_the_host):
    x, y = torch.randn(20, 6), torch.randn(20, 3)
    trained = {}
    for name, devices in (("cpu", ("cpu", "cpu")), ("both", (ZERO, ONE))):
        model = Split(devices)
        steps = optimizer(model.parameters(), lr=0.01)
        for _ in range(4):
            out = model(x)
            loss = F.mse_loss(out.cpu(), y) if loss_on_the_host else F.mse_loss(out, y.to(out.device))
            steps.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            steps.step()
        trained[name] = [loss.detach().cpu(), *[p.detach().cpu() for p in model.parameters()]]
        assert {p.grad.device for p in model.parameters()} == {torch.device(d) for d in devices}
    for ours, reference in zip(trained["both"], trained["cpu"]):
        assert torch.allclose(ours, reference, atol=1e-5)


def test_data_parallel_functions():
    x = torch.randn(7, 6)
    parts = nn.parallel.scatter(x, [0, 1])
    assert [p.device for p in parts] == [ZERO, ONE] and torch.equal(torch.cat([p.cpu() for p in parts]), x)
    assert torch.equal(nn.parallel.gather(parts, 1).cpu(), x) and nn.parallel.gather(parts, 1).device == ONE
    copies = nn.parallel.replicate(layers().to(ZERO), [0, 1])
    outs = nn.parallel.parallel_apply(copies, [(p,) for p in parts], devices=[0, 1])
    assert torch.allclose(nn.parallel.gather(outs, "cpu"), layers()(x), atol=1e-5)
    z = torch.randn(4, dtype=torch.complex64)
    assert torch.equal(nn.parallel.gather(nn.parallel.scatter(z.to(ZERO), [0, 1]), 0).cpu(), z)


def test_data_parallel_trains():
    x, y = torch.randn(10, 6), torch.randn(10, 3)
    ours, reference = nn.DataParallel(layers().to(ZERO)), layers()
    for model in (ours, reference):
        steps = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            out = model(x)
            steps.zero_grad()
            F.mse_loss(out, y.to(out.device)).backward()
            steps.step()
    for p, q in zip(ours.parameters(), reference.parameters()):
        assert p.device == ZERO and torch.allclose(p.cpu(), q, atol=1e-5)


def test_threads_with_a_device_each():
    x, made = torch.randn(32, 32), layers()  # here: the CPU's random numbers are common to all threads

    def work(device, selects, out):
        if selects:
            torch.webgpu.set_device(device)
        model, a = copy.deepcopy(made).to(device), x.to(device)
        for k in range(30):
            a = torch.tanh(a @ a.t() * 0.1 + k * 0.01)
            if k % 5 == 0:
                model.zero_grad()
                model(a[:, :6]).square().mean().backward()
                float(a.sum())
        fresh = torch.ones(2, device="webgpu").device
        out.append((a.cpu(), [p.grad.cpu() for p in model.parameters()], fresh))

    found: dict = {}
    expected: list = []
    work("cpu", False, expected)
    threads = []
    for k in range(4):
        found[k] = []
        device = (ZERO, ONE)[k % 2]
        threads.append(threading.Thread(target=work, args=(device, k >= 2, found[k])))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k, out in found.items():
        assert len(out) == 1, "a thread has failed"
        assert torch.allclose(out[0][0], expected[0][0], atol=1e-4), k
        for ours, reference in zip(out[0][1], expected[0][1]):
            assert torch.allclose(ours, reference, atol=1e-4), k
        assert out[0][2] == (ONE if k == 3 else ZERO)


def test_accelerate_spreads_a_model():
    accelerate = needs.package("accelerate")
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(4)])
    x = torch.randn(3, 8)
    expected = model(x)
    size = accelerate.utils.compute_module_sizes(model)[""]
    spread = accelerate.infer_auto_device_map(model, max_memory={0: size * 2 // 3, 1: size})
    assert set(spread.values()) == {0, 1}
    model = accelerate.dispatch_model(model, spread)
    assert {p.device for p in model.parameters()} == {ZERO, ONE}
    assert torch.allclose(model(x.to(ZERO)).cpu(), expected, atol=1e-5)


@pytest.mark.parametrize("spread", ["auto", "sequential"])
def test_a_pretrained_model_is_spread(spread, tmp_path):
    transformers = needs.package("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    size, ids = sum(p.numel() * 4 for p in model.parameters()), torch.arange(12)[None]
    memory = {0: size * 6 // 10, 1: size * 7 // 10}
    found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map=spread, max_memory=memory)
    assert {str(p.device) for p in found.parameters()} == {"webgpu:0", "webgpu:1"}
    torch.testing.assert_close(found(ids.to("webgpu:0")).logits.cpu(), model(ids).logits, rtol=1e-4, atol=1e-5)
    asked = dict(max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert found.generate(ids.to("webgpu:0"), **asked).tolist() == model.generate(ids, **asked).tolist()


def test_accelerate_finds_the_memory_of_both(monkeypatch):
    modeling = needs.package("accelerate.utils.modeling")
    monkeypatch.setattr(packages, "_chosen", lambda: True)
    monkeypatch.setattr(packages.webgpu, "mem_get_info", lambda device=None: (1000 * (device + 1), 5000))
    found = modeling.get_max_memory()
    assert (found[0], found[1]) == (1000, 2000) and found["cpu"] > 0


# -- graphs


@pytest.mark.parametrize("backend", ["webgpu", "webgpu_inductor"])
def test_compiled_functions(backend):
    torch._dynamo.reset()
    weight = torch.randn(4, 4)

    def function(x, w):
        return torch.relu(x @ w + 1).sum(0) * torch.arange(4, device=x.device)

    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        x = torch.randn(5, 4)
        out = compiled(x.to(ONE), weight.to(ONE))
        assert out.device == ONE and torch.allclose(out.cpu(), function(x, weight), atol=1e-4)
    out = compiled(x.to(ZERO), weight.to(ZERO))
    assert out.device == ZERO and torch.allclose(out.cpu(), function(x, weight), atol=1e-4)
    p = nn.Parameter(weight.to(ONE))
    compiled(x.to(ONE), p).sum().backward()
    q = nn.Parameter(weight.clone())
    function(x, q).sum().backward()
    assert p.grad.device == ONE and torch.allclose(p.grad.cpu(), q.grad, atol=1e-4)


@pytest.mark.parametrize("backend", ["webgpu", "webgpu_inductor"])
def test_a_compiled_function_over_two_devices(backend):
    torch._dynamo.reset()

    def function(x):
        return torch.relu(x * 2).to(ONE).sum(1) + torch.ones(3, device=ONE)

    x = torch.randn(3, 4)
    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        out = compiled(x.to(ZERO))
        assert out.device == ONE and torch.allclose(out.cpu(), torch.relu(x * 2).sum(1) + 1, atol=1e-5)
    made = torch.compile(lambda: torch.ones(3, device=ONE) * 2, backend=backend)
    assert made().device == ONE and made().tolist() == [2.0] * 3


def test_captured_regions():
    static, weight = torch.zeros(3, 4, device=ONE), torch.randn(4, 2)
    w = weight.to(ONE)
    torch.relu(static @ w)
    graph = torch.webgpu.WebGPUGraph()
    with torch.webgpu.device(1), torch.webgpu.graph(graph):
        out = torch.relu(static @ w)
    x = torch.randn(3, 4)
    static.copy_(x)
    graph.replay()
    assert torch.allclose(out.cpu(), torch.relu(x @ weight), atol=1e-5)
    with pytest.raises(RuntimeError, match="stays on one device"), torch.webgpu.graph(torch.webgpu.WebGPUGraph()):
        static + 1


def test_quantized_modules():
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    ours = copy.deepcopy(model).to(ONE)
    webgpu_backend.quantize_(ours, "q8_0")
    x = torch.randn(4, 64)
    out = ours(x.to(ONE))
    assert out.device == ONE and torch.allclose(out.cpu(), model(x), atol=0.05)


def test_export(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    reports = [
        webgpu_backend.export(copy.deepcopy(model).to(d), (torch.ones(3, 4),), tmp_path / d.type) for d in (ZERO, ONE)
    ]
    assert reports[0] == reports[1]
    model = nn.Sequential(nn.Linear(4, 8).to(ZERO), nn.Linear(8, 2).to(ONE))
    with pytest.raises(
        RuntimeError, match="a page has one GPU, and what is to be exported is on webgpu:0 and webgpu:1"
    ):
        webgpu_backend.export(model, (torch.ones(3, 4),), tmp_path / "both")
    exported = torch.export.export(copy.deepcopy(model).to(ONE), (torch.ones(3, 4, device=ONE),))
    assert exported.module()(torch.ones(3, 4, device=ONE)).device == ONE


def test_own_shaders():
    library = torch.webgpu.compile_shader("""
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        struct P { n: u32 }
        @compute @workgroup_size(64) fn double(@builtin(global_invocation_id) id: vec3<u32>) {
            if (id.x < p.n) { x[id.x] = x[id.x] * 2.0; }
        }""")
    x = torch.ones(10, device=ONE)
    library.double(x, 10)
    assert x.tolist() == [2.0] * 10


def test_errors_of_kernels_are_those_of_their_device():
    x = torch.ones(3, device=ONE)
    F.embedding(torch.tensor([9], device=ONE), x.view(3, 1))
    torch.webgpu.synchronize(0)
    with pytest.raises(IndexError):
        torch.webgpu.synchronize(1)
    assert x.tolist() == [1.0] * 3


def test_counters_are_of_all_devices():
    before = webgpu_backend.stats()["dispatches"]
    torch.ones(3, device=ONE).neg_()
    torch.ones(3, device=ZERO).neg_()
    assert webgpu_backend.stats()["dispatches"] >= before + 2
