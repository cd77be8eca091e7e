"""Which reads of a buffer can pay: what enumeration leaves out without looking at a price.

A buffer is avoidable when its value can be computed wherever it is read: no accumulator stands in the way. Reading
it gains nothing where computing it there moves no more bytes and computes nothing twice, that is if it is a mere
copy of another, or if one kernel alone reads it, each element once.
"""

from __future__ import annotations

from collections.abc import Iterable

from eqsat.egraph_view import EGraphView, ENode
from eqsat.kernel_tree import VIEWS, inline_classes
from ir.axis_facts import is_injective
from ir.axis_map import parse_map


class ReadFacts:
    """What is known of the buffers of one e-graph; `given` ones exist in any case: inputs and outputs."""

    def __init__(self, view: EGraphView, given: frozenset[int]) -> None:
        self._view, self._given = view, given
        self._readers = _readers(view)
        self._avoidable: dict[int, bool] = {}
        self._copies: dict[int, bool] = {}
        self._counts: dict[int, int] = {}

    def gain_nothing(self, load: ENode) -> bool:
        """Whether the value of this Load is had as cheaply from what its buffer is computed from."""
        buffer, view = int(load.args[0]), parse_map(str(load.args[1]))
        if view.fill is not None or not self.is_avoidable(buffer):
            return False
        return self._is_copy(buffer) or (self._count(buffer) <= 1 and is_injective(view))

    def is_avoidable(self, buffer: int) -> bool:
        """Whether the buffer need not exist: it is not given, and its value can be computed at any index."""
        if buffer not in self._avoidable:
            self._avoidable[buffer] = buffer not in self._given and any(True for _ in self._pure(buffer))
        return self._avoidable[buffer]

    def _pure(self, buffer: int) -> Iterable[int]:
        """The classes of the values that the buffer stores without an accumulator."""
        for store in self._view.classes[buffer]:
            if store.ctor == "Store":
                for node in self._view.classes[int(store.args[0])]:
                    if node.ctor == "Pure":
                        yield int(node.args[0])

    def _is_copy(self, buffer: int) -> bool:
        """Whether one way to compute the buffer is to read another, moved."""
        if buffer not in self._copies:
            nodes = [node for value in self._pure(buffer) for node in self._view.classes[value]]
            self._copies[buffer] = any(node.ctor == "Load" and node.args[0] != buffer for node in nodes)
        return self._copies[buffer]

    def _count(self, buffer: int) -> int:
        """How many kernels of the program as it was written read the buffer, directly or through copies."""
        if buffer not in self._counts:
            self._counts[buffer] = 0  # a copy of itself reads nothing more
            readers = self._readers.get(buffer, {})
            through = [each for each in readers if each not in self._given and self._is_copy(each)]
            self._counts[buffer] = len(readers) - len(through) + sum(map(self._count, through))
        return self._counts[buffer]


def _readers(view: EGraphView) -> dict[int, dict[int, None]]:
    """Buffer → the buffers whose kernels, as they were loaded, read it."""
    readers: dict[int, dict[int, None]] = {}
    for buffer, stores in view.classes.items():
        for store in stores:
            if store.ctor == "Store" and store not in view.rules:
                for read in _loaded_reads(view, buffer, store):
                    readers.setdefault(read, {})[buffer] = None
    return readers


def _loaded_reads(view: EGraphView, buffer: int, store: ENode) -> set[int]:
    """The buffers that a Store read when it was loaded: down the loaded nodes, ending where a class is a read.

    A class that reads the buffer itself is the value stored, and not a read.
    """
    found: set[int] = set()
    seen: set[int] = set()
    waiting = list(inline_classes(view, store))
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        loaded = [node for node in view.classes[each] if node not in view.rules and node.ctor not in VIEWS]
        reads = {int(node.args[0]) for node in loaded if node.ctor == "Load"}
        if reads and buffer not in reads:
            found |= reads
        else:
            found |= {int(node.args[0]) for node in loaded if node.ctor == "Gather"}
            waiting.extend(kid for node in loaded for kid in inline_classes(view, node))
    return found
