"""The figures of seed 000 §11 for this machine, as `target="calibrated"` uses them: measured once and stored."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

from codegen.compile.machine import Machine, machine
from codegen.compile.toolchain import find_compiler
from codegen.measure.memory_speeds import MemorySpeeds, best_of, measure_memory
from codegen.measure.op_speeds import measure_weights
from codegen.measure.peaks import Peaks, measure_peaks
from ir.host.cache_folder import writable_cache
from ir.host.checked_file import read_checked, write_checked
from ir.serde import from_json


class Calibration(msgspec.Struct, frozen=True):
    """Figures measured on `machine` with `compiler`: peaks, memory, and the weights of `ir.target.Target`."""

    machine: Machine
    compiler: str
    peaks: Peaks
    memory: MemorySpeeds
    weights: dict[str, float]

    @property
    def cycle_ns(self) -> float:
        """The time in which a core starts two vector operations, as `ir.target.Target.cycle_ns`."""
        return cycle_ns(self.machine, self.peaks)


PASSES = 3
"""Measurements of every figure. The best counts, since other work on the machine only slows it."""
COPY_MEGABYTES = 96
"""Megabytes of each array that is copied: far above the last cache."""


def calibrate() -> Calibration:
    """Measure this machine. Takes a few seconds; measure on a quiet machine.

    Raises:
        EqsatError: NoCompiler where there is none.
    """
    on = machine()
    peaks = [measure_peaks(on, copy_megabytes=COPY_MEGABYTES) for _ in range(PASSES)]
    fastest = Peaks(
        fma_flops={n: max(peak.fma_flops[n] for peak in peaks) for n in peaks[0].fma_flops},
        copy_bytes={n: max(peak.copy_bytes[n] for peak in peaks) for n in peaks[0].copy_bytes},
        bf16_flops={n: max(peak.bf16_flops[n] for peak in peaks) for n in peaks[0].bf16_flops},
    )
    memory = [measure_memory(on) for _ in range(PASSES)]
    weights = [measure_weights(on, cycle_ns(on, fastest)) for _ in range(PASSES)]
    return Calibration(
        machine=on,
        compiler=str(find_compiler()),
        peaks=fastest,
        memory=best_of(memory),
        weights={name: min(weight[name] for weight in weights) for name in weights[0]},
    )


def cycle_ns(on: Machine, peaks: Peaks) -> float:
    """The time in which one core starts two vector operations, in ns, from the peak of all cores."""
    return 2e9 * on.fma_per_cycle * on.lanes * on.cores / peaks.fma_flops[on.cores]


def find_calibration(*, again: bool = False) -> Calibration:
    """The stored calibration of an equal machine and compiler; else, or if `again`, a new one, which is stored.

    Raises:
        EqsatError: NoCompiler where there is none.
    """
    path = _path(machine())
    if not again:
        try:
            return from_json(read_checked(path), Calibration)
        except (OSError, ValueError, msgspec.DecodeError):
            pass  # absent, damaged, or of another version
    measured = calibrate()
    with contextlib.suppress(OSError):  # then the next process measures again
        write_checked(path, msgspec.json.format(msgspec.json.encode(measured)))
    return measured


def _path(on: Machine) -> Path:
    """The file of this machine's figures, in the cache folder."""
    parts = msgspec.json.encode((on, str(find_compiler())))
    return writable_cache()[0] / "calibrations" / f"{hashlib.sha256(parts).hexdigest()[:16]}.json"
