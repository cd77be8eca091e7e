"""Files with a checksum, used only if unchanged and under the name that they were written to. The first line is the
SHA-256 of the name and the rest; then comes the rest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ir.host.atomic_file import read_regular, write_atomically


def write_checked(path: Path, body: bytes) -> None:
    """Writes `body` atomically: a reader sees all of it or none.

    Raises:
        OSError: if the folder cannot be written.
    """
    write_atomically(path, _checksum(path, body).encode() + b"\n" + body)


def read_checked(path: Path) -> bytes:
    """The body that `write_checked` wrote.

    Raises:
        OSError: if there is no such file, or it cannot be read.
        ValueError: if the file was changed.
    """
    head, _, body = read_regular(path).partition(b"\n")
    if head.decode("ascii", "replace") != _checksum(path, body):
        raise ValueError("it does not match its checksum")
    return body


def _checksum(path: Path, body: bytes) -> str:
    return hashlib.sha256(f"{path.name}\0".encode() + body).hexdigest()
