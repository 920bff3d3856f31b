"""Vision, generative, recurrent and graph models in plain torch.nn: forward, backward and a few steps of training."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests import needs

D = "webgpu"


# -- convolutional networks


class Bottleneck(nn.Module):
    """ResNet's block, with its projected shortcut."""

    def __init__(self, cin, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        same = stride == 1 and cin == 4 * width
        self.shortcut = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(cin, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
        )  # fmt: skip

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        Bottleneck(8, 4, 1), Bottleneck(16, 4, 1), Bottleneck(16, 8, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5),
    )  # fmt: skip


class Inverted(nn.Module):
    """The inverted residual of MobileNet and EfficientNet: expand, depthwise, squeeze and excite, project."""

    def __init__(self, cin, hidden, cout, kernel, stride, activation, gate):
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(cin, hidden, 1, bias=False), nn.BatchNorm2d(hidden), activation())
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden), activation(),
        )  # fmt: skip
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(hidden, 4, 1), activation(), nn.Conv2d(4, hidden, 1), gate()
        )  # fmt: skip
        self.project = nn.Sequential(nn.Conv2d(hidden, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        h = self.depthwise(self.expand(x))
        h = self.project(h * self.squeeze(h))
        return x + h if self.residual else h


def efficientnet():
    block = dict(activation=nn.SiLU, gate=nn.Sigmoid)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU(),
        Inverted(8, 16, 8, 3, 1, **block), Inverted(8, 24, 12, 5, 2, **block),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0), nn.Linear(12, 5),
    )  # fmt: skip


def mobilenet():
    block = dict(activation=nn.Hardswish, gate=nn.Hardsigmoid)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(inplace=True),
        Inverted(8, 16, 8, 3, 1, **block), Inverted(8, 24, 12, 5, 2, **block),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 16), nn.Hardswish(), nn.Linear(16, 5),
    )  # fmt: skip


# -- generative models


class UNet(nn.Module):
    """Two levels with skip connections, a time embedding, group norms and attention at the bottom."""

    def __init__(self, channels=8):
        super().__init__()
        c = channels
        self.time = nn.Sequential(nn.Linear(16, 2 * c), nn.SiLU(), nn.Linear(2 * c, 2 * c))
        self.enter = nn.Conv2d(1, c, 3, padding=1)
        self.down = nn.Conv2d(c, 2 * c, 3, 2, 1)
        self.norm = nn.GroupNorm(4, 2 * c)
        self.attention = nn.MultiheadAttention(2 * c, 2, batch_first=True)
        self.middle = nn.Conv2d(2 * c, 2 * c, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * c, c, 4, 2, 1)
        self.out = nn.Sequential(nn.GroupNorm(4, 2 * c), nn.SiLU(), nn.Conv2d(2 * c, 1, 3, padding=1))

    def forward(self, x, t):
        rates = torch.exp(torch.arange(8, device=t.device) * -0.8)
        angle = t[:, None].float() * rates
        embedding = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        first = F.silu(self.enter(x))
        h = self.norm(self.down(first)) + embedding[:, :, None, None]
        tokens = h.flatten(2).transpose(1, 2)
        h = h + self.attention(tokens, tokens, tokens, need_weights=False)[0].transpose(1, 2).reshape(h.shape)
        h = F.silu(self.middle(h))
        return self.out(torch.cat([first, self.up(h)], 1))


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(8 * 16, 2 * 4)
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(4, 8 * 16), nn.Unflatten(1, (8, 4, 4)), nn.ELU(), nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(8, 1, 3, padding=1),
        )  # fmt: skip

    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        z = mean + torch.exp(0.5 * log_variance) * noise
        rebuilt = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="none").flatten(1).sum(1).mean()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        return rebuilt + divergence


# -- sequences and graphs


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.rnn = kind(8, 12, num_layers=2, batch_first=True, bidirectional=kind is nn.GRU)
        self.out = nn.Linear(12 * (2 if kind is nn.GRU else 1), 20)

    def forward(self, tokens):
        return self.out(self.rnn(self.embedding(tokens))[0])


class GCN(nn.Module):
    """Kipf and Welling's layers: neighbours are summed by scatter, weighted by degree."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8, bias=False), nn.Linear(8, 3, bias=False)

    @staticmethod
    def spread(x, edges):
        loops = torch.arange(x.shape[0], device=x.device).expand(2, -1)
        source, target = torch.cat([edges, loops], 1)
        degree = torch.zeros(x.shape[0], device=x.device).scatter_add_(0, target, torch.ones_like(target).float())
        weight = degree.rsqrt()[source] * degree.rsqrt()[target]
        return torch.zeros_like(x).index_add(0, target, x[source] * weight[:, None])

    def forward(self, x, edges):
        h = F.relu(self.spread(self.first(x), edges))
        h = F.dropout(h, 0.0, self.training)
        return self.spread(self.second(h), edges)


def images():
    return (torch.randn(4, 3, 24, 24),), lambda y: F.cross_entropy(y, y.new_tensor([0, 1, 2, 4]).long())


def noisy():
    target = torch.randn(3, 1, 8, 8)
    return (torch.randn(3, 1, 8, 8), torch.tensor([0, 4, 9])), lambda y: F.mse_loss(y, target.to(y.device))


def pictures():
    return (torch.rand(4, 1, 8, 8), torch.randn(4, 4)), lambda y: y


def words():
    tokens = torch.randint(1, 20, (3, 8))
    tokens[0, 6:] = 0
    target = tokens.roll(-1, 1)
    return (tokens,), lambda y: F.cross_entropy(y.transpose(1, 2), target.to(y.device), ignore_index=0)


def graph():
    labels = torch.randint(0, 3, (10,))
    return (torch.randn(10, 6), torch.randint(0, 10, (2, 30))), lambda y: F.nll_loss(
        F.log_softmax(y, 1), labels.to(y.device)
    )


MODELS = {
    "resnet": (resnet, images),
    "efficientnet": (efficientnet, images),
    "mobilenet": (mobilenet, images),
    "unet": (UNet, noisy),
    "vae": (VAE, pictures),
    "lstm": (lambda: Recurrent(nn.LSTM), words),
    "gru": (lambda: Recurrent(nn.GRU), words),
    "gcn": (GCN, graph),
}


@pytest.mark.parametrize(
    "name, memory_format",
    [(name, torch.contiguous_format) for name in MODELS]
    + [(name, torch.channels_last) for name, (_, data) in MODELS.items() if data is images],
)
def test_training(name, memory_format):
    build, data = MODELS[name]
    torch.manual_seed(0)
    model = build()
    inputs, loss_of = data()

    def run(device):
        ours = copy.deepcopy(model).to(device)
        given = [x.to(device) for x in inputs]
        if memory_format is torch.channels_last:
            ours, given = ours.to(memory_format=memory_format), [x.to(memory_format=memory_format) for x in given]
        optimizer = torch.optim.SGD(ours.parameters(), lr=0.02, momentum=0.9)
        losses, gradients = [], None
        for _ in range(4):
            optimizer.zero_grad()
            loss = loss_of(ours(*given))
            loss.backward()
            if gradients is None:
                gradients = {n: p.grad.clone() for n, p in ours.named_parameters()}
            optimizer.step()
            losses.append(loss.item())
        ours.eval()
        with torch.no_grad():
            return losses, gradients, ours(*given), dict(ours.named_buffers())

    losses, gradients, out, buffers = run("cpu")
    got, found, result, moved = run(D)
    assert losses[-1] < losses[0]
    assert got == pytest.approx(losses, rel=1e-4)
    scale = max(g.abs().max().item() for g in gradients.values())
    for n, g in gradients.items():
        torch.testing.assert_close(found[n].cpu(), g, rtol=1e-3, atol=1e-5 * scale, msg=lambda m, n=n: f"{n}: {m}")
    assert result.device.type == D
    torch.testing.assert_close(result.cpu(), out, rtol=2e-3, atol=2e-3)
    for n, b in buffers.items():  # running means and variances
        torch.testing.assert_close(moved[n].cpu(), b, rtol=1e-3, atol=1e-4)


def test_diffusion_sampler():
    """DDPM's ancestral sampling: forty steps that feed on one another, from the same noise."""
    torch.manual_seed(0)
    model = UNet().eval()
    steps = 40
    start, noise = torch.randn(2, 1, 8, 8), torch.randn(steps, 2, 1, 8, 8)

    @torch.no_grad()
    def sample(device):
        ours = copy.deepcopy(model).to(device)
        beta = torch.linspace(1e-3, 0.1, steps, device=device)
        alpha = 1 - beta
        total = alpha.cumprod(0)
        x = start.to(device)
        for i in reversed(range(steps)):
            t = torch.full((2,), i, device=device)
            x = (x - beta[t][:, None, None, None] / (1 - total[t]).sqrt()[:, None, None, None] * ours(x, t)) / alpha[
                i
            ].sqrt()
            if i:
                x = x + beta[i].sqrt() * noise[i].to(device)
        return x.clamp(-3, 3)

    torch.testing.assert_close(sample(D).cpu(), sample("cpu"), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet", "efficientnet", "mobilenet", "unet"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_inference(name, dtype):
    build, data = MODELS[name]
    torch.manual_seed(0)
    model = build().eval()
    inputs, _ = data()
    expected = model(*inputs).detach()
    narrow = [x.to(D, dtype if x.is_floating_point() else None) for x in inputs]
    if name == "unet":  # makes a float32 time embedding: what autocast is for
        with torch.autocast(D, dtype=dtype):
            out = copy.deepcopy(model).to(D)(inputs[0].to(D), inputs[1].to(D))
    else:
        out = copy.deepcopy(model).to(D, dtype)(*narrow)
    assert out.dtype is dtype
    error = (out.detach().float().cpu() - expected).abs().max() / expected.abs().max()
    assert error < (1e-2 if dtype is torch.float16 else 6e-2)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "mobilenet_v3_small", "efficientnet_b0", "vit_b_16"])
def test_torchvision(name):
    """Torchvision's own models: outputs, and the gradients of every parameter and of the image. Beside float64: of so
    many numbers before a ReLU one may be so near to 0 that its sign is a matter of rounding, on the CPU too."""
    torchvision = needs.package("torchvision")
    torch.manual_seed(0)
    options = {"image_size": 64} if name == "vit_b_16" else {}
    model = getattr(torchvision.models, name)(weights=None, num_classes=20, **options).eval()
    ours = copy.deepcopy(model).to(D)
    x = torch.randn(2, 3, 64, 64)
    found = {}
    for place, net in (("cpu", model.double()), (D, ours)):
        image = x.to(place, torch.float64 if place == "cpu" else None, copy=True).requires_grad_()
        out = net(image)
        nn.functional.cross_entropy(out, torch.tensor([3, 11]).to(place)).backward()
        gradients = {n: p.grad.cpu().float() for n, p in net.named_parameters()}
        found[place] = out.detach().cpu().float(), gradients | {"image": image.grad.cpu().float()}
    (expected, gradients), (got, others) = found["cpu"], found[D]
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)
    for n, g in gradients.items():
        torch.testing.assert_close(
            others[n], g, rtol=1e-3, atol=2e-4 * g.abs().max().item(), msg=lambda m, n=n: f"{n}: {m}"
        )


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_torchvision_training(name):
    """Batch statistics and dropout's absence: two steps give the CPU's losses and running statistics."""
    torchvision = needs.package("torchvision")
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None, num_classes=5)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    x, y = torch.randn(8, 3, 64, 64), torch.arange(8) % 5
    runs = {}
    for place in ("cpu", D):
        net = copy.deepcopy(model).to(place).train()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x.to(place)), y.to(place))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        runs[place] = losses, {n: b.cpu() for n, b in net.named_buffers()}
    assert runs[D][0] == pytest.approx(runs["cpu"][0], abs=5e-3)
    assert runs["cpu"][0][-1] != pytest.approx(runs["cpu"][0][0], abs=2e-2)
    for n, b in runs["cpu"][1].items():
        torch.testing.assert_close(runs[D][1][n], b, rtol=2e-2, atol=2e-2, msg=lambda m, n=n: f"{n}: {m}")


def test_torchvision_detector():
    """A detector of two stages: what it finds, and the gradients of its four losses."""
    needs.package("torchvision")
    from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

    torch.manual_seed(0)
    model = fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=5, min_size=96, box_score_thresh=0.0,
        box_detections_per_img=15, rpn_pre_nms_top_n_test=60, rpn_post_nms_top_n_test=30, rpn_pre_nms_top_n_train=60,
        rpn_post_nms_top_n_train=30, rpn_batch_size_per_image=4096, rpn_positive_fraction=1.0,
        box_batch_size_per_image=4096, box_positive_fraction=1.0,
    )  # fmt: skip
    for module in model.modules():  # without a trained backbone all boxes would look alike
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    images = [torch.rand(3, 96, 120), torch.rand(3, 80, 64)]
    targets = [
        {"boxes": torch.tensor([[5.0, 6, 50, 60], [20, 20, 90, 80]]), "labels": torch.tensor([1, 2])},
        {"boxes": torch.tensor([[5.0, 6, 50, 60]]), "labels": torch.tensor([3])},
    ]
    found = {}
    for place in ("cpu", D):
        net, moved = copy.deepcopy(model).to(place), [i.to(place) for i in images]
        with torch.no_grad():
            seen = [{k: v.cpu() for k, v in each.items()} for each in net.eval()(moved)]
        losses = net.train()(moved, [{k: v.to(place) for k, v in each.items()} for each in targets])
        sum(losses.values()).backward()
        gradients = {n: p.grad.cpu() for n, p in net.named_parameters() if p.grad is not None}
        found[place] = seen, {k: v.item() for k, v in losses.items()}, gradients
    for ours, theirs in zip(found[D][0], found["cpu"][0]):
        assert torch.equal(ours["labels"], theirs["labels"])
        torch.testing.assert_close(ours["boxes"], theirs["boxes"], rtol=1e-3, atol=1e-2)
        torch.testing.assert_close(ours["scores"], theirs["scores"], rtol=1e-3, atol=1e-4)
    assert found[D][1] == pytest.approx(found["cpu"][1], rel=1e-3)
    # Weights that change by 1e-6 change the CPU's own gradients by 6 %: sixty layers have corners in their activations.
    for n, g in found["cpu"][2].items():
        assert (found[D][2][n] - g).norm() <= 0.1 * g.norm() + 1e-3, n
