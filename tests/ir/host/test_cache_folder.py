"""The cache folder: a folder that anybody may write is not read where it belongs to another user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ir.host.cache_folder import writable_cache
from ir.host.process_folder import process_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners of folders")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def owned_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on this process is another user than the one that made its folders."""
    other = os.geteuid() + 1
    monkeypatch.setattr("os.geteuid", lambda: other)


def test_another_users_folder_that_anybody_may_write_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o1777)
    owned_by_another(monkeypatch)
    used, (warning,) = writable_cache()
    assert used == process_folder()
    assert warning.severity == "warning"
    assert warning.at == str(folder)
    assert "belongs to another user and anybody may write it" in warning.message
    assert "EQSAT_CACHE_DIR" in str(warning.hint)


@pytest.mark.parametrize(("mode", "is_ours"), [(0o777, True), (0o755, True), (0o755, False)])
def test_other_folders_are_used(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_ours: bool) -> None:
    folder.chmod(mode)
    if not is_ours:
        owned_by_another(monkeypatch)
        if not os.access(folder, os.W_OK):
            pytest.skip("the folder cannot be written")
    assert writable_cache() == (folder, ())
    assert stat.S_IMODE(folder.stat().st_mode) == mode
