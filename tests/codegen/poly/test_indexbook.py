"""IndexBook: every update rule of seed 000 §4.4, on regions of a single movement, and the dumps of §4.5."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.poly.region_to_indexbook import index_book
from ir.diagnostics import EqsatError, Kind
from ir.index import moves
from ir.index.expr import parse_expr
from ir.index.map import AxisMap, apply, compose
from ir.poly.indexbook import IndexBook, IndexInfo, coordinates, pieces
from ir.poly.indexbook_verify import verify
from ir.region.region import Number, Operand, Region
from ir.serde import from_json, to_json
from tests.support.programs import regions
from tests.support.programs.regions import buffer, ewise, region, same


def moved(source: tuple[int, ...], view: AxisMap) -> IndexInfo:
    """The IndexInfo of a value that copies X [source] through `view`, verified."""
    book = index_book(copied(source, view))
    verify(book)
    assert [axis.id for axis in book.values["X"].axes] == list(range(len(source)))
    return book.values["M"]


def copied(source: tuple[int, ...], view: AxisMap) -> Region:
    body = [ewise("M", "copy", view.sizes, Operand("X", view))]
    return region("move", [buffer("X", source)], body, view.sizes)


def ids(info: IndexInfo) -> list[int]:
    return [axis.id for axis in info.axes]


def reads(info: IndexInfo) -> list[str]:
    return coordinates(info.inputs[0].map, info.names)


def test_leaf_has_its_own_axes_and_no_inputs() -> None:
    info = index_book(regions.transpose(5, 7)).values["X"]
    assert [(axis.name, axis.size, axis.kind) for axis in info.axes] == [("i0", 5, "iter"), ("i1", 7, "iter")]
    assert info.inputs == ()


def test_unary_inherits_everything() -> None:
    book = index_book(regions.pointwise((3, 5)))
    assert ids(book.values["E"]) == ids(book.values["A"]) == ids(book.values["X"])
    assert reads(book.values["E"]) == ["i0", "i1"]


def test_permute_moves_the_ids() -> None:
    info = moved((2, 3, 4), moves.permute((2, 3, 4), (2, 0, 1)))
    assert ids(info) == [2, 0, 1]
    assert reads(info) == ["i1", "i2", "i0"]


def test_expand_is_the_constant_0_and_a_new_axis() -> None:
    info = moved((3, 1), moves.expand((3, 1), (3, 7)))
    assert reads(info) == ["i0", "0"]
    assert ids(info) == [0, 2]
    assert info.inputs[0].pieces == ()


def test_reshape_linearises_and_splits_again() -> None:
    info = moved((6, 4), moves.reshape((6, 4), (3, 8)))
    assert reads(info) == ["2*i0 + i1//4", "i1 - 4*(i1//4)"]
    assert ids(info) == [2, 3]
    assert "%" not in json.dumps(index_book(copied((6, 4), moves.reshape((6, 4), (3, 8)))).to_dump())


def test_reshape_that_inserts_an_axis_of_size_1() -> None:
    info = moved((3, 4), moves.reshape((3, 4), (3, 1, 4)))
    assert reads(info) == ["i0", "i2"]
    assert [axis.kind for axis in info.axes] == ["iter", "broadcast", "iter"]
    assert [info.axes[0].id, info.axes[2].id] == [0, 1]


def test_shrink_with_a_step_is_a_new_axis_at_an_affine_place() -> None:
    info = moved((10, 4), moves.shrink((10, 4), (1, 0), (10, 4), (3, 1)))
    assert reads(info) == ["3*i0 + 1", "i1"]
    assert info.sizes == (3, 4)
    assert ids(info) == [2, 1]


def test_pad_splits_the_domain() -> None:
    info = moved((4, 5), moves.pad((4, 5), ((1, 2), (0, 0)), -1.0))
    assert reads(info) == ["i0 - 1", "i1"]
    inside, outside = info.inputs[0].pieces
    assert (str(inside.bounds[0]), inside.fill) == ("1<=i0<5", None)
    assert (outside.bounds, outside.fill) == ((), -1)
    dump = index_book(copied((4, 5), moves.pad((4, 5), ((1, 2), (0, 0))))).to_dump()["index_book"]["M"]
    assert dump["domain"] == {"pieces": [{"constraints": [["1<=i0", "i0<5"]]}, {"constraints": [["else_pad_piece"]]}]}


def test_flip_is_an_affine_map() -> None:
    info = moved((4, 5), moves.flip((4, 5), (1,)))
    assert reads(info) == ["i0", "-i1 + 4"]
    assert ids(info) == [0, 2]


def test_view_is_the_map_that_it_names() -> None:
    exprs = [parse_expr(text, ("i0", "i1"), (3, 2)) for text in ("2*i0 + i1", "1")]
    info = moved((7, 2), moves.view((7, 2), (3, 2), exprs))
    assert reads(info) == ["2*i0 + i1", "1"]
    assert ids(info) == [2, 3]


def test_binary_aligns_right() -> None:
    shape = (3, 4, 5)
    b = Operand("B", compose(moves.reshape((5,), (1, 1, 5)), moves.expand((1, 1, 5), shape)))
    book = index_book(
        region("add", [buffer("A", shape), buffer("B", (5,))], [ewise("C", "add", shape, same("A", shape), b)], shape)
    )
    verify(book)
    info = book.values["C"]
    assert ids(info) == [0, 1, 2]
    assert coordinates(info.inputs[1].map, info.names) == ["i2"]


def test_reduce_removes_axes_and_records_their_ids() -> None:
    book = index_book(regions.row_reduce(4, 7))
    info = book.values["R"]
    assert ids(info) == [0]
    assert info.reduce_axes == (1,)
    assert info.names == ("i0", "r0")
    assert info.reduced[0].kind == "reduce"
    column = index_book(regions.column_reduce(4, 7)).values["R"]
    assert (ids(column), column.reduce_axes) == ([1], (0,))


def test_a_contraction_has_a_product() -> None:
    book = index_book(regions.matmul((), 4, 6, 5, rhs_t=True))
    product, total = book.values["C.mul"], book.values["C"]
    assert [axis.id for axis in product.axes] == [0, 2, 1]
    assert total.reduce_axes == (1,)
    assert [access.value_id for access in product.inputs] == ["A", "B"]
    assert total.inputs[0].value_id == "C.mul"


def test_one_buffer_read_twice_has_new_ids_for_the_second_reading() -> None:
    over = (4, 4, 5)
    gram = regions.contraction("C", over, 1, regions.read("A", over, "i0", "i2"), regions.read("A", over, "i1", "i2"))
    book = index_book(region("gram", [buffer("A", (4, 5))], [gram], (4, 4)))
    verify(book)
    first, second = book.values["C"].axes
    assert first.id == 0
    assert second.id not in (0, 1)


def test_gather_is_marked() -> None:
    book = index_book(regions.gather())
    assert book.values["G"].non_scop
    assert book.to_dump()["index_book"]["G"]["flags"] == {"non_scop": True}
    assert not any(info.non_scop for name, info in book.values.items() if name != "G")


def test_nested_pads_are_pieces_from_the_inside() -> None:
    view = compose(moves.pad((4,), ((1, 1),), 2.0), moves.pad((6,), ((3, 0),), float("-inf")))
    read, inner, outer = pieces(view)
    assert read.fill is None
    assert (inner.fill, outer.fill) == (2, "-inf")
    assert outer.bounds == ()
    assert [str(bound) for bound in inner.bounds] == ["3<=i0<9"]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_pieces_say_what_the_map_does(data: st.DataObject) -> None:
    """A random chain of pads, permutations, reshapes, flips and slices: evaluated piece by piece, in their order,
    it is what the map reads."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    source, view = shape, moves.reshape(shape, shape)
    for _ in range(data.draw(st.integers(1, 4))):
        step = data.draw(_move(view.sizes))
        view = compose(view, step)
    array = np.arange(100, 100 + int(np.prod(source))).reshape(source)
    assert np.array_equal(by_pieces(view, array), apply(view, array))
    verify(index_book(copied(source, view)))


def by_pieces(view: AxisMap, array: np.ndarray) -> np.ndarray:
    result = np.empty(view.sizes, array.dtype)
    for point in np.ndindex(*view.sizes):
        piece = next((piece for piece in pieces(view) if all(bound.holds(point) for bound in piece.bounds)), None)
        fill = None if piece is None else piece.fill
        result[point] = array[tuple(expr.eval(point) for expr in view.exprs)] if fill is None else fill
    return result


@st.composite
def _move(draw: st.DrawFn, shape: tuple[int, ...]) -> AxisMap:
    kind = draw(st.sampled_from(("pad", "permute", "reshape", "flip", "shrink")))
    if kind == "pad":
        pads = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in shape]
        return moves.pad(shape, pads, draw(st.sampled_from((0.0, -1.0, 7.0))))
    if kind == "permute":
        return moves.permute(shape, draw(st.permutations(range(len(shape)))))
    if kind == "reshape":
        return moves.reshape(shape, draw(st.sampled_from(((int(np.prod(shape)),), (*shape[::-1],), (1, *shape)))))
    if kind == "flip":
        return moves.flip(shape, (draw(st.integers(0, len(shape) - 1)),))
    low = [draw(st.integers(0, size - 1)) for size in shape]
    return moves.shrink(shape, low, shape, [draw(st.integers(1, 2)) for _ in shape])


@pytest.mark.parametrize("given_region", regions.corpus(), ids=lambda given_region: given_region.name)
def test_every_kind_of_region_verifies_and_survives_json(given_region: Region) -> None:
    book = index_book(given_region)
    verify(book)
    assert from_json(to_json(book), IndexBook) == book
    json.dumps(book.to_dump())
    for edge in (*given_region.inputs, *given_region.outputs):
        assert book.values[edge.name].sizes == edge.memref.shape


def test_a_map_that_does_not_fit_is_refused() -> None:
    wrong = ewise("M", "copy", (3,), Operand("X", moves.reshape((4,), (4,))))
    with pytest.raises(EqsatError) as caught:
        index_book(region("wrong", [buffer("X", (4,))], [wrong], (3,)))
    assert caught.value.kind is Kind.AXIS_ALIGNMENT_MISMATCH


def test_an_unknown_operand_is_refused() -> None:
    wrong = ewise("M", "add", (3,), same("Z", (3,)), Number(1.0, "fp32"))
    with pytest.raises(EqsatError) as caught:
        index_book(region("wrong", [buffer("X", (3,))], [wrong], (3,)))
    assert caught.value.kind is Kind.MALFORMED_GRAPH


def test_gemm_dump() -> None:
    dump = index_book(regions.gemm_bias_relu(4, 6, 5)).to_dump()["index_book"]
    assert dump["C0.mul"] == {
        "axes": [
            {"id": 0, "name": "i0", "size": 4, "kind": "iter"},
            {"id": 3, "name": "i1", "size": 6, "kind": "iter"},
            {"id": 1, "name": "i2", "size": 5, "kind": "iter"},
        ],
        "domain": {"constraints": [["0<=i0", "i0<4"], ["0<=i1", "i1<6"], ["0<=i2", "i2<5"]]},
        "inputs": [{"value_id": "A", "map": ["i0", "i2"]}, {"value_id": "B", "map": ["i2", "i1"]}],
    }
    assert dump["C0"] == {
        "axes": [
            {"id": 0, "name": "i0", "size": 4, "kind": "iter"},
            {"id": 3, "name": "i1", "size": 6, "kind": "iter"},
        ],
        "domain": {"constraints": [["0<=i0", "i0<4"], ["0<=i1", "i1<6"]]},
        "inputs": [{"value_id": "C0.mul", "map": ["i0", "i1", "r0"]}],
        "reduce_axes": [1],
    }
    assert dump["C1"]["inputs"][1] == {"value_id": "bias", "map": ["i1"]}


def test_conv_dump_is_piecewise() -> None:
    dump = index_book(regions.conv(batch=2)).to_dump()["index_book"]["C.mul"]
    assert dump["domain"] == {
        "pieces": [
            {"constraints": [["1<=2*i2+i5", "2*i2+i5<8"], ["1<=2*i3+i6", "2*i3+i6<10"]]},
            {"constraints": [["else_pad_piece"]]},
        ]
    }
    assert dump["inputs"][0] == {"value_id": "X", "map": ["i0", "i4", "2*i2 + i5 - 1", "2*i3 + i6 - 1"]}


def test_masked_scores_dump_broadcasts_by_the_map() -> None:
    dump = index_book(regions.attention_scores()).to_dump()["index_book"]
    assert dump["S2"]["inputs"] == [
        {"value_id": "S1", "map": ["i0", "i1", "i2", "i3"]},
        {"value_id": "mask", "map": ["i2", "i3"]},
    ]
