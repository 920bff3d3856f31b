"""What the adapter can do at best, measured: bytes a second of a copy, and operations a second of multiply-adds."""

import time

import torch

COPY = """
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;
struct P { n: u32 }
@compute @workgroup_size(256)
fn copy(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.x + id.y * groups.x * 256u;
    if (i < p.n) { out[i] = a[i]; }
}
"""
# Eight independent chains of vec4: enough to hide the latency of one multiply-add.
FMA = """
@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;
struct P { trips: u32, n: u32 }
@compute @workgroup_size(256)
fn multiply(@builtin(global_invocation_id) id: vec3<u32>) {
    let m = vec4<f32>(f32(id.x) * 1e-9 + 0.999);
    let s = vec4<f32>(f32(id.x) * 1e-9);
    var a = m; var b = m + 1.0; var c = m + 2.0; var d = m + 3.0;
    var e = m + 4.0; var f = m + 5.0; var g = m + 6.0; var h = m + 7.0;
    for (var i = 0u; i < p.trips; i++) {
        a = fma(a, m, s); b = fma(b, m, s); c = fma(c, m, s); d = fma(d, m, s);
        e = fma(e, m, s); f = fma(f, m, s); g = fma(g, m, s); h = fma(h, m, s);
        a = fma(a, m, s); b = fma(b, m, s); c = fma(c, m, s); d = fma(d, m, s);
        e = fma(e, m, s); f = fma(f, m, s); g = fma(g, m, s); h = fma(h, m, s);
    }
    if (id.x < p.n) { out[id.x] = a + b + c + d + e + f + g + h; }
}
"""


def _seconds(f, repeat: int) -> float:
    f()
    torch.webgpu.synchronize()
    samples = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeat):
            f()
        torch.webgpu.synchronize()
        samples.append((time.perf_counter() - start) / repeat)
    return min(samples)


def measure(scale: int) -> dict[str, float]:
    """Bytes and operations a second of the current adapter; `scale` above 1 is for a software adapter."""
    n = (64 << 20) // scale
    source, target = torch.ones(n, device="webgpu"), torch.zeros(n, device="webgpu")
    copy = torch.webgpu.compile_shader(COPY, trusted=True).copy
    moved = 8 * n / _seconds(lambda: copy(source, target, n // 4, threads=n // 4), 20 // min(scale, 10))
    threads = (1 << 20) // (scale * scale)
    trips = 512 // scale
    multiply = torch.webgpu.compile_shader(FMA, trusted=True).multiply
    seconds = _seconds(lambda: multiply(target, trips, threads, threads=threads), 4)
    done = threads * trips * 16 * 4 * 2 / seconds
    return {"bytes": moved, "flops": done}
