"""One transformer trained in two processes, in three ways, each with the losses of a single process.

python -m examples.distributed [--processes 2] [--steps 10] [--width 64] [--ways ddp,fsdp,tensor]
torchrun --nproc-per-node=4 -m examples.distributed

Without torchrun it starts its processes itself. They share an adapter where there is one, and talk through gloo.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

import webgpu_backend  # noqa: F401  (an installed package is loaded by torch; a checkout is not)

TEXT = Path(__file__).with_name("text.txt")
DEVICE, CONTEXT = "webgpu", 32


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        # Heads by their width: with tensor parallel a process has some of them.
        h = self.norm1(x)
        q, k, v = (f(h).unflatten(-1, (-1, 16)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, characters: int, width: int, depth: int):
        super().__init__()
        self.token, self.position = nn.Embedding(characters, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position(places))))


def batches(options) -> tuple[list[Tensor], int]:
    """The same for every process and every way: [rows, CONTEXT + 1] characters of the text."""
    text = TEXT.read_text(encoding="utf-8")
    alphabet = {c: i for i, c in enumerate(sorted(set(text)))}
    codes = torch.tensor([alphabet[c] for c in text])
    generator = torch.Generator().manual_seed(1)
    starts = torch.randint(len(codes) - CONTEXT - 1, (options.steps, options.batch), generator=generator)
    found = [torch.stack([codes[s : s + CONTEXT + 1] for s in rows.tolist()]) for rows in starts]
    return found, len(alphabet)


def loss_of(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


# -- the ways: a model as it is trained in this process, and the rows of a batch that it takes


def alone(model: nn.Module):
    return model, lambda tokens: tokens


def mine(tokens: Tensor) -> Tensor:
    return tokens.chunk(dist.get_world_size())[dist.get_rank()]


def ddp(model: nn.Module):
    """Every process has the model; gradients are averaged."""
    return nn.parallel.DistributedDataParallel(model), mine


def fsdp(model: nn.Module):
    """Every process keeps a part of each parameter, of its gradient and of the optimizer's state."""
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model), mine


def tensor(model: nn.Module):
    """Every process computes with some of the heads, and with a part of each layer in between."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(DEVICE, (dist.get_world_size(),))
    columns = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
    for block in model.blocks:
        parallelize_module(block, mesh, {**columns, "out": RowwiseParallel(), "down": RowwiseParallel()})
    return model, lambda tokens: tokens


WAYS = {"one process": alone, "ddp": ddp, "fsdp": fsdp, "tensor": tensor}


def train(way: str, options) -> dict:
    data, characters = batches(options)
    torch.manual_seed(0)
    model, share = WAYS[way](Transformer(characters, options.width, options.depth).to(DEVICE))
    # Some parameters are distributed, others are not, and torch takes no list of both.
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, foreach=False if way == "tensor" else None)
    losses, times = [], []
    for tokens in data:
        started = time.perf_counter()
        tokens = share(tokens).to(DEVICE)
        loss = loss_of(model(tokens[:, :-1]), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        if way != "one process":
            dist.all_reduce(whole)
            whole /= dist.get_world_size()
        losses.append(whole.item())
        times.append(time.perf_counter() - started)
    return {"losses": losses, "ms": 1e3 * sorted(times)[len(times) // 2]}


def work(options) -> dict:
    """What each process does; every process returns the same."""
    found = {}
    for way in ["one process", *options.ways.split(",")]:
        found[way] = train(way, options)
        dist.barrier()
        if dist.get_rank() == 0:
            losses = found[way]["losses"]
            print(f"{way:12}  loss {losses[0]:.4f} to {losses[-1]:.4f}  {found[way]['ms']:8.1f} ms a step", flush=True)
    return found


def process(rank: int, options, folder: str) -> None:
    """One of the processes that `main` starts."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=options.processes)
    found = work(options)
    if rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def main(argv: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8, help="rows of the whole batch")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--ways", default="ddp,fsdp,tensor")
    options = parser.parse_args(argv)
    if "RANK" in os.environ:  # torchrun has started this process
        dist.init_process_group("gloo")
        found = work(options)
        dist.destroy_process_group()
        return found
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(process, (options, folder), nprocs=options.processes)
        return json.loads(Path(folder, "found.json").read_text())


if __name__ == "__main__":
    main()
