"""A kernel of your own in WGSL, as a PyTorch operator with a gradient, fitted by a torch optimizer.

python -m examples.custom_kernel [--steps 100]

The operator is the snake activation of audio models, x + sin(a x)^2 / a, in one kernel instead of five.
"""

import argparse

import torch
from torch import Tensor, nn

from mnist.device import describe, fallbacks, select

WGSL = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> g: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
struct P { n: u32, a: f32 }

@compute @workgroup_size(64)
fn forward(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < p.n) {
        let s = sin(p.a * x[id.x]);
        y[id.x] = x[id.x] + s * s / p.a;
    }
}

// The derivative is 1 + sin(2 a x).
@compute @workgroup_size(64)
fn backward(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < p.n) { y[id.x] = g[id.x] * (1.0 + sin(2.0 * p.a * x[id.x])); }
}
"""


def build():
    """The operator `examples::snake`: WGSL below, torch's own autograd above."""
    kernels = torch.webgpu.compile_shader(WGSL)

    @torch.library.custom_op("examples::snake", mutates_args=())
    def snake(x: Tensor, a: float) -> Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        kernels.forward(x, x, y, x.numel(), a, threads=x.numel())
        return y

    @torch.library.custom_op("examples::snake_backward", mutates_args=())
    def snake_backward(x: Tensor, g: Tensor, a: float) -> Tensor:
        x, g = x.contiguous(), g.contiguous()
        y = torch.empty_like(x)
        kernels.backward(x, g, y, x.numel(), a, threads=x.numel())
        return y

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.a = inputs[1]

    def backward(ctx, g):
        return snake_backward(*ctx.saved_tensors, g, ctx.a), None

    snake.register_autograd(backward, setup_context=setup_context)
    return snake


def main(argv: list[str] | None = None) -> tuple[float, float, list[float]]:
    """The largest errors of output and gradient against the same formula in torch operators, and the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args(argv)
    device = select("webgpu")
    snake = build()
    torch.manual_seed(0)

    a = 1.5
    x = torch.randn(300, 7)
    ours, theirs = x.to(device).requires_grad_(), x.clone().requires_grad_()
    y, expected = snake(ours, a), theirs + torch.sin(a * theirs) ** 2 / a
    y.square().sum().backward()
    expected.square().sum().backward()
    error = (y.cpu() - expected).abs().max().item()
    gradient_error = (ours.grad.cpu() - theirs.grad).abs().max().item()
    print(f"on {describe(device)}")
    print(f"largest error against torch's operators  {error:.1e}, of the gradient {gradient_error:.1e}")

    class Snake(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return snake(x, a)

    # A periodic curve, which is what this activation is for.
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 32), Snake(), torch.nn.Linear(32, 32), Snake(), torch.nn.Linear(32, 1)
    )
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    inputs = torch.linspace(-3, 3, 256)[:, None].to(device)
    targets = torch.sin(3 * inputs)
    losses = []
    for _ in range(args.steps):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    print(f"loss of the fit                          {losses[0]:.3f} -> {losses[-1]:.4f} in {args.steps} steps")
    print(f"CPU fallbacks                            {fallbacks(device) or 'none'}")
    return error, gradient_error, losses


if __name__ == "__main__":
    main()
