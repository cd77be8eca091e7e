"""A device that a kernel's fault has cost ends the process that holds it, and no test more."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from tests.support.gpu.devices import end_where_lost


def faulted() -> None:
    raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")


def device(monkeypatch: pytest.MonkeyPatch, *, lost: bool) -> None:
    here = SimpleNamespace(synchronize=faulted if lost else lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(Device=lambda: here)))


def test_a_device_that_is_there_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    device(monkeypatch, lost=False)
    end_where_lost()


def test_a_run_ends_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    device(monkeypatch, lost=True)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    with pytest.raises(pytest.exit.Exception, match="the device is lost: cudaErrorIllegalAddress"):
        end_where_lost()


def test_another_worker_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    device(monkeypatch, lost=True)
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    with pytest.raises(pytest.exit.Exception):  # where `os._exit` returns, as it does here alone
        end_where_lost()
    assert ended == [1]
