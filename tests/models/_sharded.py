"""Models that are cut among processes train as in one: FSDP2, FSDP, tensor parallel, pipelines, ZeRO, checkpoints.

_ranks runs what the parts are called in four processes, and then in two.
"""

import copy
import tempfile
from functools import cache

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn import functional as F

D = "webgpu"
VOCABULARY, WIDTH, HEADS, LENGTH = 24, 16, 4, 8
PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


def build():
    torch.manual_seed(0)
    return Transformer().to(D)


def batches(count=3, rows=8):
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(0, VOCABULARY, (rows, LENGTH + 1), generator=generator) for _ in range(count)]


def loss_of(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten().to(D))


def optimizer_of(model, cls=torch.optim.AdamW):
    return cls(model.parameters(), lr=0.05, eps=1e-2)  # gradients of rounding alone move nothing


@cache
def alone():
    """What one process makes of the whole batches: the losses, and the parameters after."""
    found = [_alone() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(found, src=0)
    return found[0]


def _alone():
    model = build()
    optimizer, losses = optimizer_of(model), []
    for tokens in batches():
        optimizer.zero_grad()
        loss = loss_of(model(tokens[:, :-1].to(D)), tokens)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: p.detach().cpu() for n, p in model.named_parameters()}


def share(tokens, rank=None, size=None):
    rank = dist.get_rank() if rank is None else rank
    size = dist.get_world_size() if size is None else size
    return tokens.chunk(size)[rank]


def train(model, optimizer, mine=share, group=None):
    losses = []
    for tokens in batches():
        optimizer.zero_grad()
        tokens = mine(tokens)
        loss = loss_of(model(tokens[:, :-1].to(D)), tokens)
        loss.backward()
        optimizer.step()
        loss = loss.detach().clone()
        dist.all_reduce(loss, group=group)
        losses.append(loss.item() / dist.get_world_size(group))
    return losses


def same_losses(found, expected):
    assert all(abs(a - b) < 1e-4 * abs(b) for a, b in zip(found, expected)), (found, expected)


def same_parameters(found, expected):
    found = dict(found)
    assert set(found) == set(expected), set(found) ^ set(expected)
    for name, value in expected.items():
        ours = found[name]
        ours = ours.full_tensor() if hasattr(ours, "full_tensor") else ours
        torch.testing.assert_close(ours.detach().cpu(), value, rtol=2e-3, atol=2e-4, msg=lambda m: f"{name}: {m}")


@part
def fsdp2():
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard

    losses, parameters = alone()
    for reshard in (True, False):
        model = build()
        for block in model.blocks:
            fully_shard(block, reshard_after_forward=reshard)
        fully_shard(model)
        assert all(p.device.type == D for p in model.parameters())
        same_losses(train(model, optimizer_of(model)), losses)
        same_parameters(model.named_parameters(), parameters)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    same_parameters(whole.items(), parameters)


@part
def fsdp2_mixed():
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = build()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = optimizer_of(model)
    losses = []
    for tokens in batches(1) * 4:
        optimizer.zero_grad()
        tokens = share(tokens)
        loss = loss_of(model(tokens[:, :-1].to(D)).float(), tokens)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        assert torch.isfinite(norm).item()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@part
def fsdp1():
    from torch.distributed.fsdp import FullStateDictConfig, ShardingStrategy, StateDictType
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    losses, parameters = alone()
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
        model = FSDP(
            build(), auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True, sharding_strategy=strategy,
            device_id=torch.device(D, 0),
        )  # fmt: skip
        same_losses(train(model, optimizer_of(model)), losses)
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True)):
            whole = model.state_dict()
        same_parameters(whole.items(), parameters)


def cut(model, mesh):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    for block in model.blocks:
        parallelize_module(
            block,
            mesh,
            {
                "norm1": SequenceParallel(),
                "norm2": SequenceParallel(),
                "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "attention.q": ColwiseParallel(),
                "attention.k": ColwiseParallel(),
                "attention.v": ColwiseParallel(),
                "attention.out": RowwiseParallel(output_layouts=Shard(1)),
                "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Shard(1)),
            },
        )
    return parallelize_module(
        model,
        mesh,
        {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )


@part
def tensor_parallel():
    losses, parameters = alone()
    model = cut(build(), init_device_mesh(D, (dist.get_world_size(),)))
    same_losses(train(model, optimizer_of(model), mine=lambda tokens: tokens), losses)
    same_parameters(model.named_parameters(), parameters)


@part
def distributed_tensors():
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(D, (dist.get_world_size(),))
    generator = torch.Generator().manual_seed(3)
    a, b, c = (torch.randn(4, 6, 8, generator=generator), torch.randn(4, 8, 6, generator=generator),
               torch.randn(5, 8, generator=generator))  # fmt: skip
    for places in (
        (Shard(0), Shard(0), Replicate()),
        (Shard(1), Replicate(), Replicate()),
        (Shard(2), Shard(1), Shard(1)),
    ):
        x, y, w = (distribute_tensor(t.to(D), mesh, [p]).requires_grad_() for t, p in zip((a, b, c), places))
        hx, hy, hw = (t.clone().requires_grad_() for t in (a, b, c))
        for p, q, r in ((x, y, w), (hx, hy, hw)):
            out = F.linear(torch.matmul(p, q).mT.matmul(p), r)
            out = F.layer_norm(out, (5,)).softmax(-1) * 3
            out.square().sum().backward()
            p.mean().backward()  # by itself: torch 2.11 adds no sum in parts to a mean in parts
        for ours, theirs in ((x, hx), (y, hy), (w, hw)):
            torch.testing.assert_close(ours.grad.full_tensor().cpu(), theirs.grad, rtol=1e-3, atol=1e-4)


def loss_of_part(out, target):
    return F.cross_entropy(out.flatten(0, 1), target.flatten())


@part
def pipeline():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    losses, parameters = alone()
    rank, size = dist.get_rank(), dist.get_world_size()
    for schedule in (ScheduleGPipe, Schedule1F1B):
        model = build()
        pieces = [model.embedding, *model.blocks, nn.Sequential(model.norm, model.head)]
        stage_model = nn.Sequential(*pieces[len(pieces) * rank // size : len(pieces) * (rank + 1) // size])
        stage = PipelineStage(stage_model, rank, size, torch.device(D))
        run = schedule(
            stage, n_microbatches=4, loss_fn=lambda out, target: F.cross_entropy(out.flatten(0, 1), target.flatten())
        )
        optimizer = optimizer_of(stage_model)
        found = []
        for tokens in batches():
            optimizer.zero_grad()
            each = []
            given = (tokens[:, :-1].to(D),) if rank == 0 else ()
            run.step(*given, **({"target": tokens[:, 1:].to(D), "losses": each} if rank == size - 1 else {}))
            optimizer.step()
            found += [torch.stack(each).mean().item()] if each else []
        if rank == size - 1:
            same_losses(found, losses)
        names = {id(p): n for n, p in model.named_parameters()}
        mine = {names[id(p)]: p for p in stage_model.parameters()}
        same_parameters(mine.items(), {n: parameters[n] for n in mine})


@part
def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    losses, parameters = alone()
    model = DistributedDataParallel(build())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.05, eps=1e-2)
    same_losses(train(model, optimizer), losses)
    same_parameters(model.module.named_parameters(), parameters)
    optimizer.consolidate_state_dict(0)
    if dist.get_rank() == 0:
        assert len(optimizer.state_dict()["state"]) == len(parameters)


@part
def synchronized_batch_norm():
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)).to(D)
    x = torch.randn(8, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    whole = copy.deepcopy(net)
    whole(x.to(D)).square().mean().backward()
    model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(net))
    model(share(x).to(D)).square().mean().backward()
    for a, b in zip(whole.parameters(), model.parameters()):
        torch.testing.assert_close(b.grad.cpu(), a.grad.cpu(), rtol=1e-3, atol=1e-5)
    for a, b in zip(whole.buffers(), model.module.buffers()):
        torch.testing.assert_close(b.cpu(), a.cpu(), rtol=1e-4, atol=1e-5)


@part
def two_dimensions():
    """Tensor parallel in pairs, and data parallel between them."""
    from torch.distributed.fsdp import fully_shard

    losses, parameters = alone()
    mesh = init_device_mesh(D, (2, 2), mesh_dim_names=("data", "tensor"))
    model = cut(build(), mesh["tensor"])
    for block in model.blocks:
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    which = mesh["data"].get_local_rank()
    found = train(model, optimizer_of(model), lambda tokens: share(tokens, which, 2), mesh["data"].get_group())
    same_losses(found, losses)
    same_parameters(model.named_parameters(), parameters)


@part
def checkpoints():
    """Saved by two processes in the middle of the training, loaded by one and by three."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    _, parameters = alone()
    rank = dist.get_rank()
    path = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(path, src=0)
    # Named, so that they are no mesh of a later group of two: torch keeps plans by mesh, and the names of their groups.
    meshes = {n: DeviceMesh(D, list(range(n)), mesh_dim_names=(f"first {n}",)) for n in (2, 1, 3)}

    def sharded(seed, mesh):
        torch.manual_seed(seed)
        model = Transformer().to(D)
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    def step(model, optimizer, tokens):
        optimizer.zero_grad()
        loss_of(model(tokens[:, :-1].to(D)), tokens).backward()
        optimizer.step()

    for n, mesh in meshes.items():
        if rank < n:
            model = sharded(0 if n == 2 else 99, mesh)
            optimizer = optimizer_of(model)
            group = mesh.get_group()
            if n == 2:
                for tokens in batches()[:2]:
                    step(model, optimizer, tokens)
                weights, state = get_state_dict(model, optimizer)
                checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=path[0], process_group=group)
            else:
                weights, state = get_state_dict(model, optimizer)
                found = {"model": weights, "optimizer": state}
                checkpoint.load(found, checkpoint_id=path[0], process_group=group)
                set_state_dict(model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
                step(model, optimizer, batches()[2])
                same_parameters(model.named_parameters(), parameters)
        dist.barrier()


def run(*names: str) -> None:
    for name in names:
        PARTS[name]()
        dist.barrier()
