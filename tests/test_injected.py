"""Failures of the driver, put in by hand: each is an exception, the process lives, and what is right stays right."""

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from tests import needs
from webgpu_backend.runtime import queue as queues
from webgpu_backend.runtime.errors import DeviceError
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"


def run(code: str, **switches) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
        env={**os.environ, **switches},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def test_a_device_that_is_lost_with_work_pending():
    out = run("""
        import torch, webgpu_backend
        from webgpu_backend.runtime.gpu import gpu
        from webgpu_backend.runtime.native import lib

        x = torch.arange(6.0).to("webgpu")
        model = torch.nn.Linear(6, 2).to("webgpu")
        loss = model(x * 2).sum()
        y = x + 1
        index = torch.tensor([1, 0]).to("webgpu")
        z = x[index]
        lib.wgpuDeviceDestroy(gpu().device._internal)
        uses = {
            "read": lambda: y.cpu(), "guarded": lambda: z.tolist(), "again": lambda: y.cpu(), "new": lambda: x + 2,
            "wait": torch.webgpu.synchronize, "upload": lambda: torch.ones(9).to("webgpu"), "backward": loss.backward,
            "in place": lambda: x.add_(1), "large": lambda: torch.ones(3 << 20).to("webgpu"),
            "shader": lambda: torch.exp(x).sum().item(), "print": lambda: repr(y),
            "empty": lambda: torch.empty(1 << 22, device="webgpu"),
        }
        for name, use in uses.items():
            try:
                use()
                torch.webgpu.synchronize()
            except RuntimeError as error:
                print(name, "lost" in str(error))
        print((torch.ones(3) + 1).sum().item(), "the CPU works")
    """)
    lines = out.splitlines()
    assert lines[-1] == "6.0 the CPU works"
    assert [line.endswith("True") for line in lines[:-1]] == [True] * 12, out


def test_a_mapping_that_fails(monkeypatch):
    x = torch.arange(5.0).to(D)
    y = x * 2
    torch.webgpu.synchronize()
    with monkeypatch.context() as patch:
        patch.setattr(queues, "_map_async", lambda *_: None)  # answers nothing
        for _ in range(3):
            with pytest.raises(DeviceError, match="reading 20 bytes: mapping failed with status 0"):
                y.tolist()
    assert y.tolist() == [0, 2, 4, 6, 8] and (x + 1).tolist() == [1, 2, 3, 4, 5]


def test_a_pipeline_that_is_refused(monkeypatch):
    """As by a driver that cannot compile a text: the call raises, others work, and a later try may succeed."""
    x = torch.arange(5.0).to(D)
    before, compile_ = x + 1, type(gpu().pipelines).compile

    def refuse(self, program):
        if "erfinv" in program.name or "erfinv" in program.wgsl:
            raise DeviceError(f"pipeline {program.name}: the driver is out of registers")
        return compile_(self, program)

    with monkeypatch.context() as patch:
        patch.setattr(type(gpu().pipelines), "compile", refuse)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="out of registers"):
                torch.erfinv(x / 11)
            with pytest.raises(RuntimeError, match="out of registers"):
                x.erfinv_()
        assert before.tolist() == [1, 2, 3, 4, 5] and x.tolist() == [0, 1, 2, 3, 4]
    torch.testing.assert_close(torch.erfinv(x / 11).cpu(), torch.erfinv(torch.arange(5.0) / 11))


def test_no_memory_for_a_staging_buffer(monkeypatch):
    """The read raises, and works when there is memory again."""
    x = torch.arange(300_000.0).to(D) + 1
    create = type(gpu().pool).create_buffer

    def refuse(self, size, usage, mapped=False):
        raise DeviceError("Not enough memory left")

    torch.webgpu.synchronize()
    monkeypatch.setattr(gpu().queue._transfer, "small", {})
    with monkeypatch.context() as patch:
        patch.setattr(type(gpu().pool), "create_buffer", refuse)
        with pytest.raises(RuntimeError, match="Not enough memory"):
            x.cpu()
    assert create is type(gpu().pool).create_buffer
    assert torch.equal(x.cpu(), torch.arange(300_000.0) + 1)


# -- the folder in which the driver keeps machine code

WORK = """
    import torch, webgpu_backend
    x = torch.arange(2000.0).to("webgpu").view(40, 50)
    print(round((x @ x.t()).relu().softmax(-1).sum().item(), 3), x.cumsum(0)[-1, -1].item(), x.sort(0)[0][3, 4].item())
"""
RIGHT = "40.0 40960.0 154.0\n"


def damaged(folder: Path) -> None:
    files = [p for p in folder.rglob("*") if p.is_file()]
    for k, path in enumerate(files):
        data = path.read_bytes()
        path.write_bytes(
            b"\0" * len(data) if k % 3 == 0 else data[: len(data) // 2] if k % 3 == 1 else b"garbage" + data
        )


@pytest.mark.parametrize("how", ["read-only", "full", "corrupt"])
def test_a_cache_folder_that_is(how, tmp_path):
    folder = tmp_path / "shaders"
    if how == "full":
        if not Path("/dev/full").exists():
            needs.missing("this system has no /dev/full")
        folder.symlink_to("/dev/full")
    else:
        folder.mkdir()
    switches = {"MESA_SHADER_CACHE_DIR": str(folder), "XDG_CACHE_HOME": str(folder)}
    if how == "read-only":
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if how == "corrupt":
        assert run(WORK, **switches) == RIGHT
        damaged(folder)
    assert run(WORK, **switches) == RIGHT


def test_a_cache_folder_shared_by_processes(tmp_path):
    """Eight at once, all of them the first."""
    env = {**os.environ, "MESA_SHADER_CACHE_DIR": str(tmp_path / "s"), "XDG_CACHE_HOME": str(tmp_path / "s")}
    command = [sys.executable, "-c", textwrap.dedent(WORK)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(8)]
    assert [p.communicate(timeout=300)[0] for p in started] == [RIGHT] * 8
    assert [p.returncode for p in started] == [0] * 8


TILE = '{"bm": 128, "bn": 64, "bk": 16, "tm": %s, "tn": 8, "twist": 1, "rate": %s}'
TABLE = '{"units": 9, "tiles": [%s], "halves": [], "launch": 3.5, "bandwidth": 1e5}'


@pytest.mark.parametrize(
    "content, wrong",
    [("{", "JSONDecodeError"), ('{"cpu": 5}', "KeyError"), ("[]", "TypeError"), (None, "FileNotFoundError"),
     (TABLE % (TILE % (3, 1.5)), "not among"), (TABLE % (TILE % (8, -1)), "no positive"),
     (TABLE % (TILE % (8, '"fast"')), "TypeError"), (TABLE % (TILE % (8, 40)), "")],
)  # fmt: skip
def test_a_tuning_file_that_makes_no_sense(content, wrong, tmp_path):
    """It is told once, and the built-in rows are taken. Only a GPU has such rows."""
    if content is not None:
        (tmp_path / "tuning.json").write_text(content)
    code = "import sys; sys.stderr = sys.stdout\n" + textwrap.dedent(WORK) * 2
    out = run(code, WEBGPU_TUNING=str(tmp_path / "tuning.json"), WEBGPU_CLASS="gpu")
    assert out.endswith(RIGHT) and out.count(RIGHT) == 2
    assert out.count("UserWarning: ") == bool(wrong) and wrong in out, out
