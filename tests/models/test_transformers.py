"""Hugging Face transformers, unchanged, on the device: forward, backward, generation, loading and pipelines."""

import copy
import inspect
from functools import cache

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests import needs

transformers = needs.package("transformers")

from tests.models import _zoo  # noqa: E402

D = "webgpu"
NEW = {"min_new_tokens": 6, "max_new_tokens": 6, "do_sample": False}


@pytest.fixture(scope="module", autouse=True)
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


@cache
def pair(name):
    """A model and its inputs, on the CPU and on the device."""
    model, inputs = _zoo.build(name)
    return model, inputs, copy.deepcopy(model).to(D), _zoo.moved(inputs, D)


@cache
def greedy(name):
    model, inputs, *_ = pair(name)
    return model.generate(**_zoo.generating(inputs), **NEW)


def total(out):
    if out.get("loss") is not None:
        return out["loss"]
    return sum(v.square().mean() for v in out.values() if isinstance(v, torch.Tensor))


@pytest.mark.parametrize("name", _zoo.ALL)
def test_forward_and_backward(name):
    model, inputs, ours, moved = pair(name)
    compare(model, inputs, ours, ours(**moved))


def compare(model, inputs, ours, got):
    """What a model gives for these inputs, and its gradients, with what ours has given."""
    # The fused kernel of the CPU has wrong gradients where a mask hides all keys of a query (docs/numbers.md).
    with sdpa_kernel(SDPBackend.MATH):
        expected = model(**inputs)
    same_tensors(got, expected)
    total(expected).backward()
    total(got).backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    found = {n: p.grad for n, p in ours.named_parameters() if p.grad is not None}
    assert gradients.keys() == found.keys() and len(found) > 10
    # A gradient may be zero but for rounding (a key's bias, under softmax): the model's scale decides.
    scale = max(g.abs().max().item() for g in gradients.values())
    for n, g in gradients.items():
        torch.testing.assert_close(found[n].cpu(), g, rtol=1e-3, atol=1e-5 * scale, msg=lambda m, n=n: f"{n}: {m}")
    model.zero_grad()
    ours.zero_grad()
    return expected


def same_tensors(got, expected):
    for key, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert got[key].device.type == D
            torch.testing.assert_close(got[key].detach().cpu(), value.detach(), rtol=1e-4, atol=2e-5)


def distance(found, exact) -> torch.Tensor:
    """Root of the mean squared difference."""
    return (found.float().cpu() - exact.float()).square().mean().sqrt()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", _zoo.CAUSAL)
def test_narrow_forward_and_backward(name, dtype):
    """Logits and gradients are as near to the float32 ones as the CPU's own are in that dtype."""
    model, inputs, *_ = pair(name)
    runs = []
    for kind, device in ((torch.float32, "cpu"), (dtype, "cpu"), (dtype, D)):
        net = copy.deepcopy(model).to(device, kind)
        out = net(**_zoo.moved(inputs, device))
        out.loss.backward()
        gradients = torch.cat([p.grad.flatten().float().cpu() for p in net.parameters() if p.grad is not None])
        runs.append((out.logits.detach(), gradients, out.loss.item()))
    (exact, gradients, loss), (logits, theirs, _), (found, ours, value) = runs
    assert found.device.type == D and found.dtype is logits.dtype
    assert distance(found, exact) <= 1.5 * distance(logits, exact) + 1e-3 * exact.std()
    assert ours.shape == gradients.shape and ours.isfinite().all()
    assert distance(ours, gradients) <= 1.5 * distance(theirs, gradients) + 2e-3 * gradients.std()
    assert value == pytest.approx(loss, rel=2e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", _zoo.CAUSAL)
def test_narrow_generation(name, dtype):
    """Each token that greedy search takes is the most likely one in float32, as far as the dtype can tell."""
    model, inputs, *_ = pair(name)
    prompt = _zoo.generating(inputs)
    narrow = copy.deepcopy(model).to(D, dtype)
    tokens = narrow.generate(**_zoo.moved(prompt, D), **NEW).cpu()
    assert narrow.dtype is dtype and tokens.shape == greedy(name).shape
    length = prompt["input_ids"].shape[1]
    mask = torch.cat([prompt["attention_mask"], torch.ones(len(tokens), 6, dtype=torch.long)], 1)
    whole = {"input_ids": tokens, "attention_mask": mask}
    if "position_ids" in inspect.signature(model.forward).parameters:  # counted from the first that is no padding
        whole["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        logits = model(**whole).logits[:, length - 1 : -1]
    logits[..., model.generation_config.eos_token_id] = -torch.inf  # six tokens are asked for
    taken = logits.gather(2, tokens[:, length:, None])[..., 0]
    scale = logits[logits.isfinite()].std()
    assert (logits.amax(-1) - taken <= (0.02 if dtype is torch.float16 else 0.15) * scale).all()


@pytest.mark.parametrize("name", _zoo.CAUSAL | _zoo.SEQUENCE | _zoo.MORE)
def test_greedy_generation(name):
    _, _, ours, moved = pair(name)
    tokens = ours.generate(**_zoo.generating(moved), **NEW)
    assert tokens.device.type == D
    assert tokens.cpu().tolist() == greedy(name).tolist()


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3"])
def test_static_cache(name):
    _, _, ours, moved = pair(name)
    tokens = ours.generate(**_zoo.generating(moved), **NEW, cache_implementation="static", disable_compile=True)
    assert tokens.cpu().tolist() == greedy(name).tolist()


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_beam_search(name):
    model, inputs, ours, moved = pair(name)
    options = NEW | {"num_beams": 3, "num_return_sequences": 2}
    expected = model.generate(**_zoo.generating(inputs), **options)
    assert ours.generate(**_zoo.generating(moved), **options).cpu().tolist() == expected.tolist()


def test_sampling():
    _, _, ours, moved = pair("llama")
    moved = _zoo.generating(moved)
    assert ours.generate(**moved, **NEW | {"do_sample": True, "top_k": 1}).cpu().tolist() == greedy("llama").tolist()

    def sample(seed):
        torch.manual_seed(seed)
        options = {"do_sample": True, "top_k": 30, "top_p": 0.95, "temperature": 1.5}
        return ours.generate(**moved, **NEW | options).cpu().tolist()

    first = sample(1)
    assert sample(1) == first
    assert sample(2) != first
    assert all(0 <= token < _zoo.VOCABULARY for row in first for token in row)


def test_logits_processors():
    model, inputs, ours, moved = pair("gpt2")
    options = NEW | {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "bad_words_ids": [[5], [7, 9]]}
    expected = model.generate(**_zoo.generating(inputs), **options)
    assert ours.generate(**_zoo.generating(moved), **options).cpu().tolist() == expected.tolist()


def test_left_padding_changes_nothing():
    """The padded row of a batch continues as it does alone."""
    _, _, ours, moved = pair("llama")
    alone = moved["input_ids"][:1, 3:]
    tokens = ours.generate(alone, **NEW)
    assert tokens[0, -6:].cpu().tolist() == greedy("llama")[0, -6:].tolist()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_attention_implementations(implementation):
    model, inputs, ours, moved = copy.deepcopy(pair("mistral"))
    for m in (model, ours):
        m.set_attn_implementation(implementation)
    expected = model(**inputs).logits.detach()
    torch.testing.assert_close(ours(**moved).logits.detach().cpu(), expected, rtol=1e-4, atol=2e-5)


def test_streaming():
    _, _, ours, moved = pair("llama")

    class Streamer(transformers.generation.streamers.BaseStreamer):
        def __init__(self):
            self.tokens = []

        def put(self, value):
            self.tokens += value.flatten().tolist()

        def end(self):
            self.tokens.append("end")

    streamer = Streamer()
    prompt = moved["input_ids"][1:]
    ours.generate(prompt, **NEW, streamer=streamer)
    assert streamer.tokens == [*greedy("llama")[1].tolist(), "end"]


# -- loading


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint as it is on the Hub: configuration, safetensors, tokenizer."""
    path = tmp_path_factory.mktemp("llama")
    model, *_ = pair("llama")
    model.save_pretrained(path, max_shard_size="40KB")
    words = {w: i for i, w in enumerate(["<pad>", "<s>", "</s>", "<unk>"] + [f"w{i}" for i in range(4, 99)])}
    tokenizers = needs.package("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        padding_side="left",
    ).save_pretrained(path)  # fmt: skip
    return path


@pytest.mark.parametrize("device_map", [D, {"": "webgpu:0"}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_from_pretrained(folder, device_map, dtype):
    model, inputs, _, moved = pair("llama")
    assert len(list(folder.glob("*.safetensors"))) > 1
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map=device_map, dtype=dtype)
    tensors = loaded.state_dict()
    for name, value in model.state_dict().items():
        assert tensors[name].device == torch.device(D, 0) and tensors[name].dtype is dtype
        assert torch.equal(tensors[name].cpu(), value.to(dtype))
    assert loaded.device == torch.device(D, 0)
    logits = loaded(**moved).logits.detach()
    tolerance = 1e-4 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(logits.cpu().float(), model(**inputs).logits.detach(), rtol=tolerance, atol=tolerance)


def test_saving_from_the_device(folder, tmp_path):
    _, _, ours, _ = pair("llama")
    ours.save_pretrained(tmp_path)
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    for name, value in ours.state_dict().items():
        assert torch.equal(back.state_dict()[name], value.cpu())


@pytest.mark.parametrize("device", [D, "webgpu:0", torch.device(D)], ids=str)
def test_safetensors_open_on_the_device(tmp_path, device):
    from safetensors import safe_open
    from safetensors.torch import load_file, load_model, save_file, save_model

    tensors = {"a": torch.randn(4, 3), "b": torch.randn(5).bfloat16(), "i": torch.arange(7), "m": torch.tensor([True])}
    save_file({k: v.to(D) for k, v in tensors.items()}, tmp_path / "x.safetensors")
    loaded = load_file(tmp_path / "x.safetensors", device=device)
    for name, value in tensors.items():
        assert loaded[name].device == torch.device(D, 0) and loaded[name].dtype is value.dtype
        assert torch.equal(loaded[name].cpu(), value)
    with safe_open(tmp_path / "x.safetensors", "pt", device=device) as file:
        assert isinstance(file, safe_open)
        assert torch.equal(file.get_slice("a")[1:, :2].cpu(), tensors["a"][1:, :2])
    with safe_open(tmp_path / "x.safetensors", framework="np") as file:
        assert file.get_tensor("i").tolist() == list(range(7))

    module, other = torch.nn.Linear(3, 2).to(D), torch.nn.Linear(3, 2).to(D)
    save_model(module, tmp_path / "m.safetensors")
    load_model(other, tmp_path / "m.safetensors", device=device)
    assert torch.equal(module.weight, other.weight)


def test_pipelines(folder):
    generate = transformers.pipeline("text-generation", model=str(folder), device=D)
    assert generate.model.device.type == D
    reference = transformers.pipeline("text-generation", model=str(folder), device="cpu")
    prompts, options = ["w5 w6 w7", "w8 w9 w10 w11 w12"], {**NEW, "batch_size": 2}
    assert generate(prompts, **options) == reference(prompts, **options)


def test_other_pipelines(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for task, name in (("text-classification", "bert"), ("fill-mask", "bert_mlm"), ("feature-extraction", "bert_mlm")):
        if task == "fill-mask":
            tokenizer.add_special_tokens({"mask_token": "w98"})
        model, _, ours, _ = pair(name)
        text = "w5 w6 w98 w7"
        expected = transformers.pipeline(task, model=model, tokenizer=tokenizer, device="cpu")(text)
        got = transformers.pipeline(task, model=ours, tokenizer=tokenizer, device=D)(text)
        if task == "feature-extraction":
            torch.testing.assert_close(torch.tensor(got), torch.tensor(expected), rtol=1e-4, atol=1e-5)
            continue
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            assert a.keys() == b.keys()
            assert a["score"] == pytest.approx(b["score"], rel=1e-4)
            assert {k: v for k, v in a.items() if k != "score"} == {k: v for k, v in b.items() if k != "score"}
