"""Training as people write it: the same loop, seed and data on the CPU and on the device give the same losses."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests import needs

D = "webgpu"
STEPS = 6


class CharModel(nn.Module):
    """A character model with what a loop may trip over: tied weights, norms, attention, a recurrent part.

    No bias in attention: that of a key has no gradient but rounding errors, which Adam would scale up to whole steps.
    """

    def __init__(self, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.embedding = nn.Embedding(20, 16)
        self.rnn = nn.GRU(16, 16, batch_first=True)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True, bias=False)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 20)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        h = self.embedding(x) * 4
        h = h + self.rnn(h)[0]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        if self.recompute:
            h = checkpoint(self.block, h, mask, use_reentrant=False)
        else:
            h = self.block(h, mask)
        return self.head(self.norm(h))


def batches(n=STEPS, batch=4, length=10):
    g = torch.Generator().manual_seed(5)
    tokens = (torch.arange(length + 1) * torch.randint(1, 4, (n, batch, 1), generator=g)) % 20
    return list(tokens)


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def model_on(device, **options):
    torch.manual_seed(0)
    return CharModel(**options).to(device)


def same_curve(train, rtol=1e-3):
    """`train(device)` returns losses, and a model whose weights must agree too."""
    expected, reference = train("cpu")
    got, model = train(D)
    assert expected[-1] < expected[0]
    assert got == pytest.approx(expected, rel=rtol)
    for (name, a), b in zip(model.named_parameters(), reference.parameters()):
        assert a.device.type == D
        torch.testing.assert_close(
            a.detach().cpu(), b.detach(), rtol=0.01, atol=2e-3, msg=lambda m, n=name: f"{n}: {m}"
        )


def loop(optimizer, scheduler=None, clip=None, **options):
    def train(device):
        model = model_on(device, **options)
        opt = optimizer(model.parameters())
        schedule = scheduler(opt) if scheduler else None
        losses = []
        for tokens in batches():
            opt.zero_grad()
            loss = loss_of(model, tokens.to(device))
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            opt.step()
            if schedule:
                schedule.step()
            losses.append(loss.item())
        return losses, model

    return train


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "adam": lambda p: torch.optim.Adam(p, lr=3e-3),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=3e-3, amsgrad=True, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.1),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=3e-3, fused=True),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.02),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=3e-3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    same_curve(loop(OPTIMIZERS[name]))


SCHEDULES = {
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS),
    "one_cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.01, total_steps=STEPS + 1),
    "warm_up": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [
            torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=2),
            torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
        ],
        milestones=[2],
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_schedules(name):
    same_curve(loop(OPTIMIZERS["adamw"], SCHEDULES[name]))


def test_clipping():
    same_curve(loop(OPTIMIZERS["sgd"], clip=0.5))


def test_recomputation():
    """Activation checkpointing gives the gradients of the plain model."""
    losses, _ = loop(OPTIMIZERS["adam"])(D)
    again, _ = loop(OPTIMIZERS["adam"], recompute=True)(D)
    assert again == pytest.approx(losses, rel=1e-5)


def test_tied_weights_stay_tied():
    _, model = loop(OPTIMIZERS["adam"])(D)
    assert model.head.weight is model.embedding.weight
    assert len(list(model.parameters())) == len({p.data_ptr() for p in model.parameters()})


def test_gradient_accumulation():
    """Four micro-batches are one batch."""

    def train(device, parts):
        model = model_on(device)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for tokens in batches():
            opt.zero_grad()
            total = 0.0
            for part in tokens.to(device).chunk(parts):
                loss = loss_of(model, part) / parts
                loss.backward()
                total += loss.item()
            opt.step()
            losses.append(total)
        return losses, model

    same_curve(lambda device: train(device, 4))
    assert train(D, 4)[0] == pytest.approx(train("cpu", 1)[0], rel=1e-3)


def test_moving_average():
    def train(device):
        model = model_on(device)
        average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.8), use_buffers=True
        )
        opt = OPTIMIZERS["adam"](model.parameters())
        losses = []
        for tokens in batches():
            opt.zero_grad()
            loss = loss_of(model, tokens.to(device))
            loss.backward()
            opt.step()
            average.update_parameters(model)
            with torch.no_grad():
                losses.append(loss_of(average, tokens.to(device)).item())
        return losses, average.module

    same_curve(train)


# -- mixed precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(dtype):
    """Float32 weights, narrow products: the curve is the float32 one within the dtype's precision."""
    model = model_on(D)
    opt = OPTIMIZERS["adamw"](model.parameters())
    scaler = torch.amp.GradScaler(D, enabled=dtype is torch.float16)
    losses = []
    for tokens in batches():
        opt.zero_grad()
        with torch.autocast(D, dtype=dtype):
            logits = model(tokens[:, :-1].to(D))
            assert logits.dtype is dtype
            loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten().to(D))
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    assert all(p.dtype is torch.float32 and p.grad.dtype is torch.float32 for p in model.parameters())
    expected, _ = loop(OPTIMIZERS["adamw"], clip=10.0)("cpu")
    assert losses == pytest.approx(expected, rel=2e-2 if dtype is torch.float16 else 6e-2)


def test_scaler_skips_a_step_that_overflows():
    weight = nn.Parameter(torch.ones(3, device=D))
    opt = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(D, init_scale=2.0**10)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(opt)
    scaler.update()
    assert weight.tolist() == [1, 1, 1] and scaler.get_scale() == 2.0**9
    opt.zero_grad()
    scaler.scale((weight * 0.5).sum()).backward()
    scaler.step(opt)
    scaler.update()
    assert weight.tolist() == [0.5, 0.5, 0.5]


# -- data


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        x = torch.full((3,), float(i))
        return x, x.square().sum()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_data_loader(workers):
    torch.zeros(1, device=D)  # the device is in use before the workers are forked
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=4, num_workers=workers, pin_memory=True, persistent_workers=workers > 0
    )
    for _ in range(2):
        seen = []
        for x, y in loader:
            x, y = x.to(D, non_blocking=True), y.to(D, non_blocking=True)
            torch.testing.assert_close(x.square().sum(1).cpu(), y.cpu())
            seen += x[:, 0].tolist()
        assert seen == list(range(12))


# -- checkpoints


def trainer(device):
    model = model_on(device)
    opt = OPTIMIZERS["adamw"](model.parameters())
    return model, opt, SCHEDULES["cosine"](opt)


def advance(model, opt, schedule, data):
    losses = []
    for tokens in data:
        opt.zero_grad()
        loss = loss_of(model, tokens.to(D))
        loss.backward()
        opt.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("location", [None, D, "cpu"])
@pytest.mark.parametrize("safe", [False, True])
def test_resuming(tmp_path, location, safe):
    """Half a run, saved, loaded by fresh objects, then the rest: the run without a break.

    Sums by atomics, in the embedding's gradient, may be rounded differently from run to run.
    """
    data = batches(8)
    whole = trainer(D)
    expected = advance(*whole, data)

    first = trainer(D)
    losses = advance(*first, data[:4])
    model, opt, schedule = first
    state = {"opt": opt.state_dict(), "schedule": schedule.state_dict()}
    if safe:
        safetensors = needs.package("safetensors.torch")
        safetensors.save_model(model, tmp_path / "model.safetensors")
    else:
        state["model"] = model.state_dict()
    torch.save(state, tmp_path / "state.pt")

    second = trainer(D)
    state = torch.load(tmp_path / "state.pt", map_location=location)
    if safe:
        safetensors.load_model(second[0], tmp_path / "model.safetensors")
    else:
        second[0].load_state_dict(state["model"])
    second[1].load_state_dict(state["opt"])
    second[2].load_state_dict(state["schedule"])
    losses += advance(*second, data[4:])
    assert losses == pytest.approx(expected, rel=1e-5)
    for a, b in zip(second[0].parameters(), whole[0].parameters()):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_device_checkpoint_goes_on_on_the_cpu(tmp_path):
    model, opt, schedule = trainer(D)
    advance(model, opt, schedule, batches(3))
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, tmp_path / "c.pt")
    state = torch.load(tmp_path / "c.pt", map_location="cpu")
    other, other_opt, _ = trainer("cpu")
    other.load_state_dict(state["model"])
    other_opt.load_state_dict(state["opt"])
    assert all(v.is_cpu for s in other_opt.state.values() for v in s.values())
    tokens = batches(1)[0]
    assert loss_of(other, tokens).item() == pytest.approx(loss_of(model, tokens.to(D)).item(), rel=1e-5)


@pytest.mark.parametrize("tag", ["cuda:0", "cuda:1", "mps", "mps:0"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_checkpoint_made_elsewhere(tmp_path, tag, weights_only, monkeypatch):
    """`map_location` brings a file whose storages carry another device's name to this one."""
    source = nn.Linear(4, 3).state_dict()
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: tag)
    torch.save({"model": source, "half": torch.ones(3).half()}, tmp_path / "c.pt")
    monkeypatch.undo()
    loaded = torch.load(tmp_path / "c.pt", map_location=D, weights_only=weights_only)
    for name, value in source.items():
        assert loaded["model"][name].device == torch.device(D, 0)
        assert torch.equal(loaded["model"][name].cpu(), value)
    assert loaded["half"].dtype is torch.float16 and loaded["half"].device.type == D


def test_distributed_checkpoint(tmp_path):
    if not torch.distributed.is_available():
        needs.missing(f"torch {torch.__version__} is built without torch.distributed")
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    data = batches(6)
    whole = trainer(D)
    expected = advance(*whole, data)
    model, opt, schedule = trainer(D)
    advance(model, opt, schedule, data[:3])
    weights, state = get_state_dict(model, opt)
    assert all(v.device.type == D for v in weights.values())
    # With CUDA about, torch's one-threaded writer moves CUDA's tensors to the CPU and no other's.
    writer = dcp.FileSystemWriter(tmp_path / "dcp", thread_count=2 if torch.cuda.is_available() else 1)
    dcp.save({"model": weights, "opt": state}, storage_writer=writer, no_dist=True)

    other, other_opt, other_schedule = trainer(D)
    advance(other, other_opt, other_schedule, data[:1])  # so that there is state to overwrite
    weights, state = get_state_dict(other, other_opt)
    dcp.load({"model": weights, "opt": state}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    set_state_dict(other, other_opt, model_state_dict=weights, optim_state_dict=state)
    other_schedule.load_state_dict(schedule.state_dict())
    assert advance(other, other_opt, other_schedule, data[3:]) == pytest.approx(expected[3:], rel=1e-5)


def test_a_deep_copy_trains_on_its_own():
    model = model_on(D)
    other = copy.deepcopy(model)
    before = [p.detach().cpu() for p in model.parameters()]
    opt = OPTIMIZERS["sgd"](other.parameters())
    advance(other, opt, SCHEDULES["cosine"](opt), batches(2))
    assert other.head.weight is other.embedding.weight is not model.embedding.weight
    assert all(torch.equal(p.cpu(), b) for p, b in zip(model.parameters(), before))
    assert not torch.equal(other.head.bias, model.head.bias)
