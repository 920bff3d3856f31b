"""What is written, what is refused, and what is left as it was."""

import json
import runpy
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import webgpu_backend
from webgpu_backend.web import memory
from webgpu_backend.web.recording import ExportError, record
from webgpu_backend.web.site import ADAPTERS
from webgpu_backend.web.sizes import formula
from webgpu_backend.web.surroundings import Surroundings

DEVICE = "webgpu"


def model_of(folder) -> dict:
    return json.loads((folder / "model.json").read_text())


def picks(x):
    return x[x > 0]


def branches(x):
    return x + 1 if x.sum().item() > 0 else x


def eigenvalues(x):
    return torch.linalg.eigvals(x).real


def counts_in_python():
    count = [0.0]

    def call(x):
        count[0] += 1
        return x + count[0]

    return call


def keeps_what_it_made():
    kept = {}

    def call(x):
        kept["x"] = kept.get("x", 0) + x
        return kept["x"] * 2

    return call


def returns_what_it_kept():
    kept = []

    def call(x):
        kept.append(x + 1)
        return kept[0]

    return call


def looks_at_state():
    seen = torch.zeros(1, device=DEVICE)

    def call(x):
        seen.add_(1)
        return x * seen.item()

    return call


def not_fused():
    model = nn.Linear(4, 4).to(DEVICE)
    return trained(model, torch.optim.AdamW(model.parameters()))


def trained(model, optimizer):
    def learn(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    return learn


@pytest.mark.parametrize(
    "function, words",
    [
        (picks, ["aten::index", "depend on data", "return x[x > 0]"]),
        (branches, ["aten::_local_scalar_dense", "depend on data", "x.sum().item()"]),
        (eigenvalues, ["linalg_eigvals", "torch.linalg.eigvals(x)"]),
        (counts_in_python(), ["changes from call to call"]),
        (keeps_what_it_made(), ["memory that its call before made", "add"]),
        (returns_what_it_kept(), ["memory that its call before made", "output"]),
        (looks_at_state(), ["also writes"]),
        (not_fused(), ["adamw", "fused=True"]),
        (lambda x: x.double(), ["float64"]),
        (lambda x: 3, ["int"]),
    ],
    ids=["shapes", "values", "operator", "counter", "memory", "kept", "state", "optimizer", "float64", "number"],
)
def test_refused(function, words, tmp_path):
    with pytest.raises(ExportError) as raised:
        webgpu_backend.export(function, (torch.randn(4, 4),), tmp_path / "site")
    for word in words:
        assert word in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_refusal_leaves_the_site_that_was_there(tmp_path):
    webgpu_backend.export(lambda x: x + 1, (torch.randn(4),), tmp_path / "site")
    before = (tmp_path / "site" / "model.json").read_bytes()
    with pytest.raises(ExportError):
        webgpu_backend.export(picks, (torch.randn(4),), tmp_path / "site")
    assert (tmp_path / "site" / "model.json").read_bytes() == before
    webgpu_backend.export(lambda x: x * 2, (torch.randn(4),), tmp_path / "site")
    assert (tmp_path / "site" / "model.json").read_bytes() != before
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_names_dtypes_and_state(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

        def forward(self, x, *, mask=None, scale=2.0):
            self.seen += 1
            return {"y": self.linear(x) * scale, "kept": x[:, :1] > 0 if mask is None else mask}

    args = ((torch.randn(5, 3),), {"mask": torch.ones(5, 1, dtype=torch.bool)})
    report = webgpu_backend.export(Model(), args, tmp_path / "site", name="A model")
    model = model_of(tmp_path / "site")
    function = model["functions"]["forward"]
    assert model["name"] == "A model"
    assert function["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [5, 3]},
        {"name": "mask", "dtype": "bool", "shape": [5, 1]},
    ]
    assert [(o["name"], o["dtype"], o["shape"]) for o in function["outputs"]] == [
        ("y", "float32", [5, 2]), ("kept", "bool", [5, 1]),
    ]  # fmt: skip
    weights = {w["name"]: w for w in model["weights"]}
    assert weights["seen"]["state"] and not weights["linear.weight"].get("state")
    assert report["download"] == sum(f.stat().st_size for f in (tmp_path / "site").iterdir())


def test_the_model_and_the_optimizer_are_as_before(tmp_path):
    model = nn.Linear(4, 3).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    values = [p.detach().cpu() for p in model.parameters()]
    learn = trained(model, optimizer)
    webgpu_backend.export(learn, (torch.randn(8, 4),), tmp_path / "site")
    assert all(p.grad is None for p in model.parameters())
    for p, value in zip(model.parameters(), values):
        assert torch.equal(p.detach().cpu(), value)
        state = {k: v.cpu() for k, v in optimizer.state[p].items()}
        assert state["step"] == 0 and not state["exp_avg"].any() and not state["exp_avg_sq"].any()
    learn(torch.randn(8, 4, device=DEVICE))  # and they work
    assert all(optimizer.state[p]["step"].item() == 1 for p in model.parameters())


class Branches(nn.Module):
    """Values of different sizes that live for different times."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(16, 16 * (i + 1)) for i in range(4)])

    def forward(self, x):
        made = [torch.tanh(part(x)) for part in self.parts]
        return torch.cat([m.softmax(-1).sum(-1, keepdim=True) for m in reversed(made)], 1), made[2]


def test_memory_is_shared_by_what_does_not_live_together():
    model = Branches().to(DEVICE)
    x = torch.randn(64, 16)

    def call(function, given):
        return dict(enumerate(function(given["x"])))

    with torch.no_grad():
        (found,) = record("f", model, [{"x": x}], call, ADAPTERS[0][2], Surroundings({"f": model}))
    sizes = memory.extents([found])
    apart = {place for place in sizes if not isinstance(place, int)}
    homes, spaces = memory.spaces(found, sizes, apart)
    lives = memory.lifetimes(found, apart)
    assert set(homes) == set(sizes) - apart
    for a in homes:
        assert spaces[homes[a]] >= sizes[a]
        for b in homes:
            if a != b and homes[a] == homes[b]:
                assert lives[a][1] < lives[b][0] or lives[b][1] < lives[a][0]
    assert sum(spaces) < sum(sizes[b] for b in homes)


def test_memory_is_enough_for_the_largest_size():
    """Whatever was recorded later, of other sizes: blocks without memory are used again."""
    model = Branches().to(DEVICE)
    inputs = [{"x": torch.randn(n, 16)} for n in (64, 1, 7, 1, 2)]

    def call(function, given):
        return dict(enumerate(function(given["x"])))

    with torch.no_grad():
        found = record("f", model, inputs, call, ADAPTERS[0][2], Surroundings({"f": model}))
    needed = [sum(memory.extents([one]).values()) for one in found]
    assert needed[0] > needed[2] > needed[1] == needed[3]
    assert max(memory.extents(found[:1]).values()) >= 64 * 16 * 4 * 4  # of the widest part


def test_adapters_of_one_class_that_do_the_same_share_a_plan(tmp_path):
    webgpu_backend.export(nn.Linear(8, 4), (torch.randn(2, 8),), tmp_path / "float32")
    plans = model_of(tmp_path / "float32")["functions"]["forward"]["plans"]
    assert [p["class"] for p in plans if not p["features"]] == ["gpu", "cpu"]
    assert not [p for p in plans if "shader-f16" in p["features"]]


def test_a_program_of_torch_export(tmp_path, monkeypatch, capsys):
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    torch.export.save(torch.export.export(model, (torch.randn(2, 4),)), tmp_path / "model.pt2")
    monkeypatch.setattr(sys, "argv", ["export", str(tmp_path / "model.pt2"), str(tmp_path / "site"), "--name", "Saved"])
    runpy.run_module("webgpu_backend.export", run_name="__main__")
    assert "of GPU memory at most" in capsys.readouterr().out
    found = model_of(tmp_path / "site")
    assert found["name"] == "Saved" and found["functions"]["forward"]["inputs"][0]["shape"] == [2, 4]


def test_a_function_that_makes_the_model(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(
        "import torch\ndef make():\n"
        "    return lambda x: x * 2, (torch.ones(3),), {'x': {0: torch.export.Dim('n', max=4)}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["export", "mine:make", "site"])
    runpy.run_module("webgpu_backend.export", run_name="__main__")
    assert model_of(tmp_path / "site")["functions"]["forward"]["sizes"] == {"n": [1, 4]}


def test_weights_are_cut_into_files_with_checksums(tmp_path, monkeypatch):
    from hashlib import sha256

    from webgpu_backend.web import site

    monkeypatch.setattr(site, "SHARD", 1024)
    model = nn.Linear(30, 20)
    webgpu_backend.export(model, (torch.randn(2, 30),), tmp_path / "site")
    found = model_of(tmp_path / "site")
    data = b""
    for shard in found["shards"]:
        part = (tmp_path / "site" / shard["file"]).read_bytes()
        assert len(part) == shard["bytes"] and sha256(part).hexdigest() == shard["sha256"]
        data += part
    weight = next(w for w in found["weights"] if w["name"] == "weight")
    assert len(found["shards"]) > 2
    assert data[weight["at"] :][: weight["bytes"]] == model.weight.detach().numpy().tobytes()


def test_the_function_is_not_hidden_by_its_command(tmp_path):
    import webgpu_backend.export  # noqa: F401  a module of that name, for `python -m`

    webgpu_backend.export(lambda x: F.relu(x), (torch.randn(3),), tmp_path / "site")


def test_sizes_that_are_refused(tmp_path):
    x = torch.randn(4, 3)
    for sizes, words in [
        ({"x": {0: torch.export.Dim("n", min=1, max=5000)}}, "5000 combinations"),
        ({"x": {0: torch.export.Dim("n", min=1, max=3)}}, "outside n's range"),
        ({"x": {0: torch.export.Dim("n")}}, "max="),
        ({"z": {0: torch.export.Dim("n", max=5)}}, "the inputs are x"),
    ]:
        with pytest.raises(ExportError, match=words):
            webgpu_backend.export(lambda x: x + 1, (x,), tmp_path / "site", sizes)


@pytest.mark.parametrize(
    "value, found",
    [
        (lambda n, m: 7 * n * m - 3 * n + 2, [[2, [0, 0]], [-3, [1, 0]], [7, [1, 1]]]),
        (lambda n, m: m * m, [[1, [0, 2]]]),
        (lambda n, m: -(-n // 4), None),
    ],
)
def test_formulas_of_sizes(value, found):
    points = [(n, m) for n in range(1, 9) for m in range(1, 7)]
    assert formula(points, tuple(value(*p) for p in points)) == found
    assert formula([(3,), (5,)], (7, 11)) is not None  # two points are a line
