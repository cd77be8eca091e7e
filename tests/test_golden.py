"""Every stage of the seeds' walkthroughs is as the golden files have it, and the same whatever the hash seed."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden_programs import MODELS, stages

GOLDEN = Path(__file__).parent / "golden"
DIFF_LINES = 80


@pytest.mark.parametrize("name", MODELS)
def test_stages_are_as_recorded(name: str, request: pytest.FixtureRequest) -> None:
    """A wanted change is recorded by `pytest --update-golden`."""
    folder = GOLDEN / name
    found = stages(name)
    if request.config.getoption("--update-golden"):
        _record(folder, found)
        return
    recorded = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}
    assert sorted(recorded) == sorted(found)
    differences = [_difference(f"{name}/{file}", recorded[file], text) for file, text in found.items()]
    if any(differences):
        pytest.fail("\n".join(filter(None, differences)) + "\n(pytest --update-golden records it)", pytrace=False)


def test_stages_do_not_depend_on_the_hash_seed() -> None:
    """Other processes, with other orders of sets of strings, dump the same bytes."""
    first, second = _dumped("1"), _dumped("20260")
    assert first
    assert first == second, _difference("all", first, second)


def _record(folder: Path, found: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in found:
            path.unlink()
    for file, text in found.items():
        (folder / file).write_text(text, encoding="utf-8")


def _dumped(hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.support.golden_programs"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    root = Path(__file__).parent.parent
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout


def _difference(file: str, recorded: str, found: str) -> str:
    """A unified diff, its long end cut off; empty where there is none."""
    lines = list(
        difflib.unified_diff(
            recorded.splitlines(), found.splitlines(), f"golden/{file}", f"now/{file}", n=2, lineterm=""
        )
    )
    more = [f"… {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
    return "\n".join(lines[:DIFF_LINES] + more)
