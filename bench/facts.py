"""What a result was measured on: commit, machine, versions, and how quiet the machine was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
QUIET_LOAD = 0.3
"""Runnable tasks beside the bench above which its times are not to be trusted."""


def facts() -> dict[str, Any]:
    """Commit, date, load, versions and the machine with its measured peaks; takes about a second."""
    from eqsat.api import examine

    found = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "load": load()}
    found |= {name: _version(name) for name in ("torch", "onnxruntime")}
    return {**found, **examine()[0]}


def commit() -> str:
    """The commit of the working tree; "+" follows where it has changes."""
    head = _git("rev-parse", "--short", "HEAD")
    return head + "+" if _git("status", "--porcelain", "--untracked-files=no", "--", ":!bench/results") else head


def load() -> float:
    """Runnable tasks, over the last minute."""
    return round(os.getloadavg()[0], 2)


def warn_of_load() -> None:
    """A word on stderr where other work is under way."""
    if load() > QUIET_LOAD:
        print(f"load {load()}: this machine is not quiet, the times will not be typical", file=sys.stderr)


def write(name: str, about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Keep a result in `bench/results/`."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"facts": about, "rows": rows}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to {path}")


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return ""
    return answer.stdout.strip()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
