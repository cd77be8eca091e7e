"""A calibration with made-up figures, for tests that must not measure."""

from __future__ import annotations

from codegen.compile.machine import machine
from codegen.measure.calibration import Calibration
from codegen.measure.memory_speeds import MemorySpeeds
from codegen.measure.peaks import Peaks

MEMORY = MemorySpeeds(
    l2=200e9, l3=100e9, memory=40e9, alone=30e9, vector_ns=0.125, lane_ns=0.15, far_ns=0.9, call_ns=20.0, fork_ns=400.0
)
_DEAR = {"fdiv": 3.0, "sqrt": 7.0, "exp": 12.0, "log": 29.0, "tanh": 29.0, "erf": 43.0, "sin": 51.0, "pow": 400.0}


def calibration() -> Calibration:
    """Round figures for this machine."""
    on = machine()
    peaks = {n: 256e9 * n for n in sorted({1, on.cores})}
    weights = {f"{fn} fp32": weight for fn, weight in _DEAR.items()}
    return Calibration(on, "cc", Peaks(peaks, dict.fromkeys(peaks, 30000000000.0), {}), MEMORY, weights)
