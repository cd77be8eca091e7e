"""A pytest plugin, `-p tests.support.gpu.journal`: notes in the file EQSAT_JOURNAL which test runs, which kernel it has
launched, and how it ended, line by line, so that a test that hangs or faults leaves both names behind. Tests that have
passed by that file are not run again. The kernels of a process run one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.device.kernel_by_kernel import kernel_by_kernel, wait_for_device
from bench.gpu.journal import JOURNAL, Journal
from codegen.run.device import has_driver


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that have passed."""
    passed = Journal.read(_path()).passed
    left_out = [item for item in items if item.nodeid in passed]
    if left_out:
        items[:] = [item for item in items if item.nodeid not in passed]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Runs in the process of the test."""
    _write("start", item.nodeid)

    def wait() -> None:
        if has_driver():
            wait_for_device()

    with kernel_by_kernel(lambda kernel: _write("kernel", kernel), wait):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.when == "call" or (report.when == "setup" and not report.passed):
        _write(report.outcome, item.nodeid)
    return report  # type: ignore[return-value]


def _path() -> Path:
    return Path(os.environ[JOURNAL])


def _write(word: str, name: str) -> None:
    with _path().open("a", encoding="utf-8") as file:
        file.write(f"{word}\t{os.getpid()}\t{name}\n")
