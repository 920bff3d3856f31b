"""Every test fails on a CPU fallback that it does not name, and on a missing adapter. What is skipped is told at the
end, by reason."""

import os
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

os.environ["WEBGPU_FALLBACK"] = "error"  # read when the package is imported, which importing torch may do
if find_spec("webgpu_backend") is None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import pytest  # noqa: E402

import webgpu_backend  # noqa: E402
from webgpu_backend.frontend.dispatch.registration import fallback  # noqa: E402


@pytest.fixture(autouse=True)
def no_fallback(request):
    """Fails on any CPU fallback, but for the operators that `@pytest.mark.fallback` names."""
    allowed = [name for mark in request.node.iter_markers("fallback") for name in mark.args]
    webgpu_backend.reset_fallbacks()
    with fallback.allow(*allowed):
        yield
    unexpected = {name: n for name, n in webgpu_backend.fallbacks().items() if not fallback.named(name, allowed)}
    assert not unexpected, f"operators that ran on the CPU: {unexpected}"


def pytest_terminal_summary(terminalreporter):
    """How many tests were skipped for each reason: a test that never runs anywhere must be seen."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped, by reason")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5}  {reason}")


def _reason(report) -> str:
    *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else (str(report.longrepr),)
    return " ".join(reason.removeprefix("Skipped: ").split())[:200]
