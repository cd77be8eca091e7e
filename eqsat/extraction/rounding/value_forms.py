"""The forms in which an e-graph holds its values, and which of them are alternatives of each other.

A form is an op over the values of its operands, at whatever points these are read. The forms of a class are
alternatives; so are those of a class and of the classes whose points it holds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import STEPS, EGraphView
from eqsat.extraction.rounding.same_values import PASSED_ON, SameValues
from ir.dtype import DTYPES, DType, is_widening

_Form = tuple[object, ...]

_NO_OPS = frozenset({"Input", "Store", "Load", "Gather", "Index", "Table", "Pure", "Fin", "At", *STEPS})
"""Constructors that round nothing."""
_ACCUMULATORS = ("Reduce", "Contract", "Stream", "Scan", "Scatter")
_COMMUTATIVE = frozenset({"add", "mul"})
_PASSING_ON = frozenset({"cast", "where"})
"""Ops that return elements of an operand: in a wider dtype, or beside elements of another operand."""
_CONCATENATING = frozenset({"add", "max", "min", "or"})
"""Ops that concatenate padded parts."""


class ValueForms:
    """The forms of one e-graph's values, numbered.

    Args:
        picks: whether values that are picked from another, as its maximum is, count as points of that value. Then only
            values from which something is picked have disputes.
    """

    def __init__(self, view: EGraphView, picks: bool = False) -> None:
        self._view = view
        self._same = SameValues(view, picks)
        self._numbers: dict[tuple[int, _Form], int] = {}
        self._forms: dict[ENode, int] = {}
        self._dtypes: dict[int, DType | None] = {}
        self._immediates = {self._same.of(class_): number for class_, number in _immediates(view)}
        classes = view.classes
        judged = [class_ for class_ in classes if not picks or self._same.of(class_) in self._same.picked]
        self._disputes = self._derive_disputes(judged)

    def __len__(self) -> int:
        """How many numbers there are, of forms and of sets of alternatives together."""
        return len(self._numbers) + len({number for several in self._disputes.values() for number in several})

    def of(self, node: ENode) -> int | None:
        """The form in which a node computes the value of its class; None where it rounds nothing."""
        return self._forms.get(node)

    def disputes(self, form: int) -> Sequence[int]:
        """The numbers, above those of forms, of the sets of alternatives that a form is in."""
        return self._disputes.get(form, ())

    def _derive_disputes(self, classes: Collection[int]) -> dict[int, list[int]]:
        forms = {class_: self._forms_in(class_, self._view.classes[class_]) for class_ in classes}
        sets = (frozenset([*own, *self._forms_behind(class_, forms)]) for class_, own in forms.items())
        disputes: dict[int, list[int]] = {}
        alternatives = [several for several in dict.fromkeys(sets) if len(several) > 1]
        for number, several in enumerate(alternatives, len(self._numbers)):
            for form in several:
                disputes.setdefault(form, []).append(number)
        return disputes

    def _forms_in(self, class_: int, nodes: Iterable[ENode]) -> list[int]:
        """The forms in which the nodes of a class compute its value."""
        return [self._number_form(class_, node) for node in nodes if self._computes(class_, node)]

    def _computes(self, class_: int, node: ENode) -> bool:
        """Whether a node computes the value of its class, a float: integers are the same in all forms of the same
        operands. A node over points of that value may not: it changes nothing, picks points, or concatenates padded
        parts."""
        if node.ctor in _NO_OPS or not DTYPES[_dtype_of(node)].is_float:
            return False
        operands = node.inline_children
        alike = [operand for operand in operands if self._same.of(operand) == self._same.of(class_)]
        if not alike:
            return True
        picks = self._same.origins(class_)
        if class_ in alike or any(operand in picks for operand in alike):
            return False
        if node.ctor in _ACCUMULATORS or self._narrows(node):
            return True
        return not (node.op in _PASSING_ON or (node.op in _CONCATENATING and all(map(self._is_padded, operands))))

    def _narrows(self, node: ENode) -> bool:
        """Whether a node is a cast that may round."""
        if node.op != "cast":
            return False
        given = self._dtype_of_class(node.x)
        return given is not None and not is_widening(given, DTYPES[node.dtype])

    def _dtype_of_class(self, class_: int) -> DType | None:
        """The dtype of a class inside of a kernel; None where it only holds points of itself."""
        if class_ not in self._dtypes:
            self._dtypes[class_] = None  # met again on the way, it tells nothing
            dtypes = (self._dtype_in(node) for node in self._view.classes[class_])
            self._dtypes[class_] = next((dtype for dtype in dtypes if dtype is not None), None)
        return self._dtypes[class_]

    def _dtype_in(self, node: ENode) -> DType | None:
        if node.source is not None:
            return self._view.type_of(node.source).dtype
        if node.ctor in PASSED_ON:
            return self._dtype_of_class(node.children[0])
        dtype = getattr(node, "dtype", None)
        return DTYPES[dtype] if dtype is not None else None

    def _is_padded(self, class_: int) -> bool:
        """Whether a class holds a value read under padding."""
        reads = (node for node in self._view.classes[class_] if node.ctor in ("Load", "Gather", "PView", "PGather"))
        return any(node.map.guards for node in reads)

    def _forms_behind(self, class_: int, forms: Mapping[int, list[int]]) -> list[int]:
        """The forms of the classes whose points a class holds, of the first with any on class_ way."""
        behind: list[int] = []
        waiting, met = list(self._same.origins(class_)), {class_}
        while waiting:
            origin = waiting.pop()
            if origin not in met:
                met.add(origin)
                behind += forms[origin]
                waiting += [] if forms[origin] else self._same.origins(origin)
        return behind

    def _number_form(self, class_: int, node: ENode) -> int:
        """The number of the form in which a node computes the value of its class."""
        form = (self._same.of(class_), self._form(node))
        self._forms[node] = self._numbers.setdefault(form, len(self._numbers))
        return self._forms[node]

    def _operand(self, class_: int) -> str:
        """The value of a class as an operand: a number is the same over any domain."""
        value = self._same.of(class_)
        return self._immediates.get(value, f"value {value}")

    def _form(self, node: ENode) -> _Form:
        operands = [self._operand(kid) for kid in node.inline_children]
        match node.ctor:
            case "Imm":
                return (node.ctor, node.dtype, node.number)
            case "Scan":
                return (node.ctor, node.op, node.dtype, *operands)
            case "Scatter":
                return (node.ctor, node.op, node.type.dtype, *operands)
            case "Contract":
                return (node.ctor, node.dtype, math.prod(node.sizes), *sorted(operands))
            case "Reduce" | "Stream":
                return (node.ctor, node.op, node.dtype, math.prod(node.sizes), *operands)
        return (node.ctor[1:], node.op, node.dtype, *(sorted(operands) if node.op in _COMMUTATIVE else operands))


def _dtype_of(node: ENode) -> str:
    """The dtype of the value that a node computes."""
    return node.type.dtype.name if node.ctor == "Scatter" else node.dtype


def _immediates(view: EGraphView) -> Iterator[tuple[int, str]]:
    """The classes that hold a number, with its dtype and text."""
    for class_, nodes in view.classes.items():
        for node in nodes:
            if node.ctor == "Imm":
                yield class_, f"{node.dtype} {node.number}"
