"""Compiled templates outlive the process, and a folder that keeps nothing is no error."""

import tempfile
from pathlib import Path

import pytest
from jinja2 import Environment

from webgpu_backend.kernels.text import kept, render


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where Jinja's files go, for a new environment."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    render._environment.cache_clear()
    yield tmp_path
    render._environment.cache_clear()


def _text() -> str:
    template = render._environment().get_template("text/interface.wgsl")
    return template.render(fields=[], bindings=[], declarations=(), guarded=False)


def test_the_next_process_compiles_no_template(folder, monkeypatch):
    first = _text()
    assert list(folder.rglob("webgpu-*.cache"))
    render._environment.cache_clear()
    monkeypatch.setattr(Environment, "compile", lambda *args, **kwargs: pytest.fail("compiled again"))
    assert _text() == first


def test_files_that_are_damaged_are_made_again(folder):
    first = _text()
    for file in folder.rglob("webgpu-*.cache"):
        file.write_bytes(b"nonsense")
    render._environment.cache_clear()
    assert _text() == first


def test_a_folder_that_takes_nothing(folder, monkeypatch):
    def refused(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refused)
    assert _text()
    assert not list(folder.rglob("webgpu-*.cache"))


def test_no_folder_at_all(monkeypatch, folder):
    monkeypatch.setattr(tempfile, "tempdir", str(Path(folder, "missing")))
    assert kept.kept("settings") is None
    assert _text()
