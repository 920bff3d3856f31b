"""The parts that nn.SyncBatchNorm is made of: two halves of a batch make what the CPU makes of the whole."""

import pytest
import torch
from torch.nn import functional as F

D = "webgpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (6, 3), (5, 3, 7)])
@pytest.mark.parametrize("affine", [True, False])
def test_two_halves(dtype, shape, affine):
    x, g = (torch.randn(shape) * 2 + 1).to(dtype), torch.randn(shape).to(dtype)
    w, b = (torch.randn(3).to(dtype), torch.randn(3).to(dtype)) if affine else (None, None)
    on = [None if t is None else t.to(D) for t in (w, b)]
    parts = [torch.batch_norm_stats(h.to(D), 1e-5) for h in x.split([2, shape[0] - 2])]
    counts = torch.tensor([float(n * x[0].numel() // 3) for n in (2, shape[0] - 2)]).to(D)
    running = [torch.zeros(3, device=D), torch.ones(3, device=D)]
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        x.to(D), torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts]), *running, 0.1, 1e-5, counts
    )
    expected_running = [torch.zeros(3), torch.ones(3)]
    wide = [None if t is None else t.float().requires_grad_() for t in (x, w, b)]
    expected = F.batch_norm(wide[0], *expected_running, *wide[1:], True, 0.1, 1e-5)
    expected.backward(g.float())
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.float16 else {"rtol": 1e-4, "atol": 1e-5}
    for ours, theirs in zip(running, expected_running):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-3)
    out = torch.batch_norm_elemt(x.to(D), *on, mean, invstd, 1e-5)
    assert out.dtype == dtype
    torch.testing.assert_close(out.cpu().float(), expected.detach(), **close)
    *sums, dw, db = torch.batch_norm_backward_reduce(g.to(D), x.to(D), mean, invstd, on[0], True, affine, affine)
    if affine:
        torch.testing.assert_close(dw.cpu().float(), wide[1].grad, **close)
        torch.testing.assert_close(db.cpu().float(), wide[2].grad, **close)
    dx = torch.batch_norm_backward_elemt(g.to(D), x.to(D), mean, invstd, on[0], *sums, counts.int())
    torch.testing.assert_close(dx.cpu().float(), wide[0].grad, **close)


def test_equal_counts():
    x = torch.randn(8, 3, 5)
    mean, invstd = zip(*[torch.batch_norm_stats(h.to(D), 1e-5) for h in x.chunk(2)])
    whole = torch.batch_norm_gather_stats(x.to(D), torch.stack(mean), torch.stack(invstd), None, None, 0.1, 1e-5, 20)
    var, middle = torch.var_mean(x, (0, 2), correction=0)
    torch.testing.assert_close(whole[0].cpu(), middle, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(whole[1].cpu(), torch.rsqrt(var + 1e-5), rtol=1e-4, atol=1e-5)
