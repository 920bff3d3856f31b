"""Exported models beside ONNX Runtime Web's WebGPU provider, in the same headless Chromium.

python -m benchmarks.browser [--ort folder of the npm package onnxruntime-web] [--only mlp]

For each model: the bytes that the browser asks for, the time from nothing to the first answer, and the median time of a
run with its input uploaded and its output read back. ONNX Runtime Web needs the package `onnx` to write its models.
"""

import argparse
import json
import os
import statistics
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import webgpu_backend
from tests.web.chromium import Chromium, Site

ROUNDS = 3
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">
const times = async (run) => {
  for (let i = 0; i < 3; i++) await run();
  const found = [], end = performance.now() + 2500;
  while (found.length < 5 || (performance.now() < end && found.length < 100)) {
    const start = performance.now(); await run(); found.push(performance.now() - start);
  }
  return found.sort((a, b) => a - b)[found.length >> 1];
};
window.ours = async (name, data) => {
  const start = performance.now();
  const { load } = await import(`/ours/${name}/runner.js`);
  const model = await load(`/ours/${name}/model.json`, { cache: false });
  const x = Float32Array.from(data), { output } = await model.run({ x });
  const first = performance.now() - start;
  return { first, run: await times(() => model.run({ x })), output: Array.from(output) };
};
window.theirs = async (name, data, shape) => {
  const start = performance.now();
  const ort = await import("/ort/ort.webgpu.bundle.min.mjs");
  ort.env.wasm.wasmPaths = "/ort/"; ort.env.logLevel = "error";
  const session = await ort.InferenceSession.create(`/${name}.onnx`, { executionProviders: ["webgpu"] });
  const x = new ort.Tensor("float32", Float32Array.from(data), shape);
  const { output } = await session.run({ x });
  const first = performance.now() - start;
  return { first, run: await times(() => session.run({ x })), output: Array.from(output.data) };
};
</script>"""


class Mlp(nn.Module):
    """784-512-512-10, a batch of 64."""

    shape = (64, 784)

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(784, 512), nn.Linear(512, 512), nn.Linear(512, 10)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class ConvNet(nn.Module):
    """Two convolutions and a linear layer, over eight pictures of 32 x 32."""

    shape = (8, 3, 32, 32)

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, 1, 1), nn.Conv2d(32, 64, 3, 2, 1)
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        return self.last(F.relu(self.second(F.relu(self.first(x)))).mean((2, 3)))


class Transformer(nn.Module):
    """Two layers of width 128 with four heads, over 64 positions."""

    shape = (1, 64, 128)

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(128) for _ in range(4)])
        self.qkv = nn.ModuleList([nn.Linear(128, 384) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(128, 128) for _ in range(2)])
        self.up = nn.ModuleList([nn.Linear(128, 512) for _ in range(2)])
        self.down = nn.ModuleList([nn.Linear(512, 128) for _ in range(2)])

    def forward(self, x):
        for k in range(2):
            q, key, v = self.qkv[k](self.norms[2 * k](x)).view(1, 64, 3, 4, 32).permute(2, 0, 3, 1, 4)
            found = ((q @ key.transpose(-1, -2)) * 32**-0.5).softmax(-1) @ v
            x = x + self.out[k](found.transpose(1, 2).reshape(1, 64, 128))
            x = x + self.down[k](F.gelu(self.up[k](self.norms[2 * k + 1](x)), approximate="tanh"))
        return x


MODELS = {"mlp": Mlp, "conv": ConvNet, "transformer": Transformer}


def measured(folder: Path, name: str, which: str, x: torch.Tensor) -> dict:
    """Of one engine, in a browser of its own."""
    site, browser = Site(folder), Chromium()
    try:
        page = browser.open(f"{site.url}/page.html")
        page.wait(f"!!window.{which}")
        begun = len(site.asked)
        given = f"{x.flatten().tolist()}, {list(x.shape)}"
        found = page.evaluate(f"window.{which}({name!r}, {given})")
        paths = {path.partition("?")[0].strip("/") for path in site.asked[begun:]}
        found["bytes"] = sum((folder / path).stat().st_size for path in paths if (folder / path).is_file())
        return found
    finally:
        browser.close()
        site.close()


def compare(name: str, ort: Path | None) -> dict:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    x = torch.randn(model.shape)
    expected = model(x).flatten()
    results: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "page.html").write_text(PAGE)
        webgpu_backend.export(model, {"x": x}, folder / "ours" / name)
        engines = ["ours"]
        if ort is not None:
            os.symlink(ort.resolve() / "dist", folder / "ort")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                names = {"input_names": ["x"], "output_names": ["output"]}
                torch.onnx.export(model, (x,), str(folder / f"{name}.onnx"), dynamo=False, opset_version=17, **names)
            engines.append("theirs")
        for engine in engines:
            rounds = [measured(folder, name, engine, x) for _ in range(ROUNDS)]
            error = max((torch.tensor(r["output"]) - expected).abs().max().item() for r in rounds)
            results[engine] = {
                "first ms": round(statistics.median(r["first"] for r in rounds), 1),
                "run ms": round(statistics.median(r["run"] for r in rounds), 2),
                "MiB": round(rounds[0]["bytes"] / 2**20, 2), "error": error,
            }  # fmt: skip
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ort", type=Path, help="folder of the npm package onnxruntime-web")
    parser.add_argument("--only", choices=MODELS, nargs="*", default=list(MODELS))
    args = parser.parse_args()
    for name in args.only:
        print(name, json.dumps(compare(name, args.ort)), flush=True)


if __name__ == "__main__":
    main()
