"""Ablation and fidelity of programs of a caller: what they choose, compare, count and write, and where they run."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from bench.programs import programs
from eqsat import EqsatError, nn
from eqsat import tensor as t
from eqsat.cost.roofline import TERM_NAMES
from eqsat.explanation.measurement import COLUMNS
from eqsat.extraction.covering.extractors import EXTRACTORS
from eqsat.find_target import find_target
from eqsat.studies.ablation import Ablation, ProgramAblation, ablate, ablate_program
from eqsat.studies.covers import RunningCover, Subject, agree
from eqsat.studies.fidelity import measure_fidelity
from eqsat.studies.knockout_rows import AblationRow, worth
from eqsat.studies.knockouts import EVERYTHING, Knockout, knockouts
from ir.diagnostics import Kind
from rules import FAMILIES
from tests.eqsat.studies.made_programs import broken, ending, small

TARGET = find_target("cpu")


@pytest.fixture(scope="module")
def workers() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


def test_there_is_a_knockout_of_everything() -> None:
    result = list(knockouts())
    assert [row.name for row in result if row.kind == "family"] == list(FAMILIES)
    assert [row.name for row in result if row.kind == "term"] == list(TERM_NAMES)
    assert {row.name for row in result if row.kind == "extractor"} == set(EXTRACTORS) - {EVERYTHING.extractor}
    assert "exact" not in {knockout.name for knockout in knockouts(("extractor",), slow=False)}
    assert len(programs()) >= 10


@pytest.mark.slow
def test_covers_differ_and_compute_the_same() -> None:
    subject = Subject(small, TARGET)
    running: list[RunningCover] = [subject.run(cover, 1) for cover in subject.sample_covers(2, 3.0)]
    assert len({str(kernel.prices) for kernel in running}) == 3
    prices = [kernel.predicted_ns for kernel in running]
    assert max(prices) <= 3 * prices[0]
    assert agree(running)
    running[-1]._inputs = [2 * buffer for buffer in running[-1]._inputs]
    assert not agree(running)


@pytest.mark.slow
def test_a_knockout_that_changes_nothing_shares_the_measurement(tmp_path: Path) -> None:
    tried = [EVERYTHING, Knockout("family", "logic", ("-logic",)), Knockout("family", "movement", ("-movement",))]
    result = ablate_program("small", small, {}, TARGET, rounds=1, tried=tried)
    base, same, other = result.rows
    assert (same.loss, same.measured_ns, same.kernels) == (1.0, base.measured_ns, base.kernels)
    assert other.kernels > base.kernels
    assert other.predicted_ns > base.predicted_ns
    assert len(result.measurements) == base.kernels + other.kernels
    study = Ablation({"small": result})
    for _ in range(2):
        study.write(tmp_path / "ablation")
    assert "family movement" in (tmp_path / "ablation" / "ablation.txt").read_text(encoding="utf-8")
    with (tmp_path / "measurements.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == COLUMNS
    assert len(rows) == 2 * len(result.measurements)
    assert float(rows[0][head.index("actual")]) == pytest.approx(result.measurements[0].measured_ns, rel=1e-4)


def test_what_a_knockout_is_worth() -> None:
    rows = [
        AblationRow("a", "", "everything on", 1, 100.0, 1.0, 1.0, 1.0, 0.1),
        AblationRow("a", "term", "cache", 2, 100.0, 2.0, 4.0, 4.0, 0.1),
        AblationRow("a", "term", "launch", 1, 100.0, 1.0, 1.0, 1.0, 0.1),
        AblationRow("b", "", "everything on", 1, 100.0, 1.0, 1.0, 1.0, 0.1),
        AblationRow("b", "term", "cache", 2, 400.0, 2.0, 1.0, 1.0, 0.1),
    ]
    cache, launch = worth(rows)
    assert (cache.name, cache.worst, cache.program) == ("cache", 4.0, "a")
    assert (cache.measured, cache.bytes, cache.kernels) == pytest.approx((2, 2, 2))
    assert launch.measured == 1


@pytest.mark.slow
def test_studies_run_on_the_processes_of_an_executor(workers: Executor, tmp_path: Path) -> None:
    heard: list[str] = []
    actual = ablate(
        {"small": small, "broken": broken},
        target="cpu",
        kinds=("extractor",),
        rounds=1,
        executor=workers,
        report=lambda name, result: heard.append(name),
    )
    assert heard == ["small", "broken"]
    assert [row.name for row in actual.rows] == [
        "everything on",
        *sorted({row.name for row in actual.rows[1:]}, key=list(EXTRACTORS).index),
    ]
    assert actual.failures["broken"].kind is Kind.AXIS_SIZE_MISMATCH
    study = measure_fidelity({"a/b c": small}, target="cpu", covers=2, rounds=1, executor=workers)
    study.write(tmp_path / "fidelity")
    assert {path.name for path in (tmp_path / "fidelity").iterdir()} == {"a_b_c.csv", "summary.csv"}
    assert len((tmp_path / "fidelity" / "a_b_c.csv").read_text().splitlines()) == 4
    assert "a/b c" in str(study)


def test_a_program_that_cannot_travel_is_named(workers: Executor) -> None:
    result = ablate({"lambda": lambda: small()}, target="cpu", kinds=(), executor=workers)
    assert "cannot travel to a worker" in str(result.failures["lambda"])


@pytest.mark.slow
def test_a_worker_that_ends_is_the_failure_of_its_program() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        result = ablate({"ending": ending}, target="cpu", kinds=(), executor=pool)
    assert result.failures["ending"].kind is Kind.RESOURCE_EXCEEDED


def test_a_dask_cluster_is_an_executor() -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        result = ablate({"small": small}, target="cpu", kinds=(), rounds=1, executor=client.get_executor())
    assert [row.program for row in result.rows] == ["small"]


@pytest.mark.parametrize(
    ("keywords", "said"),
    [({"executor": 2}, "not an int"), ({"target": "sm_80"}, "is a GPU"), ({"target": "cp"}, "no target 'cp'")],
)
def test_what_no_study_can_do_is_refused(keywords: dict[str, object], said: str) -> None:
    def raised() -> EqsatError:
        result = ablate({"small": small}, **keywords)  # type: ignore[arg-type]
        return result.failures["small"]

    try:
        error = raised()
    except EqsatError as caught:
        error = caught
    assert said in str(error)


def test_a_loop_is_refused() -> None:
    _, states = t.scan(lambda state, x: ((state + x).tanh(), state * x), t.input("s", (8,)), t.input("x", (5, 8)))
    result = ablate({"loop": states}, target="cpu", kinds=(), rounds=1)
    assert "has a loop" in str(result.failures["loop"])


@pytest.mark.slow
def test_programs_come_as_models_with_sizes() -> None:
    """A function of lazy tensors with symbols is a model, not a function that makes one."""
    model = t.program(lambda x: nn.softmax(x), t.input("x", ("B", 8)))
    result = ablate({"model": model, "unbound": model}, dims={"B": 4}, target="cpu", kinds=(), rounds=1)
    assert isinstance(result.programs["model"], ProgramAblation)
    result = ablate({"unbound": model}, target="cpu", kinds=(), rounds=1)
    assert result.failures["unbound"].kind is Kind.UNBOUND_DIM
