"""What the fuzzer found once is right for ever: each case of tests/found is compiled, run and judged again."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.compile.machine import arches_of, machine
from tests.fuzz import FOUND
from tests.support.fuzz.case import NONE, read_case

CASES = sorted(FOUND.glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    case = read_case(path)
    if case.setting.isa not in ("", *arches_of(machine())):
        pytest.skip(f"this machine has no {case.setting.isa}")
    assert case.complaint() == NONE
