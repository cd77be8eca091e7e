"""The forms in which an e-graph holds its values, and which of them are alternatives of each other.

A form is an op over the values of its operands, at whatever points these are read. The forms of a class are
alternatives; so are those of a class and of the classes whose points it holds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import STEPS, EGraphView
from eqsat.extraction.rounding.same_values import SameValues

_Form = tuple[object, ...]

_NO_OPS = frozenset({"Input", "Store", "Load", "Gather", "Index", "Pure", "Fin", "At", *STEPS})
"""Constructors that round nothing."""
_ACCUMULATORS = ("Reduce", "Contract", "Stream", "Scan")
_COMMUTATIVE = frozenset({"add", "mul"})
_CARRYING = frozenset({"cast", "where"})
"""Ops over points of a value that hand them on: as wide as the maximum of narrow ones may be, or beside others."""
_JOINING = frozenset({"add", "max", "min", "or"})
"""Ops that put padded parts together."""


class ValueForms:
    """The forms of one e-graph's values, numbered.

    Args:
        picks: whether what is picked from a value, as its maximum is, counts as points of that value. Then only
            values of which something is picked are told.
    """

    def __init__(self, view: EGraphView, picks: bool = False) -> None:
        self._view = view
        self._same = SameValues(view, picks)
        self._numbers: dict[tuple[int, _Form], int] = {}
        self._forms: dict[ENode, int] = {}
        self._immediates = {self._same.of(each): number for each, number in _immediates(view)}
        classes = view.classes
        told = [each for each in classes if self._same.of(each) in self._same.picked] if picks else list(classes)
        self._disputes = self._found_disputes(told)

    def __len__(self) -> int:
        """How many numbers there are, of forms and of sets of alternatives."""
        return len(self._numbers) + len({number for found in self._disputes.values() for number in found})

    def of(self, node: ENode) -> int | None:
        """The form in which a node computes the value of its class; None where it rounds nothing."""
        return self._forms.get(node)

    def disputes(self, form: int) -> Sequence[int]:
        """Numbers, above those of forms, of the sets of several alternatives that a form is in."""
        return self._disputes.get(form, ())

    def _found_disputes(self, told: Collection[int]) -> dict[int, list[int]]:
        forms = {each: self._forms_in(each, self._view.classes[each]) for each in told}
        several = (frozenset([*own, *self._forms_behind(each, forms)]) for each, own in forms.items() if own)
        disputes: dict[int, list[int]] = {}
        alternatives = [found for found in dict.fromkeys(several) if len(found) > 1]
        for number, found in enumerate(alternatives, len(self._numbers)):
            for form in found:
                disputes.setdefault(form, []).append(number)
        return disputes

    def _forms_in(self, each: int, nodes: Iterable[ENode]) -> list[int]:
        """The forms in which the nodes of a class compute its value."""
        return [self._numbered(each, node) for node in nodes if self._computes(each, node)]

    def _computes(self, each: int, node: ENode) -> bool:
        """Whether a node computes the value of its class. One over points of that value need not: it changes nothing,
        picks some, or puts padded parts together."""
        if node.ctor in _NO_OPS:
            return False
        operands = node.inline_children
        alike = [operand for operand in operands if self._same.of(operand) == self._same.of(each)]
        if not alike:
            return True
        picks = self._same.origins(each)
        if each in alike or any(operand in picks for operand in alike):
            return False
        if node.ctor in _ACCUMULATORS:
            return True
        return not (node.op in _CARRYING or (node.op in _JOINING and all(map(self._is_padded, operands))))

    def _is_padded(self, each: int) -> bool:
        """Whether a class holds a value read under padding."""
        reads = (node for node in self._view.classes[each] if node.ctor in ("Load", "PView"))
        return any(node.map.guards for node in reads)

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
        operands = [self._operand(kid) for kid in node.inline_children]
        match node.ctor:
            case "Imm":
                return (node.ctor, node.dtype, node.number)
            case "Scan":
                return (node.ctor, node.op, node.dtype, *operands)
            case "Contract":
                return (node.ctor, node.dtype, math.prod(node.sizes), *sorted(operands))
            case "Reduce" | "Stream":
                return (node.ctor, node.op, node.dtype, math.prod(node.sizes), *operands)
        return (node.ctor[1:], node.op, node.dtype, *(sorted(operands) if node.op in _COMMUTATIVE else operands))


def _immediates(view: EGraphView) -> Iterator[tuple[int, str]]:
    """The classes that hold a number, with its dtype and text."""
    for each, nodes in view.classes.items():
        for node in nodes:
            if node.ctor == "Imm":
                yield each, f"{node.dtype} {node.number}"
