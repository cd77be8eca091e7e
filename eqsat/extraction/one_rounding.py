"""One value, one rounding: all computations of a value in a cover have the same bits.

Two computations of a value may round differently for three reasons.

    forms       the e-graph holds x / y as a quotient and as x · (1 / y): one kernel takes the first, another the second
    orders      a sum of floats takes its terms in the order of its kernel's plan, which other kernels do not share
    evaluators  exp(c) of a constant is computed when the program is built, or in a kernel by another approximation

So a cover gives every value one form and one evaluator, and one kernel computes a sum of floats: others read what was
stored. The operands of a value are values themselves; by induction all computations of a value have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from eqsat.egraph.view import EGraphView, ENode
from eqsat.extraction.extractors.problem import ALONE, Mark
from eqsat.extraction.kernel_tree import STEPS, Tree, inline_classes, subtrees
from eqsat.extraction.same_values import SameValues
from ir.dtype import DTYPES
from ir.pricer import Rejected
from ir.region import Region, is_order_bound
from ir.term_text import parse_sizes
from ir.uop import ELEMENTARY

_Form = tuple[object, ...]
"""How a value is computed: its op over the values of its operands, at whatever points these are read."""

_NO_OPS = frozenset({"Input", "Store", "Load", "Gather", "Index", "Pure", "Fin", "At", *STEPS})
"""Constructors that round nothing."""
_SIZES = {"Reduce": 2, "Contract": 1, "Stream": 2}
"""Accumulators of a box of terms → the place of its sizes."""
_COMMUTATIVE = frozenset({"add", "mul"})
_EVALUATED = frozenset({"add", "sub", "mul", "fdiv", "recip", "sqrt", "rsqrt", *(name.lower() for name in ELEMENTARY)})
"""Functions of floats that evaluators approximate, or whose denormal results they may flush."""


SUM_TWICE = Rejected("it would compute a sum of floats twice, in two orders")
"""Why a kernel that `Roundings.repeats_sums` is none."""


class _Way(NamedTuple):
    """A computation of a value: the number of its form; `alone` where it is a sum of floats, `evaluated` where another
    evaluator gives other bits."""

    form: int
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
        self._same = SameValues(view)
        self._numbers: dict[tuple[int, _Form], int] = {}
        self._forms: dict[ENode, int] = {}
        self._immediates = {self._same.of(each): number for each, number in _immediates(view)}
        self._disputes = self._found_disputes()
        self._ways: dict[Tree, frozenset[_Way]] = {}
        self._marks: dict[tuple[tuple[Tree, ...], bool], tuple[Mark, ...]] = {}

    def marks(self, trees: Sequence[Tree], folded: bool = False) -> tuple[Mark, ...]:
        """How a kernel of these Store trees computes the values that others might compute in another way. `folded`: it
        runs when the program is built."""
        key = (tuple(trees), folded)
        if key not in self._marks:
            ways = ((way, _number(way, folded)) for way in self._together(trees))
            found = {(about, number) for way, number in ways for about in (way.form, *self._disputes.get(way.form, ()))}
            self._marks[key] = tuple(sorted(found))
        return self._marks[key]

    def disagree(self, trees: Sequence[Tree]) -> bool:
        """Whether a kernel of these Store trees computes a value in two forms."""
        marks = self.marks(trees)
        return len({value for value, _ in marks}) < len(marks)

    def repeats_sums(self, trees: Sequence[Tree], region: Region) -> bool:
        """Whether the region of these Store trees holds a sum of floats twice, and so perhaps in two orders."""
        sums = sum(is_order_bound(let.op) for let in region.body)
        return not self._ordered and sums > sum(way.alone for way in self._together(trees))

    def _found_disputes(self) -> dict[int, list[int]]:
        """Form → numbers, above those of forms, of the sets of alternatives that it is in: the forms of a class, and of
        the classes whose points it holds."""
        forms = {each: self._forms_in(each, nodes) for each, nodes in self._view.classes.items()}
        several = (frozenset([*own, *self._forms_behind(each, forms)]) for each, own in forms.items() if own)
        disputes: dict[int, list[int]] = {}
        for number, alternatives in enumerate(dict.fromkeys(several), len(self._numbers)):
            for form in alternatives if len(alternatives) > 1 else ():
                disputes.setdefault(form, []).append(number)
        return disputes

    def _forms_in(self, each: int, nodes: Iterable[ENode]) -> list[int]:
        """The forms in which the nodes of a class compute its value."""
        return [self._numbered(each, node) for node in nodes if self._computes(each, node)]

    def _computes(self, each: int, node: ENode) -> bool:
        """Whether a node computes the value of its class. One over points of that value does not: it puts padded parts
        together, or picks one."""
        operands = inline_classes(self._view, node)
        return node.ctor not in _NO_OPS and self._same.of(each) not in map(self._same.of, operands)

    def _forms_behind(self, each: int, forms: Mapping[int, list[int]]) -> list[int]:
        """The forms of the classes whose points a class holds, of the first with any on each way."""
        found: list[int] = []
        waiting, met = list(self._same.origins(each)), {each}
        while waiting:
            origin = waiting.pop()
            if origin not in met:
                met.add(origin)
                found += forms[origin]
                waiting += [] if forms[origin] else self._same.origins(origin)
        return found

    def _numbered(self, each: int, node: ENode) -> int:
        """The number of the form in which a node computes the value of its class."""
        form = (self._same.of(each), self._form(node))
        self._forms[node] = self._numbers.setdefault(form, len(self._numbers))
        return self._forms[node]

    def _operand(self, each: int) -> str:
        """The value of a class as an operand: a number is the same over any domain."""
        value = self._same.of(each)
        return self._immediates.get(value, f"value {value}")

    def _form(self, node: ENode) -> _Form:
        operands = [self._operand(kid) for kid in inline_classes(self._view, node)]
        match node.ctor:
            case "Imm" | "Scan":
                return (node.ctor, *node.args[:2], *operands)
            case "Reduce" | "Contract" | "Stream":
                named = node.args[: _SIZES[node.ctor]]
                return (node.ctor, *named, _terms(node), *(sorted(operands) if node.ctor == "Contract" else operands))
        is_sorted = node.args[0] in _COMMUTATIVE
        return (node.ctor[1:], *node.args[:2], *(sorted(operands) if is_sorted else operands))

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
        form = self._forms.get(tree.node)
        if form is None:
            return None
        alone = not self._ordered and _is_sum_of_floats(tree.node)
        evaluated = tree.node.args[0] in _EVALUATED and self._constant.issuperset(tree.reads)
        return _Way(form, alone, evaluated) if form in self._disputes or alone or evaluated else None


def _immediates(view: EGraphView) -> Iterator[tuple[int, str]]:
    """The classes that hold a number, with its dtype and text."""
    for each, nodes in view.classes.items():
        for node in nodes:
            if node.ctor == "Imm":
                yield each, f"{node.args[0]} {node.args[1]}"


def _number(way: _Way, folded: bool) -> int:
    """A number for the computation, the same where the bits are."""
    return ALONE if way.alone else 2 * way.form + (way.evaluated and folded)


def _is_sum_of_floats(node: ENode) -> bool:
    """Whether another order of its terms changes the bits."""
    match node.ctor:
        case "Contract":
            return DTYPES[str(node.args[0])].is_float and _terms(node) > 1
        case "Reduce" | "Stream":
            is_exact = node.args[0] in ("max", "min")
            return not is_exact and DTYPES[str(node.args[1])].is_float and _terms(node) > 1
        case "Scan":
            return node.args[0] != "max" and DTYPES[str(node.args[1])].is_float
    return False


def _terms(node: ENode) -> int:
    """How many terms an accumulator takes at each of its points."""
    return math.prod(parse_sizes(str(node.args[_SIZES[node.ctor]])))
