"""Exported models under Node with Dawn: the numbers are PyTorch's."""

import copy
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import webgpu_backend
from tests import needs

from . import dawn

DEVICE = "webgpu"


def exported(tmp_path, what, args):
    webgpu_backend.export(what, args, tmp_path / "site")
    return tmp_path / "site"


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5):
    expected = expected.detach().cpu().to(torch.float32).flatten()
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


class Kinds(nn.Module):
    """Inputs and outputs of many dtypes."""

    def forward(self, words, mask, half, bytes):
        big = words * 3_000_000_000 - 7
        return {
            "big": big, "flags": (words > 2) ^ mask, "half": half * 2 + 1, "bytes": bytes + 250,
            "found": torch.nonzero_static(mask, size=4).flatten(), "none": half[:0],
            "table": torch.tensor([1.5, 2.5], device=half.device),
        }  # fmt: skip


def test_dtypes(tmp_path):
    words, mask = torch.tensor([1, -2, 3, 5, 4]), torch.tensor([True, False, True, False, False])
    half, small = torch.tensor([0.5, -1.25, 3.0]), torch.tensor([1, 2, 250, 7, 9, 10, 11], dtype=torch.uint8)
    given = {"words": words, "mask": mask, "half": half, "bytes": small}
    site = exported(tmp_path, Kinds(), given)
    (found,) = dawn.calls(site, {"inputs": given})
    for name, value in Kinds()(**given).items():
        close(found[name], value, 0)


def test_what_a_page_is_told(tmp_path):
    """A missing input, a wrong one, and an index that only the kernel sees."""
    table = torch.randn(10, 4, device=DEVICE)
    site = exported(tmp_path, lambda index: table[index], (torch.zeros(3, dtype=torch.int64),))
    wrong = [
        ({"index": [0, 10, 1]}, "index", "Index 10 is out of bounds for dimension 0 with size 10"),
        ({"index": [0, 1]}, "input", "has 2 elements"),
        ({}, "input", "index is missing"),
        ({"index": [0, 1, 2], "other": [1]}, "input", "no input other"),
    ]
    calls = [{"inputs": inputs, "fails": True} for inputs, *_ in wrong]
    *told, found = dawn.answer(site, *calls, {"inputs": {"index": [0, 9, -1]}})["outputs"]
    for (_, code, words), one in zip(wrong, told):
        assert one.get("code") == code and words in one["error"], one
    close(torch.tensor(found["output"]), table[[0, 9, 9]], 0)  # the model can still be used


@pytest.mark.parametrize("change, code", [(b"\x01", "damaged"), (b"", "damaged"), (None, "network")])
def test_files_that_are_not_as_written(tmp_path, change, code):
    site = exported(tmp_path, nn.Linear(4, 4), (torch.randn(1, 4),))
    file = next(site.glob("weights-*"))
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change + file.read_bytes()[1:])
    found = dawn.answer(site, {"inputs": {"input": [1.0] * 4}})
    assert found.get("code") == code, found


def test_training_follows_pytorch(tmp_path):
    """Forward, backward and AdamW, a hundred steps, and the model that is left."""
    torch.manual_seed(0)
    cpu = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 3 * 3, 10))
    model = copy.deepcopy(cpu).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    x, y = torch.randn(16, 1, 8, 8), torch.randint(0, 10, (16,))

    def learn(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    webgpu_backend.export(
        {"learn": learn, "predict": model}, {"learn": (x, y), "predict": (x,)}, tmp_path / "site"
    )  # fmt: skip
    *losses, predicted = dawn.calls(
        tmp_path / "site", {"function": "learn", "inputs": {"x": x, "y": y}, "repeat": 100},
        {"function": "predict", "inputs": {"input": x}},
    )  # fmt: skip
    other = torch.optim.AdamW(cpu.parameters(), lr=1e-2)
    for step, found in enumerate(losses):
        other.zero_grad()
        loss = F.cross_entropy(cpu(x), y)
        loss.backward()
        other.step()
        assert abs(found["loss"].item() - loss.item()) < 1e-3, step
    assert losses[-1]["loss"] < 0.01
    close(predicted["output"], cpu(x), 1e-3)


def test_a_cache_stays_on_the_gpu(tmp_path):
    """Attention over what earlier calls have written, one position at a time."""
    torch.manual_seed(0)
    length, width = 6, 8
    keys, values = torch.zeros(length, width, device=DEVICE), torch.zeros(length, width, device=DEVICE)
    project = nn.Linear(width, 3 * width).to(DEVICE)

    def step(x, position):
        q, k, v = project(x).chunk(3, -1)
        keys.index_copy_(0, position, k)
        values.index_copy_(0, position, v)
        seen = torch.arange(length, device=DEVICE) <= position
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen[None])

    def run(function, x, device):
        return [function(x[i : i + 1].to(device), torch.tensor([i], device=device)) for i in range(length)]

    x = torch.randn(length, width)
    with torch.no_grad():
        site = exported(tmp_path, step, (x[:1], torch.tensor([0])))
        expected = run(step, x, DEVICE)
    inputs = [{"inputs": {"x": x[i], "position": [i]}} for i in range(length)]
    for found, value in zip(dawn.calls(site, *inputs), expected):
        close(found["output"], value)


def test_random_numbers_are_those_of_the_device(tmp_path):
    def call(x):
        return {"dropped": F.dropout(x, 0.5), "uniform": torch.rand(5, device=DEVICE)}

    x = torch.ones(100)
    torch.manual_seed(3)
    site = exported(tmp_path, call, (x,))
    found = dawn.calls(site, {"inputs": {"x": x}, "repeat": 3})
    torch.manual_seed(3)
    for one in found:
        expected = call(x.to(DEVICE))
        close(one["dropped"], expected["dropped"], 0)
        close(one["uniform"], expected["uniform"], 0)
    assert not torch.equal(found[0]["uniform"], found[1]["uniform"])


def test_kernels_for_gpus(tmp_path):
    """Of the class that browsers with a graphics card take; small ones, which the software driver compiles."""
    torch.manual_seed(0)
    x = torch.randn(5, 37)
    norm = nn.LayerNorm(37)

    def call(x):
        return {"softmax": x.softmax(-1), "sum": x.sum(0), "sorted": x.sort(-1).values, "gelu": F.gelu(x * 2)}

    site = exported(tmp_path, call, (x,))
    (found,) = dawn.calls(site, {"inputs": {"x": x}}, kind="gpu")
    for name, value in call(x).items():
        close(found[name], value)
    site = exported(tmp_path, norm, (x,))
    close(dawn.calls(site, {"inputs": {"input": x}}, kind="gpu")[0]["output"], norm(x))


class Pooled(nn.Module):
    """Attention over a sequence, and a mean that divides by its length."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, tokens, scale):
        x = self.layer(self.token(tokens))
        return {"each": x, "mean": x.mean(1) * scale, "last": x[:, -1]}


def test_sizes_are_chosen_by_the_page(tmp_path):
    torch.manual_seed(0)
    model = Pooled().eval()
    batch, length = torch.export.Dim("batch", min=1, max=3), torch.export.Dim("length", min=1, max=9)
    example = {"tokens": torch.zeros(2, 5, dtype=torch.int64), "scale": torch.ones(2, 1)}
    sizes = {"tokens": {0: batch, 1: length}, "scale": {0: batch}}
    webgpu_backend.export(model, example, tmp_path / "site", sizes)
    given = [
        {"tokens": torch.randint(0, 11, shape), "scale": torch.randn(shape[0], 1)}
        for shape in [(3, 9), *product(range(1, 4), range(1, 10))]
    ]
    wrong = [{"inputs": {"tokens": tokens, "scale": [1.0]}, "fails": True} for tokens in ([1] * 10, [])]
    answer = dawn.answer(tmp_path / "site", *wrong, *[{"inputs": i} for i in given])
    told, answer["outputs"] = answer["outputs"][:2], answer["outputs"][2:]
    assert all(one["code"] == "input" and "from 1 to 9" in one["error"] for one in told), told
    for inputs, found in zip(given, dawn.tensors(answer)):
        for name, value in model(**inputs).items():
            close(found[name], value)


def halves(bits: torch.Tensor) -> torch.Tensor:
    """What a page without Float16Array sees as bits."""
    return bits.to(torch.int32).to(torch.int16).view(torch.half).float()


def test_half_precision_as_bits(tmp_path):
    """Where an adapter has no f16, halves are packed in words; a page without Float16Array sees their bits."""
    torch.manual_seed(0)
    model, x = nn.Linear(7, 3).half(), torch.randn(5, 7).half()
    site = exported(tmp_path, model, (x,))
    (found,) = dawn.calls(site, {"inputs": {"input": {"bits": x.view(torch.int16).flatten().tolist()}}})
    torch.testing.assert_close(halves(found["output"]), model(x).float().flatten(), rtol=2e-3, atol=2e-3)


def test_float16_and_subgroups_where_the_adapter_has_them(tmp_path):
    """Chosen at load: on llvmpipe Dawn has both, and each function runs the plan that uses most of what it can."""
    torch.manual_seed(0)
    w, norm = torch.randn(64, 48).half(), nn.LayerNorm(64).half()

    def functions(device):
        weight, normed = w.to(device), copy.deepcopy(norm).to(device)
        return {
            "row": lambda x: x[:1] @ weight,
            "product": lambda x: x @ weight,
            "softmax": lambda x: x.softmax(-1),
            "norm": normed,
            "sum": lambda x: x.sum(0),
            "cumsum": lambda x: x.cumsum(0),
            "topk": lambda x: x.topk(5, -1).values,
        }

    x = torch.randn(96, 64).half()
    with torch.no_grad():
        here, site = functions("cpu"), tmp_path / "site"
        expected = {name: f(x) for name, f in here.items()}
        webgpu_backend.export(functions(DEVICE), {name: (x,) for name in here}, site)
    bits = {"bits": x.view(torch.int16).flatten().tolist()}
    wanted = [{"function": name, "inputs": {"input" if name == "norm" else "x": bits}} for name in here]
    answer = dawn.answer(site, *wanted, kind="gpu", driver=needs.lavapipe())
    if answer.get("code") == "unsupported" and "no graphics adapter" in answer["error"]:
        needs.missing("Dawn does not take this version of llvmpipe")
    assert answer["features"] == {name: ["shader-f16"] + ["subgroups"] * (name == "row") for name in here}
    for (name, value), found in zip(expected.items(), dawn.tensors(answer)):
        torch.testing.assert_close(
            halves(found["output"]), value.float().flatten(), rtol=4e-3, atol=4e-3, msg=lambda m: f"{name}: {m}"
        )
