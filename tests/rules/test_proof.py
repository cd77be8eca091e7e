"""What the proofs of index rules assume of the primitives: verified with isl, and on all small sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, TensorType, dtype
from ir.index import moves
from ir.index.expr import axis, box_of
from ir.index.isl import isl_read
from ir.index.map import AxisMap, apply, compose, identity, lift, parse_map
from ir.term.language import EBin, ETern, EUn, Gather, Imm, Load, PBin, PGather, Primitive, PUn, Pure, PView, Reduce
from ir.term.playback import evaluate
from ir.term.rule import Certificate, Rule, pattern_variables
from ir.term.text import number_text
from ir.uop.table import FUNCTIONS
from rules import RULES
from rules.analyses import ProDtype
from rules.certificates import certificate
from rules.choices import compose_beside, total
from rules.op_fills import preimage, same_number
from rules.primitives import compose as composed
from rules.primitives import domain, fill_everywhere, fill_of_reduction, fill_of_unary, filled_with, reads_all
from rules.proof import is_proved

b, p, q, m, n, o, d, t, k, v = pattern_variables("b:B p:P q:P m:S n:S o:S d:S t:S k:S v:S")


def movements(size: int) -> Iterator[tuple[tuple[int, ...], AxisMap]]:
    """Maps from a domain of `size`, or of two axes that make it up, and the shapes that they read."""
    yield (size,), identity((size,))
    yield (size,), moves.flip((size,), (0,))
    yield (2 * size + 1,), moves.shrink((2 * size + 1,), (1,), (2 * size + 1,), (2,))
    yield (size + 2,), moves.shrink((size + 2,), (1,), (size + 1,))
    yield (1,), moves.expand((1,), (size,))
    for low, high in product(range(min(size, 2) + 1), repeat=2):
        if low + high <= size:
            source = (size - low - high,)
            yield source, moves.pad(source, ((low, high),), 7)
    for factor in (1, 2, 3, 5):
        if size % factor == 0:
            outer = (size // factor, factor)
            yield outer, moves.reshape(outer, (size,))
            turned = moves.permute(outer[::-1], (1, 0))
            yield outer[::-1], compose(turned, moves.reshape(outer, (size,)))
            if 0 not in outer:
                yield (
                    (sum(outer) - 1,),
                    compose(moves.pool((sum(outer) - 1,), (factor,)), moves.reshape(outer, (size,))),
                )


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    """Every element has a number of its own, so that what was read says from where."""
    return np.arange(100, 100 + math.prod(shape), dtype=np.int64).reshape(shape)


@pytest.mark.parametrize("size", range(6))
def test_composition_reads_what_two_reads_do_on_all_small_sizes(size: int) -> None:
    for shape, first in movements(size):
        for source, second in _over(shape):
            array = numbered(source)
            both = compose(second, first)
            assert np.array_equal(apply(both, array), apply(first, apply(second, array))), f"{second} after {first}"


def _over(shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], AxisMap]]:
    """Movements whose result has this shape, along its first axis."""
    for source, view in movements(shape[0]):
        if len(shape) == 1:
            yield source, view
        else:
            yield (*source, *shape[1:]), lift(view, shape[1:])
    yield shape[::-1], moves.permute(shape[::-1], tuple(reversed(range(len(shape)))))
    yield (math.prod(shape),), moves.reshape((math.prod(shape),), shape)


BIG = 1_000_003


def affine(size: int) -> Iterator[tuple[int, AxisMap]]:
    """Affine maps of one long axis, some with a guard, and the size that each reads."""
    yield size, moves.flip((size,), (0,))
    yield 3 * size + 5, moves.shrink((3 * size + 5,), (4,), (3 * size + 4,), (3,))
    yield size - 70, moves.pad((size - 70,), ((31, 39),), 0)
    yield 1, moves.expand((1,), (size,))


def test_isl_agrees_that_affine_maps_compose() -> None:
    """At sizes that nobody could try: where both read, and there from where."""
    for middle, first in affine(BIG):
        if middle > 100:
            for _, second in affine(middle):
                both = isl_read(first).apply_range(isl_read(second))
                assert isl_read(compose(second, first)).is_equal(both), f"{second} after {first}"


def test_isl_agrees_that_a_lifted_map_is_the_map_beside_the_identity() -> None:
    import islpy

    for _, view in affine(BIG):
        beside, lifted = islpy.Map("{ [k] -> [k] : 0 <= k < 77 }"), lift(view, (77,))
        assert isl_read(lifted).is_equal(isl_read(view).flat_product(beside))
        assert lifted.exprs[-1] == axis(1, box_of(lifted.sizes))


@pytest.mark.parametrize("op", FUNCTIONS)
def test_an_op_takes_the_fills_found_to_the_fill(op: str) -> None:
    row = FUNCTIONS[op]
    for elements in product(DTYPES, repeat=row.arity):
        for result in DTYPES:
            if (row.arity, op) != (1, "cast") and not _typed(op, elements, result):
                continue
            for fill in (0, -0.0, 1, -1, 0.5, math.inf, -math.inf, math.nan):
                if number_text(fill, dtype(result)) if dtype(result).is_float else fill in (0, 1):
                    _check_fill(op, result, fill, elements)


def _typed(op: str, elements: tuple[str, ...], result: str) -> bool:
    try:
        actual = FUNCTIONS[op].type_of([TensorType.of(element, ()) for element in elements], {"to": result})
    except EqsatError:
        return False
    return actual.dtype.name == result


def _check_fill(op: str, result: str, fill: float, elements: tuple[str, ...]) -> None:
    values = preimage(op, result, fill, tuple((element, None) for element in elements))
    if values is None:
        return
    numbers = [
        Pure(Imm(element, number_text(value, dtype(element)), "[]"))
        for element, value in zip(elements, values, strict=True)
    ]
    actual = evaluate({1: EUn, 2: EBin, 3: ETern}[len(numbers)](op, result, *numbers), {})
    assert same_number(actual, evaluate(Imm(result, number_text(fill, dtype(result)), "[]"), {})), (elements, fill)


@pytest.mark.slow
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_a_reduction_takes_the_fills_found_to_the_fill(op: str) -> None:
    actual = 0
    for element, result, sizes in product(DTYPES, DTYPES, ("[]", "[1]", "[3]", "[2,0]", "[0]")):
        for fill in ("0", "-0.0", "1", "0.5", "inf", "nan", "0.1"):
            view = fill_of_reduction.fn(f"[2] -> [i0] if 1<=i0<2 else {fill}", op, result, sizes, element)
            if not view or (dtype(result).is_float != dtype(element).is_float):
                continue
            guards = parse_map(view).guards
            if not guards:
                continue  # a domain without points
            number = number_text(guards[0].fill, dtype(element))
            outcome = evaluate(Reduce(op, result, sizes, Imm(element, number, sizes)), {})
            assert same_number(outcome, evaluate(Imm(result, number_text(float(fill), dtype(result)), "[]"), {}))
            actual += 1
    assert actual


@pytest.mark.parametrize("size", range(1, 5))
def test_a_view_beside_an_index_reads_what_two_reads_do(size: int) -> None:
    for shape, view in movements(size):
        for choices in (1, 3):
            read = moves.permute((choices, *shape), [*range(1, len(shape) + 1), 0])
            array = numbered((choices, *shape))
            both = parse_map(compose_beside.fn(str(read), str(view)))
            wanted = np.stack([apply(view, array[choice]) for choice in range(choices)], -1)
            assert np.array_equal(apply(both, array), wanted), f"{read} beside {view}"


@pytest.mark.parametrize("size", range(1, 5))
def test_total_changes_nothing_but_fills(size: int) -> None:
    for shape, view in movements(size):
        if view.fill is None:
            array = numbered(shape)
            inside = apply(view, array) != 7
            result = apply(parse_map(total.fn(str(view))), array)
            assert np.array_equal(result[inside], apply(view, array)[inside])
            assert not result[~inside].any()


WRONG = {
    "a map forgotten": Rule("w", "w", "", PView(Load(b, m), n), Load(b, m)),
    "maps in the wrong order": Rule("w", "w", "", PView(Load(b, m), n), Load(b, composed(n, m))),
    "a guard forgotten": Rule("w", "w", "", PView(Imm(d, v, k), n), Imm(d, v, domain(n))),
    "a fill that is no fill of the op": Rule("w", "w", "", PView(PUn(o, d, p), n), PUn(o, d, PView(p, n))),
    "the fill of another dtype": Rule(
        "w", "w", "", PView(PBin(o, d, p, q), n), PUn(o, d, PView(p, fill_of_unary(n, o, d, ProDtype(q))))
    ),
    "an identity of another type": Rule("w", "w", "", PView(p, m), p, (reads_all(m, "fp32[2]"),)),
    "the fill of another map": Rule(
        "w", "w", "", PView(PView(p, m), n), Imm(ProDtype(p), fill_everywhere(m, ProDtype(p)), domain(n))
    ),
    "a number in a dtype that nothing is known of": Rule(
        "w", "w", "", PView(PUn(o, d, p), n), Imm(d, fill_everywhere(n, d), domain(n))
    ),
    "a gather whose index is not moved": Rule(
        "w", "w", "", PView(Gather(b, m, p), n), Gather(b, compose_beside(m, n), p)
    ),
    "a gather of ops, with the fill of the result": Rule(
        "w", "w", "", PGather(PUn(o, d, p), n, q), PUn(o, d, PGather(p, n, q))
    ),
    "a gather at another index": Rule(
        "w", "w", "", PGather(PUn(o, d, Load(b, m)), n, PUn(o, d, p)), PUn(o, d, Gather(b, composed(m, n), p))
    ),
    "the domain of another map": Rule(
        "w", "w", "", PView(PView(Imm(d, v, k), m), n), Imm(d, v, domain(m)),
        (filled_with(n, d, v), filled_with(m, d, v)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", WRONG.values(), ids=WRONG.keys())
def test_what_does_not_hold_is_not_proved(rule: Rule) -> None:
    assert not is_proved(rule)


def test_a_primitive_of_ones_own_is_not_taken_for_another_of_its_name() -> None:
    def compose(read: str, view: str) -> str:
        return read

    compose.__qualname__ = "compose"
    assert is_proved(Rule("r", "w", "", PView(PView(p, m), n), PView(p, composed(m, n))))
    assert not is_proved(Rule("w", "w", "", PView(PView(p, m), n), PView(p, Primitive(compose)(m, n))))


def test_the_families_of_index_rules_are_proved() -> None:
    families = {"movement", "fusion", "rows"}
    assert not [rule.name for rule in RULES if rule.family in families and certificate(rule) is not Certificate.PROVED]
