"""Every stage of the golden programs is as the golden files have it, and the same whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs.golden_files import compare, difference, recorded_files
from tests.support.programs.golden_programs import PROGRAMS, printed_file, stages
from tests.support.sampling import first_few

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_stages_are_as_recorded(name: str, request: pytest.FixtureRequest) -> None:
    """A wanted change is recorded by `pytest --update-golden`."""
    compare(name, stages(name), request.config)


@first_few(1, "hash_seed", ["1", "20260"])
def test_stages_do_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    """Processes with other orders of sets of strings print what is recorded."""
    name = "causal_attention"
    command = [sys.executable, "-m", "tests.support.programs.golden_programs", name]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    printed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    recorded = "".join(printed_file(name, path.name, path.read_text("utf-8")) for path in recorded_files(name))
    assert printed == recorded, difference(name, recorded, printed)
