"""Index algebra against NumPy (what a map reads) and isl (which maps are equal)."""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ir.diagnostics import EqsatError, Kind
from ir.index import facts as axis_facts
from ir.index import moves as axis_moves
from ir.index.expr import ZERO, axis, box_of, constant, floordiv, interval, mod, parse_expr, simplify
from ir.index.guard import Bound, Guard, canonical_fill, parse_bound
from ir.index.injective import is_injective
from ir.index.isl import isl_read
from ir.index.map import (
    AxisMap,
    apply,
    axis_map,
    compose,
    constant_map,
    fuse_axes,
    identity,
    insert_axes,
    lift,
    parse_map,
    project,
    support,
    without_guards,
)
from ir.index.strides import row_major

Shape = tuple[int, ...]
Step = tuple[AxisMap, Callable[[np.ndarray], np.ndarray]]
MOVES = ("reshape", "permute", "expand", "pad", "shrink", "flip", "pool")
MOST_POINTS = 400


def factoring(rng: random.Random, count: int) -> Shape:
    """Random sizes with this product."""
    if count == 0:
        return (0, rng.randint(0, 3))
    sizes = []
    while count > 1 and rng.random() < 0.8:
        sizes.append(rng.choice([d for d in range(2, count + 1) if count % d == 0]))
        count //= sizes[-1]
    sizes += [count] + [1] * (rng.random() < 0.3)
    rng.shuffle(sizes)
    return tuple(sizes)


def random_move(rng: random.Random, shape: Shape, kind: str) -> Step:
    """A movement of a value of this shape: its map, and NumPy's way to do it."""
    rank = len(shape)
    if kind == "reshape":
        new = factoring(rng, math.prod(shape))
        return axis_moves.reshape(shape, new), lambda a: a.reshape(new)
    if kind == "permute":
        perm = rng.sample(range(rank), rank)
        return axis_moves.permute(shape, perm), lambda a: a.transpose(perm)
    if kind == "expand":
        new = tuple(rng.choice((1, 2, 3)) if size == 1 else size for size in shape)
        new = new if math.prod(new) <= MOST_POINTS else shape
        return axis_moves.expand(shape, new), lambda a: np.broadcast_to(a, new)
    if kind == "pad":
        pads = [(rng.choice((0, 0, 1, 2)), rng.choice((0, 0, 0, 1, 3))) for _ in shape]
        if math.prod(low + size + high for size, (low, high) in zip(shape, pads, strict=True)) > MOST_POINTS:
            pads = [(0, 0)] * rank
        fill = rng.choice((0, 0, 0, 1))
        return axis_moves.pad(shape, pads, fill), lambda a: np.pad(a, pads, constant_values=fill) if rank else a
    if kind == "shrink":
        lo = [rng.randint(0, min(2, size)) for size in shape]
        hi = [rng.randint(max(low, size - 2), size) for low, size in zip(lo, shape, strict=True)]
        step = [rng.choice((1, 1, 1, 2)) for _ in shape]
        cut = tuple(map(slice, lo, hi, step))
        return axis_moves.shrink(shape, lo, hi, step), lambda a: a[cut]
    if kind == "flip":
        axes = [k for k in range(rank) if rng.random() < 0.5]
        return axis_moves.flip(shape, axes), lambda a: np.flip(a, tuple(axes))
    if not shape or shape[-1] < 1 or math.prod(shape) > MOST_POINTS // 3:
        return identity(shape), lambda a: a
    size, stride = rng.randint(1, min(3, shape[-1])), rng.randint(1, 2)
    return axis_moves.pool(shape, [size], [stride]), lambda a: np.lib.stride_tricks.sliding_window_view(a, size, -1)[
        ..., ::stride, :
    ]


def random_chain(
    rng: random.Random, moves: Sequence[str], sizes: Sequence[int], ranks: tuple[int, int] = (0, 3)
) -> tuple[np.ndarray, AxisMap, np.ndarray]:
    """A source, the map of 1 … 8 random movements of it, and what NumPy makes of them."""
    shape = tuple(rng.choice(sizes) for _ in range(rng.randint(*ranks)))
    source = result = np.arange(10, 10 + math.prod(shape)).reshape(shape)
    total = identity(shape)
    for _ in range(rng.randint(1, 8)):
        view, move = random_move(rng, result.shape, rng.choice(moves))
        total, result = compose(total, view), move(result)
    return source, total, result


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32))
def test_chains_read_what_numpy_reads(seed: int) -> None:
    source, total, expected = random_chain(random.Random(seed), MOVES, range(6))
    got = apply(total, source)
    assert got.shape == expected.shape
    assert got.dtype == source.dtype
    assert (got == expected).all()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_the_form_is_stable_and_its_text_is_read_back(seed: int) -> None:
    _, total, _ = random_chain(random.Random(seed), MOVES, range(6))
    assert axis_map(total.sizes, total.exprs, total.guards) == total
    assert parse_map(str(total)) == total
    assert parse_map(str(total).replace("[", "[ ", 1)) == total  # not interned: goes through the parser


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_composition_is_associative(seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.choice(range(1, 5)) for _ in range(2))
    a, _ = random_move(rng, shape, rng.choice(MOVES))
    b, _ = random_move(rng, a.sizes, rng.choice(MOVES))
    c, _ = random_move(rng, b.sizes, rng.choice(MOVES))
    array = np.arange(math.prod(shape)).reshape(shape)
    left, right = compose(compose(a, b), c), compose(a, compose(b, c))
    assert (apply(left, array) == apply(right, array)).all()


@pytest.mark.slow
def test_large_compositions_are_those_of_isl() -> None:
    """Against isl's own composition, on sizes that NumPy need not enumerate."""
    rng = random.Random(3)
    for _ in range(30):
        shape = tuple(rng.choice((1, 3, 7, 12, 56, 64, 197, 768)) for _ in range(rng.randint(1, 3)))
        total = identity(shape)
        oracle = isl_read(total)
        for _ in range(rng.randint(2, 4)):
            at = total.sizes
            kind = rng.choice(("reshape", "permute", "pad", "shrink", "flip"))
            if kind == "reshape":
                view = axis_moves.reshape(at, factoring(rng, math.prod(at)))
            elif kind == "pad":
                view = axis_moves.pad(at, [(rng.randint(0, 3), rng.randint(0, 3)) for _ in at])
            else:
                view, _ = random_move(rng, at, kind)
            total = compose(total, view)
            oracle = isl_read(view).apply_range(oracle)
            if view.is_empty:
                break
        if not total.is_empty and total.fill is None:
            assert isl_read(total).is_equal(oracle), str(total)


@pytest.mark.slow
@pytest.mark.parametrize(
    "moves",
    [("reshape", "permute"), ("reshape", "permute", "shrink", "pad", "expand"), MOVES],
    ids=["bijections", "common", "all"],
)
def test_equal_maps_print_equally(moves: tuple[str, ...]) -> None:
    """At most 2 % of the chains print otherwise than the commonest text of the same function.

    One text never stands for two functions.
    """
    rng = random.Random(11)
    texts: dict[tuple[Shape, Shape, bytes], list[AxisMap]] = defaultdict(list)
    functions: dict[tuple[Shape, str], bytes] = {}
    for _ in range(2500):
        source, total, result = random_chain(rng, moves, (1, 2, 3, 4), (1, 2))
        texts[source.shape, result.shape, result.tobytes()].append(total)
        assert functions.setdefault((source.shape, str(total)), result.tobytes()) == result.tobytes()
    met = [text for text in texts.values() if len(text) > 1]
    counts = [[sum(str(one) == text for one in group) for text in {str(one) for one in group}] for group in met]
    apart = sum(sum(count) - max(count) for count in counts)
    assert apart <= 0.02 * sum(map(sum, counts)), f"{apart} of {sum(map(sum, counts))}"
    for group in met:  # the oracle agrees that these are one function
        for one, other in itertools.pairwise({str(each_one): each_one for each_one in group}.values()):
            if one.fill is None and other.fill is None:
                assert isl_read(one).is_equal(isl_read(other))


@pytest.mark.parametrize(
    "shapes",
    [
        [(4, 6), (24,), (4, 6)],
        [(2, 3, 4), (6, 4), (3, 8), (2, 3, 4)],
        [(5, 7), (7, 5), (35, 1), (5, 7)],
        [(1, 8, 1), (2, 2, 2), (8,), (1, 8, 1)],
        [(32, 197, 768), (6304, 768), (32, 197, 12, 64), (32 * 197 * 768,), (32, 197, 768)],
        [(0, 3), (3, 0, 2), (0, 3)],
        [(), (1,), (1, 1), ()],
    ],
    ids=str,
)
def test_reshape_round_trips_are_the_identity(shapes: list[Shape]) -> None:
    total = identity(shapes[0])
    for before, after in itertools.pairwise(shapes):
        total = compose(total, axis_moves.reshape(before, after))
    assert total == identity(shapes[0])


def test_splits_have_one_form() -> None:
    total = compose(axis_moves.reshape((2, 12), (24,)), axis_moves.reshape((24,), (6, 4)))
    assert str(total) == "[6,4] -> [i0//3, 4*i0 + i1 - 12*(i0//3)]"
    assert total == axis_moves.reshape((2, 12), (6, 4))


def test_merged_digits_after_a_permutation_split_again() -> None:
    split = axis_moves.reshape((24,), (6, 4))
    swapped = compose(split, axis_moves.permute((6, 4), (1, 0)))
    merged = compose(swapped, axis_moves.reshape((4, 6), (24,)))
    again = compose(merged, axis_moves.reshape((24,), (4, 6)))
    assert again == swapped
    assert str(swapped) == "[4,6] -> [i0 + 4*i1]"


def test_the_text_of_a_padded_window() -> None:
    padded = axis_moves.pad((1, 3, 8, 8), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = compose(padded, axis_moves.pool(padded.sizes, (3, 3), (2, 2)))
    assert str(windows) == (
        "[1,3,4,4,3,3] -> [0, i1, 2*i2 + i4 - 1, 2*i3 + i5 - 1] if 1<=2*i2 + i4<9 and 1<=2*i3 + i5<9 else 0"
    )


def test_cutting_the_padding_off_leaves_the_identity() -> None:
    padded = axis_moves.pad((5, 6), [(1, 2), (3, 0)], -math.inf)
    assert compose(padded, axis_moves.shrink((8, 9), (1, 3), (6, 9))) == identity((5, 6))


def test_a_read_of_padding_alone_is_constant() -> None:
    padded = axis_moves.pad((5,), [(3, 0)], 7)
    total = compose(padded, axis_moves.shrink((8,), (0,), (2,)))
    assert total == constant_map((2,), 1, 7)
    assert str(total) == "[2] -> [0] if false else 7"
    assert total.fill == 7
    assert apply(total, np.zeros(5)).tolist() == [7, 7]
    assert apply(axis_moves.pad((0,), [(1, 1)], 2), np.zeros(0)).tolist() == [2, 2]


def test_pads_of_equal_fill_merge_and_others_stay_in_order() -> None:
    twice = compose(axis_moves.pad((4,), [(1, 0)]), axis_moves.pad((5,), [(0, 2)]))
    assert twice == axis_moves.pad((4,), [(1, 2)])
    mixed = compose(axis_moves.pad((4,), [(1, 0)], 5), axis_moves.pad((5,), [(1, 2)], 9))
    assert [guard.fill for guard in mixed.guards] == [9, 5]
    assert apply(mixed, np.arange(4)).tolist() == [9, 5, 0, 1, 2, 3, 9, 9]


@pytest.mark.parametrize("fill", [math.nan, math.inf, -math.inf, -0.0, 0.5, 1e300, 3, True])
def test_fills_are_printed_read_and_compared(fill: float) -> None:
    padded = axis_moves.pad((4,), [(1, 1)], fill)
    assert parse_map(str(padded).replace("[6]", "[ 6]")) == padded
    assert axis_moves.pad((4,), [(1, 1)], float(fill)) == padded
    assert hash(axis_moves.pad((4,), [(1, 1)], float(str(float(fill))))) == hash(padded)
    assert np.array_equal(apply(padded, np.ones(4)), np.pad(np.ones(4), 1, constant_values=fill), equal_nan=True)


def test_fills_that_differ_stay_apart() -> None:
    assert axis_moves.pad((4,), [(1, 1)], -0.0) != axis_moves.pad((4,), [(1, 1)], 0.0)
    assert canonical_fill(np.float32("nan")) is canonical_fill(math.nan)


def test_bounds_take_their_tightest_form() -> None:
    box = (8, 4)
    i0, i1 = axis(0, box_of(box)), axis(1, box_of(box))

    def guarded(*bounds: Bound) -> str:
        return str(axis_map(box, [i0], [Guard(tuple(bounds), 0)]))

    assert guarded(Bound(i0 * 4 + i1, 0, 8)) == "[8,4] -> [i0] if 0<=i0<2 else 0"
    assert guarded(Bound(i0 * 2, 1, 9)) == "[8,4] -> [i0] if 1<=i0<5 else 0"
    assert guarded(Bound(floordiv(i0, 4, box_of(box)), 1, 2)) == "[8,4] -> [i0] if 4<=i0<8 else 0"
    assert guarded(Bound(i0, 0, 8), Bound(i1, -3, 4)) == "[8,4] -> [i0]"
    assert guarded(Bound(i0, 3, 4)) == "[8,4] -> [3] if 3<=i0<4 else 0"
    assert guarded(Bound(i0 + i1, 11, 12)) == "[8,4] -> [0] if false else 0"
    assert guarded(Bound(i0 + i1, 10, 99)) == "[8,4] -> [7] if 7<=i0<8 and 3<=i1<4 else 0"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_expressions_keep_their_values_and_their_form(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 7) for _ in range(rng.randint(1, 3))]
    box, grid = box_of(sizes), np.indices(sizes)
    known = [(axis(k, box), grid[k]) for k in range(len(sizes))]
    for _ in range(7):
        (expr, values), (other, others) = rng.choice(known), rng.choice(known)
        q, a, b, c = rng.randint(1, 9), rng.randint(-4, 6), rng.randint(-2, 3), rng.randint(-5, 5)
        result = rng.choice(
            (
                (floordiv(expr, q, box), values // q),
                (mod(expr, q, box), values % q),
                (expr * a + other * b + constant(c), values * a + others * b + c),
            )
        )
        known.append(result)
        expr, values = result
        assert (expr.eval([*grid]) == values).all()
        low, high = interval(expr, box)
        assert low <= values.min()
        assert values.max() <= high
        assert simplify(expr, box) == expr
        assert parse_expr(str(expr), [f"i{k}" for k in range(len(sizes))], sizes) == expr


def test_expression_texts() -> None:
    assert str(parse_expr("2*h + kh - 1", ["h", "kh"])) == "2*i0 + i1 - 1"
    assert str(parse_expr("(i0*4 + i1) // 2 % 8", ["i0", "i1"], (4, 2))) == "2*i0"
    assert str(parse_expr("-(i0//2)", ["i0"])) == "-(i0//2)"
    assert str(parse_expr("i0 % 4", ["i0"], (4,))) == "i0"
    assert str(parse_expr("3 - 3", [])) == "0"
    assert str(parse_bound("1<=2*i0 + i1<9")) == "1<=2*i0 + i1<9"


@pytest.mark.parametrize(
    "text",
    ["", "i0 +", "i9", "i0*i0", "i0//0", "i0//-2", "i0 % i0", "i0/2", "f(i0)", "1.5", "True", "i0;i0", "(" * 5000],
    ids=range(13),
)
def test_bad_expressions_are_diagnosed(text: str) -> None:
    with pytest.raises(EqsatError) as caught:
        parse_expr(text, ["i0"])
    assert caught.value.kind is Kind.MALFORMED_GRAPH


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[4] -> i0",
        "[4] -> [i1]",
        "[4] -> [i0] if 0<=i0 else 0",
        "[4] -> [i0] if 0<=i3<2 else 0",
        "[4] -> [i0] else 0",
        "[4] -> [i0] if 0<=i0<2 else x",
        "[-4] -> [i0]",
    ],
)
def test_bad_maps_are_diagnosed(text: str) -> None:
    with pytest.raises(EqsatError) as caught:
        parse_map(text)
    assert caught.value.kind is Kind.MALFORMED_GRAPH


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: axis_moves.permute((2, 3), (0, 0)), Kind.INVALID_PERMUTATION),
        (lambda: axis_moves.reshape((2, 3), (4,)), Kind.AXIS_SIZE_MISMATCH),
        (lambda: axis_moves.expand((2, 3), (4, 3)), Kind.AXIS_SIZE_MISMATCH),
        (lambda: axis_moves.expand((2,), (4, 2)), Kind.AXIS_SIZE_MISMATCH),
        (lambda: axis_moves.broadcast((2, 3), (3,)), Kind.BROADCAST_MISMATCH),
        (lambda: axis_moves.pad((2,), [(-1, 0)]), Kind.AXIS_SIZE_MISMATCH),
        (lambda: axis_moves.pad((2,), []), Kind.MALFORMED_GRAPH),
        (lambda: axis_moves.shrink((2,), [0], [3]), Kind.AXIS_SIZE_MISMATCH),
        (lambda: axis_moves.shrink((2,), [0], [2], [-1]), Kind.NEGATIVE_STRIDE_UNSUPPORTED),
        (lambda: axis_moves.shrink((2,), [0], [2], [0]), Kind.MALFORMED_GRAPH),
        (lambda: axis_moves.flip((2,), [0, -1]), Kind.MALFORMED_GRAPH),
        (lambda: axis_moves.flip((2,), [1]), Kind.MALFORMED_GRAPH),
        (lambda: axis_moves.pool((2,), (3,)), Kind.AXIS_SIZE_MISMATCH),
        (lambda: axis_moves.pool((2,), (1, 1)), Kind.AXIS_SIZE_MISMATCH),
    ],
)
def test_bad_movements_are_diagnosed(make: Callable[[], AxisMap], kind: Kind) -> None:
    with pytest.raises(EqsatError) as caught:
        make()
    assert caught.value.kind is kind


def view_of(shape: Shape, sizes: Shape, *texts: str) -> AxisMap:
    names = [f"i{k}" for k in range(len(sizes))]
    return axis_moves.view(shape, sizes, [parse_expr(text, names) for text in texts])


def test_views() -> None:
    array = np.arange(30).reshape(5, 6)
    assert (apply(view_of((5, 6), (3, 2), "i0 + i1", "2*i0"), array) == [[0, 6], [8, 14], [16, 22]]).all()
    assert apply(view_of((5, 6), (6,), "i0//2", "i0 % 2"), array).tolist() == [0, 1, 6, 7, 12, 13]
    assert apply(view_of((5, 6), (0,), "i0 + 9", "0"), array).shape == (0,)
    assert view_of((8,), (2, 4), "4*i0 + i1") == axis_moves.reshape((8,), (2, 4))
    # intervals alone cannot tell: (3*i0 + i1) mod 5 + floor of the same
    assert view_of((8,), (5, 3), "(3*i0 + i1) % 5 + (3*i0 + i1) // 5 + 1 - 1").sizes == (5, 3)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["i0 + 1"], Kind.MALFORMED_GRAPH),
        (["i0 - 1"], Kind.MALFORMED_GRAPH),
        (["3 - i0"], Kind.NEGATIVE_STRIDE_UNSUPPORTED),
        (["3 - i0//2"], Kind.NEGATIVE_STRIDE_UNSUPPORTED),
        (["2*(i0//2) + 1 + (i0 % 2)"], Kind.MALFORMED_GRAPH),
        (["i0", "i0"], Kind.MALFORMED_GRAPH),
    ],
    ids=str,
)
def test_bad_views_are_diagnosed(texts: list[str], kind: Kind) -> None:
    with pytest.raises(EqsatError) as caught:
        view_of((4,), (4,), *texts)
    assert caught.value.kind is kind


def test_a_large_view_is_checked_by_isl() -> None:
    size = 1 << 21
    folded = "(3*i0) // 5 + (7*i0) // 11"
    most = 3 * (size - 1) // 5 + 7 * (size - 1) // 11
    assert view_of((most + 1,), (size,), folded).sizes == (size,)
    with pytest.raises(EqsatError):
        view_of((most,), (size,), folded)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
@example(1820125433)  # nothing is read, and the points hold two fills
def test_injective_is_exact(seed: int) -> None:
    _, total, result = random_chain(random.Random(seed), MOVES, range(1, 6))
    read = result[result >= 10] if total.fill is None else np.zeros(0)
    assert is_injective(total) == (len(np.unique(read)) == read.size)


def test_injective_is_exact_for_parts_of_many_points() -> None:
    size = 1 << 18
    half, rest = "i0 // 2", "i0 - 2*(i0 // 2)"
    assert is_injective(parse_map(f"[{size}] -> [{half}, {rest}]"))
    assert not is_injective(parse_map(f"[{size}] -> [{half}]"))
    assert not is_injective(parse_map(f"[{size},7] -> [{half}, {rest}] if 9<={half}<20 else 0"))


def test_a_small_part_that_reads_twice_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("ir.index.isl.reads_once")
    size = 1 << 18
    assert not is_injective(parse_map(f"[{size},7] -> [i0 // 2, i0 - 2*(i0 // 2)]"))


def test_offsets() -> None:
    heads = compose(axis_moves.reshape((2, 5, 12), (2, 5, 3, 4)), axis_moves.permute((2, 5, 3, 4), (0, 2, 1, 3)))
    assert str(axis_facts.offset(heads, (2, 5, 12))) == "60*i0 + 4*i1 + 12*i2 + i3"
    assert str(axis_facts.offset(axis_moves.reshape((4, 6), (24,)), (4, 6))) == "i0"
    assert str(axis_facts.offset(axis_moves.expand((1, 3), (2, 3)), (1, 3))) == "i1"
    swapped = compose(axis_moves.permute((4, 6), (1, 0)), axis_moves.reshape((6, 4), (24,)))
    assert axis_facts.offset(swapped, (4, 6)).coeff(0) is None
    assert row_major(()) == ()


def test_lift_project_insert() -> None:
    view = axis_moves.pad((4,), [(1, 1)], 2)
    lifted = lift(view, (3, 1))
    assert str(lifted) == "[6,3,1] -> [i0 - 1, i1, 0] if 1<=i0<5 else 2"
    assert support(lifted) == {0, 1}
    wide = insert_axes(view, (0, 2), (7, 5))
    assert str(wide) == "[7,6,5] -> [i1 - 1] if 1<=i1<5 else 2"
    assert project(wide, (1,)) == view
    assert project(wide, (2, 1)) == insert_axes(view, (0,), (5,))
    assert project(wide, (0, 2)) is None
    assert str(without_guards(view)) == "[6] -> [i0 - 1]"
    assert lift(view, (0,)).is_empty
    assert insert_axes(identity((0,)), (0,), (4,)) == axis_map((4, 0), [ZERO])


def test_fusing_axes() -> None:
    whole = axis_moves.reshape((24,), (4, 6))
    assert fuse_axes(whole, 0) == identity((24,))
    assert fuse_axes(axis_moves.permute((6, 4), (1, 0)), 0) is None
    assert fuse_axes(axis_moves.expand((1, 6), (1, 6)), 0) == axis_moves.reshape((1, 6), (6,))
    assert fuse_axes(identity((4, 1)), 0) == axis_moves.reshape((4, 1), (4,))
    assert fuse_axes(axis_moves.pad((4, 6), [(0, 0), (1, 0)]), 0) is None


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_fused_maps_read_the_same(seed: int) -> None:
    source, total, result = random_chain(random.Random(seed), MOVES, range(6))
    for position in range(len(total.sizes) - 1):
        fused = fuse_axes(total, position)
        if fused is not None:
            assert (apply(fused, source) == result.reshape(fused.sizes)).all()
