"""Attention over jagged tensors, and FlexAttention."""

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


def test_strided_nested_tensors_are_refused_in_words():
    tensors = [torch.randn(n, 3, device=D, requires_grad=True) * 2 for n in (2, 3)]
    with pytest.raises(NotImplementedError, match=r"webgpu: nested \(strided layout\) tensors are not supported"):
        torch.nested.as_nested_tensor(tensors).transpose(1, 2)


def test_flex_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q = torch.randn(1, 2, 16, 8, device=D)
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 16, 16, device=D)
    out = flex_attention(q, q, q, block_mask=mask)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, q, q, is_causal=True), rtol=1e-4, atol=1e-5)
    biased = flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + 0.1 * (i - j))
    places = torch.arange(16.0, device=D)
    expected = F.scaled_dot_product_attention(q, q, q, 0.1 * (places[:, None] - places))
    torch.testing.assert_close(biased, expected, rtol=1e-4, atol=1e-5)
