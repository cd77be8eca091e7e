"""What `eqsat doctor` measures, where it is kept, and the Target that is made of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import codegen.measure.calibration as calibration_
from codegen.compile.machine import machine
from codegen.measure.calibration import Calibration, find_calibration
from codegen.measure.doctor import figures
from codegen.measure.memory_speeds import best_of
from eqsat import optimize_and_compile
from eqsat import tensor as t
from eqsat.cost.roofline import peak
from eqsat.find_target import find_target
from eqsat.model import read_model
from eqsat.options import Options
from eqsat.runtime.artifact_cache import key_of
from tests.support.stages.calibrations import MEMORY, calibration


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Calibration]:
    """The calibrations that were measured, in an empty cache."""
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path))
    results: list[Calibration] = []

    def measured() -> Calibration:
        result = calibration()
        slower = msgspec.structs.replace(result.memory, call_ns=20.0 + len(results))
        results.append(msgspec.structs.replace(result, memory=slower))
        return results[-1]

    monkeypatch.setattr(calibration_, "calibrate", measured)
    return results


def test_figures_are_measured_once_and_kept(counted: list[Calibration], tmp_path: Path) -> None:
    first = find_calibration()
    assert find_calibration() == first
    assert len(counted) == 1
    assert find_calibration(again=True) != first
    assert find_calibration() == counted[1]
    (file,) = (tmp_path / "calibrations").glob("*.json")
    file.write_text("{}")
    assert find_calibration() == counted[2]


def test_a_target_of_what_was_measured(counted: list[Calibration]) -> None:
    target, here = find_target("calibrated"), machine()
    assert target == find_target("calibrated")
    assert peak(target, "fp32") * target.fma_per_cycle / 2 == pytest.approx(256e9 * here.cores)
    assert target.cycle_ns == pytest.approx(counted[0].cycle_ns)
    assert (target.bandwidth, target.unit_bandwidth, target.cache_bandwidth, target.l2_bandwidth) == (
        40e9, 30e9, 100e9, 200e9,
    )  # fmt: skip
    assert (target.launch_ns, target.call_ns) == (420, 20)
    assert target.vector_cycles == pytest.approx(0.125 / target.cycle_ns)
    assert target.weights["exp fp32"] == 12
    assert target.arch == here.arch


def test_what_was_measured_moves_only_who_asks_for_it(counted: list[Calibration]) -> None:
    nominal = find_target("cpu")
    slow = find_target("calibrated")
    find_calibration(again=True)
    slower = find_target("calibrated")
    assert find_target("cpu") == find_target("auto") == nominal
    bound = read_model(t.input("x", (64,)).exp()).bind({}, False)
    keys = {key_of(bound, target, Options()) for target in (nominal, slow, slower)}
    assert len(keys) == 3
    program = optimize_and_compile(t.input("x", (64,)).exp(), target="calibrated", threads=1)
    assert "calibrated" in repr(program)


def test_each_figure_counts_at_its_best() -> None:
    noisy = msgspec.structs.replace(MEMORY, l2=1e9, far_ns=5.0, fork_ns=10.0)
    best = best_of([MEMORY, noisy])
    assert best == msgspec.structs.replace(MEMORY, fork_ns=10.0)


def test_figures_for_people() -> None:
    shown = figures(calibration())
    assert shown["copies"] == "200 GB/s in L2, 100 GB/s in L3, 40 GB/s in memory, 30 GB/s by one core"
    assert "pow 400" in shown["additions-worth, fp32"]


@pytest.mark.slow
def test_measured_figures_have_the_units_that_they_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration_, "PASSES", 1)
    result = find_calibration()
    memory = result.memory
    for speed in (memory.l2, memory.l3, memory.memory, memory.alone):
        assert 1e8 < speed < 1e13
    for ns in (memory.vector_ns, memory.lane_ns, memory.far_ns):
        assert 0 <= ns < 100
    assert 1 <= memory.call_ns < 1e5
    assert all(0.01 < weight < 1e4 for weight in result.weights.values())
