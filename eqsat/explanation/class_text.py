"""One class of an e-graph in words: the known ways to compute a uop's result."""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.explanation.history import History
from eqsat.explanation.notation import Notation
from ir.diagnostics import Kind, fail

_MARKS = ("Pure", "Fin", "Store")
_VIEWS = ("PView", "EView", "PGather", "PMax")


def class_lines(history: History, uop: str) -> list[str]:
    """One line per e-node of the value that a uop stores: the e-node, and the rule that built it. Raises EqsatError,
    InvalidOption, if there is no such uop."""
    view = history.view
    if uop not in view.tiny:
        fail(Kind.INVALID_OPTION, "explore", f"there is no uop {uop!r}", hint=", ".join(list(view.tiny)[:8]))
    words = _Words(view, history.names)
    return [f"{words(node)}   ({view.rules.get(node, 'as it was loaded')})" for node in _values(view, view.tiny[uop])]


def _values(view: EGraphView, buffer: int) -> Iterator[ENode]:
    """The e-nodes of a buffer's value, below marks such as Pure; reads of the buffer itself are left out."""
    seen: set[int] = set()
    waiting = [buffer]
    while waiting:
        class_ = waiting.pop(0)
        for node in view.classes[class_]:
            if node.ctor in _MARKS:
                (child,) = node.children
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
            elif node.ctor != "Load" or node.buffer != buffer:
                yield node


class _Words:
    """Writes e-nodes. An operand's class is written as its first e-node that is no view."""

    def __init__(self, view: EGraphView, names: dict[int, str]) -> None:
        self._view, self._names = view, names

    def __call__(self, node: ENode, depth: int = 4) -> str:
        root = -1
        return Notation(lambda term: node if term == root else self._first(term), self._name, self._shape)(root, depth)

    def _first(self, class_: int) -> ENode:
        nodes = self._view.classes[class_]
        plain = [node for node in nodes if node.ctor not in _VIEWS]
        return next((node for node in plain if node not in self._view.rules), (plain or nodes)[0])

    def _name(self, term: int) -> str | None:
        return self._names.get(term)

    def _shape(self, term: int) -> tuple[int, ...]:
        return self._view.type_of(term).shape
