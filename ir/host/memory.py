"""What this machine's memory can hold. A value that cannot be held is a diagnostic before the system is asked for it,
since a system may promise more memory than it has, and end the process that uses it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ir.diagnostics import Kind, fail

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux tells how much memory a container may have."""


@cache
def host_bytes() -> int:
    """Bytes of main memory that a process can have here: the machine's, or less where a container or a limit of the
    process says so."""
    found = [sys.maxsize]
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        try:
            found.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return min(each for each in found if each > 0)


def check_memory(nbytes: int, stage: str, what: str, at: str | None = None, **sizes: Any) -> None:
    """Raises EqsatError, ResourceExceeded, with `sizes` as details, where `what` takes more than the machine has."""
    if nbytes > host_bytes():
        fail(Kind.RESOURCE_EXCEEDED, stage, too_large(nbytes, what), at=at, **sizes)


def too_large(nbytes: int, what: str) -> str:
    """That `what` takes so many bytes, and how many there are."""
    return f"{what} takes {shown(nbytes)}, and this machine has {shown(host_bytes())}"


@contextmanager
def memory_for(nbytes: int, stage: str, what: str, at: str | None = None, **sizes: Any) -> Iterator[None]:
    """Where `what` is made, which takes `nbytes` bytes.

    Raises:
        EqsatError: ResourceExceeded, with `sizes` as details, where that is more than the machine has, or more than the
            system gives.
    """
    check_memory(nbytes, stage, what, at, **sizes)
    try:
        yield
    except MemoryError:
        fail(Kind.RESOURCE_EXCEEDED, stage, f"there is no memory left for {what}: {shown(nbytes)}", at=at, **sizes)


def shown(nbytes: int) -> str:
    """A number of bytes for people: "1.5 GiB"."""
    size, units = float(nbytes), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{nbytes} bytes" if units[0] == "bytes" else f"{size:.1f} {units[0]}"
