"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to a file of another name beside `path`, then rename it; folders are made as needed.

    Raises:
        OSError: where the folder cannot be written, or something else than a file has this name: a device, a folder.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".new-{uuid.uuid4().hex}"  # not tempfile's, whose files nobody else may read
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
