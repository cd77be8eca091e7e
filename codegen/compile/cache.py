"""Shared objects and cubins in the cache: one process at a time builds an object, and checksums find damaged ones."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ir.diagnostics import Diagnostic, Kind, Severity, fail, note
from ir.host.atomic_file import read_regular, write_atomically
from ir.host.cache_folder import HINT, STAGE, Notes, not_kept, writable_cache
from ir.host.process_folder import process_folder

if TYPE_CHECKING:
    from filelock import BaseFileLock

_ATTEMPTS = 20
"""Attempts to make a folder and a lock in it, while another process deletes the folder."""


@contextlib.contextmanager
def lock(target: Path) -> Iterator[tuple[Path, Notes]]:
    """Locks an object, so that one thread of one process builds it: the path for the object, and notes on problems. The
    path is `target`, or, where its folder takes no lock, a file of the same name in the folder of this process.

    Raises:
        EqsatError: CompileFailed where neither folder can be written.
    """
    notes: Notes = ()
    try:
        lock = _acquire(target)
    except (OSError, NotImplementedError) as error:  # the latter for a file system without locks
        notes = (not_kept(str(error), target.parent),)
        try:
            target = process_folder() / target.name
            lock = _acquire(target)
        except (OSError, NotImplementedError) as spare_error:
            _refuse(target, spare_error)
    try:
        yield target, notes
    finally:
        lock.release()


def _acquire(target: Path) -> BaseFileLock:
    from filelock import FileLock

    lock = FileLock(target.with_suffix(".lock"))
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            return lock
        except FileNotFoundError:  # another process is deleting the cache
            if not attempts_left:
                raise
    raise AssertionError


def recall(target: Path) -> tuple[str, bytes]:
    """ "whole" and the object, "absent", or "damaged" where the object is not what its checksum says."""
    try:
        data = read_regular(target)
    except FileNotFoundError:
        return "absent", b""
    except OSError:
        return "damaged", b""
    try:
        expected = read_regular(_checksum_path(target))
    except OSError:
        return "damaged", b""
    return ("whole", data) if _checksum(target, data) == expected else ("damaged", b"")


def damage_note(target: Path) -> Diagnostic:
    """The note on an object that had to be built again."""
    return note(
        Kind.INPUT_MISMATCH,
        STAGE,
        f"the stored object {target.name} was damaged and has been built again",
        severity=Severity.WARNING,
        folder=str(target.parent),
    )


def store(target: Path, data: bytes) -> tuple[Path, Notes]:
    """Stores an object; its path: `target`, or, on a full disk, the folder of this process, with a warning.

    Raises:
        EqsatError: CompileFailed where neither can be written.
    """
    try:
        _write(target, data)
        return target, ()
    except OSError as error:
        return store_apart(target, data), (not_kept(error, target.parent),)


def store_apart(target: Path, data: bytes) -> Path:
    """Stores an object in the folder of this process; its path.

    Raises:
        EqsatError: CompileFailed where that cannot be written.
    """
    try:
        spare = process_folder() / target.name
        _write(spare, data)
    except OSError as error:
        _refuse(target, error)
    return spare


def store_loaded(code: bytes, suffix: str = ".so") -> tuple[Path, Notes]:
    """Stores an object that another process or machine has built, under its hash; its path.

    Raises:
        EqsatError: CompileFailed where it cannot be written.
    """
    cache, notes = writable_cache()
    target = cache / "loaded" / f"{hashlib.sha256(code).hexdigest()}{suffix}"
    if recall(target) == ("whole", code):
        return target, notes
    path, more = store(target, code)
    return path, (*notes, *more)


def _write(target: Path, data: bytes) -> None:
    write_atomically(target, data)
    write_atomically(_checksum_path(target), _checksum(target, data))


def _checksum(target: Path, data: bytes) -> bytes:
    """The checksum of the object and its name, so that an object under another object's name counts as damaged."""
    return hashlib.sha256(f"{target.name}\0".encode() + data).hexdigest().encode()


def _checksum_path(target: Path) -> Path:
    return target.with_suffix(".sha256")


def _refuse(target: Path, error: Exception) -> NoReturn:
    fail(Kind.COMPILE_FAILED, STAGE, f"kernels cannot be stored: {error}", at=str(target.parent), hint=HINT)
