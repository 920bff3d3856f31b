"""Jagged tensors, padded and back, attention over them, and FlexAttention."""

import pytest
import torch
from torch.nn import functional as F

D = "webgpu"
LENGTHS = (2, 5, 1, 3)


def parts(lengths):
    generator = torch.Generator().manual_seed(len(lengths) + lengths[0])
    return [torch.randn(n, 8, generator=generator) for n in lengths]


def heads(x):
    return x.unflatten(-1, (2, 4)).transpose(-3, -2)


@pytest.mark.parametrize("others", [None, (4, 1, 6, 2)])
@pytest.mark.parametrize("causal, scale", [(False, None), (True, 0.3)])
def test_jagged_attention(others, causal, scale):
    """Against the sequences one by one, on the CPU."""
    query = torch.nested.nested_tensor(parts(LENGTHS), layout=torch.jagged, device=D, requires_grad=True)
    key = query if others is None else torch.nested.nested_tensor(parts(others), layout=torch.jagged, device=D)
    q, k = heads(query), heads(key)
    out = F.scaled_dot_product_attention(q, k, k, is_causal=causal, scale=scale)
    assert out.is_nested and out.shape[1] == 2 and out.shape[2] == q.shape[2]
    values = out.transpose(1, 2).values()
    values.square().sum().backward()
    queries = [x.requires_grad_() for x in parts(LENGTHS)]
    keys = queries if others is None else parts(others)
    alone = [
        F.scaled_dot_product_attention(heads(a), heads(b), heads(b), is_causal=causal, scale=scale).transpose(0, 1)
        for a, b in zip(queries, keys)
    ]
    torch.cat(alone).square().sum().backward()
    torch.testing.assert_close(values.detach().cpu(), torch.cat(alone).detach(), rtol=1e-4, atol=1e-5)
    grad = torch.cat([x.grad for x in queries])
    torch.testing.assert_close(query.grad.values().cpu(), grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("inner", [(), (3,), (2, 5)])
@pytest.mark.parametrize("lengths", [(2, 5, 0, 3), (0, 0), (1,), (0, 700, 1)])
def test_padded_and_back(lengths, inner, dtype):
    """Sequences are cut where the batch is shorter."""
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    rows, moved = int(offsets[-1]), offsets.to(D)
    values = (torch.rand(rows, *inner) * 9 - 4).to(dtype)
    pad, back = torch.ops.aten._jagged_to_padded_dense_forward, torch.ops.aten._padded_dense_to_jagged_forward
    for longest in {max(lengths), 4, 1}:
        batch = pad(values.to(D), [moved], [longest], -1.5)
        assert torch.equal(batch.cpu(), pad(values, [offsets], [longest], -1.5)) and batch.dtype is dtype
        if longest >= max(lengths):
            for total in (None, rows):
                assert torch.equal(back(batch, [moved], total).cpu(), values)
    apart = values.to(D).repeat_interleave(2, 0)[::2]  # rows that lie apart
    assert torch.equal(pad(apart, [moved], [4]).cpu(), pad(values, [offsets], [4]))


def test_sequences_that_no_batch_holds():
    """Longer than the batch, or more of them than its rows: no neighbour's rows come out."""
    batch, offsets = torch.randn(2, 3, 4, device=D), torch.tensor([0, 4, 6], device=D)
    for total in (6, 7):
        with pytest.raises(IndexError, match="index"):
            torch.ops.aten._padded_dense_to_jagged_forward(batch, [offsets], total).cpu()
    with pytest.raises(RuntimeError, match="expected 1D offsets"):
        torch.ops.aten._jagged_to_padded_dense_forward(batch[0], [offsets[None]], [3])


def test_jagged_tensors_and_batches():
    made = torch.nested.nested_tensor(parts(LENGTHS), layout=torch.jagged, device=D, requires_grad=True)
    out = torch.nested.to_padded_tensor(made, -1.0)
    out.square().sum().backward()
    for i, part in enumerate(parts(LENGTHS)):
        assert torch.equal(out[i, : len(part)].cpu(), part) and bool((out[i, len(part) :] == -1).all())
    assert torch.equal(made.grad.values().cpu(), 2 * torch.cat(parts(LENGTHS)))


# -- FlexAttention, whose gradient the CPU has not


def _flexed(function, place: str, heads: int, bias, mask: bool, scale: bool):
    """The result of attention with a score_mod, a block_mask and grouped heads, and the gradients of all of it."""
    g = torch.Generator().manual_seed(1)
    shapes = ((2, 4, 37, 16), (2, heads, 45, 16), (2, heads, 45, 16))
    leaves = [torch.randn(shape, generator=g).to(place).requires_grad_() for shape in shapes]
    leaves.append(bias.clone().to(place).requires_grad_())
    out = function(*leaves, mask, scale)
    (out * torch.linspace(0, 1, out.numel()).reshape(out.shape).to(place)).sum().backward()
    return [out.detach().cpu(), *[leaf.grad.cpu() for leaf in leaves if leaf.grad is not None]]


def _plain(q, k, v, bias, mask: bool, scale: bool):
    k, v = (x.repeat_interleave(4 // x.shape[1], 1) for x in (k, v))
    i, j = torch.arange(37)[:, None], torch.arange(45)
    scores = q @ k.mT / 4
    if scale:
        scores = scores + bias[:, None, None] * (i - j)
    if mask:
        scores = scores.masked_fill((i < j) | (j - i < -20), -torch.inf)
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_flex_attention(heads, compiled):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    attention = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention

    def flex(q, k, v, bias, mask: bool, scale: bool):
        kept = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j <= 20), None, None, 37, 45, device=D)
        shifted = lambda score, b, h, i, j: score + bias[h] * (i - j)  # noqa: E731
        return attention(
            q, k, v, score_mod=shifted if scale else None, block_mask=kept if mask else None, enable_gqa=heads != 4
        )

    bias = torch.linspace(-0.05, 0.05, 4)
    for mask, scale in ((False, False), (True, False), (False, True), (True, True)):
        ours = _flexed(flex, D, heads, bias, mask, scale)
        theirs = _flexed(_plain, "cpu", heads, bias, mask, scale)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
