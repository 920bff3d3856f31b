"""runner.js as TypeScript sees it: its JSDoc has no contradictions, and says what a page may do."""

import subprocess
from pathlib import Path

import webgpu_backend
from tests import needs

RUNNER = Path(webgpu_backend.__file__).parent / "web" / "page" / "runner.js"
PAGE = """
import { load, ModelError } from "./runner.js";
const model = await load("./model.json", { onProgress: ({ loaded, total }) => console.log(loaded / total) });
const { logits } = await model.run({ input: new Float32Array(784) }, { read: ["logits"] });
const first: number | bigint = logits[0];
try { await model.call("learn", { seen: new BigInt64Array(2) }); }
catch (error) { if (error instanceof ModelError) console.log(error.code, first, model.inputs[0].shape); }
model.dispose();
"""
WRONG = 'import { load } from "./runner.js"; (await load("./model.json", { prefer: "fast" })).run(3);'


def checked(folder: Path, text: str) -> str:
    """What TypeScript says against a page and the runner that it uses."""
    typescript = needs.node("typescript")
    (folder / "runner.js").write_bytes(RUNNER.read_bytes())
    (folder / "page.ts").write_text(text)
    options = "--allowJs --checkJs --noEmit --target es2022 --module esnext --skipLibCheck"
    more = "--moduleResolution bundler --lib es2022,dom,dom.iterable,esnext --types @webgpu/types --typeRoots"
    modules = Path(typescript["package"]).parent
    command = [typescript["node"], modules / "typescript" / "bin" / "tsc", *options.split(), *more.split(), modules]
    return subprocess.run([*command, "page.ts"], cwd=folder, capture_output=True, text=True, timeout=300).stdout


def test_a_page_in_typescript(tmp_path):
    assert checked(tmp_path, PAGE) == ""


def test_what_a_page_must_not_do(tmp_path):
    found = checked(tmp_path, WRONG)
    assert "Type '\"fast\"' is not assignable" in found and "Argument of type 'number'" in found
