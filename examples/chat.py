"""A conversation with a language model on the device: each word as it comes, tokens a second, memory.

python -m examples.chat [--model FOLDER|FILE.gguf] [--format q4_k] [--say TEXT] [--tokens 120]

A folder is one that `from_pretrained` knows, with its tokenizer; of a GGUF file the blocks stay as they are on the
device. `--format` makes blocks of the weights of any other model. Without --model a small Llama is trained on text.txt
first (kept in examples/out): it answers as the people of that play would. An empty line ends the conversation.
"""

import argparse
import time
from pathlib import Path

import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import webgpu_backend
from examples.generate import Stream
from mnist.device import describe, fallbacks, select

HERE = Path(__file__).parent
YOU, OTHER = "First Citizen", "MENENIUS"
CACHE = 512  # tokens of a conversation, at least


# -- the small model


def small_tokenizer(text: str) -> PreTrainedTokenizerFast:
    """Pairs of bytes that are frequent in the text, and the bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=768,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<pad>"],
        show_progress=False,
    )
    made.train_from_iterator([text], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>")


def small_model(folder: Path, steps: int, device: torch.device, out: Console) -> None:
    """Trains the model and writes it to the folder."""
    text = (HERE / "text.txt").read_text(encoding="utf-8")
    tokenizer = small_tokenizer(text)
    ids = torch.tensor(tokenizer(text)["input_ids"])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for step in range(steps):
        starts = torch.randint(0, len(ids) - 96, (8,))
        batch = torch.stack([ids[s : s + 64] for s in starts]).to(device)
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 20 == 0 or step == steps - 1:
            out.print(f"step {step:4} of {steps}: loss {loss.item():.2f}", end="\r")
    out.print()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


# -- any model


def load(args, device: torch.device, out: Console):
    """The tokenizer and the model, its weights in blocks where that is asked for."""
    if args.model and args.model.endswith(".gguf"):
        file = Path(args.model)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        return tokenizer, webgpu_backend.load_gguf(file, device=device)
    folder = args.model
    if not folder:
        folder = args.folder
        if not (Path(folder) / "config.json").exists():
            small_model(Path(folder), args.steps, device, out)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    narrow = args.model and device.type != "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16 if narrow else torch.float32).eval()
    if args.format:
        webgpu_backend.quantize_(model, args.format)
    return tokenizer, model.to(device)


def prompt_of(tokenizer, said: list[tuple[str, str]]) -> str:
    """The conversation as the model knows such: by its own template, or as a play."""
    if tokenizer.chat_template:
        turns = [{"role": "user" if who == YOU else "assistant", "content": what} for who, what in said]
        return tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return "".join(f"{who}:\n{what}\n\n" for who, what in said) + f"{OTHER}:\n"


def answer(model, tokenizer, said, args, out: Console) -> tuple[str, float]:
    """What the model says, shown as it comes, and tokens a second after the first."""
    plain = not tokenizer.chat_template
    inputs = tokenizer(prompt_of(tokenizer, said), return_tensors="pt", add_special_tokens=plain)
    stream, known = Stream(out, tokenizer), model.generation_config
    ways = dict(temperature=known.temperature or 1.0, top_k=known.top_k or 50, top_p=known.top_p or 1.0)
    ids, chosen = inputs["input_ids"], dict(do_sample=True, **ways) if args.sample else {}
    size = max(CACHE, 1 << (ids.shape[1] + args.tokens - 1).bit_length())  # few sizes: each is compiled once
    began = time.perf_counter()
    for token in webgpu_backend.generate(model, ids, args.tokens, pad_token_id=0, cache_size=size, **chosen):
        if not stream.steps:
            began = time.perf_counter()
        stream.put(token)
        if plain and "\n\n" in stream.shown:
            break  # the end of what somebody says in a play
    seconds = time.perf_counter() - began
    stream.end()
    return tokenizer.decode(stream.ids, skip_special_tokens=True).strip(), max(stream.steps - 1, 0) / seconds


def main(argv: list[str] | None = None) -> list[str]:
    """What the model said."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--model", help="a folder with a model, the name of one, or a GGUF file")
    parser.add_argument("--format", choices=("q8_0", "q6_k", "q4_0", "q4_k"), help="make blocks of the weights")
    parser.add_argument("--say", action="append", help="said instead of what is typed; may be given again")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--sample", action="store_true", help="draw tokens instead of taking the likeliest")
    parser.add_argument("--steps", type=int, default=1500, help="of training the small model")
    parser.add_argument("--folder", default=str(HERE / "out" / "small_llama"), help="where the small model is kept")
    args = parser.parse_args(argv)
    out = Console(highlight=False)
    device = select(args.device)
    tokenizer, model = load(args, device, out)
    held = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
    out.print(f"{held / 1e6:.0f} MB of weights on {describe(device)}")
    said, given = [], list(args.say or ())
    while True:
        line = (given.pop(0) if given else "") if args.say else out.input("> ")
        if not line.strip():
            break
        said.append((YOU, line.strip()))
        reply, speed = answer(model, tokenizer, said, args, out)
        said.append((OTHER, reply))
        used = f", {torch.webgpu.memory_allocated() / 1e6:.0f} MB used" if device.type == "webgpu" else ""
        out.print(f"[dim]{speed:.1f} tokens/s{used}[/dim]")
    out.print(f"CPU fallbacks: {fallbacks(device) or 'none'}")
    return [what for who, what in said if who == OTHER]


if __name__ == "__main__":
    main()
