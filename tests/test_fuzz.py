"""The fuzzer finds nothing: in a few tries always, in thousands among the slow tests."""

from __future__ import annotations

import pytest

from tests.support.fuzz_tries import run_chunk
from tests.support.fuzz_workers import fuzz

SEED = 0
TRIES = 4_000


def test_a_few_tries_find_nothing() -> None:
    report = run_chunk(1, 0, 120)
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.compiled > 10


@pytest.mark.slow
def test_mutated_programs_are_right_or_refused() -> None:
    """At least 30 % stay valid programs, one in ten is compiled and run, and nearly all that they compute is
    well-conditioned enough to be held against playback."""
    report = fuzz(TRIES, SEED)
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.tries == TRIES
    assert report.valid >= 0.3 * TRIES
    assert report.compiled >= 0.1 * TRIES
    assert report.judged >= 0.98 * report.elements
