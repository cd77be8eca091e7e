"""Tries that kill or hang their worker. A worker imports this file alone, in no time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.fuzz.report import Report


def dying(kind: str, seed: int, tries: Sequence[int], folder: Path, at: Callable[[int | None], object]) -> Report:
    """Try 5 kills its process, try 9 hangs, try 13 kills while it is not known which try is under way."""
    for index in tries:
        at(index)
        if index == 5:
            os._exit(1)
        if index == 9:
            time.sleep(60)
        if index == 13:
            at(None)
            time.sleep(0.1)
            os._exit(1)
    return Report(tries=len(tries))
