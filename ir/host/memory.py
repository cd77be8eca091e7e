"""Limits of this machine's memory. A value that does not fit is a diagnostic before its memory is allocated: a system
may promise more memory than it has, and kill the process that uses it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ir.diagnostics import Kind, fail

_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files in which Linux states the memory limit of a container, in bytes."""


@cache
def host_bytes() -> int:
    """Bytes of main memory that a process can use: the machine's, or fewer if a container limits them."""
    limits = [sys.maxsize]
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMIT_FILES:
        try:
            limits.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return min(limit for limit in limits if limit > 0)


def check_memory(nbytes: int, stage: str, what: str, at: str | None = None, **sizes: Any) -> None:
    """Raises EqsatError, ResourceExceeded, with `sizes` as details, if `what` does not fit in memory."""
    if nbytes > host_bytes():
        fail(Kind.RESOURCE_EXCEEDED, stage, too_large(nbytes, what), at=at, **sizes)


def too_large(nbytes: int, what: str) -> str:
    """The message that `what` takes `nbytes` bytes, and how many the machine has."""
    return f"{what} takes {bytes_text(nbytes)}, and this machine has {bytes_text(host_bytes())}"


@contextmanager
def memory_for(nbytes: int, stage: str, what: str, at: str | None = None, **sizes: Any) -> Iterator[None]:
    """A context in which `what`, which takes `nbytes` bytes, is allocated.

    Raises:
        EqsatError: ResourceExceeded, with `sizes` as details, if that is more than the machine has, or if an
            allocation fails.
    """
    check_memory(nbytes, stage, what, at, **sizes)
    try:
        yield
    except MemoryError:
        fail(Kind.RESOURCE_EXCEEDED, stage, f"there is no memory left for {what}: {bytes_text(nbytes)}", at=at, **sizes)


def bytes_text(nbytes: int) -> str:
    """A number of bytes for people: "1.5 GiB"."""
    size, units = float(nbytes), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{nbytes} bytes" if units[0] == "bytes" else f"{size:.1f} {units[0]}"
