"""The processors that this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The processors in this process's affinity mask, or all where the system has none."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
