"""Which reads of a buffer can pay: what enumeration leaves out without looking at a price.

A buffer is avoidable when its value can be computed wherever it is read: no accumulator stands in the way. Reading an
avoidable buffer is useless where computing its value there moves no more bytes and computes nothing twice: the buffer
is a copy of another, or one kernel alone reads it, each element once. Under padding, reading pays where a kernel that
accumulates writes the buffer: that kernel cannot go on there, and the buffer that it would write instead is no better
to read. Reading also pays where such a kernel writes the buffer in place of others, as it writes bytes in place of
sums: the reader may hold an accumulator of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from eqsat.egraph.buffers import computable_classes
from eqsat.egraph.enode import ENode
from eqsat.egraph.view import STEPS, EGraphView
from ir.index.injective import is_injective
from ir.post_order import post_order

EPILOGUES = ("Fin", "EUn", "EBin", "ETern")


class ReadFacts:
    """The facts of the buffers of one e-graph. `given` ones exist in any case: inputs and outputs; `constant`
    ones are computed before the program runs, so that reading one saves work."""

    def __init__(self, view: EGraphView, given: frozenset[int], constant: frozenset[int]) -> None:
        self._view, self._given, self._constant = view, given, constant
        self._readers = _readers(view)
        self._loaded = frozenset(view.tiny.values())
        self._gathered = frozenset(
            node.buffer for nodes in view.classes.values() for node in nodes if node.ctor == "Gather"
        )
        self._avoidable: dict[int, bool] = {}
        self._copies: dict[int, bool] = {}
        self._readers_of: dict[int, frozenset[int]] = {}
        self._successors: dict[int, int | None] = {}

    def is_useless_load(self, load: ENode) -> bool:
        """Whether the value of this Load is as cheap to compute from the values that its buffer is computed from."""
        buffer, view = load.buffer, load.map
        if view.fill is not None:
            return False
        if buffer not in self._loaded and self._is_copy(buffer):
            return True
        if not self.is_avoidable(buffer):
            return False
        if self._is_copy(buffer):
            return True
        if buffer in self._constant:
            return False
        if self._is_epilogue(buffer) and (view.guards or self.successor(buffer) is None):
            return False
        return len(self._ends(buffer)) <= 1 and is_injective(view)

    def is_avoidable(self, buffer: int) -> bool:
        """Whether the buffer need not exist: it is not given, and its value can be computed at any index."""
        if buffer not in self._avoidable:
            self._avoidable[buffer] = buffer not in self._given and any(
                True for _ in self._values_without_accumulator(buffer)
            )
        return self._avoidable[buffer]

    def needs_own_kernel(self, buffer: int) -> bool:
        """Whether having the buffer takes one kernel more: an avoidable one that no reduction or contraction could
        write in place of its own result."""
        return self.is_avoidable(buffer) and not self._is_epilogue(buffer)

    def successor(self, buffer: int) -> int | None:
        """The one buffer that is computed from this, where storing that instead is always as good: it is no larger,
        computed index by index, and can be written in this one's place. A buffer that is gathered has none, since a
        gather may read an element several times. Of buffers that would replace one another in a circle, the first has
        none."""
        if buffer not in self._successors:
            path, end = [buffer], self._replacement(buffer)
            while end is not None and end not in path and end not in self._successors:
                path.append(end)
                end = self._replacement(end)
            self._successors.update(zip(path, [*path[1:], end], strict=True))
            if end in path:
                self._successors[min(path[path.index(end) :])] = None
        return self._successors[buffer]

    def _replacement(self, buffer: int) -> int | None:
        """The successor of a buffer that is seen by itself."""
        ends = self._ends(buffer)
        (end,) = ends if len(ends) == 1 else (None,)
        replaces = (
            end is not None
            and buffer not in self._given
            and buffer not in self._constant
            and buffer not in self._gathered
            and any(True for _ in self._values_without_accumulator(end))
            and self._view.type_of(end).nbytes <= self._view.type_of(buffer).nbytes
            and (self.is_avoidable(buffer) or self._is_epilogue(end))
        )
        return end if replaces else None

    def _is_epilogue(self, buffer: int) -> bool:
        """Whether some kernel that accumulates can write the buffer."""
        stores = self._view.stores(buffer)
        return any(node.ctor in EPILOGUES for store in stores for node in self._view.classes[store.value])

    def _values_without_accumulator(self, buffer: int) -> Iterable[int]:
        """The classes of the values that the buffer stores without an accumulator, and not only as a part of what a
        rule introduced: that need not exist."""
        for store in self._view.stores(buffer):
            for node in self._view.classes[store.value]:
                if node.ctor == "Pure" and any(True for _ in self._definitions(buffer, node.x)):
                    yield node.x

    def _definitions(self, buffer: int, value: int) -> Iterable[ENode]:
        """How a value is computed that the buffer stores, if the program's own buffers are there to be read."""
        needs_own = buffer in self._loaded
        for node in self._view.classes[value]:
            if node.ctor in STEPS or (node.ctor == "Load" and node.buffer == buffer):
                continue
            if not needs_own or self._own.issuperset(node.children):
                yield node

    @cached_property
    def _own(self) -> frozenset[int]:
        """The classes that can be computed from the program's own buffers and from constants: what a rule introduced is
        not stored."""
        return computable_classes(self._view, self._loaded | self._constant, without=["Store"])

    def _is_copy(self, buffer: int) -> bool:
        """Whether one way to compute the buffer is to read another, moved."""
        if buffer not in self._copies:
            nodes = [
                node for value in self._values_without_accumulator(buffer) for node in self._definitions(buffer, value)
            ]
            self._copies[buffer] = any(node.ctor == "Load" for node in nodes)
        return self._copies[buffer]

    def _ends(self, buffer: int) -> frozenset[int]:
        """The buffers that are computed from this one in the program as it was written, copies passed over."""
        for source in post_order([buffer], self._copies_below):
            if source not in self._readers_of:
                copies = set(self._copies_below(source))
                ends = {reader for reader in self._readers.get(source, ()) if reader not in copies}
                for copy in copies:
                    ends |= self._readers_of.get(copy, frozenset())  # a copy of itself leads nowhere
                self._readers_of[source] = frozenset(ends)
        return self._readers_of[buffer]

    def _copies_below(self, buffer: int) -> list[int]:
        """The copies that are made of this buffer, none where its ends are known."""
        readers = () if buffer in self._readers_of else self._readers.get(buffer, ())
        return [reader for reader in readers if reader not in self._given and self._is_copy(reader)]


def _readers(view: EGraphView) -> dict[int, dict[int, None]]:
    """Buffer → the buffers whose kernels, as they were loaded, read it."""
    readers: dict[int, dict[int, None]] = {}
    for buffer in view.classes:
        for store in view.stores(buffer):
            if store not in view.rules:
                for read in _loaded_reads(view, buffer, store):
                    readers.setdefault(read, {})[buffer] = None
    return readers


def _loaded_reads(view: EGraphView, buffer: int, store: ENode) -> set[int]:
    """The buffers that a Store read when it was loaded: down the loaded nodes, ending where a class is a read.

    A class that reads the buffer itself is the value stored, and not a read.
    """
    all_reads: set[int] = set()
    seen: set[int] = set()
    waiting = [store.value]
    while waiting:
        class_ = waiting.pop()
        if class_ in seen:
            continue
        seen.add(class_)
        loaded = [node for node in view.classes[class_] if node not in view.rules and node.ctor not in STEPS]
        reads = {node.buffer for node in loaded if node.ctor == "Load"}
        if reads and buffer not in reads:
            all_reads |= reads
        else:
            all_reads |= {node.buffer for node in loaded if node.ctor == "Gather"}
            waiting.extend(kid for node in loaded for kid in node.inline_children)
    return all_reads
