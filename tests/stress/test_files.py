"""Killed processes, shared caches, damaged caches, full disks, in short."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.stress.caches import damaged_caches
from tests.stress.kills import after_kills, garbage
from tests.stress.processes import Place, answer, started


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_processes_after_those_that_were_killed(tmp_path: Path, kills: int) -> None:
    complaints, _ = after_kills(tmp_path, kills, seed=kills, whole_seconds=2.0)
    assert not complaints
    assert not garbage(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_processes_that_share_a_cache_which_somebody_deletes(tmp_path: Path, processes: int) -> None:
    place = Place.below(tmp_path)
    several = [started(place._replace(saved=Path()), count=1) for _ in range(processes)]
    while any(process.poll() is None for process in several):
        shutil.rmtree(place.cache, ignore_errors=True)
    for process in several:
        result = answer(process)
        assert not result.failure
        assert not result.refusal


@pytest.mark.parametrize(
    "rounds", [pytest.param(13, marks=pytest.mark.slow), pytest.param(130, marks=pytest.mark.exhaustive)]
)
def test_caches_with_one_damaged_file(rounds: int) -> None:
    assert not damaged_caches(rounds, seed=rounds)


@pytest.mark.exhaustive
def test_caches_with_many_damaged_files() -> None:
    assert not damaged_caches(60, seed=1, several=True)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [150, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (0, 1, 64))])
def test_a_disk_without_room(tmp_path: Path, blocks: int) -> None:
    """No file may grow beyond so many blocks of 512 bytes: programs run, or are refused by an EqsatError."""
    prefix = ("sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh")
    result = answer(started(Place.below(tmp_path), 1, prefix))
    assert not result.failure
    assert result.refusal
    assert "defect" not in result.refusal
    assert not garbage(tmp_path)


@pytest.mark.exhaustive
def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    place = Place.below(tmp_path)._replace(cache=Path("/proc/nobody/eqsat"))
    result = answer(started(place, 1))
    assert not result.failure
    assert not result.refusal
    assert any("nothing is kept for the next run" in note for note in result.notes)


@pytest.mark.exhaustive
def test_a_home_that_does_not_exist(tmp_path: Path) -> None:
    result = answer(started(Place.below(tmp_path), 1, EQSAT_CACHE_DIR="", XDG_CACHE_HOME="", HOME="/proc/nobody"))
    assert not result.failure
    assert not result.refusal
    assert result.notes
