"""IndexBook (seed 000 §4): the axes, the domain and the access maps of every value of a region."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ir.diagnostics import jsonable
from ir.index.map import AxisMap, Bound

AxisKind = Literal["iter", "reduce", "broadcast"]

MOST_PIECES = 16
"""A domain split into more pieces than this is an ExcessivePiecewise error."""


class Axis(msgspec.Struct, frozen=True):
    """One axis of one value. `id` is the same for the same axis everywhere in the region. `name` is its position
    (`i0, i1, …`, reduced `r0, r1, …`). An axis of size 1 is a broadcast axis."""

    id: int
    name: str
    size: int
    kind: AxisKind


class DomainPiece(msgspec.Struct, frozen=True):
    """A part of a domain: the points where all `bounds` (over the value's axes, then its reduced axes) hold outside all
    earlier pieces. `fill` is None if the operand is read there, else the number that replaces it; "inf", "-inf"
    and "nan" are strings."""

    bounds: tuple[Bound, ...]
    fill: int | float | str | None = None


class InputAccess(msgspec.Struct, frozen=True):
    """A read of one input: `map` takes the value's axes, then its reduced axes, to the input's coordinates."""

    value_id: str
    map: AxisMap

    @property
    def pieces(self) -> tuple[DomainPiece, ...]:
        """The parts of the map's domain; empty if the read is padded nowhere."""
        return pieces(self.map)


class IndexInfo(msgspec.Struct, frozen=True):
    """The axes and reads of a value. `axes` are its own; `reduced` are accumulated away and keep the ids that they have
    in the value that is reduced."""

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...] = ()
    inputs: tuple[InputAccess, ...] = ()
    non_scop: bool = False

    @property
    def reduce_axes(self) -> tuple[int, ...]:
        """The ids of the reduced axes in the value that is reduced."""
        return tuple(axis.id for axis in self.reduced)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the value's own axes: its shape."""
        return tuple(axis.size for axis in self.axes)

    @property
    def domain(self) -> tuple[int, ...]:
        """The sizes of all axes, the reduced ones last: the domain of its accesses."""
        return self.sizes + tuple(axis.size for axis in self.reduced)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all axes, the reduced ones last."""
        return tuple(axis.name for axis in self.axes + self.reduced)


class IndexBook(msgspec.Struct, frozen=True):
    """`values`: SSA value or buffer → its IndexInfo, in the order of the region's inputs, body and outputs.
    The elementwise product of a contraction `C` is `C.mul`."""

    region: str
    values: dict[str, IndexInfo]

    def reads(self, value: str) -> tuple[InputAccess, ...]:
        """The reads of a value; for a contraction, the reads of its product."""
        inputs = self.values[value].inputs
        own = len(inputs) == 1 and inputs[0].value_id == product(value)
        return self.values[product(value)].inputs if own else inputs

    def to_dump(self) -> dict[str, Any]:
        """The fields of seed 000 §4.5's dumps."""
        return {"index_book": {name: _info(info) for name, info in self.values.items()}}

    def __str__(self) -> str:
        lines = [f"indexbook {self.region}"]
        for name, info in self.values.items():
            axes = " ".join(f"{axis.name}#{axis.id}<{axis.size}" for axis in info.axes + info.reduced)
            lines.append(f"  {name} [{axes}]{' non-SCoP' if info.non_scop else ''}")
            for access in info.inputs:
                lines.append(f"    {access.value_id}[{', '.join(coordinates(access.map, info.names))}]")
                lines += [f"      {_piece(piece, info.names)}" for piece in access.pieces]
        return "\n".join(lines)


def pieces(view: AxisMap) -> tuple[DomainPiece, ...]:
    """The parts of a map's domain: first the part where the operand is read, if any; then the part of every guard, from
    the innermost to the outermost, in which the guards outside it hold."""
    if not view.guards:
        return ()
    guards = view.guards
    inside = [bound for guard in guards if not guard.is_never for bound in guard.bounds]
    parts = [] if view.guards[-1].is_never else [DomainPiece(tuple(inside))]
    for position in reversed(range(len(guards))):
        outer = tuple(bound for guard in guards[:position] for bound in guard.bounds)
        parts.append(DomainPiece(outer, jsonable(guards[position].fill)))
    return tuple(parts)


def product(contraction: str) -> str:
    """The name of a contraction's elementwise product in the IndexBook."""
    return f"{contraction}.mul"


def coordinates(access: AxisMap, names: tuple[str, ...]) -> list[str]:
    """The coordinates of a map as texts, with these names of axes."""
    return [expr.text(names) for expr in access.exprs]


def _info(info: IndexInfo) -> dict[str, Any]:
    record: dict[str, Any] = {
        "axes": [msgspec.to_builtins(axis) for axis in info.axes],
        "domain": _domain(info),
        "inputs": [{"value_id": access.value_id, "map": coordinates(access.map, info.names)} for access in info.inputs],
    }
    if info.reduced:
        record["reduce_axes"] = list(info.reduce_axes)
    if info.non_scop:
        record["flags"] = {"non_scop": True}
    return record


def _domain(info: IndexInfo) -> dict[str, Any]:
    """The box; or, with padded reads, the piece where they read and the rest."""
    padded = [access.pieces for access in info.inputs if access.pieces]
    if not padded:
        return {"constraints": [[f"0<={axis.name}", f"{axis.name}<{axis.size}"] for axis in info.axes]}
    inside = [bound for first, *_ in padded for bound in (first.bounds if first.fill is None else ())]
    constraints = [list(_sides(bound, info.names)) for bound in dict.fromkeys(inside)]
    return {"pieces": [{"constraints": constraints}, {"constraints": [["else_pad_piece"]]}]}


def _sides(bound: Bound, names: tuple[str, ...]) -> tuple[str, str]:
    expression = bound.expr.text(names).replace(" ", "")
    return f"{bound.lo}<={expression}", f"{expression}<{bound.hi}"


def _piece(piece: DomainPiece, names: tuple[str, ...]) -> str:
    where = " and ".join(bound.text(names) for bound in piece.bounds)
    action = "read" if piece.fill is None else f"{piece.fill}"
    return f"{action} where {where}" if where else f"{action} else"
