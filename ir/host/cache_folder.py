"""The cache folder: its path, whether its contents may be trusted, and its replacement if not."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from ir.diagnostics import Diagnostic, Kind, Severity, note
from ir.host.process_folder import process_folder

STAGE = "cache"
HINT = "set EQSAT_CACHE_DIR to a folder you may write"

Notes = tuple[Diagnostic, ...]


def cache_dir() -> Path | None:
    """$EQSAT_CACHE_DIR, or the user's cache folder; None if the user has no home."""
    chosen = os.environ.get("EQSAT_CACHE_DIR")
    if chosen:
        return Path(chosen).absolute()
    import platformdirs

    try:
        folder = Path(platformdirs.user_cache_dir("eqsat"))
    except RuntimeError:
        return None
    return folder if folder.is_absolute() else None  # older releases of platformdirs leave "~" in


def writable_cache() -> tuple[Path, Notes]:
    """`cache_dir`. If it cannot be written, or belongs to another user and is writable for everybody: a folder of this
    process, removed at its end, and a warning."""
    wanted = cache_dir()
    if wanted is None:
        return process_folder(), (not_kept("the user has no home folder"),)
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        if is_open_to_others(wanted):
            return process_folder(), (_distrust_note(wanted),)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted, ()
    except OSError as error:
        return process_folder(), (not_kept(error, wanted),)


def is_open_to_others(folder: Path) -> bool:
    """Whether another user owns the folder and everybody may write to it, so that anybody could have put code there.

    Raises:
        OSError: if there is no such folder.
    """
    if not hasattr(os, "geteuid"):  # Windows has no such bits
        return False
    status = folder.stat()
    return status.st_uid != os.geteuid() and bool(status.st_mode & stat.S_IWOTH)


def not_kept(why: OSError | str, folder: Path | None = None) -> Diagnostic:
    """The warning that a folder cannot be written."""
    return note(
        Kind.INPUT_MISMATCH,
        STAGE,
        f"the cache cannot be written, nothing is kept for the next run: {why}",
        at=str(folder) if folder else None,
        severity=Severity.WARNING,
    )


def _distrust_note(folder: Path) -> Diagnostic:
    return note(
        Kind.INPUT_MISMATCH,
        STAGE,
        "the cache folder belongs to another user and anybody may write it: code in it could be anybody's, "
        "so nothing is read from it, and nothing is kept for the next run",
        at=str(folder),
        severity=Severity.WARNING,
        hint="chmod o-w on the folder, or set EQSAT_CACHE_DIR to a folder of your own",
        owner=folder.stat().st_uid,
        user=os.geteuid(),
    )
