"""A language model's shape with weights of few bits beside float16, in one run: size, error, memory, tokens a second.

    python -m benchmarks.quantized [--shape 1b|small] [--formats float16,q4_k] [--tokens 32] [--compiled] [--json FILE]
    python -m benchmarks.quantized --loop [--shape 1b|small] [--formats float16,q4_k] [--tokens 128] [--cache 256]
    python -m benchmarks.quantized --kernels [--lays] [--shape 1b|small]

Weights are drawn at random: speed and memory do not depend on them, and the error is that of normally distributed ones.
Tokens are those of transformers' `generate`, by `--loop` those of `webgpu_backend.generate`, where the GPU has the next
token to do before the host has read the last one: the whole call with its prompt of 16 tokens, and what comes after the
first token alone.
`--kernels` times products of few rows on the GPU, beside a copy that moves as many bytes as the packed weights have;
with `--lays` also by matrix units (WEBGPU_MATRIX_UNITS=1), each way of sharing them out.
"""

import argparse
import gc
import itertools
import json
import statistics
import time

import torch

import webgpu_backend
from benchmarks import ceilings
from webgpu_backend.kernels.matmul import few_units
from webgpu_backend.kernels.quantized.formats import FORMATS as LAYOUTS
from webgpu_backend.plan import cache, caps

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


def tokens_of_the_loop(model, tokens: int, cache: int | None) -> tuple[float, float]:
    """Tokens a second: of whole calls, and after the first token."""
    ids = torch.arange(1, 17, device=DEVICE)[None]
    whole, after = [], []
    for turn in range(6):
        torch.webgpu.synchronize()
        start = first = time.perf_counter()
        given = webgpu_backend.generate(model, ids, tokens, eos_token_id=None, cache_size=cache)
        for count, _ in enumerate(given):
            first = time.perf_counter() if count == 0 else first
        end = time.perf_counter()
        if turn:  # the first compiles
            whole.append(tokens / (end - start))
            after.append((tokens - 1) / (end - first))
    return statistics.median(whole), statistics.median(after)


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


def measure(shape: str, format: str, tokens: int, compiled: bool, loop: bool, cache: int | None) -> dict:
    bits, error = bits_and_error(format)
    gc.collect()
    torch.webgpu.empty_cache()
    before = torch.webgpu.memory_allocated()
    model = build(shape)
    if format != "float16":
        webgpu_backend.quantize_(model, format)
    gc.collect()
    row = dict(format=format, bits=bits, error=error, mb=(torch.webgpu.memory_allocated() - before) / 1e6)
    if loop:
        row["call"], row["loop"] = tokens_of_the_loop(model, tokens, cache)
    else:
        row["eager"] = tokens_a_second(model, tokens, False)
    if compiled:
        model.forward = torch.compile(model.forward)
        row["compiled"] = tokens_a_second(model, tokens, True)
    return row


# -- kernels

PRODUCTS = [
    (1, 4096, 4096, "q8_0"), (1, 14336, 4096, "q8_0"), (1, 151936, 896, "q8_0"), (1, 4096, 4096, "q4_k"),
    (1, 14336, 4096, "q4_k"), (1, 4096, 14336, "q4_k"), (1, 14336, 4096, "q4_0"), (1, 151936, 896, "q4_0"),
    (1, 4096, 4096, "q6_k"), (1, 14336, 4096, "q6_k"), (2, 14336, 4096, "q4_k"), (4, 4096, 4096, "q4_k"),
    (4, 14336, 4096, "q4_k"), (8, 4096, 4096, "q4_k"), (8, 14336, 4096, "q4_k"), (8, 151936, 896, "q8_0"),
]  # fmt: skip
LARGER = 160 << 20  # bytes that no cache holds, in copies that are taken in turn


def drawn(n: int, k: int, format: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of any weights."""
    layout = LAYOUTS[format]
    codes = torch.randint(-(2**31), 2**31 - 1, (n, k // 32 * layout.words), dtype=torch.int32, device=DEVICE)
    if not layout.header:
        return codes, (torch.rand(n, k // 32, device=DEVICE) * 0.01).half().view(torch.int16)
    shape = n, k // 256 * layout.header
    return codes, torch.randint(0, 2**31 - 1, shape, dtype=torch.int32, device=DEVICE) & 0x2FFF2FFF  # finite halves


def microseconds(call, busy, repeat: int = 12) -> float:
    """The median of the GPU's time for a call, whose argument counts; the GPU has other work before."""
    for _ in range(10):
        busy()
    call(0)
    with torch.webgpu.profiler.profile() as found:
        busy()
        for i in range(repeat):
            call(i)
    events = list(found)
    each = (len(events) - 1) // repeat
    taken = [sum(e.duration for e in events[1 + i * each :][:each]) for i in range(repeat)]
    return statistics.median(taken[2:]) / 1e3


def a_product(rows: int, n: int, k: int, format: str, count: int):
    """A call of the product, whose argument chooses among equal weights."""
    first = drawn(n, k, format)
    weights = [first, *(tuple(t.clone() for t in first) for _ in range(count - 1))]
    x = torch.randn(rows, k, device=DEVICE).half()
    linear = torch.ops.webgpu_backend.linear_blocks
    return lambda i: linear(x, *weights[i % count], None, format)


def by_lays(product, rows: int, moved: float, busy) -> list[str]:
    """The times by matrix units, the least first, and their ratios to a copy."""
    kept, found = (few_units.LAYS, few_units.LEAST), []
    few_units.LEAST = dict.fromkeys(few_units.LEAST, 1)
    for crews, teams, near in itertools.product((1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8)):
        lay = few_units.Lay(crews, teams, near)
        if few_units.fits(lay, rows, caps()):
            few_units.LAYS = (lay,)
            cache.clear()
            found.append((microseconds(product, busy), lay))
    few_units.LAYS, few_units.LEAST = kept
    cache.clear()
    return [f"{taken:.1f} ({taken / moved:.2f}) {'x'.join(map(str, lay))}" for taken, lay in sorted(found)]


def copy_time(size: int, count: int, busy) -> float:
    copy = torch.webgpu.compile_shader(ceilings.COPY, trusted=True).copy
    quads = size // 32
    pairs = [[torch.zeros(quads * 4, device=DEVICE) for _ in range(2)] for _ in range(count)]
    return microseconds(lambda i: copy(*pairs[i % count], quads, threads=quads), busy)


def kernels(small: bool, lays: bool) -> None:
    square = torch.zeros(256 if small else 4096, 256 if small else 4096, device=DEVICE)
    busy = lambda: square @ square  # noqa: E731
    idle = copy_time(512, 1, busy)
    print(f"a kernel with nothing to do: {idle:.1f} us", flush=True)
    print("rows        product  format      us   copy  ratio  less what nothing takes", flush=True)
    for rows, n, k, format in PRODUCTS:
        if small:
            n, k = n // 64, k if k % 1024 else k // 4
        size = sum(t.nbytes for t in drawn(n, k, format))
        count = max(2, min(20, (LARGER >> (12 if small else 0)) // size))
        product = a_product(rows, n, k, format, count)
        taken, moved = microseconds(product, busy), copy_time(size, count, busy)
        net = (taken - idle) / max(moved - idle, 0.1)
        shape = f"{k} x {n}"
        print(f"{rows:4} {shape:>14}  {format:6}{taken:8.1f}{moved:7.1f}{taken / moved:7.2f}{net:7.2f}", flush=True)
        if lays:
            print("     units:", ", ".join(by_lays(product, rows, moved, busy)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--loop", action="store_true")
    parser.add_argument("--cache", type=int, help="places in the loop's cache; else the next power of two")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--lays", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    print(f"{torch.webgpu.get_device_name()}, {options.shape}", flush=True)
    if options.kernels:
        return kernels(options.shape == "small", options.lays)
    tokens = options.tokens or (128 if options.loop else 32)
    ways = {"call": "call t/s", "loop": "loop t/s"} if options.loop else {"eager": "eager t/s"}
    ways |= {"compiled": "compiled t/s"} if options.compiled else {}
    titles = "".join(f"{title:>14} {'of first':>8}" for title in ways.values())
    print(f"{tokens} tokens\nformat    bits  error     MB  of first{titles}", flush=True)
    rows = []
    for format in options.formats.split(","):
        rows.append(measure(options.shape, format, tokens, options.compiled, options.loop, options.cache))
        row, first = rows[-1], rows[0]
        size = f"{row['mb']:6.0f}  {row['mb'] / first['mb']:8.2f}"
        speeds = "".join(f"{row[way]:14.1f} {row[way] / first[way]:8.2f}" for way in ways)
        print(f"{format:8}{row['bits']:6.2f}{row['error']:7.3f} {size}{speeds}", flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
