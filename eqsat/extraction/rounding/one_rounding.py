"""One value, one rounding: all computations of a value in a cover have the same bits.

Two computations of a value may round differently for three reasons.

    forms       the e-graph holds x / y as a quotient and as x · (1 / y): one kernel takes the first, another the second
    orders      a sum of floats takes its terms in the order of its kernel's plan, which other kernels do not share
    evaluators  exp(c) of a constant is computed when the program is built, or in a kernel by another approximation

So a cover gives every value one form and one evaluator, and one kernel computes a sum of floats: others read what was
stored. The operands of a value are values themselves; by induction all computations of a value have the same bits.

What is picked from a value, as its maximum is, has the form of that value: (max x) · 3 beside x · 3, not beside y · 2.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.extraction.covering.problem import ALONE, Mark
from eqsat.extraction.enumeration.kernel_tree import Tree, subtrees
from eqsat.extraction.rounding.points_apart import are_apart
from eqsat.extraction.rounding.value_forms import ValueForms
from ir.dtype import DTYPES
from ir.pricer import Rejected
from ir.region.region import Region, is_order_bound
from ir.uop.table import ELEMENTARY

_EVALUATED = frozenset({"add", "sub", "mul", "fdiv", "recip", "sqrt", "rsqrt", *(name.lower() for name in ELEMENTARY)})
"""Functions of floats that evaluators approximate, or whose denormal results they may flush."""


SUM_TWICE = Rejected("it would compute a sum of floats twice, in two orders")
"""Why a kernel that `Roundings.repeats_sums` is none."""


class _Way(NamedTuple):
    """A computation of a value: the number of its form, and of that where picks count as points of a value, None where
    nothing is picked of the value; `alone` where it is a sum of floats, `evaluated` where another evaluator gives other
    bits."""

    form: int
    picked: int | None
    alone: bool
    evaluated: bool


class Roundings:
    """How the kernels of one e-graph round what they compute.

    Args:
        constant: the buffers that are known when the program is built.
        ordered: whether all kernels take the terms of floating-point sums in index order.
    """

    def __init__(self, view: EGraphView, constant: Collection[int] = (), ordered: bool = False) -> None:
        self._view, self._constant, self._ordered = view, frozenset(constant), ordered
        self._forms, self._picks = ValueForms(view), ValueForms(view, picks=True)
        self._ways: dict[Tree, frozenset[_Way]] = {}
        self._marks: dict[tuple[tuple[Tree, ...], bool], tuple[Mark, ...]] = {}

    def marks(self, trees: Sequence[Tree], folded: bool = False) -> tuple[Mark, ...]:
        """How a kernel of these Store trees computes the values that others might compute in another way. `folded`: it
        runs when the program is built."""
        key = (tuple(trees), folded)
        if key not in self._marks:
            found = {mark for way in self._together(trees) for mark in self._marks_of(way, folded)}
            self._marks[key] = tuple(sorted(found))
        return self._marks[key]

    def _marks_of(self, way: _Way, folded: bool) -> Iterator[Mark]:
        """What one computation says of its value, and of the sets of alternatives that it is in."""
        for about in (way.form, *self._forms.disputes(way.form)):
            yield about, _number(way, way.form, folded)
        if way.picked is not None:
            for about in self._picks.disputes(way.picked):
                yield len(self._forms) + about, _number(way, way.picked, folded)

    def disagree(self, trees: Sequence[Tree]) -> bool:
        """Whether a kernel of these Store trees computes a value in two forms."""
        ways = self._together(trees)
        return _repeats(self._forms, (way.form for way in ways)) or _repeats(
            self._picks, (way.picked for way in ways if way.picked is not None)
        )

    def repeats_sums(self, trees: Sequence[Tree], region: Region) -> bool:
        """Whether the region of these Store trees holds a sum of floats twice, and so perhaps in two orders."""
        sums = sum(is_order_bound(let.op) for let in region.body)
        if self._ordered or sums <= sum(way.alone for way in self._together(trees)):
            return False
        alone: dict[int, list[Tree]] = {}
        for each in subtrees(*trees):
            way = self._way(each)
            if way and way.alone:
                alone.setdefault(way.form, []).append(each)
        return sums > sum(len(found) if are_apart(found) else 1 for found in alone.values())

    def _together(self, trees: Iterable[Tree]) -> frozenset[_Way]:
        return frozenset[_Way]().union(*map(self._ways_of, trees))

    def _ways_of(self, tree: Tree) -> frozenset[_Way]:
        if tree not in self._ways:
            for each in subtrees(tree):
                if each not in self._ways:
                    own = self._way(each)
                    below = self._together(each.kids)
                    self._ways[each] = below | {own} if own else below
        return self._ways[tree]

    def _way(self, tree: Tree) -> _Way | None:
        """How the root of a tree computes its value; None where all computations of that are alike."""
        form, picked = self._forms.of(tree.node), self._picks.of(tree.node)
        if form is None:
            return None
        alone = not self._ordered and _is_sum_of_floats(tree.node)
        evaluated = self._constant.issuperset(tree.reads) and tree.node.fields.get("op") in _EVALUATED
        is_disputed = self._forms.disputes(form) or (picked is not None and self._picks.disputes(picked))
        return _Way(form, picked, alone, evaluated) if is_disputed or alone or evaluated else None


def _repeats(forms: ValueForms, found: Iterable[int]) -> bool:
    """Whether two of these forms are alternatives of each other."""
    alternatives = [each for form in {*found} for each in forms.disputes(form)]
    return len({*alternatives}) < len(alternatives)


def _number(way: _Way, form: int, folded: bool) -> int:
    """A number for the computation in this form, the same where the bits are."""
    return ALONE if way.alone else 2 * form + (way.evaluated and folded)


def _is_sum_of_floats(node: ENode) -> bool:
    """Whether another order of its terms changes the bits."""
    match node.ctor:
        case "Contract":
            return DTYPES[node.dtype].is_float and math.prod(node.sizes) > 1
        case "Reduce" | "Stream":
            return node.op not in ("max", "min") and DTYPES[node.dtype].is_float and math.prod(node.sizes) > 1
        case "Scan":
            return node.op != "max" and DTYPES[node.dtype].is_float
    return False
