"""The ablation and fidelity benches on a program that takes a moment: what they choose, check, count and write."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path

import pytest

from bench import ablation, fidelity, log
from bench.ablation import ablate
from bench.covers import Running, Subject, agree, measure
from bench.knockout_rows import Row, worth
from bench.knockouts import EVERYTHING, Knockout, knockouts
from bench.programs import programs
from eqsat import nn
from eqsat import tensor as t
from eqsat.cost.roofline import Terms
from eqsat.explanation.measurement import COLUMNS
from eqsat.extraction.covering.extractors import EXTRACTORS
from eqsat.find_target import find_target
from rules import FAMILIES

TARGET = find_target("cpu")


def small() -> t.Tensor:
    return nn.softmax(t.input("x", (8, 16)) * 0.5) + 1.0


@pytest.fixture(scope="module")
def running() -> list[Running]:
    subject = Subject(small(), TARGET)
    return [subject.run(cover, 1) for cover in subject.sample_covers(3, 3.0)]


def test_there_is_a_knockout_of_everything() -> None:
    found = list(knockouts())
    assert [each.name for each in found if each.kind == "family"] == list(FAMILIES)
    assert [each.name for each in found if each.kind == "term"] == list(Terms.__struct_fields__)
    assert {each.name for each in found if each.kind == "extractor"} == set(EXTRACTORS) - {EVERYTHING.extractor}
    assert "exact" not in {each.name for each in knockouts(("extractor",), slow=False)}
    assert len(programs()) >= 10


@pytest.mark.slow
def test_covers_differ_and_compute_the_same(running: list[Running]) -> None:
    assert len(running) == 4
    assert len({str(each.prices) for each in running}) == 4
    prices = [each.predicted_ns for each in running]
    assert max(prices) <= 3 * prices[0]
    assert agree(running)
    running[-1]._inputs = [2 * each for each in running[-1]._inputs]
    assert not agree(running)


@pytest.mark.slow
def test_a_summary_is_a_csv_file_a_table_and_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(fidelity, "programs", lambda: {"small": small, "broken": broken})
    monkeypatch.setattr(fidelity, "calibrated_target", lambda again: TARGET)
    monkeypatch.setattr(log, "append", lambda target, program, launches, path: logged.append(program))
    monkeypatch.setattr("sys.argv", ["fidelity", "--covers", "3", "--rounds", "1", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="failed: broken"):
        fidelity.main()
    told = capsys.readouterr().out
    assert "broken               failed" in told
    assert logged == ["small"]
    names = {"small.csv", "summary.csv", "summary.txt", "predicted_against_measured.png"}
    assert {each.name for each in tmp_path.iterdir()} == names
    with (tmp_path / "small.csv").open(encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 5
    assert "mean rank" in (tmp_path / "summary.csv").read_text(encoding="utf-8")


def broken() -> t.Tensor:
    return t.input("x", (2, 3)) @ t.input("y", (2, 3))


@pytest.mark.slow
def test_each_measurement_is_a_row_of_the_log(running: list[Running], tmp_path: Path) -> None:
    measure(running, 2)
    assert all(0 < each.measured_ns < 1e9 for each in running)
    path = tmp_path / "log" / "measurements.csv"
    for _ in range(2):
        log.append(TARGET, "small", running[0].launches, path)
    with path.open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == COLUMNS
    assert {"FLOPs", "Bytes", "occ", "estimate", "actual", "plan"} <= set(head)
    assert len(rows) == 2 * len(running[0].prices)
    assert float(rows[0][head.index("estimate")]) == pytest.approx(running[0].prices[0].time_ns, rel=1e-4)


def test_a_knockout_that_changes_nothing_shares_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(log, "append", lambda target, program, launches, path: logged.append(program))
    tried = [EVERYTHING, Knockout("family", "logic", ("-logic",)), Knockout("family", "movement", ("-movement",))]
    base, same, other = ablate("small", small, TARGET, tried, 1, tmp_path / log.NAME)
    assert len(logged) == 2
    assert (same.loss, same.measured_ns, same.kernels) == (1.0, base.measured_ns, base.kernels)
    assert other.kernels > base.kernels
    assert other.predicted_ns > base.predicted_ns


def test_what_a_knockout_is_worth() -> None:
    rows = [
        Row("a", "", "everything on", 1, 100.0, 1.0, 1.0, 1.0, 0.1),
        Row("a", "term", "cache", 2, 100.0, 2.0, 4.0, 4.0, 0.1),
        Row("a", "term", "launch", 1, 100.0, 1.0, 1.0, 1.0, 0.1),
        Row("b", "", "everything on", 1, 100.0, 1.0, 1.0, 1.0, 0.1),
        Row("b", "term", "cache", 2, 400.0, 2.0, 1.0, 1.0, 0.1),
    ]
    cache, launch = worth(rows)
    assert (cache.name, cache.worst, cache.program) == ("cache", 4.0, "a")
    assert (cache.measured, cache.bytes, cache.kernels) == pytest.approx((2, 2, 2))
    assert launch.measured == 1


@pytest.mark.parametrize(
    "bench", ["scale", "calls", "growth", "tensat", "fidelity", "ablation", "peers", "gpu.__main__"]
)
def test_a_bench_of_nothing_tells_the_names(
    bench: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [bench, "--only", "no such name"])
    with pytest.raises(SystemExit) as ended:
        import_module(f"bench.{bench}").main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "--only: no" in told
    assert "'no such name'" in told
    assert {
        "scale": "encoder ×36",
        "calls": "decoder 128 ×12, called",
        "growth": "masks 107",
        "tensat": "NasNet-A",
        "peers": "ResNet-50",
        "gpu.__main__": "gemm",
    }.get(bench, "gated mlp") in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--kinds", "family,fam"], "'fam' is none of family, term, extractor"),
        (["--models", "squeeze"], "'squeeze' is none of bvlc_alexnet"),
        (["--rounds", "0"], "'0' is not a positive integer"),
    ],
)
def test_a_bench_refuses_words_that_stand_for_nothing(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ablation", *words])
    with pytest.raises(SystemExit) as ended:
        ablation.main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
