"""Data on disk that is used only where it is what was written: a line with the SHA-256 of the rest, then the rest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ir.atomic_file import write_atomically


def write_checked(path: Path, body: bytes) -> None:
    """Write `body` atomically: a reader sees all of it or none.

    Raises:
        OSError: where the folder cannot be written.
    """
    write_atomically(path, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def read_checked(path: Path) -> bytes:
    """What `write_checked` wrote.

    Raises:
        OSError: where there is no such file, or it cannot be read.
        ValueError: where it is not as it was written.
    """
    head, _, body = path.read_bytes().partition(b"\n")
    if head.decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
        raise ValueError("it does not match its checksum")
    return body
