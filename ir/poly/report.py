"""The report of seed 000 §7 on one region: Poly Core, and what follows from it for people and for pipelined plans.

No CPU plan asks for it, so it is made when it is dumped: halos and slices, the least buffers, what a pipeline on a
GPU waits for, and the dependences as isl maps.
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
    """What is read beyond the points that correspond to the outputs: elements (before, after) per outer axis (none
    per reduced axis, along which all is read anyhow), and bytes in all for the whole output."""

    bytes: int
    per_axis: dict[str, tuple[int, int]]


class Slice(msgspec.Struct, frozen=True):
    """The part of accumulator `value` that one point of its reader's outer axes needs (seed 003's preimage):
    `extent` elements per axis of the value, `bytes` in all; `recompute` is how often each element is computed
    when the slice is made anew for every point of the reader."""

    value: str
    reader: str
    extent: tuple[int, ...]
    bytes: int
    recompute: float


class ComputeAt(msgspec.Struct, frozen=True):
    """May the producers stay inside this kernel, and what it costs; `reason` says why not."""

    ok: bool
    halo: Halo
    slices: tuple[Slice, ...] = ()
    reason: str = ""


class MinBuffer(msgspec.Struct, frozen=True):
    """The least memory that a value needs between its producer and its consumers; `depth` in stages."""

    value: str
    buffer: Literal["reg", "stack", "smem_ring", "gmem"]
    depth: int = 1


class BarrierNeed(msgspec.Struct, frozen=True):
    """What must wait for what on a GPU of `arch`: `kind` is the instruction family, `at` the loop it stands in."""

    arch: Literal["sm80", "sm90"]
    kind: str
    at: str


class BankConflict(msgspec.Struct, frozen=True):
    """An access whose stride maps neighbours to few banks or cache sets, and the remedy."""

    buffer: str
    axis: str
    where: Literal["smem_banks", "cache_sets"]
    advice: str


class PolyReport(msgspec.Struct, frozen=True):
    """Poly Core with what follows from it. `min_buffer` starts with the accumulators."""

    core: PolyCore
    dependences: tuple[Dependence, ...]
    compute_at: ComputeAt
    min_buffer: tuple[MinBuffer, ...]
    barriers: tuple[BarrierNeed, ...]
    bank_conflicts: tuple[BankConflict, ...]

    def to_dump(self) -> dict[str, Any]:
        """The fields of seed 000 §7's report, then the rest of §7.1 by name."""
        core = self.core
        kept = self.min_buffer[0] if self.min_buffer else MinBuffer("", "reg")
        return {
            "analysis": {
                "parallel_axes": list(core.parallel_axes),
                "reduce_axes": list(core.reduce_axes),
                "tail_axes": list(core.tail_axes),
                "compute_at": {
                    "ok": self.compute_at.ok,
                    "halo": {
                        "bytes": self.compute_at.halo.bytes,
                        "per_axis": {
                            axis: before if before == after else [before, after]
                            for axis, (before, after) in self.compute_at.halo.per_axis.items()
                        },
                    },
                },
                "min_buffer": {"buffer": kept.buffer, "depth": kept.depth},
                "legal": core.legal,
                "reason": core.reason,
                "affine_closed": core.affine_closed,
                "finished": {name: list(axes) for name, axes in core.finished.items()},
                "dependences": [msgspec.to_builtins(each) for each in self.dependences],
                "barriers": [msgspec.to_builtins(each) for each in self.barriers],
                "bank_conflicts": [msgspec.to_builtins(each) for each in self.bank_conflicts],
                "buffers": {each.value: {"buffer": each.buffer, "depth": each.depth} for each in self.min_buffer},
            }
        }

    def __str__(self) -> str:
        """Poly Core, then a line per buffer, slice, barrier, conflict and dependence."""
        at = self.compute_at
        halo = [f"{axis} {before}+{after}" for axis, (before, after) in at.halo.per_axis.items() if before or after]
        lines = [
            str(self.core),
            f"  compute_at: {'ok' if at.ok else at.reason}; halo {at.halo.bytes} bytes {' '.join(halo)}".rstrip(),
            *(f"  slice of {each.value} for {each.reader}: {each.extent}, {each.bytes} bytes" for each in at.slices),
            *(f"  buffer {each.value}: {each.buffer}, depth {each.depth}" for each in self.min_buffer),
            *(f"  barrier {each.kind} at {each.at} on {each.arch}" for each in self.barriers),
            *(
                f"  {each.where} conflict of {each.buffer} along {each.axis}: {each.advice}"
                for each in self.bank_conflicts
            ),
            *(f"  {each.kind} {each.src} -> {each.dst}: {each.relation}" for each in self.dependences),
        ]
        return "\n".join(lines)
