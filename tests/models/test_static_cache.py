"""transformers' generate with a cache of fixed size, which compiles the model for one token by itself."""

import pytest
import torch
from torch._dynamo.utils import counters

from tests import needs
from webgpu_backend import env

transformers = needs.package("transformers")
D = "webgpu"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("way", ["replay", "inductor"])
def test_generate_compiles_itself(way, monkeypatch):
    monkeypatch.setattr(env, "COMPILE", way)
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, eos_token_id=None,
    )  # fmt: skip
    model = transformers.Qwen2ForCausalLM(config).eval().to(D)
    ids = torch.randint(0, 128, (1, 5)).to(D)
    asked = dict(max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=0)
    growing = model.generate(ids, **asked)
    assert not counters["stats"]
    fixed = model.generate(ids, cache_implementation="static", **asked)
    assert torch.equal(growing.cpu(), fixed.cpu())
    assert 1 <= counters["stats"]["unique_graphs"] <= 2  # one for all tokens, or one more when sizes have changed
