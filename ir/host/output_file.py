"""A file that a caller asks for, written completely or refused with a diagnostic."""

from __future__ import annotations

import errno
from pathlib import Path

from ir.diagnostics import Kind, fail
from ir.host.atomic_file import write_atomically


def write_output(path: Path, data: bytes, stage: str) -> None:
    """Writes the file atomically. stage: who writes, for the diagnostic.

    Raises:
        EqsatError: InvalidOption if the file cannot be written, or if the path names a folder, a device or a pipe.
    """
    try:
        if path.exists() and not path.is_file():  # a file must not replace a device or a pipe
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        write_atomically(path, data)
    except OSError as error:
        fail(Kind.INVALID_OPTION, stage, f"cannot write the file: {error.strerror or error}", at=str(path))
