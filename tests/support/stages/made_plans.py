"""Plans that fit no region, for tests that look only at plans."""

from __future__ import annotations

from typing import Any

from ir.plan.cpu import CpuNestPlan, PlannedLoop
from ir.plan.gpu import BlockPlaces, ContractionTile, GpuContractionPlan, Staging


def gpu_plan(
    sizes: tuple[int, int, int], warp: tuple[int, int] = (64, 64), stages: int = 4, width: int = 8
) -> GpuContractionPlan:
    """A matrix product of halves on tensor cores."""
    rows, columns = (Staging(side, "bf16", along_k=not side, width=8, copied=True) for side in (0, 1))
    return GpuContractionPlan(
        arch="sm80",
        pattern="matmul",
        tile=ContractionTile(*sizes, *warp, stages, rows, columns, "staged", width),
        places=BlockPlaces("z", "y", "x"),
        operands=("A", "B"),
        kernel_arch="sm80",
        sums="C",
        result="C",
    )


def nest_plan(*tiles: int, lanes: int | None, width: int, arch: str = "avx512", **fields: Any) -> CpuNestPlan:
    """A nest with one loop per axis, in blocks of this many points."""
    loops = tuple(PlannedLoop((axis,), tile) for axis, tile in enumerate(tiles))
    return CpuNestPlan(**{"arch": arch, "loops": loops, "lanes": lanes, "width": width, "rescaled": 8, **fields})
