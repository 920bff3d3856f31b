"""transformers' generate with a cache that grows, compiled: one graph for all lengths."""

import pytest
import torch
from torch._dynamo.utils import counters

from tests import needs
from webgpu_backend import env

transformers = needs.package("transformers")
D = "webgpu"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_a_cache_that_grows_is_compiled_once_or_twice(monkeypatch):
    """For the prompt, for a token, and once more when the size has changed: not for each of twenty lengths."""
    monkeypatch.setattr(env, "COMPILE", "inductor")
    torch._dynamo.reset()
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, eos_token_id=None,
    )  # fmt: skip
    model = transformers.Qwen2ForCausalLM(config).eval().to(D)
    ids = torch.randint(0, 128, (1, 5)).to(D)
    asked = dict(max_new_tokens=20, min_new_tokens=20, do_sample=False, pad_token_id=0, output_logits=True)
    expected = model.generate(ids, return_dict_in_generate=True, **asked)
    counters.clear()
    model.forward = torch.compile(model.forward)
    found = model.generate(ids, return_dict_in_generate=True, **asked)
    assert torch.equal(found.sequences.cpu(), expected.sequences.cpu())
    for a, b in zip(found.logits, expected.logits, strict=True):
        torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-4, atol=1e-4)
    assert counters["stats"]["unique_graphs"] <= 3
    torch._dynamo.reset()
