"""Language models with weights of few bits: converted, out of GGUF files, by torchao, trained with LoRA on top; and
the ways in which people generate with them."""

import copy
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import webgpu_backend
from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.ops.quantized import codecs

transformers = needs.package("transformers")
D = "webgpu"
HIDDEN, INNER, VOCABULARY = 256, 512, 96


def llama(**changes):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=VOCABULARY, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=None,
        **changes,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def prompt(rows=2, length=20):
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (rows, length))


def close(ours, theirs, tolerance=1e-4):
    assert ours.device.type == D
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=tolerance, atol=tolerance)


# -- a model converted in one call


@pytest.mark.parametrize("format, tied", [("q8_0", False), ("q4_0", False), ("q4_k", True), ("q6_k", True)])
def test_a_converted_model(format, tied):
    model, ids = llama(tie_word_embeddings=tied), prompt()
    floats = model(ids).logits
    assert webgpu_backend.quantize_(model, format) is model
    wanted = model(ids).logits
    assert (wanted - floats).norm() < {"q8_0": 0.02, "q6_k": 0.06}.get(format, 0.3) * floats.norm()
    model.to(D)
    close(model(ids.to(D)).logits, wanted)
    if format == "q4_k":
        close(torch.compile(model)(ids.to(D)).logits, wanted)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    bits = codecs.quantised(torch.zeros(1, 256), format)
    size = sum(t.numel() * t.element_size() for t in bits) * 8 / 256
    weights = [m for m in model.modules() if isinstance(m, nn.Linear)]
    held = {t.data_ptr(): t.numel() * t.element_size() for m in weights for t in (m.weight, m.scales)}
    count = sum(m.in_features * m.out_features for m in weights)
    assert sum(held.values()) * 8 == size * count


def test_conversion_takes_what_it_can():
    model = nn.Sequential(nn.Linear(256, 8), nn.Linear(96, 8), nn.Linear(20, 8, bias=False), nn.Embedding(5, 256))
    webgpu_backend.quantize_(model, "q4_k", filter=lambda m, name: name != "3")
    assert [getattr(m, "format", None) for m in model] == ["q4_k", "q8_0", None, None]
    assert model[0].weight.dtype == torch.int32 and not model[0].weight.requires_grad
    alone = webgpu_backend.quantize_(nn.Linear(64, 8), "q8_0")
    assert isinstance(alone, nn.Linear) and alone.format == "q8_0" and "q8_0" in repr(alone)
    with pytest.raises(ValueError, match="q5_1"):
        webgpu_backend.quantize_(model, "q5_1")


def test_saved_and_loaded(tmp_path):
    model, ids = webgpu_backend.quantize_(llama(tie_word_embeddings=True), "q4_k").to(D), prompt().to(D)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    with torch.device("meta"):
        other = webgpu_backend.quantize_(llama(tie_word_embeddings=True), "q4_k")
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True), assign=True)
    other.model.rotary_emb = model.model.rotary_emb
    assert torch.equal(other.eval()(ids).logits.cpu(), model(ids).logits.cpu())


def test_narrow_activations():
    for dtype, format in ((torch.float16, "q6_k"), (torch.bfloat16, "q8_0")):  # scales keep their bits in any cast
        model = webgpu_backend.quantize_(llama().to(dtype), format)
        wanted = model.float()(prompt()).logits  # the norms and activations of this one are float32
        got = model.to(dtype).to(D)(prompt().to(D)).logits
        assert got.dtype == dtype
        close(got.float(), wanted, 0.05)


def test_lora_on_top_trains():
    peft = needs.package("peft")
    ids, losses = prompt(), {}
    for device in ("cpu", D):
        model = webgpu_backend.quantize_(llama(), "q4_k").to(device)
        torch.manual_seed(2)
        model = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"]))
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-2)
        losses[device] = []
        for _ in range(4):
            loss = model(input_ids=ids.to(device), labels=ids.to(device)).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[device].append(loss.item())
    assert losses[D][-1] < losses[D][0] - 0.2
    torch.testing.assert_close(losses[D], losses["cpu"], rtol=1e-3, atol=1e-3)


# -- GGUF


def blocks(format: str, n: int, k: int) -> np.ndarray:
    """Rows of a file's bytes, whose weights are small."""
    per = 256 if "k" in format else 32
    raw = torch.randint(0, 256, (n, k // per, codecs.BYTES[format]), dtype=torch.uint8)
    size = {"q8_0": 1e-3, "q4_0": 1e-2, "q4_k": 3e-4, "q6_k": 3e-5}[format]
    places = {"q4_k": [(0, size), (2, 7 * size)], "q6_k": [(208, size)]}.get(format, [(0, size)])
    for place, largest in places:
        raw[..., place : place + 2] = (torch.rand(n, k // per, 1) * largest).half().view(torch.uint8)
    return raw.view(n, -1).numpy()


@cache
def gguf_file(folder: str) -> str:
    """A small llama with matrices of every format, one of them (Q5_0) that stays in none."""
    gguf = needs.package("gguf")
    torch.manual_seed(0)
    kinds, rng = gguf.GGMLQuantizationType, np.random.default_rng(0)
    writer = gguf.GGUFWriter(f"{folder}/model.gguf", "llama")
    writer.add_name("small")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(2)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)

    def matrix(name, format, n, k):
        writer.add_tensor(name, blocks(format, n, k), raw_dtype=kinds[format.upper()])

    def norm(name):
        writer.add_tensor(name, rng.random(HIDDEN, dtype=np.float32) + 0.5)

    matrix("token_embd.weight", "q6_k", VOCABULARY, HIDDEN)
    norm("output_norm.weight")
    for i in range(2):
        layer = f"blk.{i}"
        matrix(f"{layer}.attn_q.weight", "q4_k", HIDDEN, HIDDEN)
        matrix(f"{layer}.attn_k.weight", "q8_0", HIDDEN // 2, HIDDEN)
        matrix(f"{layer}.attn_v.weight", "q6_k", HIDDEN // 2, HIDDEN)
        matrix(f"{layer}.attn_output.weight", "q4_0", HIDDEN, HIDDEN)
        matrix(f"{layer}.ffn_gate.weight", "q4_k", INNER, HIDDEN)
        five = gguf.quants.quantize(rng.standard_normal((INNER, HIDDEN), dtype=np.float32) / 20, kinds.Q5_0)
        writer.add_tensor(f"{layer}.ffn_up.weight", five, raw_dtype=kinds.Q5_0)
        matrix(f"{layer}.ffn_down.weight", "q6_k", HIDDEN, INNER)
        norm(f"{layer}.attn_norm.weight")
        norm(f"{layer}.ffn_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return f"{folder}/model.gguf"


def test_gguf(tmp_path_factory):
    file = gguf_file(str(tmp_path_factory.mktemp("gguf")))
    folder, ids = file.rpartition("/")[0], prompt()
    given = dict(gguf_file="model.gguf", dtype=torch.float32)
    wanted = transformers.AutoModelForCausalLM.from_pretrained(folder, **given)(ids).logits
    floats = transformers.AutoModelForCausalLM.from_pretrained(folder, **given, device_map=D)
    close(floats(ids.to(D)).logits, wanted)
    model = webgpu_backend.load_gguf(file, dtype=torch.float32)
    close(model(ids.to(D)).logits, wanted)
    attention, mlp = model.model.layers[0].self_attn, model.model.layers[1].mlp
    kinds = [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj, mlp.down_proj, model.lm_head]
    assert [m.format for m in kinds] == ["q4_k", "q8_0", "q6_k", "q4_0", "q6_k", "q6_k"]
    assert type(mlp.up_proj) is nn.Linear and mlp.up_proj.weight.dtype == torch.float32
    assert model.lm_head.weight is model.model.embed_tokens.weight
    half = webgpu_backend.load_gguf(file)
    assert half.dtype == torch.float16 and half(ids.to(D)).logits.dtype == torch.float16


# -- torchao


def small(dtype):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64)).to(dtype).eval()


AO = {
    "Int8WeightOnlyConfig": (torch.float32, 0.01, "_int8_"),
    "Int8DynamicActivationInt8WeightConfig": (torch.float32, 0.02, "_i8"),
    "Int4WeightOnlyConfig": (torch.bfloat16, 0.12, "_int4_"),
    "Float8WeightOnlyConfig": (torch.bfloat16, 0.05, ""),
}


@pytest.mark.parametrize("name", AO)
def test_torchao(name, tmp_path):
    ao = needs.package("torchao.quantization")
    dtype, error, kernel = AO[name]
    config = getattr(ao, name)(**({"group_size": 32} if "Int4" in name else {}))
    model, x = small(dtype), torch.randn(3, 256).to(dtype)
    floats, here = model(x), copy.deepcopy(model).to(D)
    ao.quantize_(here, config)
    assert type(here[0].weight).__module__.startswith("torchao")
    got = here(x.to(D))
    assert (got.cpu() - floats).float().norm() < error * floats.float().norm()
    with torch.no_grad():
        names = kernels_of(lambda: here(x.to(D)))
        assert any("matmul" in n and kernel in n for n in names), names
        compiled = torch.compile(here)(x.to(D))  # a fused kernel rounds elsewhere, and a code may be another
        assert (compiled - got).float().norm() < 0.02 * got.float().norm()
    torch.save(here.state_dict(), tmp_path / "weights.pt")
    with torch.device("meta"):
        other = small(dtype)
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True), assign=True)
    assert torch.equal(other(x.to(D)).cpu(), got.cpu())
    if "Int4" not in name:  # which torchao packs for the device that it is on
        ao.quantize_(model, config)
        close(model.to(D)(x.to(D)).float(), got.cpu().float(), 0.02)


@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "Int4WeightOnlyConfig"])
def test_torchao_through_transformers(name, tmp_path):
    ao = needs.package("torchao.quantization")
    config = transformers.TorchAoConfig(getattr(ao, name)(**({"group_size": 32} if "Int4" in name else {})))
    ids = prompt()
    plain = llama().to(torch.bfloat16)
    plain.save_pretrained(tmp_path / "plain")
    floats = plain.float()(ids).logits
    given = dict(dtype=torch.bfloat16, device_map=D)
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = load(tmp_path / "plain", quantization_config=config, **given)
    got = model(ids.to(D)).logits
    assert (got.cpu().float() - floats).norm() < 0.3 * floats.norm()
    model.save_pretrained(tmp_path / "quantised")
    again = load(tmp_path / "quantised", **given)
    assert torch.equal(again(ids.to(D)).logits.cpu(), got.cpu())


# -- as people generate


def generated(model, device, ids, mask, **how):
    model = model.to(device)
    out = model.generate(ids.to(device), attention_mask=mask.to(device), max_new_tokens=10, do_sample=False, **how)
    return out.cpu()


@pytest.mark.parametrize("way", ["padded", "assistant", "lookup", "fp8 cache", "static cache"])
def test_generation(way):
    model, ids = llama(), prompt()
    mask, how = torch.ones_like(ids), {}
    if way == "padded":
        ids[1, :7], mask[1, :7] = 0, 0
    elif way == "assistant":
        ids, mask = ids[:1], mask[:1]
        how["assistant_model"] = llama(hidden_act="relu")
    elif way == "lookup":
        ids, mask, how = ids[:1], mask[:1], {"prompt_lookup_num_tokens": 3}
    elif way == "fp8 cache":
        needs.quantized_cache("fp8")
        how = {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}}
    else:
        how["cache_implementation"] = "static"
    webgpu_backend.quantize_(model, "q8_0")
    wanted = generated(model, "cpu", ids, mask, **how)
    if "assistant_model" in how:
        how["assistant_model"].to(D)
    assert torch.equal(generated(model, D, ids, mask, **how), wanted)
