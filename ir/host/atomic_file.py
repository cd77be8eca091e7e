"""Files that appear whole or not at all."""

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
"""No process takes so long to write a file: one of such an age was left by a process that was killed."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to a file of another name beside `path`, then rename it; folders are made as needed. What killed
    processes left in the folder is removed.

    Raises:
        OSError: where the folder cannot be written, or a folder has this name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent.absolute())
    temporary = path.parent / f".new-{uuid.uuid4().hex}"  # not tempfile's, whose files nobody else may read
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_regular(path: Path) -> bytes:
    """The bytes of a file; of no pipe or device, which might never end.

    Raises:
        OSError: where there is no such file, or it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return path.read_bytes()


@functools.lru_cache(maxsize=64)
def _sweep(folder: Path) -> None:
    """Remove the unfinished files of processes that were killed; once in a folder, since a large one takes a while."""
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _NEW.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > _LEFT_SECONDS:
                        os.unlink(entry.path)
