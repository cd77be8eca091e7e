"""Every stage of the seeds' walkthroughs is as the golden files have it, and the same whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden_files import compare, difference
from tests.support.golden_programs import MODELS, stages


@pytest.mark.parametrize("name", MODELS)
def test_stages_are_as_recorded(name: str, request: pytest.FixtureRequest) -> None:
    """A wanted change is recorded by `pytest --update-golden`."""
    compare(name, stages(name), request.config)


def test_stages_do_not_depend_on_the_hash_seed() -> None:
    """Other processes, with other orders of sets of strings, dump the same bytes."""
    first, second = _dumped("1"), _dumped("20260")
    assert first
    assert first == second, difference("all", first, second)


def _dumped(hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.support.golden_programs"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    root = Path(__file__).parent.parent
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout
