"""One browser for all tests of a process, and sites that are served while a test runs."""

import pytest

from .chromium import Chromium, Site


@pytest.fixture(scope="session")
def browser():
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture
def served():
    """A function that serves a folder."""
    sites = []

    def serve(folder) -> Site:
        sites.append(Site(folder))
        return sites[-1]

    yield serve
    for site in sites:
        site.close()
