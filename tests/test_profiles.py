"""Other adapters' features and limits on this one: `WEBGPU_PROFILE`. Each is opened in a process of its own, asked what
it offers, and runs the work below, whose kernels differ by what there is."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests import needs
from webgpu_backend import env
from webgpu_backend.runtime import adapters

WORK = """
    import json, os
    import torch
    from torch.nn import functional as F
    import webgpu_backend
    from webgpu_backend.runtime.gpu import gpu

    def same(function, *tensors, tolerance=1e-4):
        host = function(*tensors)
        ours = function(*[t.to("webgpu") for t in tensors])
        torch.testing.assert_close(ours.cpu(), host, rtol=tolerance, atol=tolerance)

    torch.manual_seed(0)
    a, b = torch.randn(70, 130), torch.randn(130, 90)
    same(lambda x, y: x @ y, a, b)
    same(lambda x, y: x[:3] @ y, a, b)
    same(lambda x, y: (x.half() @ y.half()).float(), a, b, tolerance=0.3)
    same(lambda x: x.softmax(-1).sum(0), a)
    same(lambda x: x.cumsum(1).std(0), a, tolerance=1e-3)
    same(lambda x: x.flatten().sort().values, a)
    same(lambda x: (x * 1e6).long() * 12345678901, a, tolerance=0)
    same(lambda x: torch.cat([x[:, i : i + 7] for i in range(0, 130, 7)], 1), a)
    same(lambda x: torch.fft.rfft(x).abs(), a)
    same(lambda x: F.layer_norm(x, (130,)), a)
    same(lambda x: torch.zeros(9, device=x.device).index_add(0, torch.arange(70, device=x.device) % 9, x[:, 0]), a)
    q = torch.randn(2, 4, 37, 32)
    same(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), q)
    same(lambda x: F.scaled_dot_product_attention(x.half(), x.half(), x.half()).float(), q, tolerance=3e-3)
    if os.environ.get("WEBGPU_CLASS"):  # large enough for sums in f16, whose gradients bind most
        def gradients(x, mask):
            leaf = x.half().requires_grad_()
            F.scaled_dot_product_attention(leaf, leaf, leaf, attn_mask=mask).float().square().sum().backward()
            return leaf.grad.float()

        same(gradients, torch.randn(1, 1, 256, 32), torch.ones(256, 256).tril().bool(), tolerance=2e-2)
    same(lambda x, w: F.conv2d(x, w, padding=1), torch.randn(2, 5, 9, 11), torch.randn(6, 5, 3, 3))
    same(lambda x: torch.linalg.solve(x[:60, :60] + 20 * torch.eye(60, device=x.device), x[:60, :3]), a)
    lists = [torch.randn(k) for k in range(1, 40)]
    same(lambda *x: torch.cat(torch._foreach_mul(list(x), 2.0)), *lists)
    model = torch.nn.Linear(5, 3).to("webgpu")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 5, device="webgpu")).square().sum().backward()
    optimizer.step()
    torch.webgpu.synchronize()
    caps, limits = gpu().caps, gpu().device.limits
    print(json.dumps({"features": sorted(gpu().device.features), "limits": dict(limits), "lanes": caps.lanes,
                      "subgroups": caps.subgroups, "f16": caps.f16, "i64": caps.i64,
                      "immediate": caps.immediate_bytes}))
"""


CLASS = {("subgroups-unknown", "8-buffers"): {"WEBGPU_CLASS": "gpu"}}


def opened(*profiles: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WORK)], capture_output=True, text=True, timeout=300,
        env={**os.environ, "WEBGPU_PROFILE": ",".join(profiles), "WEBGPU_FALLBACK": "error", **CLASS.get(profiles, {})},
    )  # fmt: skip
    assert done.returncode == 0, f"{profiles}: {done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def test_every_name_means_something():
    assert set(env.PROFILES) == {*adapters.WITHOUT, *adapters.LIMITS, *adapters.LANES}


# Several to a process where they do not touch: each start takes seconds.
@pytest.mark.parametrize(
    "profiles",
    [
        ("f16-no-subgroups", "16k-workgroup"), ("subgroups-unknown", "8-buffers"), ("no-immediates", "no-int64"),
        ("no-f16", "no-atomics", "256-threads"), ("small-buffers", "subgroups-8"),
    ],
    ids=",".join,
)  # fmt: skip
def test_a_profile_is_what_its_name_says_and_computes(profiles):
    if env.BASELINE:
        needs.missing("the device is opened with WEBGPU_BASELINE=1, which has none of this to begin with")
    found = opened(*profiles)
    for name in profiles:
        assert not {*adapters.WITHOUT.get(name, ())} & {*found["features"]}
        for limit, most in adapters.LIMITS.get(name, {}).items():
            assert found["limits"][limit] <= most
        if name in adapters.LANES:
            assert found["lanes"] <= adapters.LANES[name] and found["subgroups"] == (found["lanes"] >= 8)
    if "f16-no-subgroups" in profiles:
        assert not found["subgroups"]
    if "no-immediates" in profiles:
        assert found["immediate"] == 0 and not found["i64"]
