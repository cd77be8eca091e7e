"""The least time that a kernel takes on this machine, by its measured peaks."""

from __future__ import annotations

from typing import NamedTuple

from codegen.measure.calibration import find_calibration


class Limits(NamedTuple):
    """Peaks of the threads that run. flops: of fp32, per second. levels: the bytes that a level of memory holds → bytes
    per second, read plus written, from the nearest level on."""

    flops: float
    levels: dict[float, float]

    def seconds(self, flops: float, size: float) -> float:
        """The greater of the time for the FLOPs and of the time to move `size` bytes, in seconds."""
        rate = next(rate for capacity, rate in self.levels.items() if size <= capacity)
        return max(flops / self.flops, size / rate)


def measure_limits(threads: int) -> Limits:
    """The limits of this machine, from the calibration that `eqsat doctor` and `target="calibrated"` share."""
    calibration = find_calibration()
    on, memory = calibration.machine, calibration.memory
    share = min(threads, on.cores) / on.cores
    peak = max(rate for count, rate in calibration.peaks.fma_flops.items() if count <= max(threads, 1))
    beyond = memory.memory if share == 1 else memory.alone
    levels = {on.l2_bytes * on.cores * share: memory.l2 * share, on.l3_bytes: memory.l3 * share, float("inf"): beyond}
    return Limits(peak, levels)
