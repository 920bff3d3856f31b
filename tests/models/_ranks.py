"""What each of four processes does in test_distributed, and then each of two of them: run by torchrun, which gives
rank, size and address."""

import copy
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import webgpu_backend
from tests.models import _collectives, _sharded

D = "webgpu"


def errors() -> None:
    """What gloo has not is refused, with gloo's words."""
    for call in (
        lambda: dist.all_reduce(torch.empty(2, device=D), op=dist.ReduceOp.PREMUL_SUM),
        lambda: dist.all_reduce(torch.empty(2, device=D), group=object()),
    ):
        try:
            call()
        except (RuntimeError, ValueError, TypeError):
            continue
        raise AssertionError("an operation that gloo has not was taken")
    torch.webgpu.set_device(dist.get_rank())  # the launcher's number of the process: all share one adapter
    torch.accelerator.set_device_index(dist.get_rank())


def build() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def data_parallel(rank: int) -> None:
    """Two steps on halves of the batch, against one process with the whole of it."""
    x, y = torch.randn(8, 6, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 3
    for options in ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.0001}):
        alone, mine = build(), build()
        if rank == 1:  # the first process's weights are what counts
            with torch.no_grad():
                mine[0].weight.zero_()
        alone.to(D)
        parallel = DistributedDataParallel(mine.to(D), **options)
        for a, b in zip(alone.parameters(), parallel.parameters()):
            torch.testing.assert_close(b.cpu(), a.cpu(), rtol=0, atol=0)
        half = slice(4 * rank, 4 * rank + 4)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (alone, parallel)]
        for _ in range(2):
            for model, optimizer, part in zip((alone, parallel), optimizers, (slice(None), half)):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[part].to(D)), y[part].to(D)).backward()
            for a, b in zip(alone.parameters(), parallel.parameters()):
                torch.testing.assert_close(b.grad.cpu(), a.grad.cpu(), rtol=1e-4, atol=1e-6)
            for optimizer in optimizers:
                optimizer.step()

    # Accumulation without talking, then with.
    parallel = DistributedDataParallel(build().to(D))
    reference = copy.deepcopy(parallel.module)
    half = slice(4 * rank, 4 * rank + 4)
    with parallel.no_sync():
        parallel(x[half].to(D)).square().mean().backward()
    parallel(x[half].to(D)).square().mean().backward()
    (2 * reference(x.to(D)).square().mean()).backward()
    for a, b in zip(reference.parameters(), parallel.parameters()):
        torch.testing.assert_close(b.grad.cpu(), a.grad.cpu(), rtol=1e-4, atol=1e-6)


class Branches(nn.Module):
    """Rows of different processes take different ways; one way is taken by none."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(6, 8)
        self.ways = nn.ModuleList([nn.Linear(8, 3) for _ in range(3)])

    def forward(self, x, way):
        h = torch.relu(self.trunk(x))
        return {"out": self.ways[way](h), "hidden": h}


def unused_parameters(rank: int) -> None:
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    half = slice(4 * rank, 4 * rank + 4)
    for options in (
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"find_unused_parameters": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.0001},
    ):
        torch.manual_seed(0)
        alone = Branches().to(D)
        parallel = DistributedDataParallel(copy.deepcopy(alone), **options)
        optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1, weight_decay=0.1) for m in (alone, parallel)]
        for _ in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = sum(alone(x[4 * r : 4 * r + 4].to(D), r)["out"].square().mean() for r in (0, 1)) / 2
            loss.backward()
            parallel(x[half].to(D), rank)["out"].square().mean().backward()
            for (name, a), b in zip(alone.named_parameters(), parallel.module.parameters()):
                assert (a.grad is None) == (b.grad is None) == name.startswith("ways.2"), name
                if a.grad is not None:
                    torch.testing.assert_close(b.grad.cpu(), a.grad.cpu(), rtol=1e-4, atol=1e-6)
            for optimizer in optimizers:
                optimizer.step()
        for a, b in zip(alone.parameters(), parallel.parameters()):
            torch.testing.assert_close(b.cpu(), a.cpu(), rtol=1e-4, atol=1e-5)

        # Accumulated in two backwards, the first without talking.
        with parallel.no_sync():
            parallel(x[half].to(D), rank)["out"].square().mean().backward()
        parallel(x[half].to(D), rank)["out"].square().mean().backward()
        dist.barrier()

    # Without the flags torch says what is missing.
    parallel = DistributedDataParallel(Branches().to(D))
    parallel(x[half].to(D), rank)["out"].square().mean().backward()
    try:
        parallel(x[half].to(D), rank)
    except RuntimeError as error:
        assert "find_unused_parameters=True" in str(error)
    else:
        raise AssertionError("unused parameters went unnoticed")


def accelerated(rank: int) -> None:
    """Accelerate and the transformers Trainer, which asks for unused parameters: the curves are the CPU's."""
    try:
        import accelerate
        import transformers
        from accelerate.state import AcceleratorState, GradientState, PartialState
    except ImportError:
        return
    from tests.models import _zoo

    transformers.logging.set_verbosity_error()
    rows = [{"input_ids": t, "labels": t} for t in (torch.arange(8) * (i % 3 + 1) + i for i in range(16))]
    states = (AcceleratorState, PartialState, GradientState)
    curves, weights = [], []
    for device, options in (
        (D, {}),
        ("cpu", {"use_cpu": True}),
        (D, {"fsdp": "full_shard auto_wrap", "fsdp_config": {"version": 2} | BLOCKS}),
        (D, {"fsdp": "full_shard auto_wrap", "fsdp_config": {"version": 1, "use_orig_params": True} | BLOCKS}),
    ):
        for state in states:
            state._reset_state()
        os.environ["ACCELERATE_TORCH_DEVICE"] = device
        model, _ = _zoo.build("gpt2")
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        arguments = transformers.TrainingArguments(
            output_dir=tempfile.gettempdir(), per_device_train_batch_size=2, max_steps=3, learning_rate=3e-3,
            logging_steps=1, report_to=[], disable_tqdm=True, seed=3, save_strategy="no", **options,
        )  # fmt: skip
        trainer = transformers.Trainer(model, arguments, train_dataset=rows)
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        assert arguments.world_size == 2 and arguments.device.type == device
        assert {p.device.type for p in trainer.model_wrapped.parameters()} == {device}
        parts = "fsdp" in options
        assert (trainer.accelerator.distributed_type == accelerate.DistributedType.FSDP) == parts
        held = [p.to_local() if hasattr(p, "to_local") else p for p in trainer.model_wrapped.parameters()]
        whole = sum(p.numel() for p in _zoo.build("gpt2")[0].parameters())
        assert (sum(p.numel() for p in held) < 0.6 * whole) == parts
        curves.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
        weights.append(saved(trainer))
        if not parts:
            loss = torch.tensor([rank + 1.0]).to(device)
            assert accelerate.utils.gather(loss).tolist() == [1, 2]
    sharded(accelerate, states)
    assert len(curves[0]) == 3 and curves[0][-1] < curves[0][0]
    assert all(abs(a - b) < 1e-3 * b for curve in curves for a, b in zip(curve, curves[1])), curves
    for found in weights if rank == 0 else ():
        found["lm_head.weight"] = found.get("lm_head.weight", found["transformer.wte.weight"])  # tied: once or twice
        assert set(found) == {"lm_head.weight", *weights[1]}
        for name, value in weights[1].items():
            torch.testing.assert_close(
                found[name], value, rtol=1e-2, atol=1e-3, msg=lambda m, name=name: f"{name}: {m}"
            )


BLOCKS = {"transformer_layer_cls_to_wrap": ["GPT2Block"]}


def saved(trainer) -> dict:
    """The weights as the Trainer saves them for everybody, which the first process does."""
    from safetensors.torch import load_file

    path = [tempfile.mkdtemp()]
    dist.broadcast_object_list(path, src=0)
    trainer.save_model(path[0])
    dist.barrier()
    return load_file(os.path.join(path[0], "model.safetensors")) if dist.get_rank() == 0 else {}


def sharded(accelerate, states) -> None:
    """FSDP2 by accelerate's plugin: parameters in parts, and the loss of one process."""
    for state in states:
        state._reset_state()
    os.environ["ACCELERATE_TORCH_DEVICE"] = D
    x, losses = torch.randn(8, 6, generator=torch.Generator().manual_seed(1)), []
    run = accelerate.Accelerator(
        fsdp_plugin=accelerate.FullyShardedDataParallelPlugin(fsdp_version=2, reshard_after_forward=True)
    )
    assert run.distributed_type == accelerate.DistributedType.FSDP
    for whole in (False, True):
        model = build().to(D)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if not whole:
            model, optimizer = run.prepare(model, optimizer)
            assert all(hasattr(p, "full_tensor") for p in model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            part = x if whole else x.chunk(2)[run.process_index]
            loss = model(part.to(D)).square().mean()
            loss.backward() if whole else run.backward(loss)
            optimizer.step()
        losses.append(loss.item() if whole else run.gather(loss.detach().reshape(1)).mean().item())
    assert abs(losses[0] - losses[1]) < 1e-4 * losses[1], losses


def no_backend_named(rank: int, store) -> None:
    """Without a name the device gets gloo, and so does the host."""
    names = ({}, {"backend": None}, {"backend": "webgpu:gloo"}, {"backend": "cpu:gloo,webgpu:gloo"})
    for turn, options in enumerate(names):
        dist.init_process_group(**options, store=dist.PrefixStore(f"turn {turn}", store), rank=rank, world_size=2)
        for device in (D, "cpu"):
            t = torch.full((3,), float(rank + 1), device=device)
            dist.all_reduce(t)
            assert t.tolist() == [3, 3, 3], (options, device)
        objects = [None, None]
        dist.all_gather_object(objects, rank)
        assert objects == [0, 1]
        group = dist.new_group([0, 1])
        dist.broadcast(t, src=1, group=group)
        dist.barrier()
        dist.destroy_process_group()


def four() -> None:
    dist.init_process_group("gloo")
    assert dist.get_world_size() == 4
    _sharded.run("fsdp2", "fsdp1", "two_dimensions", "checkpoints", "tensor_parallel", "pipeline", "zero")
    _sharded.run("synchronized_batch_norm")
    dist.destroy_process_group()


def two(rank: int) -> None:
    """The first two of the launcher's processes as if they were all: the others would only be started again."""
    os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(*address, is_master=False, wait_for_workers=False)
    no_backend_named(rank, store)
    dist.init_process_group("gloo", store=dist.PrefixStore("two", store), rank=rank, world_size=2)
    _collectives.compare()
    errors()
    _sharded.run(
        "fsdp2_mixed", "fsdp1", "tensor_parallel", "distributed_tensors", "pipeline", "zero", "synchronized_batch_norm"
    )
    data_parallel(rank)
    unused_parameters(rank)
    accelerated(rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    four()
    if int(os.environ["RANK"]) < 2:
        two(int(os.environ["RANK"]))
    assert not webgpu_backend.fallbacks()
    print("rank done", flush=True)
