"""Which classes of an e-graph hold points of one value.

A value is stored, read, viewed, finished on chip: at every step another class stands for it, or for some of its points.

    y = x / s        Pro 4
    Store(y)         Buf 5    the same value in memory
    Load(5, m)       Pro 6    read at m: some of its points
    PView(4, m)      Pro 6    computed anew at m

Picks may count, too: each element of max y or relu y is one of y, or a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView

PASSED_ON = frozenset({"PView", "EView", "PGather", "Load", "Gather", "Store", "Pure", "Fin", "At"})
"""Constructors whose value consists of points of their first child."""


class SameValues:
    """The values of one e-graph, numbered; classes that hold points of one value have its number. `picks`: a class
    whose elements are picked from another class has that class's number, too."""

    def __init__(self, view: EGraphView, picks: bool = False) -> None:
        numbers = {class_ for class_, nodes in view.classes.items() if any(map(_is_number, nodes))}
        values = {class_: nodes for class_, nodes in view.classes.items() if class_ not in numbers}
        picked = {class_: tuple(several) for class_, several in _picks(values, numbers)} if picks else {}
        origins = {class_: (*_origins(nodes), *picked.get(class_, ())) for class_, nodes in values.items()}
        self._origins = {class_: origins.get(class_, ()) for class_ in view.classes}
        edges = [(class_, origin) for class_, origins in self._origins.items() for origin in origins]
        self._numbers = _number_components(1 + max(view.classes, default=0), edges)
        self.picked = frozenset(self.of(class_) for class_, picks_of in picked.items() if picks_of)
        """The values of which some class picks."""

    def of(self, class_: int) -> int:
        """The value whose points the class holds."""
        return self._numbers[class_]

    def origins(self, class_: int) -> tuple[int, ...]:
        """The classes to which the points of a class belong, by its nodes: a view's, to the viewed class."""
        return self._origins[class_]


def _number_components(size: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Node → the number of its connected component, of an undirected graph of the nodes 0, 1, … size - 1. Components
    are numbered by their least node."""
    nearer = list(range(size))  # a lesser node of the component; the least one is its own

    def least(node: int) -> int:
        while nearer[node] != node:
            nearer[node] = node = nearer[nearer[node]]
        return node

    for one, other in edges:
        low, high = sorted((least(one), least(other)))
        nearer[high] = low
    numbers, fresh = list[int](), count()
    for node in range(size):
        numbers.append(next(fresh) if nearer[node] == node else numbers[least(node)])
    return numbers


def _origins(nodes: Iterable[ENode]) -> Iterator[int]:
    for node in nodes:
        if node.ctor in PASSED_ON:
            first, *_ = node.children
            yield first


def _picks(values: Mapping[int, Sequence[ENode]], numbers: set[int]) -> Iterator[tuple[int, Iterator[int]]]:
    """Of each class, the classes that its nodes pick elements of. A number may stand on chip, in a class of its own."""
    on_chip = {
        class_ for class_, nodes in values.items() if any(node.ctor == "Pure" and node.x in numbers for node in nodes)
    }
    uniform = numbers | on_chip
    return ((class_, _picked_classes(nodes, uniform)) for class_, nodes in values.items())


def _picked_classes(nodes: Iterable[ENode], numbers: set[int]) -> Iterator[int]:
    """The classes that nodes pick elements of: the greatest and the least, along an axis or beside a number."""
    for node in nodes:
        match node.ctor:
            case "Reduce" | "Scan" if node.op in ("max", "min"):
                yield node.x
            case "PUn" | "EUn" if node.op == "relu":
                yield node.x
            case "PBin" | "EBin" if node.op in ("max", "min"):
                values = [operand for operand in (node.x, node.y) if operand not in numbers]
                yield from values if len(values) == 1 else ()


def _is_number(node: ENode) -> bool:
    """Whether a value is one number at all its points; a read of padding alone is that, and no point of the buffer."""
    if node.ctor in ("Load", "Gather", "PView", "PGather", "EView"):
        return node.map.fill is not None
    return node.ctor == "Imm"
