"""Damaged saved programs and cache entries: every outcome is an EqsatError or a right result, and nothing crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHORT = {"files-bytes-cpu": 30, "files-fields-cpu": 30, "files-sealed-cpu": 30, "entries-fields-cpu": 4}
LONG = {
    **dict.fromkeys(("files-bytes-cpu", "files-fields-cpu", "files-sealed-cpu"), 2000),
    **dict.fromkeys(("entries-bytes-cpu", "entries-fields-cpu", "entries-sealed-cpu", "files-recompile-cpu"), 400),
    **dict.fromkeys(("files-fields-sm_80", "files-sealed-sm_80", "entries-fields-sm_80"), 100),
}
"""Trials, by what is damaged, how, and the target."""


def trials(folder: Path, mode: str, seed: int, count: int) -> list[str]:
    """What came of so many trials, made in a process of its own."""
    environment = {**os.environ, "EQSAT_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-m", "tests.support.damage.damaged_files", str(folder), mode, str(seed), str(count)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"the process ended with {done.returncode} in {lines[-1:]}\n{done.stderr[-3000:]}"
    assert len(lines) == count
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("mode", SHORT)
def test_damage_is_found_or_harmless(mode: str, tmp_path: Path) -> None:
    wrong = [trial for trial in trials(tmp_path, mode, 5, SHORT[mode]) if "-> WRONG" in trial]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", LONG)
def test_much_damage_is_found_or_harmless(mode: str, seed: int, tmp_path: Path) -> None:
    wrong = [trial for trial in trials(tmp_path, mode, 100 + seed, LONG[mode]) if "-> WRONG" in trial]
    assert not wrong, "\n".join(wrong)
