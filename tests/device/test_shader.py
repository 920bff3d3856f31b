"""torch.webgpu.compile_shader: users' own kernels."""

import pytest
import torch

TEXT = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
struct P { n: u32, scale: f32, shift: i32 }

@compute @workgroup_size(64)
fn scaled(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < p.n) { y[id.x] = x[id.x] * p.scale + f32(p.shift); }
}

@compute @workgroup_size(8, 4)
fn lengths(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x == 0u && id.y == 0u) { y[0] = f32(arrayLength(&x)); y[1] = p.scale; }
}
"""


@pytest.fixture(scope="module")
def library():
    return torch.webgpu.compile_shader(TEXT)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_tensors_and_numbers(library, n):
    x = torch.randn(n)
    y = torch.empty(n, device="webgpu")
    library.scaled(x.to("webgpu"), y, n, 2.5, -3)
    torch.testing.assert_close(y.cpu(), x * 2.5 - 3)


def test_strided_input_and_exact_length(library):
    x = torch.randn(6, 4)
    y = torch.zeros(12, device="webgpu")
    library.scaled(x.to("webgpu").t()[1:], y, 12, 1.0, 0, threads=12)
    torch.testing.assert_close(y.cpu(), x.t()[1:].reshape(-1)[:12])
    library.lengths(torch.ones(7).to("webgpu"), y, 0, 4.0, 0, threads=(1, 1))
    assert y[:2].cpu().tolist() == [7.0, 4.0]


def test_in_order_with_other_work(library):
    x = torch.ones(32).to("webgpu")
    y = torch.empty(32, device="webgpu")
    library.scaled(x + 1, y, 32, 10.0, 0)
    assert (y + 1).cpu().eq(21).all()


def test_custom_op_with_autograd(library):
    @torch.library.custom_op("webgpu_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
        y = torch.empty_like(x)
        library.scaled(x.contiguous(), y, x.numel(), scale, 0)
        return y

    scaled.register_autograd(
        lambda ctx, g: (scaled(g, ctx.scale), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "scale", inputs[1]),
    )
    x = torch.randn(5, 3).to("webgpu").requires_grad_()
    (scaled(x, 4.0) * 2).sum().backward()
    assert x.grad.cpu().eq(8).all()


def test_errors(library):
    with pytest.raises(TypeError, match=r"takes 2 tensors \(x, y\) and 3 numbers \(n, scale, shift\), got 2"):
        library.scaled(torch.ones(2).to("webgpu"), torch.ones(2).to("webgpu"))
    with pytest.raises(RuntimeError, match="x is on cpu"):
        library.scaled(torch.ones(2), torch.ones(2).to("webgpu"), 2, 1.0, 0)
    with pytest.raises(ValueError, match="y is written"):
        library.scaled(torch.ones(2).to("webgpu"), torch.ones(4, 2).to("webgpu").t(), 2, 1.0, 0)
    with pytest.raises(AttributeError, match="no entry point 'other'; it has scaled, lengths"):
        library.other  # noqa: B018
    with pytest.raises(RuntimeError, match=r">    5 \| +y\[id.x\] = 1u;"):
        torch.webgpu.compile_shader(
            "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n\n@compute @workgroup_size(1)\n"
            "fn f(@builtin(global_invocation_id) id: vec3<u32>) {\n  y[id.x] = 1u;\n}\n"
        )
    with pytest.raises(ValueError, match="no entry point"):
        torch.webgpu.compile_shader("fn f() {}")


def test_checked_text_cannot_leave_its_buffers():
    unsafe = torch.webgpu.compile_shader(
        "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n@compute @workgroup_size(64)\n"
        "fn f(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x + 1000000u] = 7.0; }\n"
    )
    y = torch.zeros(16, device="webgpu")
    unsafe.f(y)
    assert y.cpu().sum().item() in (0.0, 7.0)  # dropped, or clamped to the last element
