"""Worker processes: the same programs as in this process, errors across the pipe, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat.building import workers
from eqsat.building.workers import can_build_apart, make_apart
from eqsat.clock import Clock
from eqsat.find_target import find_target
from eqsat.make_artifact import make_artifact
from eqsat.model import BoundModel, read_model
from eqsat.options import ON_TARGET, Budget, Options
from ir.diagnostics import EqsatError, Kind

CPU = find_target("cpu")
TEXT = "%x: fp32[4, 8] = input()\n%w: fp32[4, 8] = input()\n%a = mul(%x, %w)\n%y = relu(%a)"


@pytest.fixture
def bound() -> BoundModel:
    model = read_model(TEXT, {"w": np.ones((4, 8), np.float32)})
    return model.bind({}, strict=False)


@pytest.mark.slow
def test_a_worker_makes_the_same_program(bound: BoundModel, tmp_path: Path) -> None:
    stages: list[str] = []
    artifact = make_apart(bound, CPU, Options(), ON_TARGET, Clock(stages.append), tmp_path)
    assert stages[:2] == ["saturate", "extract"]
    here = make_artifact(bound, CPU, Options(), ON_TARGET, Clock(), tmp_path)
    assert (artifact.contract, artifact.units, artifact.prices) == (here.contract, here.units, here.prices)
    assert list(tmp_path.rglob("*.so")), "the worker leaves the machine code in the cache"


@pytest.mark.slow
def test_a_worker_is_asked_again_and_replaced_when_it_has_ended(bound: BoundModel, tmp_path: Path) -> None:
    for _ in range(2):
        make_apart(bound, CPU, Options(), ON_TARGET, Clock(), tmp_path)
    (worker, *_) = idle = workers._BUILDERS._idle
    count = len(idle)
    worker._process.kill()
    worker._process.wait()
    make_apart(bound, CPU, Options(), ON_TARGET, Clock(), tmp_path)
    assert len(workers._BUILDERS._idle) == count


def test_errors_cross_the_pipe(bound: BoundModel, tmp_path: Path) -> None:
    with pytest.raises(EqsatError) as caught:
        make_apart(bound, CPU, Options(rules=("no such family",)), ON_TARGET, Clock(), tmp_path)
    assert caught.value.kind is Kind.INVALID_OPTION
    assert "no such family" in str(caught.value)


def test_a_worker_that_is_killed_is_an_error(bound: BoundModel, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(workers, "_START", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr(workers._BUILDERS, "_idle", [])
    with pytest.raises(EqsatError, match="signal 9") as caught:
        make_apart(bound, CPU, Options(), ON_TARGET, Clock(), tmp_path)
    assert caught.value.kind is Kind.RESOURCE_EXCEEDED


def test_rules_of_the_caller_stay_in_this_process() -> None:
    assert can_build_apart(Options(budget=Budget(nodes=10)))
    assert not can_build_apart(Options(rules=("mine@0123",)))


ENDS = """
import sys, threading, numpy as np, os
from eqsat import optimize_and_compile
from eqsat.building import workers
program = optimize_and_compile("%x: fp32[M, 4] = input()\\n%y = relu(%x)", threads=1, cache=False)
threading.Thread(target=lambda: program(np.ones((3, 4), np.float32)), daemon=True).start()
program.prepare(M=2)
print(workers._BUILDERS._idle[0]._process.pid, flush=True)
program.prepare(M=range(5, 50), background=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["end", "kill"])
def test_workers_and_threads_end_with_the_process(how: str) -> None:
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", ENDS, how], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == (0 if how == "end" else -signal.SIGKILL), done.stderr
    pid = int(done.stdout.split()[0])
    while is_alive(pid) and time.monotonic() - started < 60:
        time.sleep(0.01)
    assert not is_alive(pid)


def is_alive(pid: int) -> bool:
    try:
        return "eqsat.building.worker" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


@pytest.mark.slow
def test_the_threads_of_a_forked_child_do_not_use_the_parents_workers(bound: BoundModel, tmp_path: Path) -> None:
    make_apart(bound, CPU, Options(), ON_TARGET, Clock(), tmp_path)
    child = os.fork()
    if child == 0:
        os._exit(len(workers._BUILDERS._idle))
    assert os.waitpid(child, 0)[1] == 0
    assert workers._BUILDERS._idle
    make_apart(bound, CPU, Options(), ON_TARGET, Clock(), tmp_path)
