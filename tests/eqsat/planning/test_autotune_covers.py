"""Autotuning chooses among covers too, ends in time, shares measurements among programs, and runs on executors."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat.planning.replanning as replanning
from eqsat import EqsatError, Program, optimize_and_compile
from eqsat import tensor as t
from ir.diagnostics import Kind
from ir.plan.plan import Plan
from ir.region.region import Region


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "plans"


def rows(x: str = "x") -> t.Tensor:
    y = t.input(x, (33, 24)).relu()
    return y / (y.sum(1, keepdims=True) + 1)


def tuned(source: Any = None, **keywords: Any) -> Program:
    choices = {"autotune": True, "threads": 1, "cache": False, **keywords}
    return optimize_and_compile(rows() if source is None else source, target="cpu", **choices)


def slow_if_large(region: Region, core: object, plans: Sequence[Plan], arrays: object, **_: object) -> list[float]:
    """Kernels of more than four ops take long."""
    return [1e6 if len(region.body) > 4 else 1e3] * len(plans)


@pytest.mark.slow
def test_a_cover_that_is_faster_as_measured_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    first = optimize_and_compile(rows(), target="cpu", threads=1)
    monkeypatch.setattr(replanning, "times_of", slow_if_large)
    program = tuned()
    assert len(program.kernels) > len(first.kernels)
    assert program.cost > first.cost
    (message,) = [
        diagnostic.message for diagnostic in program.diagnostics if "covers that were measured" in diagnostic.message
    ]
    assert "the estimate's choice took" in message
    program.verify()
    assert "cheaper by the estimate" in program.explain()


@pytest.mark.slow
def test_the_estimates_choice_stays_where_no_cover_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    first = optimize_and_compile(rows(), target="cpu", threads=1)
    monkeypatch.setattr(replanning, "times_of", lambda region, core, plans, *_, **__: [1e3] * len(plans))
    assert [kernel.name for kernel in tuned().kernels] == [kernel.name for kernel in first.kernels]


@pytest.mark.slow
def test_seconds_end_the_measurements(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def timer(region: Region, core: object, plans: Sequence[Plan], *_: object, **__: object) -> list[float]:
        asked.append(region.name)
        now[0] += 10.0
        return [1e3] * len(plans)

    now = [0.0]
    monkeypatch.setattr("eqsat.planning.replanning.time.monotonic", lambda: now[0])
    monkeypatch.setattr(replanning, "times_of", timer)
    program = tuned(autotune=15)
    assert len(asked) == 2
    assert len(list(folder.iterdir())) == 2
    program.verify()
    tuned(autotune=1e6)
    assert len(asked) > 2, "a later call measures the rest"


@pytest.mark.slow
def test_programs_share_the_measurements_of_equal_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    program = tuned()
    monkeypatch.setattr(replanning, "times_of", lambda *_, **__: pytest.fail("measured twice"))
    other = tuned(rows("another_name"))
    for place in range(len(program.kernels)):
        assert other.dump("plan", place) == program.dump("plan", place).replace("(x", "(another_name")


@pytest.mark.slow
def test_an_executor_measures(folder: Path) -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        program = tuned(executor=pool, autotune=60)
    assert list(folder.iterdir())
    x = np.ones((33, 24), np.float32)
    np.testing.assert_allclose(program(x), np.ones((33, 24)) / 25, rtol=1e-5)


def test_a_dask_cluster_measures(folder: Path) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        tuned(t.input("x", (8, 8)).exp().sum(1), executor=client.get_executor())
    assert list(folder.iterdir())


@pytest.mark.parametrize("wanted", [0, -1, float("nan"), float("inf"), "30", None])
def test_no_number_of_seconds_is_refused(wanted: Any) -> None:
    with pytest.raises(EqsatError, match="autotune= is True, False or a number of seconds") as caught:
        tuned(autotune=wanted)
    assert caught.value.kind is Kind.INVALID_OPTION


def test_an_executor_without_autotune_is_refused() -> None:
    for keywords in ({"executor": 3}, {"executor": ProcessPoolExecutor(1), "autotune": False}):
        with pytest.raises(EqsatError, match="executor="):
            tuned(**keywords)
