"""How every SSA value of a region is evaluated at a point: as `lane_evaluator`, with reductions, scans and streams."""

from __future__ import annotations

from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.lane_evaluator import Evaluation, LaneEvaluator
from codegen.lower.cpu.reduce_at_point import reduction
from codegen.lower.cpu.scan_at_point import scan
from codegen.lower.cpu.stream_at_point import stream
from codegen.lower.points import Point, Where
from ir.region.region import Op


class RegionEvaluator(LaneEvaluator):
    """Evaluates all values of one region into blocks, contractions aside."""

    def _compute(self, name: str, op: Op, point: Point, block: CpuBlock, where: Where) -> Evaluation:
        match op.kind:
            case "reduce":
                return reduction(self, name, op, point, block, where)
            case "stream":
                return stream(self, name, point, block, where)
            case "scan":
                return scan(self, name, op, point, block, where)
        return (yield super()._compute(name, op, point, block, where))
