"""The values of a nest on a GPU: as `vector_evaluator`, with reductions by one thread."""

from __future__ import annotations

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.reduce_at_point import reduction
from codegen.lower.gpu.thread_evaluator import Evaluation, convert
from codegen.lower.gpu.vector_evaluator import VectorEvaluator
from codegen.lower.points import Point, Where
from ir.region.region import Op


class NestEvaluator(VectorEvaluator):
    """Evaluates all values at points of a nest."""

    def _compute(self, name: str, op: Op, point: Point, block: GpuBlock, where: Where) -> Evaluation:
        if op.kind == "reduce":
            return reduction(self, name, op, point, block, where)
        if op.kind == "scan" and op.axis is not None and op.domain[op.axis] == 1:
            how = self.joining(op)
            term = convert((yield self._operand(op.inputs[0], point, block, where)), how.source, how.dtype)
            return convert(term, how.dtype, op.dtype)
        return (yield super()._compute(name, op, point, block, where))
