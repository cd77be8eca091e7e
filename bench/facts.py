"""Facts about a measurement: commit, machine, versions, load, peak memory; and the file of its results."""

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
"""Load by other work (runnable tasks) above which times are not reliable."""


def facts() -> dict[str, Any]:
    """Commit, date, load, versions and the machine with its measured peaks; takes about a second."""
    from eqsat.api import examine

    about = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "load": load()}
    about |= {name: _version(name) for name in ("torch", "onnxruntime", "openvino", "jax")}
    return {**about, **examine()[0]}


def commit() -> str:
    """The commit of the working tree, followed by "+" if it has changes."""
    head = _git("rev-parse", "--short", "HEAD")
    return head + "+" if _git("status", "--porcelain", "--untracked-files=no", "--", ":!bench/results") else head


def load() -> float:
    """Mean number of runnable tasks in the last minute."""
    return round(os.getloadavg()[0], 2)


def peak_mebibytes() -> float:
    """Peak resident memory of this process; `ru_maxrss` may be its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def warn_of_load() -> None:
    """Warns on stderr if other work is running."""
    if load() > QUIET_LOAD:
        print(f"load {load()}: this machine is not quiet, the times will not be typical", file=sys.stderr)


def write(name: str, about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Writes a result to `bench/results/`."""
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
