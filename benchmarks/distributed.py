"""What data parallel costs: a step of a 30M-parameter model alone, the all-reduce of its gradients on host tensors
alone, both in DistributedDataParallel. They are measured in turns, and the ratio is the median of those of the rounds.

torchrun --nproc-per-node=2 -m benchmarks.distributed [--width 512] [--depth 9] [--rounds 7] [--views] [--processor]
"""

import argparse
import time
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

D = "webgpu"


def model_of(width: int, depth: int) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True) for _ in range(depth)]
    return nn.Sequential(*layers).to(D)


def seconds(function, clock) -> float:
    """Of a step that all processes begin together and that ends on the device of the last."""
    dist.barrier()
    torch.webgpu.synchronize()
    started = clock()
    function()
    torch.webgpu.synchronize()
    took = torch.tensor(clock() - started)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("width", 512), ("depth", 9), ("rows", 2), ("length", 16), ("rounds", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--views", action="store_true", help="gradients are views of what is sent: none is copied")
    parser.add_argument(
        "--processor", action="store_true", help="processor time, for software adapters on busy machines"
    )
    options = parser.parse_args()
    dist.init_process_group("gloo")
    model = model_of(options.width, options.depth)
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=options.views)
    x = torch.randn(options.rows, options.length, options.width, device=D)

    def step(module):
        module.zero_grad()
        module(x).square().mean().backward()

    def alone():
        with parallel.no_sync():
            step(parallel)

    count = sum(p.numel() for p in model.parameters())
    buckets = torch.zeros(count).split(25 << 18)  # as large as DistributedDataParallel's

    def reduced():
        for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
            work.wait()

    parts = {"compute": alone, "all-reduce": reduced, "ddp": lambda: step(parallel)}
    clock = time.process_time if options.processor else time.perf_counter
    rounds = [{name: seconds(part, clock) for name, part in parts.items()} for _ in range(options.rounds + 1)][1:]
    if dist.get_rank() == 0:  # the first round compiled
        print(f"{count / 1e6:.1f}M parameters, {dist.get_world_size()} processes")
        for name in parts:
            print(f"{name} {1e3 * median(r[name] for r in rounds):.0f} ms", end="  ")
        ratios = sorted(r["ddp"] / (r["compute"] + r["all-reduce"]) for r in rounds)
        print(f"ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
