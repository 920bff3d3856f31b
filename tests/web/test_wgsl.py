"""WGSL as browsers compile it, and as it is translated for Macs and Windows. `./dev test` asks about everything that
the device tests render, too (texts.py)."""

from itertools import product
from pathlib import Path

import torch
from torch.nn import functional as F

from webgpu_backend.web.recording import record
from webgpu_backend.web.site import ADAPTERS, text_of
from webgpu_backend.web.surroundings import Surroundings

from . import texts

GOLDEN = Path(__file__).parents[1] / "pure" / "golden"


def test_golden_texts():
    found = {}
    for path in sorted(GOLDEN.glob("*.wgsl")):
        text = path.read_text(encoding="utf-8")
        if texts.portable(text):
            found[path.name] = text.replace("\nstruct P", "\n@group(1) @binding(0) var<uniform> p: P;\nstruct P", 1)
    assert len(found) >= 5
    assert texts.refused(found) == {}


def test_dawn_refuses_what_is_wrong():
    """Also what is not WGSL's but WebGPU's: invocations past the default limit, in what has to keep to it."""
    given = {
        "bad": "@compute @workgroup_size(64) fn main() { let x: f32 = 1u; }",
        "good": "fn f() {}",
        "good half": "enable f16; enable subgroups; fn f(x: f16) -> f16 { return subgroupAdd(x); }",
        "large": "@compute @workgroup_size(512) fn main() {}",
        "large.baseline": "@compute @workgroup_size(512) fn main() {}",
    }
    found = texts.refused(given)
    assert list(found) == ["bad", "large.baseline"] and ":1:" in found["bad"]


def test_naga_refuses_what_is_wrong():
    given = {
        "bad": "@compute @workgroup_size(64) fn main() { let x: f32 = 1u; }",
        "good": "enable f16; enable subgroups; fn f(x: f16) -> f16 { return subgroupAdd(x); }",
        "double": "fn f(x: f64) -> f64 { return x; }",  # not on Macs
        "added": "@group(0) @binding(0) var<storage, read_write> a: atomic<f32>;",  # on Macs alone
        "parameters": "struct P { n: u32 }\n@group(1) @binding(0) var<uniform> p: P;\nfn f() -> u32 { return p.n; }",
    }
    count, found = texts.untranslated(given)
    assert count == 6 and list(found) == ["bad"] and "wgsl:1:" in found["bad"]


def differentiated(function):
    """The function and its gradients."""

    def call(*tensors):
        tensors = [t.requires_grad_() for t in tensors]
        return torch.autograd.grad(function(*tensors).sum(), tensors)

    return call


def cases():
    """Functions and the shapes of their arguments: the families whose kernels change most with sizes."""
    for m, k, n in product((1, 5, 64, 1000), (3, 1024), (1, 7, 513)):
        yield torch.matmul, ((m, k), (k, n))
        yield differentiated(F.linear), ((m, k), (n, k), (n,))
    for length, others, width in product((1, 17, 300), (1, 64, 333), (32, 128, 40)):
        shapes = ((2, 4, length, width), (2, 4, others, width), (2, 4, others, width))
        yield F.scaled_dot_product_attention, shapes
        yield differentiated(F.scaled_dot_product_attention), shapes
    for inputs, outputs, window, stride, side in product((3, 32), (4, 64), (1, 3), (1, 2), (14, 64)):

        def convolved(x, w, b, stride=stride, window=window):
            return F.conv2d(x, w, b, stride, window // 2)

        shapes = ((2, inputs, side, side), (outputs, inputs, window, window), (outputs,))
        yield convolved, shapes
        yield differentiated(convolved), shapes
    for length in (5, 300, 70000):
        for function in (torch.sort, torch.cumsum, torch.softmax, torch.amax, torch.argmax, torch.var):
            yield lambda x, function=function: function(x, dim=-1), ((3, length),)
        yield lambda x: torch.topk(x, 4), ((3, length),)
    for size in (3, 33, 100):
        for function in (torch.linalg.cholesky_ex, torch.linalg.qr, torch.linalg.lu_factor_ex, torch.fft.fft):
            yield function, ((2, size, size),)


def test_kernels_of_every_adapter():
    """Planned, not run: also those for graphics cards, which a software driver takes minutes to compile."""

    def call(function, given):
        result = function(*given.values())
        return {"r": result} if isinstance(result, torch.Tensor) else dict(enumerate(result))

    found = {}
    for _, _, caps in ADAPTERS:
        for function, shapes in cases():
            inputs = {str(i): torch.empty(shape, device="meta") for i, shape in enumerate(shapes)}
            (one,) = record("f", function, [inputs], call, caps, Surroundings({}))
            for step, _ in one.steps:
                if step.program.wgsl:
                    found[f"{step.program.name}{hash(step.program.wgsl)}.baseline"] = text_of(step.program)
    assert len(found) > 300
    assert texts.refused(found) == {}
    assert texts.untranslated(found) == (2 * len(found), {})
