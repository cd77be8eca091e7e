"""Parts are covered by worker processes as by this process, and by this process where workers fail."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from eqsat.building import cover_parts, workers
from eqsat.building.job import CoverAnswer, CoverJob
from eqsat.clock import Clock
from eqsat.find_target import find_target
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.looping.parts import Part
from eqsat.make_artifact import make_artifact
from eqsat.model import BoundModel, read_model
from eqsat.options import ON_TARGET, Options
from eqsat.runtime.artifact import Artifact
from ir.diagnostics import EqsatError, Kind
from tests.eqsat.looping.test_find_pieces import widening

CPU = find_target("cpu")


@pytest.fixture(scope="module")
def bound() -> BoundModel:
    """A program of three parts."""
    return read_model(tensor_to_tiny(widening(9))[0], {}).bind({}, strict=False)


def made(bound: BoundModel, folder: Path, **options: Any) -> Artifact:
    return make_artifact(bound, CPU, Options(**options), ON_TARGET, Clock(), folder)


@pytest.fixture(scope="module")
def alone(bound: BoundModel, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The program that this process makes without workers."""
    return made(bound, tmp_path_factory.mktemp("alone"))


@pytest.mark.slow
def test_workers_choose_the_same_kernels(bound: BoundModel, alone: Artifact, tmp_path: Path, monkeypatch: Any) -> None:
    answers: list[CoverAnswer | None] = []
    ask = workers.Worker.cover

    def listen(worker: workers.Worker, job: CoverJob) -> CoverAnswer | None:
        answers.append(ask(worker, job))
        return answers[-1]

    monkeypatch.setattr(workers.Worker, "cover", listen)
    monkeypatch.setattr(cover_parts, "LEAST_UOPS", 1)
    monkeypatch.setenv("EQSAT_WORKERS", "1")
    helped = made(bound, tmp_path)
    assert [answer for answer in answers if answer is not None and answer.pickled]
    assert (helped.contract, helped.units, helped.prices) == (alone.contract, alone.units, alone.prices)


@pytest.mark.slow
def test_this_process_covers_what_workers_leave(
    bound: BoundModel, alone: Artifact, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(workers, "_START", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr(workers._COVERERS, "_idle", [])
    monkeypatch.setattr(cover_parts, "LEAST_UOPS", 1)
    monkeypatch.setenv("EQSAT_WORKERS", "2")
    assert made(bound, tmp_path).units == alone.units


def test_errors_are_those_of_this_process(bound: BoundModel, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(cover_parts, "LEAST_UOPS", 1)
    monkeypatch.setenv("EQSAT_WORKERS", "1")
    with pytest.raises(EqsatError, match="no such family"):
        made(bound, tmp_path, rules=("no such family",))


@pytest.mark.parametrize("count", ["some", "-1"])
def test_a_number_of_workers_that_is_no_count_is_refused(
    count: str, bound: BoundModel, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("EQSAT_WORKERS", count)
    with pytest.raises(EqsatError) as caught:
        made(bound, tmp_path)
    assert caught.value.kind is Kind.INVALID_OPTION
    assert count in str(caught.value)


def test_workers_are_left_out_where_they_do_not_pay(
    bound: BoundModel, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    part = Part("main", bound.graph, {}, (), ())
    monkeypatch.delenv("EQSAT_WORKERS")
    monkeypatch.setattr(cover_parts, "usable_cores", lambda: 16)
    assert cover_parts._count_workers([part] * 30, Options()) == cover_parts.MOST_WORKERS
    assert cover_parts._count_workers([part] * 3, Options()) == 2
    assert cover_parts._count_workers([part], Options()) == 0
    assert cover_parts._count_workers([part] * 3, Options(rules=("mine@0123",))) == 0
    with caplog.at_level(logging.INFO, logger="eqsat.rules"):
        assert cover_parts._count_workers([part] * 3, Options()) == 0
