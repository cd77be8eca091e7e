"""A headless Chromium for tests, where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


def executable() -> str | None:
    """The browser: what EQSAT_CHROMIUM names, else one that is installed."""
    named = os.environ.get("EQSAT_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Any]:
    """A browser of Playwright's; skips the test without Playwright or Chromium."""
    api = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright")
    path = executable()
    if path is None:
        pytest.skip("pages are tested in Chromium: apt-get install chromium, or name one in EQSAT_CHROMIUM")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield chromium
        chromium.close()
