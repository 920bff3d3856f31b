"""Exported pages in a headless Chromium."""

import json

import pytest
import torch
from torch import nn

import webgpu_backend


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """A model, and the folder of its page."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    folder = tmp_path_factory.mktemp("linear") / "site"
    webgpu_backend.export(model, (torch.randn(2, 6),), folder, name="Two layers")
    return model, folder


def numbers(text: str) -> list[float]:
    return [float(x) for x in text.split(",")]


def test_the_page_runs_the_model(browser, served, linear):
    model, folder = linear
    site = served(folder)
    page = browser.open(site.url)
    page.wait("!!globalThis.model")
    assert page.evaluate("document.title") == "Two layers"
    assert "swiftshader" in page.evaluate("document.getElementById('adapter').textContent")
    given = [round(0.1 * i - 0.5, 3) for i in range(12)]
    page.evaluate(f"document.querySelector('textarea').value = '{', '.join(map(str, given))}'")
    page.evaluate("document.getElementById('run').focus()")
    page.key("Enter", 13)  # by keyboard
    page.wait("document.querySelector('#outputs pre')?.textContent")
    shown = torch.tensor(numbers(page.evaluate("document.querySelector('#outputs pre').textContent")))
    torch.testing.assert_close(shown, model(torch.tensor(given).view(2, 6)).flatten(), rtol=1e-4, atol=1e-5)
    assert page.evaluate("document.getElementById('time').textContent").endswith(" ms")
    assert not page.messages()
    page.size(390, 800)
    assert page.evaluate("document.documentElement.scrollWidth <= 390")  # on a phone
    page.close()


def test_weights_are_kept_by_the_browser_and_checked(browser, served, linear):
    _, folder = linear
    site = served(folder)
    page = browser.open(site.url)
    page.wait("!!globalThis.model")
    assert len([path for path in site.asked if "weights" in path]) == 1
    page.send("Page.navigate", url=site.url + "/index.html")
    page.wait("location.pathname === '/index.html' && !!globalThis.model")
    assert len([path for path in site.asked if "weights" in path]) == 1
    first = page.evaluate("Array.from((await model.run({input: new Float32Array(12)})).output)")
    # What was kept is damaged, all of it, for another test may have had this address: it is fetched again.
    page.evaluate(
        "(async () => { const c = await caches.open('webgpu_backend-weights'); "
        "for (const k of await c.keys()) await c.put(k, new Response(new Uint8Array(16))); })()"
    )
    again = "(await (await import('./runner.js')).load('./model.json')).run({input: new Float32Array(12)})"
    assert page.evaluate(f"Array.from((await {again}).output)") == first
    assert len([path for path in site.asked if "weights" in path]) == 2
    page.close()


def test_a_worker_runs_it(browser, served, linear, tmp_path):
    model, folder = linear
    page = browser.open(served(folder).url)
    code = (
        "import { load } from '/runner.js'; onmessage = async ({ data }) => { try { const m = await load(new URL("
        "'/model.json', self.location.origin)); postMessage(await m.run({ input: data })); } "
        "catch (e) { postMessage(String(e)); } };"
    )
    (folder / "worker.js").write_text(code)
    found = page.evaluate(
        "new Promise(done => { const w = new Worker('/worker.js', {type: 'module'}); "
        "w.onmessage = e => done(e.data.output ? Array.from(e.data.output) : e.data); "
        "w.postMessage(new Float32Array(12).fill(0.25)); })"
    )
    torch.testing.assert_close(torch.tensor(found), model(torch.full((2, 6), 0.25)).flatten(), rtol=1e-4, atol=1e-5)
    page.close()


FAILURES = {
    "unsupported": "load('./model.json', {gpu: {requestAdapter: async () => null}})",
    "feature": "load('./half.json')",
    "memory": "load('./large.json')",
    "network": "load('./nothing.json')",
    "damaged": "load('./index.html')",
    "disposed": "load('./model.json').then(m => { m.dispose(); return m.run({input: new Float32Array(12)}); })",
    "input": "load('./model.json').then(m => m.run({input: new Float32Array(3)}))",
    "lost": "load('./model.json').then(async m => { m.device.destroy(); await m.device.lost; "
    "return m.run({input: new Float32Array(12)}); })",
}
WORDS = {"feature": "shader-f16", "memory": "MiB", "unsupported": "no graphics adapter", "lost": "Load the model again"}


def test_what_goes_wrong_is_told(browser, served, linear):
    """Also a model that needs what the adapter has not, and one that asks for more memory than it gives."""
    model = json.loads((linear[1] / "model.json").read_text())
    for file, change in (("half.json", {"features": ["shader-f16"]}), ("large.json", {"scratch": [1 << 42]})):
        plans = [{**plan, **change} for plan in model["functions"]["forward"]["plans"]]
        functions = {"forward": {**model["functions"]["forward"], "plans": plans}}
        (linear[1] / file).write_text(json.dumps({**model, "functions": functions}))
    page = browser.open(served(linear[1]).url)
    page.wait("!!globalThis.model")
    for code, call in FAILURES.items():
        found = page.evaluate(
            f"import('./runner.js').then(({{load}}) => {call}).then(() => ['no error'], e => [e.code, e.message])"
        )
        assert found[0] == code and len(found[1]) > 20 and WORDS.get(code, "") in found[1], found
    page.close()


def test_a_damaged_file_is_shown_in_the_page(browser, served, linear, tmp_path):
    import shutil

    folder = tmp_path / "damaged"  # a path of its own: what the browser has kept of another site must not serve
    shutil.copytree(linear[1], folder)
    file = next(folder.glob("weights-*"))
    file.write_bytes(b"\0" * file.stat().st_size)
    page = browser.open(f"{served(tmp_path).url}/damaged/")
    shown = page.wait(
        "document.getElementById('error')?.hidden === false && document.getElementById('error').textContent"
    )
    assert "damaged" in shown and file.name in shown
    page.close()
