"""Fine-tuning with LoRA through peft on the device: adapters of a few percent of the weights learn a new sentence.

python -m examples.lora [--steps 40] [--device webgpu]

The model is the small Llama of examples.generate, whose own weights stay as they are. At the end the adapters are
merged into them, and the merged model writes what it has learned.
"""

import argparse

import torch
from peft import LoraConfig, get_peft_model
from rich.console import Console
from rich.progress import track

from examples.generate import Characters, small_llama
from mnist.device import describe, fallbacks, select

SENTENCE = "To be, or not to be, that is the question."
PROMPT = SENTENCE[:6]


def main(argv: list[str] | None = None) -> tuple[list[float], str]:
    """The losses by step, and what the fine-tuned model makes of the first words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args(argv)
    out = Console(highlight=False)
    device = select(args.device)

    characters = Characters()
    base = small_llama()
    torch.manual_seed(1)
    config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(base, config).to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    kept = {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}
    share = sum(p.numel() for p in trained) / sum(p.numel() for p in model.parameters())
    out.print(f"training {share:.1%} of the weights on {describe(device)}")

    optimizer = torch.optim.AdamW(trained, lr=args.lr, weight_decay=0.0)
    inputs = {name: value.to(device) for name, value in characters(SENTENCE).items()}
    losses = []
    for _ in track(range(args.steps), "fine-tuning", console=out):
        loss = model(**inputs, labels=inputs["input_ids"]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    for name, p in model.named_parameters():
        assert p.requires_grad or torch.equal(p, kept[name]), f"{name} is not an adapter, and changed"

    merged = model.merge_and_unload().eval()
    prompt = {name: value.to(device) for name, value in characters(PROMPT).items()}
    ids = merged.generate(**prompt, max_new_tokens=len(SENTENCE) - len(PROMPT), do_sample=False)
    written = characters.decode(ids[0].tolist())
    out.print(f"loss           {losses[0]:.3f} -> {losses[-1]:.3f} in {args.steps} steps")
    out.print(f"it writes      {written}", markup=False)
    out.print(f"CPU fallbacks  {fallbacks(device) or 'none'}")
    return losses, written


if __name__ == "__main__":
    main()
