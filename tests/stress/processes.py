"""Processes that share one cache folder: run to their end, or killed before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SECONDS = 120


class Place(NamedTuple):
    """Where a process keeps its files: the cache, temporary files, a saved program."""

    cache: Path
    temporary: Path
    saved: Path

    @classmethod
    def below(cls, folder: Path) -> Place:
        """Folders below this one."""
        place = cls(folder / "cache", folder / "temporary", folder / "program.eqsat")
        place.temporary.mkdir(parents=True, exist_ok=True)
        return place


class Answer(NamedTuple):
    """What a process said: why its numbers are wrong or it has none, its notes on the cache, and the EqsatError that
    ended it."""

    failure: str
    notes: tuple[str, ...]
    refusal: str = ""


def started(place: Place, count: int = 3, prefix: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    """A process of `tests.stress.child` in a group of its own, behind a command that starts it."""
    own = {"EQSAT_CACHE_DIR": str(place.cache), "TMPDIR": str(place.temporary), "PYTHONPATH": str(ROOT)}
    command = [*prefix, sys.executable, "-m", "tests.stress.child", str(place.saved), str(count)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=ROOT,
        env={**os.environ, **own, **environment},
        start_new_session=True,
    )


def answer(process: subprocess.Popen[str], seconds: float = SECONDS) -> Answer:
    """What the process said at its end; it is killed where it does not end."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        killed(process)
        return Answer(f"does not end in {seconds:.0f} s", ())
    if process.returncode:
        return Answer(f"exit status {process.returncode}: {err[-2000:]}", ())
    said: Mapping[str, Any] = json.loads(out.splitlines()[-1])
    failure = f"wrong numbers of programs {said['wrong']}" if said["wrong"] else ""
    return Answer(failure, tuple(said["notes"]), said.get("refused", ""))


def killed(process: subprocess.Popen[str], alone: bool = False) -> None:
    """End the process at once, with all that it started unless `alone`."""
    if process.poll() is None:
        if alone:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def files_below(folder: Path) -> list[Path]:
    """Every file in a folder."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir())
