"""Each invariant of seed 000 §4.3, broken by hand in an otherwise right IndexBook."""

from __future__ import annotations

import msgspec
import pytest

from ir.diagnostics import EqsatError, Kind
from ir.index.expr import AxisExpr, FloorDiv
from ir.index.map import AxisMap, axis_map, compose, identity, parse_map
from ir.index.moves import pad
from ir.poly.indexbook import MOST_PIECES, Axis, IndexBook, IndexInfo, InputAccess, pieces
from ir.poly.indexbook_verify import verify

replace = msgspec.structs.replace


def axes(*sizes: int, first: int = 0) -> tuple[Axis, ...]:
    return tuple(
        Axis(first + position, f"i{position}", size, "broadcast" if size == 1 else "iter")
        for position, size in enumerate(sizes)
    )


def book(info: IndexInfo, *source: int) -> IndexBook:
    """A book of a leaf X with axes of these sizes and a value V."""
    return IndexBook("by_hand", {"X": IndexInfo(axes(*source)), "V": info})


def copy_of(view: AxisMap, *source: int) -> IndexBook:
    return book(IndexInfo(axes(*view.sizes, first=10), inputs=(InputAccess("X", view),)), *source)


def refused(wrong: IndexBook, kind: Kind, *words: str) -> None:
    with pytest.raises(EqsatError) as caught:
        verify(wrong)
    (only,) = caught.value.diagnostics
    assert only.kind is kind
    assert only.at == "V"
    assert all(word in str(only) for word in words), str(only)


def test_a_right_book_passes() -> None:
    verify(copy_of(identity((3, 4)), 3, 4))
    verify(copy_of(parse_map("[2,6] -> [3*i0 + i1//2, i1 - 2*(i1//2)]"), 6, 2))


def test_a_remainder_in_text_becomes_a_floor() -> None:
    verify(copy_of(parse_map("[8] -> [i0//4, i0 % 4]"), 2, 4))
    assert "%" not in str(parse_map("[8] -> [i0//4, i0 % 4]"))


def test_a_re_split_out_of_range_lacks_its_guard() -> None:
    refused(copy_of(parse_map("[12] -> [i0//4, i0 - 4*(i0//4)]"), 2, 4), Kind.MISSING_DIV_GUARD, "no guard")
    guarded = parse_map("[12] -> [i0//4, i0 - 4*(i0//4)] if 0<=i0<8 else 0")
    verify(copy_of(guarded, 2, 4))


@pytest.mark.parametrize(
    "floor",
    [
        FloorDiv(AxisExpr(0, ((0, 2),)), 4),
        FloorDiv(AxisExpr(0, ((0, 5),)), 4),
        FloorDiv(AxisExpr(0, ((0, 1),)), 1),
        FloorDiv(AxisExpr(0, ((0, 1),)), -2),
    ],
    ids=["common factor", "improper", "divisor 1", "negative divisor"],
)
def test_floors_are_in_lowest_terms_with_a_positive_divisor(floor: FloorDiv) -> None:
    view = AxisMap((8,), (AxisExpr(0, ((floor, 1),)),), (), ((0, 7),))
    refused(copy_of(view, 100), Kind.MISSING_DIV_GUARD, "not normalised")


def test_an_affine_read_out_of_range() -> None:
    refused(copy_of(parse_map("[4] -> [i0 + 1]"), 4), Kind.AXIS_SIZE_MISMATCH, "coordinate 0")


def test_a_broadcast_is_the_constant_0() -> None:
    refused(copy_of(identity((4,)), 1), Kind.AXIS_SIZE_MISMATCH)
    verify(copy_of(parse_map("[4] -> [0]"), 1))


def test_bounds_over_several_axes_are_decided_exactly() -> None:
    view = parse_map("[4,4] -> [i0 + i1] if 0<=i0 + i1<4 else 0")
    verify(copy_of(view, 4))
    refused(copy_of(view, 3), Kind.AXIS_SIZE_MISMATCH)


def test_axes_are_named_by_position() -> None:
    good = copy_of(identity((3, 4)), 3, 4)
    info = good.values["V"]
    renamed = (replace(info.axes[0], name="i1"), replace(info.axes[1], name="i0"))
    refused(book(replace(info, axes=renamed), 3, 4), Kind.AXIS_ALIGNMENT_MISMATCH, "position")


def test_one_id_has_one_size() -> None:
    wrong = IndexInfo((Axis(0, "i0", 4, "iter"),), inputs=(InputAccess("X", parse_map("[4] -> [2*i0]")),))
    refused(book(wrong, 8), Kind.AXIS_ALIGNMENT_MISMATCH, "two sizes")


def test_an_id_occurs_once_in_a_value() -> None:
    twice = (Axis(0, "i0", 3, "iter"), Axis(0, "i1", 3, "iter"))
    refused(
        book(IndexInfo(twice, inputs=(InputAccess("X", identity((3, 3))),)), 3, 3),
        Kind.AXIS_ALIGNMENT_MISMATCH,
        "twice",
    )


def test_kinds_follow_sizes() -> None:
    wrong = (Axis(5, "i0", 1, "iter"),)
    refused(
        book(IndexInfo(wrong, inputs=(InputAccess("X", parse_map("[1] -> [0]")),)), 3), Kind.MALFORMED_GRAPH, "no iter"
    )


def test_a_reduction_records_the_ids_from_before() -> None:
    own, reduced = (Axis(0, "i0", 3, "iter"),), (Axis(1, "r0", 4, "reduce"),)
    good = IndexInfo(own, reduced, (InputAccess("X", identity((3, 4))),))
    verify(book(good, 3, 4))
    fresh = replace(good, reduced=(replace(reduced[0], id=7),))
    refused(book(fresh, 3, 4), Kind.AXIS_ALIGNMENT_MISMATCH, "another id")
    kept = replace(good, reduced=(replace(reduced[0], kind="iter"),))
    refused(book(kept, 3, 4), Kind.MALFORMED_GRAPH, "no iter axis")


def test_a_map_has_the_domain_of_its_value_and_the_rank_of_its_operand() -> None:
    other = IndexInfo(axes(3, first=10), inputs=(InputAccess("X", identity((4,))),))
    refused(book(other, 4), Kind.AXIS_ALIGNMENT_MISMATCH, "domain or rank")
    refused(copy_of(identity((3,)), 3, 1), Kind.AXIS_ALIGNMENT_MISMATCH, "domain or rank")


def test_an_operand_is_in_the_book() -> None:
    wrong = IndexInfo(axes(3, first=10), inputs=(InputAccess("Z", identity((3,))),))
    refused(book(wrong, 3), Kind.MALFORMED_GRAPH, "`Z`")


def test_data_dependent_reads_are_of_memory() -> None:
    good = copy_of(identity((3,)), 3)
    gathered = IndexInfo(axes(3, first=20), inputs=(InputAccess("V", identity((3,))),), non_scop=True)
    with pytest.raises(EqsatError) as caught:
        verify(IndexBook("by_hand", {**good.values, "G": gathered}))
    assert [diagnostic.kind for diagnostic in caught.value.diagnostics] == [Kind.NON_SCOP]
    verify(book(replace(good.values["V"], non_scop=True), 3))


def test_too_many_pieces() -> None:
    view = identity((2,))
    for count in range(MOST_PIECES):
        view = compose(view, pad(view.sizes, [(1, 1)], float(count)))
    assert len(pieces(view)) == MOST_PIECES + 1
    refused(copy_of(view, 2), Kind.EXCESSIVE_PIECEWISE, "17 pieces")


def test_empty_domains_say_nothing() -> None:
    verify(copy_of(axis_map((0, 3), [AxisExpr(), AxisExpr()]), 0, 3))


def test_every_violation_is_reported() -> None:
    first = InputAccess("Z", identity((3,)))
    second = InputAccess("X", identity((4,)))
    with pytest.raises(EqsatError) as caught:
        verify(book(IndexInfo(axes(3, first=10), inputs=(first, second)), 4))
    assert [diagnostic.kind for diagnostic in caught.value.diagnostics] == [
        Kind.MALFORMED_GRAPH,
        Kind.AXIS_ALIGNMENT_MISMATCH,
    ]


def test_the_sum_of_a_diagonal_keeps_the_id_of_one_of_its_axes() -> None:
    view = parse_map("[2,3] -> [i0, i1, i1]")
    own, reduced = axes(2), Axis(1, "r0", 3, "reduce")
    verify(book(IndexInfo(own, (reduced,), (InputAccess("X", view),)), 2, 3, 3))
    verify(book(IndexInfo(own, (replace(reduced, id=2),), (InputAccess("X", view),)), 2, 3, 3))
    new_id = IndexInfo(own, (replace(reduced, id=9),), (InputAccess("X", view),))
    refused(book(new_id, 2, 3, 3), Kind.AXIS_ALIGNMENT_MISMATCH, "under another id")
