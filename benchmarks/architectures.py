"""Plain torch.nn versions of the models that are timed, for machines without torchvision or transformers."""

import torch
import torch.nn.functional as F
from torch import nn


def fill(model: nn.Module, std: float = 0.02) -> nn.Module:
    """Weights from one short random sequence: half a billion of them take seconds otherwise, and equal seeds make the
    devices' results comparable. Its length is prime, so that no two rows of a matrix are alike."""
    sequence = torch.randn(1_000_003, generator=torch.Generator().manual_seed(0))
    sequence = sequence.to(next(model.parameters()).device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim < 2:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
                continue
            repeats = -(-parameter.numel() // sequence.numel())
            values = sequence.repeat(repeats)[: parameter.numel()].view_as(parameter)
            if parameter.ndim == 4:  # convolutions: He
                parameter.copy_(values * (2 / (parameter.shape[1] * parameter[0, 0].numel())) ** 0.5)
            else:
                parameter.copy_(values * std)
    return model


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def resnet50(blocks=(3, 4, 6, 3), classes: int = 1000) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    inputs = 64
    for stage, count in enumerate(blocks):
        for i in range(count):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if i == 0 and stage else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class GPT2Block(nn.Module):
    def __init__(self, hidden: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(hidden, dim=2)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        y = self.out(y.transpose(1, 2).reshape(batch, length, hidden))
        x = x + F.dropout(y, self.dropout, self.training)
        y = self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))
        return x + F.dropout(y, self.dropout, self.training)


class GPT2(nn.Module):
    """The loss of next-token prediction, as GPT2LMHeadModel gives it with labels."""

    def __init__(self, vocabulary=50257, positions=1024, hidden=768, layers=12, heads=12, dropout=0.1):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(positions, hidden)
        self.blocks = nn.ModuleList(GPT2Block(hidden, heads, dropout) for _ in range(layers))
        self.norm, self.dropout = nn.LayerNorm(hidden), dropout

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


class RMSNorm(nn.Module):
    """Written out in float32, as transformers writes it."""

    def __init__(self, size: int, eps: float = 1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class DecoderLayer(nn.Module):
    def __init__(self, hidden: int, heads: int, groups: int, intermediate: int):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, hidden // heads
        self.q, self.out = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden, bias=False)
        self.k, self.v = nn.Linear(hidden, groups * self.size), nn.Linear(hidden, groups * self.size)
        self.gate, self.up = nn.Linear(hidden, intermediate, bias=False), nn.Linear(hidden, intermediate, bias=False)
        self.down = nn.Linear(intermediate, hidden, bias=False)
        self.norm1, self.norm2 = RMSNorm(hidden), RMSNorm(hidden)

    def forward(self, x, cos, sin, cache, at):
        batch, length, hidden = x.shape
        y = self.norm1(x)
        q = rotate(self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(batch, length, self.groups, self.size).transpose(1, 2), cos, sin)
        v = self.v(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        if at in cache:
            k, v = torch.cat((cache[at][0], k), dim=2), torch.cat((cache[at][1], v), dim=2)
        cache[at] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, hidden))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """A Qwen2-shaped language model with tied embeddings and a cache that grows by concatenation."""

    def __init__(self, vocabulary=151936, hidden=896, layers=24, heads=14, groups=2, intermediate=4864):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(DecoderLayer(hidden, heads, groups, intermediate) for _ in range(layers))
        self.norm = RMSNorm(hidden)
        size = hidden // heads
        self.register_buffer("frequencies", 1e6 ** (-torch.arange(0, size, 2) / size), persistent=False)

    def forward(self, ids, cache):
        start = cache[0][0].shape[2] if cache else 0
        x = self.tokens(ids)
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)
        angles = positions[:, None].float() * self.frequencies.float()[None]
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for at, layer in enumerate(self.layers):
            x = layer(x, cos, sin, cache, at)
        return F.linear(self.norm(x[:, -1:]), self.tokens.weight)

    def generate(self, ids, count: int):
        """Greedy, one token at a time; the host looks at each, as a stopping rule does."""
        cache: dict = {}
        new = ids
        for _ in range(count):
            new = self(new, cache)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat((ids, new), dim=1)
            if new.item() < 0:
                break
        return ids
