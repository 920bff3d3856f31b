"""WGSL that the tests render, compiled by Dawn: no kernel leans on the leniency of one compiler.

    WEBGPU_TEXTS=folder WEBGPU_BASELINE=1 pytest tests/device      every text that is compiled goes to the folder
    python -m tests.web.texts folder                               and Dawn is asked about each

Texts that use what browsers do not have (64-bit types, atomics of f32) are counted and passed over; with
WEBGPU_BASELINE=1 there are none.
"""

import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests import needs
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
        if program.trusted and not program.name.startswith("user_"):
            write(to, program.name, text_of(program))
        return found

    Pipelines.compile = compiled


def write(to: Path, name: str, text: str) -> None:
    (to / f"{sha256(text.encode()).hexdigest()[:16]}.wgsl").write_text(f"// {name}\n{text}", encoding="utf-8")


def refused(texts: dict[str, str]) -> dict[str, str]:
    """What Dawn says against texts, by their names."""
    dawn = needs.dawn()
    script = Path(__file__).with_name("node_compile.mjs")
    environment = {**os.environ, "VK_ICD_FILENAMES": dawn["driver"], "XDG_RUNTIME_DIR": "/tmp"}
    done = subprocess.run(
        [dawn["node"], script, dawn["package"]], input=json.dumps(texts), capture_output=True, text=True,
        env=environment, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def portable(text: str) -> bool:
    """Whether a text uses only what browsers may have."""
    return NATIVE.search(re.sub(r"//[^\n]*", "", text)) is None


def main() -> None:
    texts = {p.name: p.read_text(encoding="utf-8") for p in sorted(Path(sys.argv[1]).glob("*.wgsl"))}
    own = {name: text for name, text in texts.items() if portable(text)}
    found = refused(own)
    print(f"{len(own)} texts, {len(found)} refused by Dawn; {len(texts) - len(own)} need what browsers do not have")
    for name, message in found.items():
        print(f"\n{own[name].splitlines()[0]}  ({name})\n{message}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
