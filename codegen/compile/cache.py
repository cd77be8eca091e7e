"""Shared objects and cubins in the cache: one builder at a time, and objects that are what they were when stored."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from ir.atomic_file import write_atomically
from ir.cache_folder import HINT, STAGE, Notes, not_kept, process_folder, writable_cache
from ir.diagnostics import Diagnostic, Kind, Severity, fail, note


@contextlib.contextmanager
def locked(target: Path) -> Iterator[None]:
    """One builder at a time for this object, among threads and processes.

    Raises:
        EqsatError: CompileFailed where the folder cannot be written.
    """
    from filelock import FileLock

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(target.with_suffix(".lock"))
        lock.acquire()
    except (OSError, NotImplementedError) as error:  # the latter for a file system without locks
        fail(Kind.COMPILE_FAILED, STAGE, f"kernels cannot be stored: {error}", at=str(target.parent), hint=HINT)
    try:
        yield
    finally:
        lock.release()


def stored_state(target: Path) -> str:
    """ "whole", "absent", or "damaged" where the object is not what its checksum says."""
    try:
        data = target.read_bytes()
    except FileNotFoundError:
        return "absent"
    except OSError:
        return "damaged"
    try:
        expected = _checksum_path(target).read_bytes()
    except OSError:
        return "damaged"
    return "whole" if _checksum(data) == expected else "damaged"


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
        warning = not_kept(error, target.parent)
    spare = process_folder() / target.name
    try:
        _write(spare, data)
    except OSError as error:
        fail(Kind.COMPILE_FAILED, STAGE, f"kernels cannot be stored: {error}", at=str(spare.parent), hint=HINT)
    return spare, (warning,)


def store_loaded(code: bytes, suffix: str = ".so") -> tuple[Path, Notes]:
    """Where an object that came from elsewhere lies: under its hash.

    Raises:
        EqsatError: CompileFailed where it cannot be written.
    """
    cache, notes = writable_cache()
    target = cache / "loaded" / f"{hashlib.sha256(code).hexdigest()}{suffix}"
    if stored_state(target) == "whole" and target.read_bytes() == code:
        return target, notes
    path, more = store(target, code)
    return path, (*notes, *more)


def _write(target: Path, data: bytes) -> None:
    write_atomically(target, data)
    write_atomically(_checksum_path(target), _checksum(data))


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _checksum_path(target: Path) -> Path:
    return target.with_suffix(".sha256")
