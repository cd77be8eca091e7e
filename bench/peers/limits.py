"""The least time that a kernel takes on this machine, by its measured peaks."""

from __future__ import annotations

from typing import NamedTuple

from codegen.measure.calibration import find_calibration


class Limits(NamedTuple):
    """Peaks of the threads that run. flops: of fp32, per second; bf16_flops: of bf16, where an instruction multiplies
    it. levels: the bytes that a level of memory holds → bytes per second, read plus written, from the nearest level on.
    """

    flops: float
    levels: dict[float, float]
    bf16_flops: float | None = None

    def seconds(self, flops: float, size: float, dtype: str) -> float:
        """The greater of the times, in seconds, for the FLOPs in a dtype of torch and to move `size` bytes."""
        rate = next(rate for capacity, rate in self.levels.items() if size <= capacity)
        peak = self.bf16_flops if dtype == "bfloat16" and self.bf16_flops else self.flops
        return max(flops / peak, size / rate)


def measure_limits(threads: int) -> Limits:
    """The limits of this machine, from the calibration that `eqsat doctor` and `target="calibrated"` share."""
    calibration = find_calibration()
    on, memory = calibration.machine, calibration.memory
    share = min(threads, on.cores) / on.cores
    fma, bf16 = (
        max((rate for count, rate in rates.items() if count <= max(threads, 1)), default=None)
        for rates in (calibration.peaks.fma_flops, calibration.peaks.bf16_flops)
    )
    assert fma is not None
    beyond = memory.memory if share == 1 else memory.alone
    levels = {on.l2_bytes * on.cores * share: memory.l2 * share, on.l3_bytes: memory.l3 * share, float("inf"): beyond}
    return Limits(fma, levels, bf16)
