"""Checks the invariants of seed 000 §4.3 on a finished IndexBook, from scratch.

1  a map is affine with floors: every floor is in lowest terms, no remainder contains one
2  axes are named i0, i1, …; an id has one size
3  broadcasting is the constant 0: an operand's axis of size 1 is read at nothing else
4  a reduction removes its axes and records the ids that they had
5  data-dependent reads are marked, and read memory
6  the divisor of a floor is positive
7  padding has few pieces
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ir.diagnostics import Diagnostic, EqsatError, Kind
from ir.index.expr import AxisExpr, FloorDiv, axis_names, interval, simplify
from ir.index.map import AxisMap
from ir.poly.indexbook import MOST_PIECES, Axis, IndexBook, IndexInfo, InputAccess

STAGE = "indexbook"


def verify(book: IndexBook) -> None:
    """Check every value of the book.

    Raises:
        EqsatError: with one diagnostic per violation: MalformedGraph, AxisAlignmentMismatch, AxisSizeMismatch,
            MissingDivGuard, NonSCoP or ExcessivePiecewise.
    """
    violations = [*_ids(book)]
    for name, info in book.values.items():
        violations += [*_axes(name, info), *_check_reduced(book, name, info), *_non_scop(book, name, info)]
        for access in info.inputs:
            violations += _access(book, name, info, access)
    if violations:
        raise EqsatError(violations)


def _ids(book: IndexBook) -> Iterator[Diagnostic]:
    sizes: dict[int, int] = {}
    for name, info in book.values.items():
        for axis in (*info.axes, *info.reduced):
            if sizes.setdefault(axis.id, axis.size) != axis.size:
                yield _violation(
                    Kind.AXIS_ALIGNMENT_MISMATCH,
                    name,
                    f"axis id {axis.id} has two sizes",
                    sizes=(sizes[axis.id], axis.size),
                )


def _axes(name: str, info: IndexInfo) -> Iterator[Diagnostic]:
    own = axis_names(len(info.axes))
    reduced = [f"r{position}" for position in range(len(info.reduced))]
    if [axis.name for axis in info.axes] != own or [axis.name for axis in info.reduced] != reduced:
        yield _violation(Kind.AXIS_ALIGNMENT_MISMATCH, name, "axes are named by position", names=info.names)
    ids = [axis.id for axis in (*info.axes, *info.reduced)]
    if len(set(ids)) != len(ids):
        yield _violation(Kind.AXIS_ALIGNMENT_MISMATCH, name, "an axis id occurs twice in one value", ids=tuple(ids))
    for axis in (*info.axes, *info.reduced):
        if axis.size < 0 or axis.kind != _kind(axis, axis in info.reduced):
            yield _violation(Kind.MALFORMED_GRAPH, name, f"axis {axis.name} of size {axis.size} is no {axis.kind} axis")


def _kind(axis: Axis, reduced: bool) -> str:
    return "reduce" if reduced else "broadcast" if axis.size == 1 else "iter"


def _check_reduced(book: IndexBook, name: str, info: IndexInfo) -> Iterator[Diagnostic]:
    """A reduced axis that is an axis of the value read keeps the id of that axis; new ids are for new axes. Along a
    diagonal the reduced axis is several axes, and keeps the id of one of them."""
    operand = book.values.get(info.inputs[0].value_id) if len(info.inputs) == 1 else None
    if operand is None or len(info.inputs[0].map.exprs) != len(operand.axes):
        return
    for position, reduced in enumerate(info.reduced, len(info.axes)):
        itself = AxisExpr(0, ((position, 1),))
        read = zip(info.inputs[0].map.exprs, operand.axes, strict=True)
        same = [axis for coordinate, axis in read if coordinate == itself and axis.size == reduced.size]
        if same and reduced.id not in [axis.id for axis in same]:
            yield _violation(
                Kind.AXIS_ALIGNMENT_MISMATCH,
                name,
                f"reduces axis {same[0].name} of `{info.inputs[0].value_id}` under another id",
                id=same[0].id,
                recorded=reduced.id,
            )


def _non_scop(book: IndexBook, name: str, info: IndexInfo) -> Iterator[Diagnostic]:
    if not info.non_scop:
        return
    source = book.values.get(info.inputs[0].value_id) if info.inputs else None
    if source is None or source.inputs:
        yield _violation(Kind.NON_SCOP, name, "a data-dependent read must be of memory: the region ends before it")


def _access(book: IndexBook, name: str, info: IndexInfo, access: InputAccess) -> Iterator[Diagnostic]:
    operand = book.values.get(access.value_id)
    if operand is None:
        yield _violation(Kind.MALFORMED_GRAPH, name, f"reads `{access.value_id}`, which the book does not have")
        return
    view = access.map
    if view.sizes != info.domain or len(view.exprs) != len(operand.axes):
        yield _violation(
            Kind.AXIS_ALIGNMENT_MISMATCH,
            name,
            f"the map to `{access.value_id}` has another domain or rank",
            map=str(view),
            domain=info.domain,
            operand_shape=operand.sizes,
        )
        return
    if view.is_empty or view.fill is not None:
        return
    for position, coordinate in enumerate(view.exprs):
        yield from _coordinate(name, access, position, coordinate, operand.axes[position].size)
    yield from _pieces(name, access)


def _coordinate(name: str, access: InputAccess, position: int, coordinate: AxisExpr, size: int) -> Iterator[Diagnostic]:
    view = access.map
    where: dict[str, Any] = {"coordinate": position, "map": str(view), "size": size}
    if not all(map(_lowest_terms, _floors(coordinate))) or simplify(coordinate, view.interior) != coordinate:
        yield _violation(
            Kind.MISSING_DIV_GUARD, name, f"coordinate {position} of `{access.value_id}` is not normalised", **where
        )
    elif not _inside(view, position, size):
        guarded = coordinate.is_affine
        yield _violation(
            Kind.AXIS_SIZE_MISMATCH if guarded else Kind.MISSING_DIV_GUARD,
            name,
            f"coordinate {position} of `{access.value_id}` leaves its axis and no guard stops it",
            **where,
        )


def _floors(expr: AxisExpr) -> Iterator[FloorDiv]:
    for term, _ in expr.terms:
        if isinstance(term, FloorDiv):
            yield term
            yield from _floors(term.expr)


def _lowest_terms(floor: FloorDiv) -> bool:
    return floor.divisor > 1 and all(abs(c) < floor.divisor for _, c in floor.expr.terms)


def _inside(view: AxisMap, position: int, size: int) -> bool:
    low, high = interval(view.exprs[position], view.interior)
    return (low >= 0 and high < size) or _inside_by_isl(view, position, size)


def _inside_by_isl(view: AxisMap, position: int, size: int) -> bool:
    """Decides by isl: intervals are safe, but not exact if bounds span several axes."""
    import islpy

    from ir.index.isl import isl_read

    read: Any = isl_read(view).range()
    rank = len(view.exprs)
    axes = [f"x{axis}" for axis in range(rank)]
    allowed = islpy.Set(f"{{ [{', '.join(axes)}] : 0 <= x{position} < {size} }}")
    return bool(read.is_subset(allowed))


def _pieces(name: str, access: InputAccess) -> Iterator[Diagnostic]:
    count = len(access.pieces)
    if count > MOST_PIECES:
        yield _violation(
            Kind.EXCESSIVE_PIECEWISE,
            name,
            f"the read of `{access.value_id}` splits into {count} pieces",
            hint="store the padded tensor: split the chain of PADs",
            most=MOST_PIECES,
        )


def _violation(kind: Kind, at: str, message: str, *, hint: str | None = None, **details: Any) -> Diagnostic:
    return Diagnostic(kind=kind, stage=STAGE, message=message, at=at, hint=hint, details=details)
