"""Winograd's convolutions: fewer products per output, y = Aᵀ·((G·w) ⊙ (Bᵀ·x)) along an axis on which a window slides.

Of a tile of m results and a window of r taps, α = m + r − 1 products are left of m·r: in two dimensions, 36 of 144 for
tiles of 4 × 4 and windows of 3 × 3. The weights are constants, so that G·w is computed when the program is built. The
matrices interpolate polynomials at the points 0, 1, −1, 2, −2 and ∞ (Winograd, "Arithmetic complexity of computations",
1980; Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016).

The level is `range`: the results of a tile share their products, so that an infinity among them reaches all, and large
terms cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

from ir.term.language import App, Contract, Fin, Load, Pure, Store, Table, Term
from ir.term.rule import Condition, Equal, Exactness, Rule, pattern_variables
from ir.term.text import sizes_text
from rules.analyses import BufDtype, Computed, Constant, Finite
from rules.primitives import one_of, typed
from rules.sides import SIDES, on_side
from rules.tiles import tiled

FAMILY = "winograd"

POINTS = (0, 1, -1, 2, -2)
"""The points of the polynomials, beside ∞: small integers, whose powers cancel little."""
SHAPES = ((2, 3), (4, 3), (2, 5))
"""Results of a tile, and taps of the windows that are computed so."""

Matrix = Sequence[Sequence[Fraction]]

X, W, x, w, d, k = pattern_variables("X:B W:B x:S w:S d:S k:S")


def matrices(tile: int, taps: int) -> tuple[Matrix, Matrix, Matrix]:
    """Bᵀ (α × α), G (α × taps) and Aᵀ (tile × α), with which `tile` results are Aᵀ·((G·w) ⊙ (Bᵀ·x)).

    The results are the coefficients of a product of polynomials, transposed (Toom 1963, Cook 1966). Row u of Bᵀ holds
    the coefficients of Π_{v≠u} (z − point v), G and Aᵀ the powers of the points, G divided by Π_{v≠u} (point u −
    point v). At ∞ a polynomial has its leading coefficient.
    """
    points = [Fraction(point) for point in POINTS[: tile + taps - 2]]
    rows = [[*_monic([other for other in points if other != point]), Fraction(0)] for point in points]
    scales = [prod((point - other for other in points if other != point), start=Fraction(1)) for point in points]
    weights = [[point**power / scale for power in range(taps)] for point, scale in zip(points, scales, strict=True)]
    results = [[*(point**power for point in points), Fraction(power == tile - 1)] for power in range(tile)]
    last = [[Fraction(power == taps - 1) for power in range(taps)]]
    return [*rows, _monic(points)], [*weights, *last], results


def _monic(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients, the constant first, of the monic polynomial with these roots."""
    coefficients = [Fraction(1)]
    for root in roots:
        coefficients = [
            low - root * high
            for low, high in zip([Fraction(0), *coefficients], [*coefficients, Fraction(0)], strict=True)
        ]
    return coefficients


def _stored(matrix: Matrix) -> App:
    """A buffer of dtype d that holds these numbers."""
    sizes = sizes_text((len(matrix), len(matrix[0])))
    numbers = " ".join(str(number) for row in matrix for number in row)
    return Store(Pure(Table(d, numbers, sizes)), typed(d, sizes))


def _convolve(side: str, tile: int, taps: int, steps: int) -> Rule:
    """A product that slides along so many axes. The weights stand on this side."""
    inputs, weights, results = map(_stored, matrices(tile, taps))

    def part(name: str, step: str) -> Term:
        return tiled(name, step, str(tile), str(taps), str(steps), x, w, k)

    def multiply(matrix: Term, operand: Term, step: str) -> App:
        return Contract(d, part("reduced", step), Load(matrix, part("matrix", step)), Load(operand, part("read", step)))

    def store(value: App, step: str) -> App:
        return Store(Fin(value), typed(d, part("sizes", step)))

    operand: Term = X
    filters: Term = W
    for step in range(steps):
        operand = store(multiply(inputs, operand, f"input {step}"), f"input {step}")
        filters = store(multiply(weights, filters, f"weights {step}"), f"weights {step}")
    factors = Load(filters, part("weights", "product")), Load(operand, part("inputs", "product"))
    value = Contract(d, part("reduced", "product"), *factors)
    last = "product"
    for step in reversed(range(steps)):
        value, last = multiply(results, store(value, last), f"result {step}"), f"result {step}"
    when: tuple[Condition, ...] = (
        one_of(d, "fp32 fp64"),
        Equal(BufDtype(X), BufDtype(W)),
        Constant(W),
        *map(Computed, (X, W)),
        Finite(X),
    )
    lhs = Contract(d, k, Load(W, w), Load(X, x))
    name = f"tiles_of_{'x'.join([str(tile)] * steps)}_for_{side}_weights_of_{'x'.join([str(taps)] * steps)}"
    return on_side(side, Rule(name, FAMILY, "", lhs, value, when, Exactness.RANGE))


RULES = tuple(_convolve(side, *shape, steps) for side, shape, steps in product(SIDES, SHAPES, (1, 2)))
