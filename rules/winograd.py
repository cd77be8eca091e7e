"""Winograd's convolutions: fewer products per output, y = Aᵀ·((G·w) ⊙ (Bᵀ·x)) along an axis on which a window slides.

Of a tile of m results and a window of r taps, α = m + r − 1 products are left of m·r: in two dimensions, 36 of 144 for
tiles of 4 × 4 and windows of 3 × 3. The weights are constants, so that G·w is computed when the program is built. The
matrices interpolate polynomials at the points 0, 1, −1, 2, −2 and ∞ (Winograd, "Arithmetic complexity of computations",
1980; Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016).

The level of most tiles is `range`: the results of a tile share their products, so that an infinity among them reaches
all, and large terms cancel. Tiles of 2 results and 3 taps are of level `rounding`: the products of a result read the
elements of its own window alone, and random sums are more exact than without tiles. Their matrices are written as sums
of terms, since 0·∞ in a product with a matrix would be NaN; the kernel of the product adds the two terms of each
transformed input as it reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import partial, reduce
from itertools import chain, product
from math import prod
from typing import NamedTuple

from ir.term.language import App, Contract, Fin, Load, PBin, Prim, Pure, Store, Table, Term
from ir.term.rule import Condition, Equal, Exactness, Rule, pattern_variables
from ir.term.text import sizes_text
from rules.analyses import BufDtype, Computed, Constant, Finite
from rules.primitives import one_of, typed
from rules.sides import SIDES, on_side
from rules.tiles import SMALL, TERMS, has_many_results, tiled

FAMILY = "winograd"

POINTS = (0, 1, -1, 2, -2)
"""The points of the polynomials, beside ∞: small integers, whose powers cancel little."""
SHAPES = (SMALL, (4, 3), (2, 5))
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


def _stored(numbers: Iterable[Fraction], *sizes: int) -> App:
    """A buffer of dtype d that holds these numbers."""
    shape = sizes_text(sizes)
    return Store(Pure(Table(d, " ".join(map(str, numbers)), shape)), typed(d, shape))


class _TileOfResults(NamedTuple):
    """A tile of so many results along each of `steps` axes, on which windows of so many taps slide."""

    tile: int
    taps: int
    steps: int

    def part(self, name: str, step: str) -> Prim:
        """A map or the sizes of a step of the algorithm."""
        return tiled(name, step, str(self.tile), str(self.taps), str(self.steps), x, w, k)

    def store(self, value: Term, step: str) -> App:
        """The tensor that a step stores."""
        return Store(value, typed(d, self.part("sizes", step)))

    def multiply(self, matrix: Matrix, operand: Term, step: str) -> App:
        """The product of a step's matrix with its operand."""
        stored = _stored(chain.from_iterable(matrix), len(matrix), len(matrix[0]))
        reads = Load(stored, self.part("matrix", step)), Load(operand, self.part("read", step))
        return Fin(Contract(d, self.part("reduced", step), *reads))

    def add(self, matrix: Matrix, operand: Term, part: str, places: tuple[int, ...] = ()) -> Term:
        """The inputs or the results of small tiles, for all steps: sums of terms, of which the last may be subtracted.
        No row reads an element that it does not need, so that infinities do not spread. places: the terms that are
        chosen of the last steps."""
        before = self.steps - len(places)
        if not before:
            return Load(operand, self.part(f"term {' '.join(map(str, places))}", part))
        *added, last = [self.add(matrix, operand, part, (*places, place)) for place in range(len(TERMS[part]))]
        signs = _stored([Fraction(-1 if min(row) < 0 else 1) for row in matrix], len(matrix))
        signed = PBin("mul", d, last, Load(signs, self.part(f"row {before - 1}", part)))
        return reduce(partial(PBin, "add", d), [*added, signed])


def _convolve(side: str, tile: int, taps: int, steps: int) -> Rule:
    """A product that slides along so many axes. The weights stand on this side."""
    tiles, small = _TileOfResults(tile, taps, steps), (tile, taps) == SMALL
    inputs, weights, results = matrices(tile, taps)
    operand: Term = X
    filters: Term = W
    for step in range(steps):
        filters = tiles.store(tiles.multiply(weights, filters, f"weights {step}"), f"weights {step}")
        if not small:
            operand = tiles.store(tiles.multiply(inputs, operand, f"input {step}"), f"input {step}")
    read = tiles.add(inputs, X, "inputs") if small else Load(operand, tiles.part("inputs", "product"))
    factors = Load(filters, tiles.part("weights", "product")), read
    value, last = Fin(Contract(d, tiles.part("reduced", "product"), *factors)), "product"
    if small:
        value = Pure(tiles.add(results, tiles.store(value, last), "results"))
    else:
        for step in reversed(range(steps)):
            value, last = tiles.multiply(results, tiles.store(value, last), f"result {step}"), f"result {step}"
    when: tuple[Condition, ...] = (
        one_of(d, "fp32 fp64"),
        Equal(BufDtype(X), d if small else BufDtype(W)),
        Constant(W),
        has_many_results(x, w),
        tiles.part("reduced", "product"),
        *map(Computed, (X, W)),
        *([] if small else [Finite(X)]),
    )
    lhs = Fin(Contract(d, k, Load(W, w), Load(X, x)))
    name = f"tiles_of_{'x'.join([str(tile)] * steps)}_for_{side}_weights_of_{'x'.join([str(taps)] * steps)}"
    level = Exactness.ROUNDING if small else Exactness.RANGE
    return on_side(side, Rule(name, FAMILY, "", lhs, value, when, level))


RULES = tuple(_convolve(side, *shape, steps) for side, shape, steps in product(SIDES, SHAPES, (1, 2)))
