"""IndexBook (seed 000 §4): the axes, the domain and the access maps of every value of a region, side by side."""

from __future__ import annotations

from typing import Literal

import msgspec

from ir.axis_map import AxisMap, Bound

AxisKind = Literal["iter", "reduce", "broadcast"]


class Axis(msgspec.Struct, frozen=True):
    """One axis of one value. `id` names the same axis everywhere in the region; `name` is its position
    (`i0, i1, …`, reduced `r0, r1, …`); an axis of size 1 is a broadcast axis."""

    id: int
    name: str
    size: int
    kind: AxisKind


class Piece(msgspec.Struct, frozen=True):
    """A part of a domain, where all `bounds` (over the value's axes) hold.

    `fill` is None where the operand is read, else the number that stands there instead (padding: the rest of
    the domain, after the pieces before it).
    """

    bounds: tuple[Bound, ...]
    fill: float | str | None = None


class Access(msgspec.Struct, frozen=True):
    """How a value reads one input: `map` takes the value's axes, then its reduced axes, to the input's
    coordinates; `pieces` split that domain where the read is padded (empty: it never is)."""

    value_id: str
    map: AxisMap
    pieces: tuple[Piece, ...] = ()


class IndexInfo(msgspec.Struct, frozen=True):
    """All that is known of where a value lives: `axes` are its own, `reduced` the axes accumulated away, whose
    ids are those that they have in the value reduced."""

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    inputs: tuple[Access, ...]
    non_scop: bool = False

    @property
    def reduce_axes(self) -> tuple[int, ...]:
        return tuple(axis.id for axis in self.reduced)


class IndexBook(msgspec.Struct, frozen=True):
    """`values`: SSA value or buffer → its IndexInfo. A contraction `C` has its product as `C.mul`."""

    region: str
    values: dict[str, IndexInfo]
