"""A profile is a table, rows of data, a CSV file and a Chrome trace."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from eqsat import EqsatError, Program, nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.explanation.measurement import COLUMNS
from eqsat.explanation.profile import Profile

TAG = "encoder.layers.0.attention.self.query"


@pytest.fixture(scope="module")
def program() -> Program:
    x, w = t.input("x", (16, 32)), t.input("w", (32, 32))
    with t.tagged(TAG):
        hidden = (x @ w).relu()
    return optimize_and_compile(nn.softmax(hidden) @ w, target="cpu", threads=1)


@pytest.fixture(scope="module")
def profile(program: Program) -> Profile:
    return program.profile(**program.random_inputs(), repeats=2)


def test_a_profile_prints_as_a_table_that_fits(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    head, *rows, last = str(profile).splitlines()
    for column in ("share", "measured", "estimated", "est/meas", "GFLOP/s", "GB/s", "bound"):
        assert column in head
    assert all(kernel.name in str(profile) for kernel in profile)
    assert last.startswith("total")
    assert "100.0 %" in last
    assert max(map(len, (head, *rows, last))) <= 80


@pytest.mark.parametrize("columns", [80, 120])
def test_long_names_fold_and_no_number_is_cut(
    profile: Profile, program: Program, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    first = msgspec.structs.replace(profile[0], name="dot_relu_" * 8, tags=("block." * 30 + "end",), measured_ns=9e7)
    result = program.kernels
    for reports in (Profile((first, *profile[1:])), type(result)((first, *profile[1:]))):
        lines = str(reports).splitlines()
        assert max(map(len, lines)) <= columns
        assert "90,000.0 µs" in str(reports)
        assert "dot_relu_" * 8 in "".join(line.partition(" ")[0] for line in lines)


def test_rows_are_flat_data(profile: Profile, program: Program) -> None:
    rows = profile.rows()
    assert [row["kernel"] for row in rows] == [kernel.name for kernel in program.kernels]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert rows[0]["gflop_per_s"] == pytest.approx(rows[0]["flops"] / rows[0]["measured_ns"])
    assert TAG in rows[0]["computes"]
    assert all(isinstance(value, str | int | float) for row in rows for value in row.values())
    assert program.kernels.rows()[0]["measured_ns"] is None


def test_csv_has_the_columns_of_the_log(profile: Profile, tmp_path: Path) -> None:
    profile.csv(tmp_path / "p.csv", "small")
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == COLUMNS
    first = dict(zip(head, rows[0], strict=True))
    assert (len(rows), first["program"], first["target"]) == (len(profile), "small", "cpu")
    assert float(first["actual"]) == pytest.approx(profile[0].measured_ns, rel=1e-4)
    assert "tile" in json.loads(first["plan"])


def test_a_trace_has_an_event_per_launch(profile: Profile, tmp_path: Path) -> None:
    profile.trace(tmp_path / "p.json", "small")
    head, *events = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    assert head["args"]["name"] == "small on cpu"
    assert [event["name"] for event in events] == [kernel.name for kernel in profile]
    for event, kernel in zip(events, profile, strict=True):
        assert event["ph"] == "X"
        assert event["dur"] == pytest.approx((kernel.measured_ns or 0) / 1e3)
        args = event["args"]
        assert (args["flops"], args["bytes"], args["estimated_ns"]) == (kernel.flops, kernel.bytes, kernel.estimated_ns)
    for one, following in pairwise(events):
        assert following["ts"] == pytest.approx(one["ts"] + one["dur"])


@pytest.mark.parametrize("write", ["csv", "trace"])
def test_a_file_that_cannot_be_written_is_a_diagnostic(profile: Profile, write: str, tmp_path: Path) -> None:
    with pytest.raises(EqsatError, match="cannot write the file"):
        getattr(profile, write)(tmp_path)
    with pytest.raises(EqsatError, match="is no path"):
        getattr(profile, write)(3)
