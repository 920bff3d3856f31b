"""A trial of an adapter's matrix units: products whose results are known, before any kernel relies on them."""

from struct import unpack

from ..program import Caps, Program, Step
from .blocks import Lease, size_class
from .errors import DeviceError

# Twice the product of a, whose rows lie one behind the other, and b, whose columns do.
_TEXT = """
    enable f16;
    enable wgpu_cooperative_matrix;
    @group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;
    var<workgroup> a: array<vec4<f16>, SIZE * SIZE / 4>;
    var<workgroup> b: array<vec4<f16>, SIZE * SIZE / 4>;
    var<workgroup> c: array<vec4<f32>, SIZE * SIZE / 4>;
    @compute @workgroup_size(LANES)
    fn main(@builtin(local_invocation_index) lane: u32) {
        for (var e = lane; e < SIZEu * SIZEu / 4u; e += LANESu) {
            let i = vec4<u32>(4u * e, 4u * e + 1u, 4u * e + 2u, 4u * e + 3u);
            a[e] = vec4<f16>(vec4<i32>(i * 3u % vec4<u32>(13u)) - vec4<i32>(6));
            b[e] = vec4<f16>(vec4<i32>(i * 5u % vec4<u32>(11u)) - vec4<i32>(5));
        }
        workgroupBarrier();
        let x = coopLoadT<coop_matSIZExSIZE<f16, A>>(&a[0], SIZEu / 4u);
        let y = coopLoad<coop_matSIZExSIZE<f16, B>>(&b[0], SIZEu / 4u);
        var sums = coop_matSIZExSIZE<f32, C>();
        for (var i = 0u; i < 2u; i++) {
            sums = coopMultiplyAdd(x, y, sums);
        }
        coopStoreT(sums, &c[0], SIZEu / 4u);
        workgroupBarrier();
        for (var e = lane; e < SIZEu * SIZEu / 4u; e += LANESu) {
            out[e] = c[e];
        }
    }
"""


def work(queue, pool, caps: Caps) -> bool:
    """Whether the units compute what they should."""
    n = caps.matrix
    text = _TEXT.replace("SIZE", str(n)).replace("LANES", str(caps.lanes))
    lease = Lease()
    lease.block = pool.take(4 * n * n, size_class(4 * n * n))
    try:
        queue.attempt(Step(Program("trial of matrix units", text, "w", 0), b"", (1, 1, 1)), (lease.block,), b"")
        found = unpack(f"<{n * n}f", queue.read_few(lease.block, 0, 4 * n * n))
    except DeviceError:
        return False
    a, b = [[i * 3 % 13 - 6 for i in range(n * n)], [i * 5 % 11 - 5 for i in range(n * n)]]
    return [2 * sum(a[i * n + k] * b[j * n + k] for k in range(n)) for i in range(n) for j in range(n)] == list(found)
