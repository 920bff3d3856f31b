"""Exported models with quantised weights: packed in the page's files and memory, and the numbers are PyTorch's."""

import copy
import json

import torch
from torch import nn

import webgpu_backend
from tests import needs
from webgpu_backend.frontend.quantized.modules import QuantizedEmbedding, QuantizedLinear

from . import dawn


def unpacked(model: nn.Module) -> nn.Module:
    """The same model on the CPU, with floats in the place of codes."""
    plain = copy.deepcopy(model).to("cpu")
    for name, module in model.named_modules():
        if isinstance(module, QuantizedLinear):
            floats = nn.Linear(module.in_features, module.out_features, bias=module.bias is not None)
            weight = module.dequantize()
        elif isinstance(module, QuantizedEmbedding):
            floats = nn.Embedding(module.num_embeddings, module.embedding_dim)
            weight = torch.ops.webgpu_backend.weights_of_blocks(
                module.weight, module.scales, module.format, module.dtype
            )
        else:
            continue
        floats.weight = nn.Parameter(weight.cpu())
        if getattr(module, "bias", None) is not None:
            floats.bias = nn.Parameter(module.bias.detach().cpu())
        plain.set_submodule(name, floats)
    return plain


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, mask):
        return {"logits": self.model(input_ids=tokens, attention_mask=mask).logits}


def test_a_language_model_of_four_bits(tmp_path):
    """Llama's shape in Q4_K, and in Q8_0 where rows are no whole blocks of 256: one prompt, and a single token."""
    transformers = needs.package("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=256, intermediate_size=288, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, attn_implementation="sdpa", use_cache=False,
    )  # fmt: skip
    model = Logits(transformers.LlamaForCausalLM(config).eval()).to("webgpu")
    floats = sum(p.nbytes for p in model.parameters())
    webgpu_backend.quantize_(model, "q4_k")
    assert {m.format for m in model.modules() if isinstance(m, QuantizedLinear)} == {"q4_k", "q8_0"}
    given = [
        {"tokens": torch.randint(0, 96, (1, n)), "mask": torch.ones(n, n, dtype=torch.bool).tril()[None, None]}
        for n in (7, 1)
    ]
    site = tmp_path / "site"
    names = ("prompt", "token")
    report = webgpu_backend.export(dict.fromkeys(names, model), dict(zip(names, given)), site)
    packed = sum(t.nbytes for t in (*model.parameters(), *model.buffers()))
    assert report["weights"] < 1.01 * packed < 0.22 * floats  # no floats beside the codes
    assert sum(file.stat().st_size for file in site.glob("weights-*")) < 1.01 * packed
    reference = unpacked(model)
    found = dawn.calls(site, *[{"function": name, "inputs": inputs} for name, inputs in zip(names, given)])
    for inputs, one in zip(given, found):
        with torch.no_grad():
            expected = reference(**inputs)["logits"].flatten()
        torch.testing.assert_close(one["logits"], expected, rtol=1e-4, atol=1e-4)


def test_torchao(tmp_path):
    """Weights of eight bits, those with activations of eight bits, and of four bits in groups."""
    ao = needs.package("torchao.quantization")
    torch.manual_seed(0)
    configs = {
        "int8": ao.Int8WeightOnlyConfig(),
        "dynamic": ao.Int8DynamicActivationInt8WeightConfig(),
        "int4": ao.Int4WeightOnlyConfig(group_size=32),
    }
    models = {}
    for name, config in configs.items():
        dtype = torch.bfloat16 if name == "int4" else torch.float32
        models[name] = nn.Sequential(nn.Linear(1024, 48), nn.ReLU(), nn.Linear(48, 32)).to(dtype).to("webgpu")
        # The second layer stays: torchao fills rows of four bits up to 1,024 columns.
        ao.quantize_(models[name], config, filter_fn=lambda module, at: at == "0")
    x = torch.randn(3, 1024)
    given = {name: x.to(model[2].weight.dtype) for name, model in models.items()}
    site = tmp_path / "site"
    webgpu_backend.export(models, {name: (value,) for name, value in given.items()}, site)
    weights = {w["name"]: w["bytes"] for w in json.loads((site / "model.json").read_text())["weights"]}
    assert weights["0.weight.qdata"] == 1024 * 48 and weights["int4.0.weight.qdata"] == 1024 * 48 // 2
    assert max(weights.values()) == 1024 * 48  # no floats beside the codes
    bits = given["int4"].view(torch.int16).flatten().tolist()
    calls = [{"function": n, "inputs": {"input": {"bits": bits} if n == "int4" else x}} for n in models]
    for (name, model), one in zip(models.items(), dawn.calls(site, *calls)):
        found, expected = one["output"], model(given[name].to("webgpu")).detach().cpu()
        if name == "int4":
            found = found.to(torch.int32).to(torch.int16).view(torch.bfloat16).float()
        tolerance = 2e-2 if name == "int4" else 1e-4
        torch.testing.assert_close(found, expected.float().flatten(), rtol=tolerance, atol=tolerance, msg=name)
