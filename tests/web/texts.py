"""WGSL that the tests render, compiled by Dawn and translated for Macs and Windows: no kernel leans on the leniency of
one compiler.

    WEBGPU_TEXTS=folder pytest tests/device        every text that is compiled goes to the folder, once
    python -m tests.web.texts folder               and Dawn and naga are asked about each

`./dev test` does both. Texts that use what browsers do not have (64-bit types, atomics of f32) are counted and passed
over by Dawn: with WEBGPU_BASELINE=1 there are none, and those texts also have to keep to WebGPU's default limits. naga,
which is wgpu's own compiler, translates them to the languages of Metal and Direct3D 12, each what it can have.
"""

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests import needs
from webgpu_backend import env
from webgpu_backend.web.site import text_of

NATIVE = re.compile(r"\b[iu]64\b|\bf64\b|\batomic<f32>|\d(li|lu|lf)\b|\bSHADER_")
WITHOUT = {"metal": re.compile(r"\bf64\b|\dlf\b"), "direct3d": re.compile(r"\batomic<f32>")}  # what they do not have


def collect(folder: str) -> None:
    """From now on, every program that is compiled is written down."""
    from webgpu_backend.runtime.pipelines import Pipelines

    to = Path(folder)
    to.mkdir(parents=True, exist_ok=True)
    compile_ = Pipelines.compile

    def compiled(self, program):
        found = compile_(self, program)
        if not program.name.startswith("user_"):  # a test's own shader
            text = text_of(program)
            file = to / (sha256(text.encode()).hexdigest()[:16] + (".baseline" if env.BASELINE else ""))
            if not file.exists():
                file.write_text(f"// {program.name}\n{text}", encoding="utf-8")
        return found

    Pipelines.compile = compiled


def refused(texts: dict[str, str]) -> dict[str, str]:
    """What Dawn says against texts, by their names."""
    return _asked("node_compile.mjs", "webgpu", texts)


def untranslated(texts: dict[str, str]) -> tuple[int, dict[str, str]]:
    """How many translations naga makes, and what it says against texts, by their names."""
    asked = {
        name: (
            text.replace("enable subgroups;", ""),  # which it has without being asked
            [language for language, lacking in WITHOUT.items() if lacking.search(_code(text)) is None],
        )
        for name, text in texts.items()
    }
    found = _asked("node_translate.mjs", "naga-wasm", asked)
    return sum([len(languages) for name, (_, languages) in asked.items() if name not in found]), found


def _asked(script: str, package: str, asked: dict) -> dict[str, str]:
    node = needs.node(package)
    done = subprocess.run(
        [node["node"], Path(__file__).with_name(script), node["package"]],
        input=json.dumps(asked), capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def portable(text: str) -> bool:
    """Whether a text uses only what browsers may have."""
    return NATIVE.search(_code(text)) is None


def _code(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def main() -> None:
    texts = {p.name: p.read_text(encoding="utf-8") for p in sorted(Path(sys.argv[1]).iterdir())}
    own = {name: text for name, text in texts.items() if name.endswith(".baseline") or portable(text)}
    found = refused(own)
    print(
        f"{len(own)} texts, {len(found)} refused by Dawn; {len(texts) - len(own)} more need what browsers do not have"
    )
    count, other = untranslated(texts)
    print(f"{count} translations to the languages of Metal and Direct3D 12, {len(other)} texts refused by naga")
    for name, message in (found | other).items():
        print(f"\n{texts[name].splitlines()[0]}  ({name})\n{message}")
    sys.exit(bool(found or other) or not own)


if __name__ == "__main__":
    main()
