"""Poly Core's report (seed 000 §7): what the index sets of a region allow, and what they ask for.

A region runs in *scopes*, each a box of loops. The outer scope is that of the outputs: its axes are `i0, i1, …` of
the first output and its name is that buffer's. Every accumulator (contraction, reduce, scan) opens a scope of
its own, named by its value: its axes are `i0, i1, …` of that value, then the reduced ones `r0, r1, …`. All
axis names of this report are those of the scope it names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from ir.axis_map import AxisMap


class Dependence(msgspec.Struct, frozen=True):
    """`dst` must follow `src`: it reads (true), overwrites what was read (anti) or what was written (output).
    `relation` is an isl map from points of `src` to points of `dst`."""

    kind: Literal["true", "anti", "output"]
    src: str
    dst: str
    relation: str


class Site(msgspec.Struct, frozen=True):
    """Value `value` is computed in `scope`, at `map` of the scope's point (a map to the value's own axes).

    A value inlined in two scopes, or at two maps, has two sites: it is recomputed. The map of an accumulator in
    the outer scope only picks axes: the accumulator is finished before the axes it does not depend on."""

    value: str
    scope: str
    map: AxisMap


class Halo(msgspec.Struct, frozen=True):
    """What is read beyond the points that correspond to the outputs: elements (before, after) per outer axis,
    and bytes in all for the whole output."""

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


class OperandRead(msgspec.Struct, frozen=True):
    """An operand is computed from buffer `buffer`, read at `map` of a contraction's digits."""

    buffer: str
    map: AxisMap


class Roles(msgspec.Struct, frozen=True):
    """A contraction's loops, by the operands that move along them.

    The loops are the output's axes `i0, i1, …`, then the reduced ones `r0, r1, …`, each cut into *digits* where a
    map divides it (`i1/64` and `i1%64` of an axis read at `i1//64` and `i1%64`), so that all maps are affine
    wherever they can be:

        C[batch, m, n] = Σ_k  lhs[batch, m, k] · rhs[batch, k, n]

    names, sizes  of the digits, outer first; the first `rank` of them are the output's
    batch, m, n   positions of the output's digits moved by both operands, by the lhs only or neither, by the rhs only
    k             positions of the reduced digits, whichever operand they move
    out, point    digits → the coordinates of the outputs, and the point of the op's domain
    reads         per operand, the buffers it is computed from

    Digits of one point have no role.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    rank: int
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    out: AxisMap
    point: AxisMap
    reads: tuple[tuple[OperandRead, ...], tuple[OperandRead, ...]]

    def extent(self, group: Iterable[int]) -> int:
        """Points of a group of digits."""
        return math.prod(self.sizes[position] for position in group)

    def named(self, group: Iterable[int]) -> tuple[str, ...]:
        """The names of a group of digits."""
        return tuple(self.names[position] for position in group)


class Stride(msgspec.Struct, frozen=True):
    """How one access to memory moves along one axis of its scope.

    step: elements per step of the axis; None where that is not a constant (a floordiv).
    run: along how many neighbours, from every multiple of `run`, the access moves by `run_step` per step: the
    axis' whole size and `step` where it is affine; 4 and 1 for `4*(x//4) + x%4`-like re-splits; 1 where nothing
    is known.
    guarded: the access is padded somewhere along this axis. interior: the half-open range of the axis in which it
    never is because of this axis, whatever the others are; the whole axis when not guarded.
    """

    axis: str
    size: int
    step: int | None
    run: int
    run_step: int
    guarded: bool
    interior: tuple[int, int]

    def within(self, width: int) -> int | None:
        """Elements per step inside every vector of `width` neighbours that starts at a multiple of it; None where
        that is not one number."""
        if self.step is not None:
            return self.step
        return self.run_step if self.run % width == 0 else None


class MemoryAccess(msgspec.Struct, frozen=True):
    """One read of a buffer by value `value` (its input number `input`), or the write of an output (`input` -1,
    `value` the value yielded), over the axes of `scope`.

    `map` is the access in the scope's axes, already composed through the values between. `base` is the linear
    offset in elements at the scope's origin, when every stride has a step. A gather's data-dependent coordinate
    counts as 0 and `indirect` gives its position.
    """

    value: str
    input: int
    buffer: str
    scope: str
    map: AxisMap
    strides: tuple[Stride, ...]
    base: int | None
    indirect: int | None = None

    def stride(self, axis: str) -> Stride:
        """The stride along `axis`, which must be one of the scope's."""
        return next(each for each in self.strides if each.axis == axis)


class Barrier(msgspec.Struct, frozen=True):
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


class PolyCore(msgspec.Struct, frozen=True):
    """The report on one region.

    legal: the verdict on the region as one kernel; `reason` names what stands in the way.
    parallel_axes, reduce_axes: of the outer scope, and of all accumulators (`r…`, each name once).
    sequential_axes: outer axes along which a scan carries a value.
    tail_axes: axes that some tile does not divide; `codegen.where.tails` answers for the steps of a given plan.
    contraction: the value that the region's matrix product is, or None; `roles` are its, where the region is legal.
    """

    region: str
    legal: bool
    reason: str
    scopes: dict[str, tuple[tuple[str, int], ...]]
    parallel_axes: tuple[str, ...]
    sequential_axes: tuple[str, ...]
    reduce_axes: tuple[str, ...]
    tail_axes: tuple[str, ...]
    dependences: tuple[Dependence, ...]
    affine_closed: bool
    sites: tuple[Site, ...]
    compute_at: ComputeAt
    min_buffer: tuple[MinBuffer, ...]
    accesses: tuple[MemoryAccess, ...]
    contraction: str | None = None
    roles: Roles | None = None
    barriers: tuple[Barrier, ...] = ()
    bank_conflicts: tuple[BankConflict, ...] = ()

    def reads(self, buffer: str) -> tuple[MemoryAccess, ...]:
        """The reads of an input buffer, in body order."""
        return tuple(each for each in self.accesses if each.buffer == buffer and each.input >= 0)

    def to_dump(self) -> dict[str, Any]:
        """The fields of seed 000 §7's report, then the rest of §7.1 by name."""
        kept = self.min_buffer[0] if self.min_buffer else MinBuffer("", "reg")
        return {
            "analysis": {
                "parallel_axes": list(self.parallel_axes),
                "reduce_axes": list(self.reduce_axes),
                "tail_axes": list(self.tail_axes),
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
                "legal": self.legal,
                "reason": self.reason,
                "affine_closed": self.affine_closed,
                "dependences": [msgspec.to_builtins(each) for each in self.dependences],
                "barriers": [msgspec.to_builtins(each) for each in self.barriers],
                "bank_conflicts": [msgspec.to_builtins(each) for each in self.bank_conflicts],
                "buffers": {each.value: {"buffer": each.buffer, "depth": each.depth} for each in self.min_buffer},
            }
        }

    def __str__(self) -> str:
        verdict = "legal" if self.legal else f"illegal: {self.reason}"
        lines = [f"poly_core {self.region}: {verdict}"]
        for name, axes in self.scopes.items():
            lines.append(f"  scope {name}: " + " ".join(f"{axis}<{size}" for axis, size in axes))
        lines.append(f"  parallel {_names(self.parallel_axes)}  reduce {_names(self.reduce_axes)}")
        if self.sequential_axes:
            lines.append(f"  sequential {_names(self.sequential_axes)}")
        if self.roles:
            groups = ((name, self.roles.named(getattr(self.roles, name))) for name in ("batch", "m", "n", "k"))
            lines.append(f"  {self.contraction}: " + "  ".join(f"{name} {_names(axes)}" for name, axes in groups))
        lines += [f"  {_access(each)}" for each in self.accesses]
        return "\n".join(lines)


def _names(axes: tuple[str, ...]) -> str:
    return f"[{', '.join(axes)}]"


def _access(access: MemoryAccess) -> str:
    steps = ", ".join(
        f"{each.axis}:{'?' if each.step is None else each.step}{'*' if each.guarded else ''}" for each in access.strides
    )
    verb = "writes" if access.input < 0 else "reads"
    return f"{access.value} {verb} {access.buffer} in {access.scope} ({steps})"
