"""Shared objects and cubins in the cache: one builder at a time, and objects that are what they were when stored."""

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
"""At making a folder and a lock in it, while somebody deletes the folder."""


@contextlib.contextmanager
def locked(target: Path) -> Iterator[tuple[Path, Notes]]:
    """One builder at a time for this object, among threads and processes: where the object is to lie, and what was
    wrong. That is `target`; where its folder takes no lock, a file of the same name in the folder of this process.

    Raises:
        EqsatError: CompileFailed where neither folder can be written.
    """
    notes: Notes = ()
    try:
        lock = _acquired(target)
    except (OSError, NotImplementedError) as error:  # the latter for a file system without locks
        notes = (not_kept(str(error), target.parent),)
        try:
            target = process_folder() / target.name
            lock = _acquired(target)
        except (OSError, NotImplementedError) as again:
            _refuse(target, again)
    try:
        yield target, notes
    finally:
        lock.release()


def _acquired(target: Path) -> BaseFileLock:
    from filelock import FileLock

    lock = FileLock(target.with_suffix(".lock"))
    for left in reversed(range(_ATTEMPTS)):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            return lock
        except FileNotFoundError:  # somebody deletes the cache at this moment
            if not left:
                raise
    raise AssertionError


def recalled(target: Path) -> tuple[str, bytes]:
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


def damaged(target: Path) -> Diagnostic:
    """What to tell of an object that had to be built again."""
    return note(
        Kind.INPUT_MISMATCH,
        STAGE,
        f"the stored object {target.name} was damaged and has been built again",
        severity=Severity.WARNING,
        folder=str(target.parent),
    )


def store(target: Path, data: bytes) -> tuple[Path, Notes]:
    """Where the object lies: at `target`, or, on a disk that is full, in the folder of this process with a warning.

    Raises:
        EqsatError: CompileFailed where neither can be written.
    """
    try:
        _write(target, data)
        return target, ()
    except OSError as error:
        return store_apart(target, data), (not_kept(error, target.parent),)


def store_apart(target: Path, data: bytes) -> Path:
    """Where the object lies in the folder of this process.

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
    """Where an object that came from elsewhere lies: under its hash.

    Raises:
        EqsatError: CompileFailed where it cannot be written.
    """
    cache, notes = writable_cache()
    target = cache / "loaded" / f"{hashlib.sha256(code).hexdigest()}{suffix}"
    if recalled(target) == ("whole", code):
        return target, notes
    path, more = store(target, code)
    return path, (*notes, *more)


def _write(target: Path, data: bytes) -> None:
    write_atomically(target, data)
    write_atomically(_checksum_path(target), _checksum(target, data))


def _checksum(target: Path, data: bytes) -> bytes:
    """Of the object and its name: an object under another's name is as bad as a damaged one."""
    return hashlib.sha256(f"{target.name}\0".encode() + data).hexdigest().encode()


def _checksum_path(target: Path) -> Path:
    return target.with_suffix(".sha256")


def _refuse(target: Path, error: Exception) -> NoReturn:
    fail(Kind.COMPILE_FAILED, STAGE, f"kernels cannot be stored: {error}", at=str(target.parent), hint=HINT)
