"""The report of seed 000 §7 on one region: Poly Core, its consequences in a form for people, and facts about the kernel
of the plan: where it keeps values, and where its threads wait.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ir.poly.core import PolyCore


class Dependence(msgspec.Struct, frozen=True):
    """`dst` must follow `src`: it reads (true), overwrites what was read (anti) or what was written (output).
    `relation` is an isl map from points of `src` to points of `dst`."""

    kind: Literal["true", "anti", "output"]
    src: str
    dst: str
    relation: str


class Halo(msgspec.Struct, frozen=True):
    """The elements that are read beyond the points that correspond to the outputs. per_axis: elements (before, after)
    along each outer axis; none along a reduced axis, since all of it is read. bytes: for the whole output."""

    bytes: int
    per_axis: dict[str, tuple[int, int]]


class MinBuffer(msgspec.Struct, frozen=True):
    """Where the kernel keeps a value between its producer and its readers; `depth` of a ring in stages.

    reg, stack         a thread's registers, its workspace
    box                a copy of all elements that a block of rows reads on a CPU, and of the padding around them
    packed             panels that each task of a CPU's kernel packs
    packed_once        panels that a CPU's kernel packs before its tasks
    const_pool         panels that were packed when the program was built
    const_parts        such panels of the smaller values from which a register tile computes the value
    smem_ring          a block's shared memory
    gmem               memory"""

    value: str
    buffer: Literal["reg", "stack", "box", "packed", "packed_once", "const_pool", "const_parts", "smem_ring", "gmem"]
    depth: int = 1


BarrierKind = Literal[
    "cp.async.commit_group / wait_group", "bar.sync", "bar.warp.sync", "wgmma.commit_group / wait_group"
]


class BarrierNeed(msgspec.Struct, frozen=True):
    """A wait of a GPU's kernel by a plan for `arch`. `at` is the loop over the terms of a value ("C0.k"), the loop over
    parts of the terms that blocks share ("C0.k.o"), or the value or buffer that threads put together."""

    arch: str
    kind: BarrierKind
    at: str


Apart = Literal["swizzle", "pad"]
"""How lines in shared memory are kept out of each other's banks."""


class BankConflict(msgspec.Struct, frozen=True):
    """A buffer in shared memory whose fibers would meet in the same banks, and the means that keeps them apart."""

    buffer: str
    advice: Apart


class PolyReport(msgspec.Struct, frozen=True):
    """Poly Core with its consequences and those of the plan. nested: accumulator → the accumulator in whose loops it is
    computed. buffers: the accumulators come first."""

    core: PolyCore
    nested: dict[str, str]
    halo: Halo
    dependences: tuple[Dependence, ...]
    buffers: tuple[MinBuffer, ...]
    barriers: tuple[BarrierNeed, ...]
    bank_conflicts: tuple[BankConflict, ...]

    def to_dump(self) -> dict[str, Any]:
        """The fields of seed 000 §7's report, then the rest of §7.1 by name."""
        core, halo, kept = self.core, self.halo, self.buffers[0]
        return {
            "analysis": {
                "parallel_axes": list(core.parallel_axes),
                "reduce_axes": list(core.reduce_axes),
                "tail_axes": list(core.tail_axes),
                "compute_at": {
                    "ok": core.legal,
                    "halo": {
                        "bytes": halo.bytes,
                        "per_axis": {
                            axis: before if before == after else [before, after]
                            for axis, (before, after) in halo.per_axis.items()
                        },
                    },
                    "nested": dict(self.nested),
                },
                "min_buffer": {"buffer": kept.buffer, "depth": kept.depth},
                "legal": core.legal,
                "reason": core.reason,
                "affine_closed": core.affine_closed,
                "finished": {name: list(core.outer_names(axes)) for name, axes in core.finished.items()},
                "dependences": [msgspec.to_builtins(dependence) for dependence in self.dependences],
                "barriers": [msgspec.to_builtins(barrier) for barrier in self.barriers],
                "bank_conflicts": [msgspec.to_builtins(conflict) for conflict in self.bank_conflicts],
                "buffers": {buffer.value: {"buffer": buffer.buffer, "depth": buffer.depth} for buffer in self.buffers},
            }
        }

    def __str__(self) -> str:
        """Poly Core, then a line for each nested accumulator, buffer, barrier, conflict and dependence."""
        halo = [f"{axis} {before}+{after}" for axis, (before, after) in self.halo.per_axis.items() if before or after]
        lines = [
            str(self.core),
            f"  halo {self.halo.bytes} bytes {' '.join(halo)}".rstrip(),
            *(f"  {inner} is computed inside the loops of {outer}" for inner, outer in self.nested.items()),
            *(f"  buffer {kept.value}: {kept.buffer}, depth {kept.depth}" for kept in self.buffers),
            *(f"  barrier {need.kind} at {need.at}" for need in self.barriers),
            *(f"  {conflict.advice} of {conflict.buffer}" for conflict in self.bank_conflicts),
            *(f"  {pair.kind} {pair.src} -> {pair.dst}: {pair.relation}" for pair in self.dependences),
        ]
        return "\n".join(lines)
