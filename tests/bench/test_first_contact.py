"""The first session on a GPU machine, rehearsed without one: what it carries, and each way in which it may fail."""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.device import facts as device_facts
from bench.facts import ROOT
from bench.gpu import __main__ as gpu
from bench.gpu import results as gpu_results
from bench.gpu import session as gpu_session
from bench.gpu.carry import ABSENT, NOT_IMPORTED, PRESENT, TooLargeError, check_size
from bench.gpu.journal import Journal
from bench.gpu.results import Results
from bench.gpu.tables import show_session
from bench.gpu.worker import LostError, NoStartError, Worker, working
from tests.support.gpu.answers import broken, failing_kernels

FACTS = {"device": "Emulated X-1", "cuda": 13, "versions": {"torch": "1"}, "source": "abc"}
TESTS = """
import os, time
from codegen.run.launch_log import note_launch

def test_good(): pass
def test_bad(): assert False
def test_hangs():
    note_launch("eq_first")
    note_launch("eq_second")
    time.sleep(60 if os.environ.get("HANGS") else 0)
def test_last(): pass
"""


# --- what is carried ---


def test_carried_wheels_and_the_machine_have_all_that_is_needed() -> None:
    """Every requirement of eqsat, of its tests, and of what is carried; what the machine has needs nothing more."""
    wanted, seen = ["eqsat[cuda]", "pytest", "pytest-xdist", "hypothesis"], set[str]()
    while wanted:
        requirement = Requirement(wanted.pop())
        name = canonicalize_name(requirement.name)
        if name in seen or name in NOT_IMPORTED:
            continue
        seen.add(name)
        for line in () if name in PRESENT else requires(name) or ():
            extras = [{"extra": extra} for extra in requirement.extras or ("",)]
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate(extra) for extra in extras):
                wanted.append(line.partition(";")[0])
    assert seen == {"eqsat", *ABSENT, *PRESENT}
    assert not {*ABSENT} & {*PRESENT}


def test_what_is_too_large_is_named(tmp_path: Path) -> None:
    wheel, source = tmp_path / "large.whl", tmp_path / "small.py"
    wheel.write_bytes(bytes(3 << 20))
    source.write_bytes(bytes(1 << 20))
    assert check_size([wheel], [source, tmp_path / "deleted"], 4 << 20) == 4 << 20
    with pytest.raises(TooLargeError, match=r"4.0 MiB are more than 3; the largest: large.whl 3.0, small.py 1.0"):
        check_size([wheel], [source], 3 << 20)


# --- a worker whose process or device fails ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("hang", "no answer within 1 s, while eqsat's kernel eq_second runs"),
        ("fault", "the process ended, while eqsat's kernel eq_second runs"),
        ("memory", "MemoryError: out of memory: 1 TiB"),
    ],
)
def test_the_kernel_that_fails_is_named(failure: str, reason: str) -> None:
    with working(failing_kernels) as worker:
        assert worker.ask("nothing", 30) == "nothing"
        with pytest.raises(LostError, match=reason):
            worker.ask(failure, 1)
        assert worker.ask("nothing", 30) == "nothing"


def test_where_no_worker_starts_no_case_is_tried(tmp_path: Path) -> None:
    results, late = Results(FACTS, tmp_path), time.monotonic() + 1000
    with pytest.raises(NoStartError, match="no device after all"):
        gpu.bench(results, ["a", "b"], Worker(broken), 0.1, late)
    assert not results.rows


def test_the_reason_why_there_is_no_device_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device_facts, "find_device", lambda: None)
    monkeypatch.setattr(device_facts, "has_driver", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SystemExit) as ended:
        device_facts.require_device()
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "ModuleNotFoundError: import of cupy halted" in line


# --- tests that hang, and slices ---


def test_a_journal_names_what_was_under_way(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    lines = (
        "passed\t\tt.py::a",
        "start\t1\tt.py::b",
        "start\t2\tt.py::e",
        "kernel\t1\teq_b",
        "passed\t2\tt.py::e",
        "start\t1\tt.py::c",
        "skipped\t1\tt.py::c",
        "start\t2\tu.py::d",
    )
    path.write_text("\n".join(lines), encoding="utf-8")
    result = Journal.read(path)
    assert result.outcomes == {
        "t.py::a": "passed",
        "t.py::b": "lost",
        "t.py::c": "skipped",
        "t.py::e": "passed",
        "u.py::d": "lost",
    }
    assert result.groups()["t.py"]["wrong"] == ["t.py::b: lost in the kernel eq_b"]
    assert result.groups()["u.py"]["wrong"] == ["u.py::d: lost"]
    assert Journal.read(tmp_path / "none").outcomes == {}


@pytest.mark.exhaustive
def test_a_session_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The first slice ends in a test that hangs; the second runs what has not passed, from the first one's file."""
    tests = tmp_path / "test_some.py"
    tests.write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.support.gpu.journal"]
    command += ["--rootdir", str(tmp_path), "-c", os.devnull, str(tests)]
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(gpu_session, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(gpu_results, "RESULTS", tmp_path / "committed")
    monkeypatch.setenv("HANGS", "yes")
    monkeypatch.setattr(gpu_session, "steps", lambda _: [gpu_session.Step("tests", 20, lambda _: command, tests=True)])
    first = tmp_path / "first"
    assert gpu_session.session(FACTS, first, time.monotonic() + 9) == 1
    shown = capsys.readouterr().out
    assert "test_some.py::test_hangs: lost in the kernel eq_second" in shown
    assert "test_some.py::test_bad: failed" in shown
    first.rename(tmp_path / "committed")
    monkeypatch.delenv("HANGS")
    second = tmp_path / "second"
    assert gpu_session.session(FACTS, second, time.monotonic() + 20) == 1
    row = Results(FACTS, second).steps["tests"]
    outcomes = {name.partition("::")[2]: outcome for name, outcome in row["outcomes"].items()}
    assert outcomes == {"test_good": "passed", "test_bad": "failed", "test_hangs": "passed", "test_last": "passed"}
    assert "1 failed, 2 passed, 1 deselected" in row["output"]


def test_a_session_without_time_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    results = Results(FACTS, tmp_path)
    results.keep_step({"step": "tests", "passed": False, "seconds": 1.0, "outcomes": {"t.py::a": "passed"}})
    monkeypatch.setattr(gpu_session, "steps", lambda _: [gpu_session.Step("tests", 20, lambda _: [], tests=True)])
    assert gpu_session.session(FACTS, tmp_path, time.monotonic()) == 0
    assert Results(FACTS, tmp_path).steps["tests"]["outcomes"] == {"t.py::a": "passed"}
    assert "steps are left: run the same command again" in capsys.readouterr().out
    show_session(Results(FACTS, tmp_path))
    assert "skipped, there was no time left" in capsys.readouterr().out


def test_the_module_of_the_worker_is_found_by_a_spawned_process() -> None:
    """`python -m bench.gpu` is `__main__`, whose names a spawned process does not find."""
    names = vars(gpu)
    assert names["answers"].__module__ == names["Request"].__module__ == "bench.gpu.answers"
