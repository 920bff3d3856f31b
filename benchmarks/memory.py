"""Peak memory of a GPT-2-small AdamW training step, on one device per process.

    python -m benchmarks.memory --device webgpu [--batch 4] [--length 256] [--steps 3] [--parts]

The configuration is transformers' default (124 million parameters, float32, random weights). CUDA's autograd does not
run beside another accelerator, so each device gets a process of its own and the ratio is the reader's division.
"""

import argparse

import torch

M = 1 << 20


def main(argv: list[str] | None = None) -> dict[str, int]:
    """The peaks, in bytes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--parts", action="store_true", help="print the peak of each part of the step")
    options = parser.parse_args(argv)
    if options.device.startswith("webgpu"):
        import webgpu_backend  # noqa: F401
    from transformers import GPT2Config, GPT2LMHeadModel

    device = torch.get_device_module(options.device)
    torch.manual_seed(0)
    config = GPT2Config(n_layer=options.layers)
    model = GPT2LMHeadModel(config).to(options.device).train()
    tokens = torch.randint(config.vocab_size, (options.batch, options.length)).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters())
    weights = device.memory_allocated()
    device.reset_peak_memory_stats()

    def part(name: str) -> None:
        if options.parts:
            device.synchronize()
            now, peak = device.memory_allocated() / M, device.max_memory_allocated() / M
            print(f"  {name:14} now {now:8.1f} MiB, peak so far {peak:8.1f} MiB", flush=True)

    for _ in range(options.steps):
        loss = model(tokens, labels=tokens).loss
        part("forward")
        loss.backward()
        part("backward")
        optimizer.step()
        part("step")
        optimizer.zero_grad()
        part("zero_grad")
    device.synchronize()
    peak = {"weights": weights, "allocated": device.max_memory_allocated(), "reserved": device.max_memory_reserved()}
    figures = ", ".join(f"{name} {value / M:.1f} MiB" for name, value in peak.items())
    print(f"GPT-2 small, {options.batch} x {options.length}, {options.device}: {figures}, loss {loss.item():.4f}")
    return peak


if __name__ == "__main__":
    main()
