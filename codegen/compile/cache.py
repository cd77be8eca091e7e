"""The cache of shared objects and cubins: where it is, one builder at a time, and objects that are what they were when
stored."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ir.atomic_file import write_atomically
from ir.diagnostics import Diagnostic, Kind, Severity, fail, note

_STAGE = "cache"
_HINT = "set EQSAT_CACHE_DIR to a folder you may write"

Notes = tuple[Diagnostic, ...]


def cache_dir() -> Path | None:
    """$EQSAT_CACHE_DIR, or the user's cache folder; None where the user has no home."""
    chosen = os.environ.get("EQSAT_CACHE_DIR")
    if chosen:
        return Path(chosen).absolute()
    import platformdirs

    try:
        found = Path(platformdirs.user_cache_dir("eqsat"))
    except RuntimeError:
        return None
    return found if found.is_absolute() else None  # older releases of platformdirs leave "~" in


def writable_cache() -> tuple[Path, Notes]:
    """`cache_dir`; where it cannot be written, a folder that lasts as long as this process, and a warning."""
    wanted = cache_dir()
    if wanted is None:
        return process_folder(), (_not_kept("the user has no home folder"),)
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted, ()
    except OSError as error:
        return process_folder(), (_not_kept(error, wanted),)


def process_folder() -> Path:
    """A folder that is removed when this process ends."""
    return Path(_temporary_folder().name)


@functools.cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="eqsat-")


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
        fail(Kind.COMPILE_FAILED, _STAGE, f"kernels cannot be stored: {error}", at=str(target.parent), hint=_HINT)
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
        _STAGE,
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
        warning = _not_kept(error, target.parent)
    spare = process_folder() / target.name
    try:
        _write(spare, data)
    except OSError as error:
        fail(Kind.COMPILE_FAILED, _STAGE, f"kernels cannot be stored: {error}", at=str(spare.parent), hint=_HINT)
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


def _not_kept(why: OSError | str, folder: Path | None = None) -> Diagnostic:
    return note(
        Kind.INPUT_MISMATCH,
        _STAGE,
        f"the cache cannot be written, nothing is kept for the next run: {why}",
        at=str(folder) if folder else None,
        severity=Severity.WARNING,
    )
