"""The cycles that a nest waits for constants that memory gives in short pieces: a strip of columns of a matrix, for all
rows of the matrix, and then the next strip. One row by 768 x 2304 weights takes 360 us by strips of 64 columns, and 220
in the order of memory, on two cores of a Zen 4."""

from __future__ import annotations

from codegen.plan.cpu.cache_lines import PAGE_BYTES, STREAMED_LINE, hold_constants
from codegen.plan.region_loops import RegionLoops
from ir.dtype import DTYPES
from ir.plan.cpu import CpuNestPlan
from ir.target import CACHE_LINE_BYTES, Target


def piece_cycles(loops: RegionLoops, plan: CpuNestPlan, target: Target) -> float:
    """Cycles over all cores; 0 where the caches hold the constants of the program from call to call."""
    constants = {buffer.name: buffer.memref for buffer in loops.region.inputs if buffer.constant}
    if plan.lanes is None or hold_constants(sum(memref.nbytes for memref in constants.values()), target):
        return 0.0
    pieces = set()
    for access in loops.core.accesses:
        op = loops.ops.get(access.scope)
        if op is None or op.kind != "reduce" or access.buffer not in constants:
            continue
        item = DTYPES[constants[access.buffer].dtype].bytes
        steps = [abs(stride.step or 0) for stride in access.strides]
        own, terms = steps[: len(op.shape)], steps[len(op.shape) :]
        if 1 in own and plan.width * item < PAGE_BYTES // 2 < max(terms, default=0) * item:
            pieces.add(access.buffer)
    return sum(constants[name].nbytes for name in pieces) / CACHE_LINE_BYTES * 2 * STREAMED_LINE
