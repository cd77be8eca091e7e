"""The temporary folder of a process. It is removed when the process ends; if the process is killed, the next process
that creates a folder removes it.

A process holds a lock on a file in its folder as long as it lives. It is a POSIX record lock, which a forked child does
not inherit.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "eqsat-process-"
_OWNER = "owner"
_YOUNG_SECONDS = 60
"""Seconds. A younger folder may not have its lock yet."""
_OWN: set[Path] = set()
"""The folders of this process."""


def process_folder() -> Path:
    """A folder that is removed when this process ends.

    Raises:
        OSError: if there is no place for temporary files.
    """
    return _create(os.getpid(), tempfile.gettempdir())


@functools.cache
def _create(process: int, below: str) -> Path:
    _sweep(Path(below))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=below))
    _OWN.add(folder)
    _is_locked(os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT, 0o600))  # open until the process ends
    atexit.register(_remove, process, folder)
    return folder


def _remove(process: int, folder: Path) -> None:
    """Removes the folder, but not from a forked child of its process."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(below: Path) -> None:
    """Removes the folders of killed processes."""
    for folder in below.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _YOUNG_SECONDS and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """Whether no other process holds the folder's lock.

    Raises:
        OSError: if the folder has no lock file, or belongs to another user.
    """
    if folder in _OWN:  # closing a second descriptor would free the lock
        return False
    owner = os.open(folder / _OWNER, os.O_RDWR)
    try:
        return _is_locked(owner)
    finally:
        os.close(owner)


def _is_locked(file: int) -> bool:
    """Takes the lock; whether it was free or held by this process already."""
    try:
        import fcntl
    except ImportError:  # Windows: nothing is swept
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
