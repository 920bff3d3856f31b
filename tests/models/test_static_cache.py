"""transformers' generate with a cache of fixed size, which compiles the model for one token by itself."""

from dataclasses import replace

import pytest
import torch
import torch._inductor.config
from torch._dynamo.utils import counters

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend import env
from webgpu_backend.plan import cache
from webgpu_backend.runtime.gpu import gpu

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


@torch._inductor.config.patch(coordinate_descent_tuning=True)  # as torchao does
def test_dispatches_of_a_layer(monkeypatch):
    """With a GPU's kernels: products with their norms, their rotation and writes to the cache, attention, product, two
    more; what the layers share and the product of the logits are two."""
    monkeypatch.setattr(env, "COMPILE", "inductor")
    monkeypatch.setattr(gpu(), "caps", replace(gpu().caps, kind="gpu"))
    cache.clear()
    torch._dynamo.reset()
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=256, hidden_size=128, intermediate_size=192, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, eos_token_id=None,
    )  # fmt: skip
    model = transformers.Qwen2ForCausalLM(config).eval()
    ids = torch.randint(0, 256, (1, 5))
    asked = dict(max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=0)
    expected = model.generate(ids, **asked)
    model.to(D)
    found = model.generate(ids.to(D), cache_implementation="static", **asked)
    assert torch.equal(found.cpu(), expected)
    names = kernels_of(lambda: model.generate(ids.to(D), cache_implementation="static", **asked))
    cache.clear()
    chosen = [i for i, name in enumerate(names) if name.startswith("argmax")]
    token = [n for n in names[chosen[-2] + 1 : chosen[-1]] if n.startswith(("wgsl_", "attention"))]
    assert len(token) == 3 * 5 + 2, token


def test_a_token_by_itself():
    """Not compiled: a step for the cache, and grouped heads that are read as they are, though there is a mask."""
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, eos_token_id=None,
    )  # fmt: skip
    model = transformers.Qwen2ForCausalLM(config).eval()
    ids = torch.randint(0, 128, (2, 5))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    asked = dict(max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0)
    fixed = dict(cache_implementation="static", disable_compile=True)
    expected = model.generate(ids, attention_mask=mask, **asked)
    model.to(D)
    found = []

    def call():
        found.append(model.generate(ids.to(D), attention_mask=mask.to(D), **asked, **fixed))

    names = kernels_of(call)
    assert torch.equal(found[0].cpu(), expected)
    assert len([n for n in names if n.startswith("append")]) == 3  # the first of four tokens comes of the prompt
    assert len([n for n in names if n.startswith("scatter")]) <= 2  # of the prompt


@pytest.mark.parametrize("batch, length, offset", [(1, 7, 0), (3, 5, 0), (2, 6, 2)])
@pytest.mark.parametrize("count", [torch.tensor(3), torch.tensor([0]), torch.tensor([[6]])])
def test_the_mask_of_a_token(batch, length, offset, count):
    """By one comparison, and the same as transformers makes on the CPU; where more is asked, by its own code."""
    from transformers import masking_utils as masks

    make = masks.AttentionMaskInterface._global_mapping["sdpa"]
    sizes = dict(batch_size=batch, q_length=1, kv_length=length, kv_offset=offset, allow_is_causal_skip=False)
    found, here = [], count.to(D)
    make(**sizes, q_offset=here, device=D)  # the places are kept
    names = kernels_of(lambda: found.append(make(**sizes, q_offset=here, device=D)))
    expected = make(**sizes, q_offset=count.flatten(), device="cpu")
    assert found[0].shape == (batch, 1, 1, length) and found[0].dtype is torch.bool
    assert torch.equal(found[0].cpu(), expected)
    assert len(names) == 1, names
    for padding in (4, offset + length, 9):
        mask = torch.rand(batch, padding, generator=torch.Generator().manual_seed(padding)) > 0.5
        there, ours = [], mask.to(D)
        names = kernels_of(lambda: there.append(make(**sizes, q_offset=here, attention_mask=ours, device=D)))  # noqa: B023
        assert torch.equal(there[0].cpu(), make(**sizes, q_offset=count.flatten(), attention_mask=mask, device="cpu"))
        assert len(names) == (3 if padding < offset + length else 2), names
    for given in (
        {"mask_function": masks.sliding_window_causal_mask_function(2)},
        {"attention_mask": torch.tensor([[False] + [True] * 7] * batch).int()},
        {"q_length": 2},
    ):
        asked = {**sizes, **given}
        here = {k: v.to(D) if isinstance(v, torch.Tensor) else v for k, v in asked.items()}
        found = make(**here, q_offset=count.flatten().to(D), device=D)
        assert torch.equal(found.cpu(), make(**asked, q_offset=count.flatten(), device="cpu"))


def test_the_places_of_a_mask_are_a_plain_tensor_and_few():
    """Also after a mode that makes other tensors, and in inference mode."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from webgpu_backend.frontend.integrations import decoding

    decoding._kept.clear()
    with FakeTensorMode():
        decoding._places(0, 4, D)
    assert not decoding._kept
    with torch.inference_mode():
        assert not decoding._places(0, 4, D).is_inference()
    for end in range(5, 5 + 2 * decoding._MOST_PLACES):
        assert decoding._places(1, end, D).flatten().tolist() == list(range(1, end))
    assert len(decoding._kept) <= decoding._MOST_PLACES


@pytest.mark.parametrize("model", ["one mask", "named masks", "a window", "other ways of attention"])
def test_masks_of_the_next_tokens(model):
    """Kept for a cache, as far as they are what transformers makes."""
    import copy

    from transformers.generation import utils

    sizes = dict(vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2)
    if model in ("named masks", "a window"):
        window = dict(use_sliding_window=True, sliding_window=4, max_window_layers=1) if model == "a window" else {}
        config = transformers.Qwen2Config(**sizes, num_key_value_heads=2, **window)
    else:
        config = transformers.LlamaConfig(**sizes)
    config._attn_implementation = "sdpa"
    made = transformers.StaticCache(config, max_cache_len=8)
    reference = transformers.StaticCache(config, max_cache_len=8)
    for step, way in enumerate(["sdpa"] * 4 + (["eager", "sdpa"] if model.startswith("other") else [])):
        config._attn_implementation = way
        length = 3 if step == 0 else 1
        if step == 3:
            made = copy.deepcopy(made)
        masks = []
        for cache_, device in ((made, D), (reference, "cpu")):
            given = torch.empty(2, length, 0, device=device)
            found = utils.create_masks_for_generate(config, given, None, cache_, position_ids=None)
            masks.append(found if isinstance(found, dict) else {"": found})
            state = torch.randn(2, 2, length, 8, device=device)
            with torch.no_grad():
                for layer in range(2):
                    cache_.update(state, state, layer)
        ours, theirs = masks
        assert ours.keys() == theirs.keys()
        for name, mask in theirs.items():
            assert (ours[name] is None) == (mask is None)
            if mask is not None:
                assert ours[name].dtype == mask.dtype and torch.equal(ours[name].cpu(), mask)
    kept = getattr(made, "_webgpu_mask", None)
    assert (kept is None) == (model == "a window")


def test_modes_see_a_token_that_is_appended():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    config = transformers.LlamaConfig(vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    cache_, state = transformers.StaticCache(config, max_cache_len=8), torch.randn(1, 2, 1, 8, device=D)
    with torch.no_grad():
        cache_.update(state, state, 0)
        cache_.update(state, state, 0)
        with Mode():
            cache_.update(2 * state, state, 0)
    assert any("append_token" in name for name in seen)
    expected = torch.cat([state, state, 2 * state], 2).cpu()
    assert torch.equal(cache_.layers[0].keys[:, :, :3].cpu(), expected)


def test_masks_of_another_version_are_left_to_it():
    from webgpu_backend.frontend.integrations import decoding

    def sdpa_mask(batch_size, cache_position, kv_length, kv_offset=0, mask_function=None):
        return None

    for mapping in ({}, {"sdpa": sdpa_mask}):
        assert decoding.masks(dict(mapping)) == mapping
