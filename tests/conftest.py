"""Every test fails on a CPU fallback that it does not name, and on a missing adapter. At the end it is told what was
skipped, by reason, and how much memory each process took at most; what failed is also added to the file that
`WEBGPU_FAILURES` names, so that several runs after one another can end with one list."""

import os
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

os.environ["WEBGPU_FALLBACK"] = "error"  # read when the package is imported, which importing torch may do
# Libraries that find CUDA take that, and torch has one accelerator: what is beside it is tests/test_beside_cuda.py's.
VISIBLE = os.environ.get("CUDA_VISIBLE_DEVICES")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
if find_spec("webgpu_backend") is None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import pytest  # noqa: E402

import webgpu_backend  # noqa: E402
from webgpu_backend.frontend import first_use  # noqa: E402
from webgpu_backend.frontend.dispatch import fallback  # noqa: E402
from webgpu_backend.runtime import gpu  # noqa: E402

first_use.complete()  # tests read the table; what a program may do before is test_startup's
if folder := os.environ.get("WEBGPU_TEXTS"):
    from tests.web import texts

    texts.collect(folder)


@pytest.fixture(autouse=True)
def no_fallback(request):
    """Fails on any CPU fallback, but for the operators that `@pytest.mark.fallback` names."""
    allowed = [name for mark in request.node.iter_markers("fallback") for name in mark.args]
    webgpu_backend.reset_fallbacks()
    with fallback.allow(*allowed):
        yield
    unexpected = {name: n for name, n in webgpu_backend.fallbacks().items() if not fallback.named(name, allowed)}
    assert not unexpected, f"operators that ran on the CPU: {unexpected}"


# On a software adapter a test process must do with so much: machine code and device memory are its own memory there,
# and whatever the runtime does not let go of adds up over thousands of tests. More than is wanted is told, far
# more is a failure.
WANTED_MEMORY, MOST_MEMORY = int(2.5e9), int(3e9)
_peaks: dict[str, tuple[int, str]] = {}  # bytes and the adapter's class, by process


@pytest.fixture(scope="module", autouse=True)
def trimmed():
    """What a module's tests have freed goes back to the system: glibc keeps 150 MB for a few compiled ones."""
    yield
    if gpu.is_initialized():
        from webgpu_backend.runtime import pipelines

        pipelines._trim()


def _peak() -> tuple[int, str]:
    try:
        import resource
    except ImportError:  # Windows
        return 0, ""
    unit = 1 if sys.platform == "darwin" else 1024
    kind = gpu.gpu().caps.kind if gpu.is_initialized() else ""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, kind


def pytest_testnodedown(node, error):
    """In the process that hands out the tests: what one of the others leaves."""
    if found := getattr(node, "workeroutput", {}).get("peak"):
        _peaks[node.gateway.id] = tuple(found)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = _peak()
        return
    if not _peaks:
        _peaks["the process"] = _peak()
    if any(nbytes > MOST_MEMORY and kind == "cpu" for nbytes, kind in _peaks.values()):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    """How many tests were skipped for each reason: a test that never runs anywhere must be seen."""
    if hasattr(terminalreporter.config, "workeroutput"):  # one of several processes, which nobody reads
        return
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped, by reason")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5}  {reason}")
    failures = [_failure(report) for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())]
    for name, (nbytes, kind) in sorted(_peaks.items()):
        line = f"{name} took {nbytes / 1e9:.2f} GB at most"
        if nbytes > WANTED_MEMORY and kind == "cpu":
            line += f": over the {WANTED_MEMORY / 1e9} GB wanted"
        if nbytes > MOST_MEMORY and kind == "cpu":
            line += f", and over {MOST_MEMORY / 1e9} GB, which is a failure"
            failures.append(line)
        terminalreporter.line(line)
    if failures and (path := os.environ.get("WEBGPU_FAILURES")):
        with open(path, "a") as file:
            file.writelines(f"{failure}\n" for failure in failures)


def _failure(report) -> str:
    """A failed test and what it says, in a few lines: the last ones of a long log are those that are read."""
    crash = getattr(report.longrepr, "reprcrash", None)
    why = str(report.longrepr) if crash is None else f"{crash.path}:{crash.lineno}: {crash.message}"
    return "\n    ".join([f"{report.nodeid} ({report.when})", *why.splitlines()[:8]])


def _reason(report) -> str:
    *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else (str(report.longrepr),)
    return " ".join(reason.removeprefix("Skipped: ").split())[:200]
