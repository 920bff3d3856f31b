"""A language model's shape with weights of few bits beside float16, in one run: size, error, memory, tokens a second.

    python -m benchmarks.quantized [--shape 1b|small] [--formats float16,q4_k] [--tokens 32] [--compiled] [--json FILE]

Weights are drawn at random: speed and memory do not depend on them, and the error is that of normally distributed ones.
"""

import argparse
import gc
import json
import statistics
import time

import torch

import webgpu_backend

DEVICE = "webgpu"
SHAPES = {  # Llama-3.2-1B's, and one for a software adapter
    "1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
               num_key_value_heads=8, head_dim=64, vocab_size=128256),
    "small": dict(hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
                  num_key_value_heads=4, vocab_size=4096),
}  # fmt: skip
FORMATS = ("float16", "q8_0", "q6_k", "q4_0", "q4_k")


def build(shape: str):
    """The model in float16 on the device, its weights drawn there."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**SHAPES[shape], max_position_embeddings=2048, tie_word_embeddings=True)
    kept, LlamaForCausalLM.init_weights = LlamaForCausalLM.init_weights, lambda self: self.tie_weights()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device(DEVICE):
            model = LlamaForCausalLM(config)
    finally:
        LlamaForCausalLM.init_weights = kept
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.02)
    return model.eval()


def tokens_a_second(model, tokens: int, compiled: bool) -> float:
    ids = torch.arange(1, 17, device=DEVICE)[None]
    given = dict(do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens, pad_token_id=0, eos_token_id=None)
    if compiled:
        given["cache_implementation"] = "static"
    taken = []
    for turn in range(4):
        start = time.perf_counter()
        with torch.no_grad():
            model.generate(ids, attention_mask=torch.ones_like(ids), **given)
        torch.webgpu.synchronize()
        if turn:  # the first makes plans and compiles
            taken.append(time.perf_counter() - start)
    return tokens / statistics.median(taken)


def bits_and_error(format: str) -> tuple[float, float]:
    """Bits of a weight, and the relative error of normally distributed ones."""
    if format == "float16":
        return 16.0, 0.0
    layer = torch.nn.Linear(2048, 256, bias=False)
    torch.nn.init.normal_(layer.weight)
    made = webgpu_backend.quantize_(layer, format)
    error = (made.dequantize() - layer.weight).norm() / layer.weight.norm()
    held = sum(t.numel() * t.element_size() for t in (made.weight, made.scales))
    return held * 8 / layer.weight.numel(), error.item()


def measure(shape: str, format: str, tokens: int, compiled: bool) -> dict:
    bits, error = bits_and_error(format)
    gc.collect()
    torch.webgpu.empty_cache()
    before = torch.webgpu.memory_allocated()
    model = build(shape)
    if format != "float16":
        webgpu_backend.quantize_(model, format)
    gc.collect()
    row = dict(format=format, bits=bits, error=error, mb=(torch.webgpu.memory_allocated() - before) / 1e6)
    row["eager"] = tokens_a_second(model, tokens, False)
    if compiled:
        model.forward = torch.compile(model.forward, backend=DEVICE)
        row["compiled"] = tokens_a_second(model, tokens, True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    print(f"{torch.webgpu.get_device_name()}, {options.shape}", flush=True)
    print("format    bits  error     MB  of fp16  eager t/s  compiled t/s", flush=True)
    rows = []
    for format in options.formats.split(","):
        rows.append(measure(options.shape, format, options.tokens, options.compiled))
        row, first = rows[-1], rows[0]
        compiled = f"{row['compiled']:13.1f}" if "compiled" in row else ""
        size = f"{row['mb']:6.0f}  {row['mb'] / first['mb']:7.2f}"
        print(f"{format:8}{row['bits']:6.2f}{row['error']:7.3f} {size}{row['eager']:11.1f}{compiled}", flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
