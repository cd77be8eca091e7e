"""The least memory for each value of a region, and what must wait for what."""

from __future__ import annotations

from codegen.poly.value_sites import ACCUMULATORS
from ir.dtype import dtype
from ir.poly.core import PolyCore
from ir.poly.report import BankConflict, BarrierNeed, ComputeAt, MinBuffer
from ir.region.region import Definition, Operand, Region

STACK_BYTES = 4096
BANKS_BYTES = 128
SETS_BYTES = 4096
_MANY = 8


def min_buffers(region: Region, core: PolyCore, at: ComputeAt) -> tuple[MinBuffer, ...]:
    """Accumulators first, then the operands of contractions, the other values and the outputs.

    A contraction's accumulators stay in registers while the next stage of its operands loads: depth 2 both.
    """
    accumulators = [let for let in region.body if let.op.kind in ACCUMULATORS]
    kept = [_accumulator(core, at, let) for let in accumulators]
    staged = dict.fromkeys(
        each.value
        for let in accumulators
        if let.op.kind == "contraction"
        for each in let.op.inputs
        if isinstance(each, Operand)
    )
    others = [let.name for let in region.body if let.op.kind not in ACCUMULATORS and let.name not in staged]
    return (
        *kept,
        *(MinBuffer(name, "smem_ring", 2) for name in staged),
        *(MinBuffer(name, "reg") for name in others),
        *(MinBuffer(buffer.name, "gmem") for buffer in region.outputs),
    )


def barriers(region: Region) -> tuple[BarrierNeed, ...]:
    """What a pipeline of the region waits for on each GPU architecture, one hint per loop."""
    hints: list[BarrierNeed] = []
    for let in region.body:
        if let.op.kind == "contraction":
            hints.append(BarrierNeed("sm80", "cp.async.commit_group / wait_group", f"{let.name}.k"))
            hints.append(BarrierNeed("sm90", "mbarrier.arrive / try_wait", f"{let.name}.k"))
        elif let.op.kind in ACCUMULATORS:
            hints.append(BarrierNeed("sm80", "bar.sync", let.name))
            hints.append(BarrierNeed("sm90", "bar.sync", let.name))
    return tuple(hints)


def bank_conflicts(region: Region, core: PolyCore) -> tuple[BankConflict, ...]:
    """Accesses whose neighbours along an axis fall into the same 32 banks of 4 bytes, or into the same cache set
    (steps of 4096 bytes: 64 sets of 64-byte lines)."""
    dtypes = {buffer.name: buffer.memref.dtype for buffer in (*region.inputs, *region.outputs)}
    contractions = {let.name for let in region.body if let.op.kind == "contraction"}
    found: dict[BankConflict, None] = {}
    for access in core.accesses:
        for (axis, _), stride in zip(core.scopes[access.scope], access.strides, strict=True):
            step = abs(stride.step or 0) * dtype(dtypes[access.buffer]).bytes
            if stride.size < _MANY or step == 0:
                continue
            if access.scope in contractions and step % BANKS_BYTES == 0:
                found[BankConflict(access.buffer, axis, "smem_banks", "swizzle")] = None
            if step % SETS_BYTES == 0:
                found[BankConflict(access.buffer, axis, "cache_sets", "pack")] = None
    return tuple(found)


def _accumulator(core: PolyCore, at: ComputeAt, let: Definition) -> MinBuffer:
    nested = [each for each in at.slices if each.value == let.name]
    if nested:
        largest = max(each.bytes for each in nested)
        fits = largest <= STACK_BYTES
        return MinBuffer(let.name, "stack" if fits else "smem_ring" if at.ok else "gmem")
    if let.op.kind == "contraction":
        return MinBuffer(let.name, "reg", 2)
    axes = core.finished.get(let.name)
    outer = tuple(axis for axis, size in core.outer if size != 1)
    leads = axes is not None and axes == outer[: len(axes)]
    return MinBuffer(let.name, "reg" if leads else "stack")
