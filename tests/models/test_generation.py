"""`webgpu_backend.generate`: the tokens of transformers' own generate, one captured graph for each, read late."""

import gc
import weakref

import pytest
import torch
from torch._dynamo.utils import counters

import webgpu_backend
from tests import needs
from webgpu_backend import env
from webgpu_backend.frontend.integrations import generation
from webgpu_backend.runtime.gpu import gpu

transformers = needs.package("transformers")
D = "webgpu"
VOCABULARY = 96
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
TINY = dict(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=0,
    initializer_range=0.3,  # so that tokens differ
)  # fmt: skip


def made(config, **changes):
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config(**TINY | changes)).eval()


def prompt(rows=1, length=7):
    torch.manual_seed(length)
    return torch.randint(1, VOCABULARY, (rows, length))


def expected(model, ids, count, **given):
    found = model.generate(ids, max_new_tokens=count, do_sample=False, pad_token_id=0, **given)
    return found[:, ids.shape[1] :].cpu()


def generated(model, ids, count, **given):
    return torch.stack(list(webgpu_backend.generate(model, ids, count, **given)), 1)


def test_a_llama_by_inductor(monkeypatch):
    """Prompts of several lengths by one graph; the end of a text; an iteration that is left; what stays afterwards."""
    monkeypatch.setattr(env, "COMPILE", "inductor")
    torch._dynamo.trace_rules.clear_lru_cache()  # as torch does when processes are joined
    model = made(transformers.LlamaConfig, num_hidden_layers=1)
    ids, other = prompt(), prompt(length=4)
    first, second = expected(model, ids, 12), expected(model, other, 9)
    assert len(first.unique()) > 5
    model.to(D)
    stream = webgpu_backend.generate(model, ids, 12)
    token = next(stream)
    assert token.shape == (1,) and token.device.type == "cpu"
    assert torch.equal(torch.stack([token, *stream], 1), first)

    counters.clear()
    assert torch.equal(generated(model, other, 9), second)
    left = webgpu_backend.generate(model, ids, 12)
    assert [int(next(left)) for _ in range(3)] == first[0, :3].tolist()
    left.close()
    place = 6
    ended = generated(model, ids, 12, eos_token_id=[int(first[0, place]), VOCABULARY])
    assert ended.tolist() == first[:, : first[0].tolist().index(int(first[0, place])) + 1].tolist()
    model.generation_config.eos_token_id = int(first[0, place])
    assert torch.equal(generated(model, ids, 12), ended)
    assert torch.equal(generated(model, ids, 12, eos_token_id=None), first)
    assert not counters["stats"]  # nothing was compiled since the first call
    assert generated(model, ids, 1).tolist() == first[:, :1].tolist()
    assert list(webgpu_backend.generate(model, ids, 0)) == []

    held, gone = torch.webgpu.memory_allocated(), weakref.ref(model)
    del model, stream, left
    gc.collect()
    assert gone() is None
    assert torch.webgpu.memory_allocated() < held - 40_000


def test_rows_with_padding_by_replay(monkeypatch):
    """And in another order of events: batches are handed to the thread, as for a GPU, and ended rows are filled up."""
    monkeypatch.setattr(env, "COMPILE", "replay")
    monkeypatch.setattr(gpu().queue, "hands_over", True)
    monkeypatch.setitem(generation.AHEAD, gpu().caps.kind, 3)
    model = made(transformers.Qwen2Config)
    ids, mask = prompt(3, 8), torch.ones(3, 8, dtype=torch.int64)
    mask[0, :5] = mask[2, :1] = 0
    plain = expected(model, ids, 10, attention_mask=mask)
    end = int(plain[0, 2])
    wanted = expected(model, ids, 10, attention_mask=mask, eos_token_id=end)
    model.to(D)
    assert torch.equal(generated(model, ids, 10, attention_mask=mask, eos_token_id=end, pad_token_id=0), wanted)
    assert torch.equal(generated(model, ids.to(D), 10, attention_mask=mask.to(D), eos_token_id=None), plain)
    one = mask[:, :6]
    one[:] = 1
    again = generated(model, ids[:, :6], 10, attention_mask=one)  # what was masked is not any more
    assert torch.equal(again, expected(model, ids[:, :6].to(D), 10, attention_mask=one.to(D)))
    torch.webgpu.synchronize()


def test_padding_that_no_mask_tells(monkeypatch):
    """transformers takes tokens of `pad_token_id` for padding, unless they also end a text; so does this, with this
    device as the default one."""
    monkeypatch.setattr(env, "COMPILE", "replay")
    model, ids = made(transformers.LlamaConfig), prompt(2, 6)
    ids[0, :3] = ids[1, 3] = 0
    wanted, whole = expected(model, ids, 8), expected(model, ids, 8, attention_mask=torch.ones_like(ids))
    assert not wanted.equal(whole)
    model.to(D)
    with torch.device(D):
        assert torch.equal(generated(model, ids, 8, pad_token_id=0), wanted)
        assert torch.equal(generated(model, ids.to(D), 8), wanted), "the model's own"
        assert torch.equal(generated(model, ids, 8, attention_mask=torch.ones_like(ids, device="cpu")), whole)
    ids[1, 5] = 0
    with pytest.raises(ValueError, match="padded on the left. Without an attention_mask, tokens of pad_token_id"):
        generated(model, ids, 8)
    end = int(whole[0, 0])
    ids[0, 0] = end
    wanted = model.generate(ids.to(D), max_new_tokens=4, do_sample=False, pad_token_id=end, eos_token_id=end)
    wanted = wanted[:, 6:].cpu()
    found = generated(model, ids, 4, pad_token_id=end, eos_token_id=end)
    assert torch.equal(found, wanted[:, : found.shape[1]]) and found.shape[1] == wanted.shape[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gpt2(dtype, monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "replay")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=None, eos_token_id=None,
        initializer_range=0.3,
    )  # fmt: skip
    model, ids = transformers.GPT2LMHeadModel(config).eval().to(D, dtype), prompt()
    assert torch.equal(generated(model, ids, 12), expected(model, ids.to(D), 12))


def test_a_token_that_there_is_not(monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "replay")
    model, ids = made(transformers.LlamaConfig, num_hidden_layers=1), prompt()
    wanted = expected(model, ids, 4)
    model.to(D)
    with pytest.raises(IndexError):
        generated(model, torch.full((1, 3), VOCABULARY), 4)
    assert torch.equal(generated(model, ids, 4), wanted)


def test_layers_that_look_back_a_part_of_the_way(monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "replay")
    model, ids = made(transformers.MistralConfig, sliding_window=5), prompt()
    wanted = expected(model, ids, 10)
    assert torch.equal(generated(model.to(D), ids, 10), wanted)


def test_weights_of_few_bits(monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "replay")
    size = dict(hidden_size=256, intermediate_size=256, num_hidden_layers=1, initializer_range=0.1)
    model, ids = made(transformers.LlamaConfig, **size).half(), prompt()
    floats = generated(model.to(D), ids, 3)
    webgpu_backend.quantize_(model, "q4_k")  # other memory: what was captured is of no use any more
    wanted = expected(model, ids.to(D), 10)
    assert torch.equal(generated(model, ids, 10), wanted)
    assert len(wanted.unique()) > 5 and floats.shape == (1, 3)


def test_elsewhere():
    model, ids = made(transformers.LlamaConfig), prompt(2)
    assert torch.equal(generated(model, ids, 5), expected(model, ids, 5))


# -- drawn tokens


def test_drawn_tokens(monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "replay")
    model, ids = made(transformers.LlamaConfig).to(D), prompt(2)
    given = dict(do_sample=True, top_k=8, top_p=0.9)

    def drawn(seed, **changes):
        torch.manual_seed(seed)
        return generated(model, ids, 12, **given | changes)

    first = drawn(1, temperature=1.5)
    counters.clear()
    assert torch.equal(drawn(1, temperature=1.5), first)
    assert not torch.equal(drawn(2, temperature=1.5), first)
    likeliest = expected(model, ids.to(D), 12)
    assert torch.equal(drawn(1, temperature=0.01), likeliest)
    assert torch.equal(drawn(3, top_p=1e-6), likeliest)
    assert not counters["stats"]


@pytest.mark.parametrize("top_k, top_p", [(0, 1.0), (4, 1.0), (0, 0.8), (5, 0.8)])
def test_how_often_each_is_drawn(top_k, top_p):
    rows = 20_000
    choice = generation.Choice(True, top_k, top_p < 1)
    decoder = generation.Decoder(made(transformers.LlamaConfig).to(D), rows, 1, choice)
    torch.manual_seed(5)
    decoder.noise.uniform_()
    decoder.temperature.fill_(0.7)
    decoder.top_p.fill_(top_p)
    logits = torch.tensor([0.3, 1.2, -0.4, 2.0, 0.9, -3.0, 1.1])
    found = decoder._chosen(logits.expand(rows, -1).to(D)).cpu().flatten().bincount(minlength=7) / rows
    warpers = [transformers.TemperatureLogitsWarper(0.7)]
    warpers += [transformers.TopKLogitsWarper(top_k)] if top_k else []
    warpers += [transformers.TopPLogitsWarper(top_p)] if top_p < 1 else []
    wanted = logits[None]
    for warper in warpers:
        wanted = warper(None, wanted)
    wanted = wanted.softmax(-1)[0]
    assert not found[wanted == 0].any()
    torch.testing.assert_close(found, wanted, atol=0.015, rtol=0)


# -- what cannot be


@pytest.mark.parametrize(
    "given, problem",
    [
        (dict(input_ids=torch.ones(3, dtype=torch.int64)), r"\[rows, length\]"),
        (dict(cache_size=16), "do not fit a cache of 16"),
        (dict(attention_mask=torch.tensor([[1, 1, 0]])), "padded on the left"),
        (dict(do_sample=True, temperature=0.0), "temperature"),
    ],
)
def test_what_is_refused(given, problem):
    model = made(transformers.LlamaConfig)
    with pytest.raises(ValueError, match=problem):
        webgpu_backend.generate(model, **dict(input_ids=torch.ones(1, 3, dtype=torch.int64), max_new_tokens=20) | given)


def test_models_that_have_no_such_cache():
    mamba = transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4)
    )
    with pytest.raises(ValueError, match="MambaForCausalLM keeps more than keys and values"):
        next(webgpu_backend.generate(mamba, prompt(), 3))
    with pytest.raises(ValueError, match="Linear is none"):
        next(webgpu_backend.generate(torch.nn.Linear(3, 3), prompt(), 3))
