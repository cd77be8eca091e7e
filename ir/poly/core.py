"""Poly Core (seed 000 §7): the verdict on a region as one kernel, and the facts of its index sets that plans
and code read.

A region runs in *scopes*. A scope is a box of loops. The outer scope is that of the outputs: its axes are `i0, i1, …`
of the first output and its name is that buffer's. Every accumulator (contraction, reduce, scan) opens a scope of its
own with the name of its value; the axes are `i0, i1, …` of that value, then the reduced `r0, r1, …`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from ir.diagnostics import Kind
from ir.index.map import AxisMap


class Site(msgspec.Struct, frozen=True):
    """`value` is computed in `scope`; `map` takes the scope's point to the coordinates of the value.

    A value that is inlined in two scopes, or at two maps, has two sites and is recomputed. The map of an accumulator in
    the outer scope only picks axes: the accumulator is finished before the axes that it does not depend on."""

    value: str
    scope: str
    map: AxisMap


class OperandRead(msgspec.Struct, frozen=True):
    """An operand depends on `buffer`, which is read at `map(digits of the contraction)`."""

    buffer: str
    map: AxisMap


class Roles(msgspec.Struct, frozen=True):
    """A contraction's loops, by the operands that depend on them.

    The loops are the output's axes `i0, i1, …`, then the reduced axes `r0, r1, …`. Where a map divides an axis, it is
    cut into *digits* (`i1/64` and `i1%64` for an axis read at `i1//64` and `i1%64`), so that maps become affine if
    they can:

        C[batch, m, n] = Σ_k  lhs[batch, m, k] · rhs[batch, k, n]

    names, sizes  of the digits, outer first; the first `rank` digits are the output's
    batch, m, n   positions of output digits on which both operands depend, the lhs only or neither, the rhs only
    k             positions of the reduced digits
    out, point    maps from digits to the coordinates of the outputs, and to the point of the op's domain
    reads         per operand, the buffers that it is computed from

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

    def names_of(self, group: Iterable[int]) -> tuple[str, ...]:
        """The names of a group of digits."""
        return tuple(self.names[position] for position in group)


class StreamRoles(msgspec.Struct, frozen=True):
    """The loops of streams of one score by role: the loops of the outputs, `i0, i1, …`, then the reduced loops of the
    score, `r0, r1, …`.

        A[batch, rows, columns] = Σ_terms fn(score[batch, rows, terms] - max)·value[batch, terms, columns]

    score, read         the score, and the map from the loops to its coordinates
    members             the streams, and the maxima of the score, in body order
    batch, rows         positions of outer loops on which the score depends: with the value or the keys, or alone
    columns             positions of outer loops on which the score does not depend
    terms               positions of the reduced loops
    sizes               of all loops
    contraction, place  the contraction that computes the score, and the map from the loops to its coordinates; or None
    keys                the operand of the contraction that depends on the terms

    Loops of one point have no role.
    """

    score: str
    read: AxisMap
    members: tuple[str, ...]
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    terms: tuple[int, ...]
    sizes: tuple[int, ...]
    contraction: str | None = None
    place: AxisMap | None = None
    keys: int = 1

    def names_of(self, group: Iterable[int], rank: int) -> tuple[str, ...]:
        """The names of a group of loops; the first `rank` loops are those of the outputs."""
        return tuple(f"i{axis}" if axis < rank else f"r{axis - rank}" for axis in group)


class Stride(msgspec.Struct, frozen=True):
    """How an access to memory moves along one axis of its scope.

    step: elements per step of the axis; None if it is not constant (a floordiv, or the index of a gather). guarded: the
    access is padded somewhere along this axis. interior: the half-open range of the axis in which the axis causes no
    padding, whatever the other axes are; the whole axis if not guarded.
    """

    size: int
    step: int | None
    guarded: bool
    interior: tuple[int, int]


class MemoryAccess(msgspec.Struct, frozen=True):
    """A read of a buffer by `value` (its access number `input` in the IndexBook), or the write of `value` to an output
    (`input` -1), over the axes of `scope`.

    `map` is the access in the scope's axes, composed through the values between; `strides` describe it, one per axis.
    One place stands for all that the index of a gather may be. `indirect` are the coordinates that
    depend on the index, and `data` are the axes that the index depends on.
    """

    value: str
    input: int
    buffer: str
    scope: str
    map: AxisMap
    strides: tuple[Stride, ...]
    indirect: tuple[int, ...] = ()
    data: tuple[int, ...] = ()


class PolyCore(msgspec.Struct, frozen=True):
    """The facts from which plans and code of a region are made; `ir.poly.report` has further facts for people.

    legal: the verdict on the region as one kernel; if illegal, `reason` says why and `refusal` is the kind.
    scopes: per scope its axes with their sizes, the outer scope first.
    sequential_axes: outer axes along which a scan carries a value; nothing may run in parallel along them.
    finished: accumulator → the outer axes (of more than one point) that it depends on. It is finished once for all
    points of the other axes, whose loops stand inside.
    affine_closed: no index is data.
    contraction, pattern: the region's contraction, and its pattern; None without a contraction.
    roles: of the contraction's loops, if the region is legal.
    streams: the loops of streams whose score is a tile: computed by a contraction, or used in a product.
    """

    region: str
    legal: bool
    reason: str
    scopes: dict[str, tuple[tuple[str, int], ...]]
    sequential_axes: tuple[int, ...]
    finished: dict[str, tuple[int, ...]]
    affine_closed: bool
    sites: tuple[Site, ...]
    accesses: tuple[MemoryAccess, ...]
    contraction: str | None = None
    pattern: Literal["matmul", "conv"] | None = None
    roles: Roles | None = None
    refusal: Kind | None = None
    streams: StreamRoles | None = None

    @property
    def outer(self) -> tuple[tuple[str, int], ...]:
        """The axes of the outputs."""
        return next(iter(self.scopes.values()))

    @property
    def parallel_axes(self) -> tuple[str, ...]:
        """Outer axes along which points may be computed in any order, so that threads and lanes may share them."""
        return tuple(name for axis, (name, _) in enumerate(self.outer) if axis not in self.sequential_axes)

    def outer_names(self, axes: Iterable[int]) -> tuple[str, ...]:
        """The names of outer axes."""
        return tuple(self.outer[axis][0] for axis in axes)

    @property
    def reduce_axes(self) -> tuple[str, ...]:
        """The reduced axes of all accumulators, each name once."""
        return tuple(dict.fromkeys(name for name, _ in self._reduced))

    @property
    def tail_axes(self) -> tuple[str, ...]:
        """Axes that some tile size does not divide: all of more than one point. `codegen.poly.tail_axes` answers for
        the steps of a given plan."""
        return tuple(dict.fromkeys(name for name, size in (*self.outer, *self._reduced) if size > 1))

    @property
    def _reduced(self) -> list[tuple[str, int]]:
        return [axis for axes in self.scopes.values() for axis in axes if axis[0].startswith("r")]

    def reads(self, buffer: str) -> tuple[MemoryAccess, ...]:
        """The reads of an input buffer, in body order."""
        return tuple(access for access in self.accesses if access.buffer == buffer and access.input >= 0)

    def __str__(self) -> str:
        verdict = "legal" if self.legal else f"illegal: {self.reason}"
        lines = [f"poly_core {self.region}: {verdict}"]
        for name, axes in self.scopes.items():
            lines.append(f"  scope {name}: " + " ".join(f"{axis}<{size}" for axis, size in axes))
        lines.append(f"  parallel {_names(self.parallel_axes)}  reduce {_names(self.reduce_axes)}")
        if self.sequential_axes:
            lines.append(f"  sequential {_names(self.outer_names(self.sequential_axes))}")
        if self.roles:
            groups = ((name, self.roles.names_of(getattr(self.roles, name))) for name in ("batch", "m", "n", "k"))
            roles = "  ".join(f"{name} {_names(axes)}" for name, axes in groups)
            lines.append(f"  {self.contraction} ({self.pattern}): {roles}")
        if self.streams:
            streams, rank = self.streams, len(self.outer)
            parts = {"batch": streams.batch, "rows": streams.rows, "columns": streams.columns, "terms": streams.terms}
            roles = "  ".join(f"{name} {_names(streams.names_of(axes, rank))}" for name, axes in parts.items())
            lines.append(f"  {', '.join(self.streams.members)} (stream of {self.streams.score}): {roles}")
        lines += [f"  {self._access(access)}" for access in self.accesses]
        return "\n".join(lines)

    def _access(self, access: MemoryAccess) -> str:
        steps = ", ".join(
            f"{axis}:{'?' if stride.step is None else stride.step}{'*' if stride.guarded else ''}"
            for (axis, _), stride in zip(self.scopes[access.scope], access.strides, strict=True)
        )
        verb = "writes" if access.input < 0 else "reads"
        return f"{access.value} {verb} {access.buffer} in {access.scope} ({steps})"


def _names(axes: tuple[str, ...]) -> str:
    return f"[{', '.join(axes)}]"
