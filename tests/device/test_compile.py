"""torch.compile: graphs captured on device tensors and run by the eager kernels; Inductor refused in words."""

import copy

import pytest
import torch
from torch import nn

D = "webgpu"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    """What graphs are made of: views, attention, a branch on a shape, an in-place buffer, dropout left out."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        self.norm = nn.LayerNorm(16)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        h = nn.functional.gelu(self.first(x))
        if x.shape[0] > 3:
            h = h.flip(0)
        q = h.view(-1, 2, 8).transpose(0, 1)
        h = h + nn.functional.scaled_dot_product_attention(q, q, q).transpose(0, 1).flatten(1)
        self.calls += 1
        return self.last(self.norm(h)).log_softmax(-1)


def step(net, x):
    out = net(x)
    out.square().mean().backward()
    return out.detach().cpu(), [p.grad.cpu() for p in net.parameters()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_forward_and_backward(backend):
    torch.manual_seed(0)
    net = Net()
    ours = copy.deepcopy(net).to(D)
    compiled = torch.compile(ours, backend=backend)
    for rows in (5, 2, 7, 6):
        x = torch.randn(rows, 8)
        net.zero_grad()
        ours.zero_grad()
        expected, gradients = step(net, x)
        found, others = step(compiled, x.to(D))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        for a, b in zip(others, gradients):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    assert ours.calls.item() == 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_functions(backend):
    @torch.compile(backend=backend, dynamic=True)
    def f(x, scale):
        table = torch.arange(x.shape[-1], device=x.device, dtype=x.dtype)
        return torch.where(x > 0, x * scale, x - table).sum(-1), x.argmax(-1)

    for n in (3, 9, 4):
        x = torch.randn(2, n)
        total, place = f(x.to(D), 2.5)
        table = torch.arange(n, dtype=x.dtype)
        torch.testing.assert_close(total.cpu(), torch.where(x > 0, x * 2.5, x - table).sum(-1), rtol=1e-4, atol=1e-5)
        assert torch.equal(place.cpu(), x.argmax(-1))


COMPOSED = {
    "matmul": lambda x: x[None].expand(2, 3, 4, 8) @ x.view(3, 8, 4),
    "rms_norm": lambda x: nn.functional.rms_norm(x, (8,)),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "ldexp": lambda x: torch.ldexp(x, torch.ones_like(x)),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", [*COMPOSED, "gru"])
def test_what_has_a_kernel_above_autograd(name, backend):
    torch.manual_seed(0)
    x = torch.randn(3, 4, 8)
    rnn = nn.GRU(8, 8, batch_first=True)
    f = COMPOSED.get(name)
    found = []
    for device in ("cpu", D):
        given, layer = x.to(device, copy=True).requires_grad_(), copy.deepcopy(rnn).to(device)
        call = f or (lambda x, layer=layer: layer(x)[0])
        out = (call if device == "cpu" else torch.compile(call, backend=backend))(given)
        out.square().sum().backward()
        found.append((out.detach().cpu(), given.grad.cpu()))
    for a, b in zip(*found):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


def test_a_training_loop():
    losses = []
    for device, compiled in (("cpu", False), (D, True)):
        torch.manual_seed(0)
        net = Net().to(device)
        model = torch.compile(net, backend="aot_eager") if compiled else net
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
        x, y = torch.randn(6, 8).to(device), (torch.arange(6) % 4).to(device)
        losses.append([])
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.nll_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-3) and losses[0][-1] < losses[0][0]


def test_a_graph_without_breaks():
    explained = torch._dynamo.explain(Net().to(D))(torch.randn(5, 8, device=D))
    assert explained.graph_break_count == 0 and explained.graph_count == 1


def test_export():
    net = Net().to(D).eval()
    x = torch.randn(5, 8, device=D)
    program = torch.export.export(net, (x,))
    torch.testing.assert_close(program.module()(x).cpu(), net(x).cpu())


@pytest.mark.parametrize("options", [{}, {"mode": "max-autotune"}, {"backend": "inductor"}], ids=str)
def test_inductor_is_refused_in_words(options):
    with pytest.raises(Exception, match=r"webgpu: torch.compile has no Inductor.*backend=\"aot_eager\""):
        torch.compile(nn.Linear(3, 2).to(D), **options)(torch.ones(1, 3, device=D))
    assert torch.compile(nn.Linear(3, 2).to(D), backend="aot_eager")(torch.ones(1, 3, device=D)).shape == (1, 2)
