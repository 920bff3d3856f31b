"""WGSL that the tests render, compiled by Dawn: no kernel leans on the leniency of one compiler.

    WEBGPU_TEXTS=folder pytest tests/device        every text that is compiled goes to the folder, once
    python -m tests.web.texts folder               and Dawn is asked about each

`./dev test` does both. Texts that use what browsers do not have (64-bit types, atomics of f32) are counted and passed
over: with WEBGPU_BASELINE=1 there are none, and those texts also have to keep to WebGPU's default limits.
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
    dawn = needs.node()
    script = Path(__file__).with_name("node_compile.mjs")
    done = subprocess.run(
        [dawn["node"], script, dawn["package"]], input=json.dumps(texts), capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def portable(text: str) -> bool:
    """Whether a text uses only what browsers may have."""
    return NATIVE.search(re.sub(r"//[^\n]*", "", text)) is None


def main() -> None:
    texts = {p.name: p.read_text(encoding="utf-8") for p in sorted(Path(sys.argv[1]).iterdir())}
    own = {name: text for name, text in texts.items() if name.endswith(".baseline") or portable(text)}
    found = refused(own)
    print(f"{len(own)} texts, {len(found)} refused by Dawn")
    print(f"{len(texts) - len(own)} more need what browsers do not have")
    for name, message in found.items():
        print(f"\n{own[name].splitlines()[0]}  ({name})\n{message}")
    sys.exit(bool(found) or not own)


if __name__ == "__main__":
    main()
