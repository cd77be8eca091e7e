"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import stat
import time
import uuid
from pathlib import Path

_NEW = re.compile(r"\.new-[0-9a-f]{32}")
_LEFT_SECONDS = 3600
"""Seconds. No process takes so long to write a file, so a killed process left an older unfinished one."""


def write_atomically(path: Path, data: bytes) -> None:
    """Writes `data` to a new file beside `path`, then renames it; creates folders as needed. Removes unfinished files
    that killed processes left in the folder.

    Raises:
        OSError: if the folder cannot be written, or a folder has this name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent.absolute())
    temporary = path.parent / f".new-{uuid.uuid4().hex}"  # tempfile's files would be unreadable for other users
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file; a pipe or device might never end.

    Raises:
        OSError: if there is no such file, or it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return path.read_bytes()


@functools.lru_cache(maxsize=64)
def _sweep(folder: Path) -> None:
    """Removes the unfinished files of killed processes; once per folder, since a large folder takes a while."""
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _NEW.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > _LEFT_SECONDS:
                        os.unlink(entry.path)
