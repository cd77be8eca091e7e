"""One value, one rounding: all computations of a value in a cover have the same bits.

Two computations of a value may round differently for three reasons.

    forms       the e-graph holds x / y as a quotient and as x · (1 / y): one kernel takes the first, another the second
    orders      a sum of floats takes its terms in the order of its kernel's plan, which other kernels do not share
    evaluators  exp(c) of a constant is computed when the program is built, or in a kernel by another approximation

So a cover gives every value one form and one evaluator, and one kernel computes a sum of floats: other kernels read
the stored sum. The operands of a value are values themselves; by induction all computations of a value have the same
bits.

A value that is picked from another value, as a maximum is, has the form of the other value: (max x) · 3 stands beside
x · 3, not beside y · 2.
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

_EVALUATED = frozenset(
    {"add", "sub", "mul", "fdiv", "quotient", "recip", "sqrt", "rsqrt", *(name.lower() for name in ELEMENTARY)}
)
"""Functions of floats that evaluators approximate, or whose denormal results they may flush."""


SUM_TWICE = Rejected("it would compute a sum of floats twice, in two orders")
"""Why a kernel that `Roundings.repeats_sums` is none."""


class _Computation(NamedTuple):
    """A computation of a value.

    form       the number of its form
    picked     the number of its form where a maximum counts as points of its operand; None where nothing is picked
    alone      whether it is a sum of floats, which one kernel computes
    evaluated  whether another evaluator gives other bits
    """

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
        self._computations: dict[Tree, frozenset[_Computation]] = {}
        self._marks: dict[tuple[tuple[Tree, ...], bool], tuple[Mark, ...]] = {}

    def marks(self, trees: Sequence[Tree], folded: bool = False) -> tuple[Mark, ...]:
        """How a kernel of these Store trees computes the values that others might compute in another computation.
        `folded`: it runs when the program is built."""
        key = (tuple(trees), folded)
        if key not in self._marks:
            computations = self._all_computations(trees)
            marks = {mark for computation in computations for mark in self._marks_of(computation, folded)}
            self._marks[key] = tuple(sorted(marks))
        return self._marks[key]

    def _marks_of(self, computation: _Computation, folded: bool) -> Iterator[Mark]:
        """What one computation says of its value, and of the sets of alternatives that it is in."""
        for about in (computation.form, *self._forms.disputes(computation.form)):
            yield about, _number(computation, computation.form, folded)
        if computation.picked is not None:
            for about in self._picks.disputes(computation.picked):
                yield len(self._forms) + about, _number(computation, computation.picked, folded)

    def disagree(self, trees: Sequence[Tree]) -> bool:
        """Whether a kernel of these Store trees computes a value in two forms."""
        computations = self._all_computations(trees)
        return _has_alternatives(self._forms, (computation.form for computation in computations)) or _has_alternatives(
            self._picks, (computation.picked for computation in computations if computation.picked is not None)
        )

    def repeats_sums(self, trees: Sequence[Tree], region: Region) -> bool:
        """Whether the region of these Store trees holds a sum of floats twice, and so perhaps in two orders."""
        sums = sum(is_order_bound(let.op) for let in region.body)
        if self._ordered or sums <= sum(computation.alone for computation in self._all_computations(trees)):
            return False
        alone: dict[int, list[Tree]] = {}
        for below in subtrees(*trees):
            computation = self._computation(below)
            if computation and computation.alone:
                alone.setdefault(computation.form, []).append(below)
        return sums > sum(len(several) if are_apart(several) else 1 for several in alone.values())

    def _all_computations(self, trees: Iterable[Tree]) -> frozenset[_Computation]:
        return frozenset[_Computation]().union(*map(self._computations_of, trees))

    def _computations_of(self, tree: Tree) -> frozenset[_Computation]:
        if tree not in self._computations:
            for inner in subtrees(tree):
                if inner not in self._computations:
                    own = self._computation(inner)
                    below = self._all_computations(inner.kids)
                    self._computations[inner] = below | {own} if own else below
        return self._computations[tree]

    def _computation(self, tree: Tree) -> _Computation | None:
        """How the root of a tree computes its value; None where all computations of that are alike."""
        form, picked = self._forms.of(tree.node), self._picks.of(tree.node)
        if form is None:
            return None
        alone = not self._ordered and _is_sum_of_floats(tree.node)
        evaluated = self._constant.issuperset(tree.reads) and tree.node.fields.get("op") in _EVALUATED
        is_disputed = self._forms.disputes(form) or (picked is not None and self._picks.disputes(picked))
        return _Computation(form, picked, alone, evaluated) if is_disputed or alone or evaluated else None


def _has_alternatives(forms: ValueForms, numbers: Iterable[int]) -> bool:
    """Whether two of these forms are alternatives of one another."""
    alternatives = [alternative for form in {*numbers} for alternative in forms.disputes(form)]
    return len({*alternatives}) < len(alternatives)


def _number(computation: _Computation, form: int, folded: bool) -> int:
    """A number for the computation in this form, the same where the bits are."""
    return ALONE if computation.alone else 2 * form + (computation.evaluated and folded)


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
