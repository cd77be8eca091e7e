"""Chooses the calls that become parts of a program, so that equal calls are optimized once.

Blocks that repeat outside of calls count as calls. A call becomes a part if the values that cross its edge would lie in
memory in any case. Other calls are optimized with the uops around them, since one kernel may compute uops on both sides
of the edge.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from eqsat.looping.find_pieces import find_pieces
from eqsat.looping.find_repeats import find_repeats
from eqsat.looping.stored import StoredValues, free_values, stored_sources
from eqsat.looping.uop_key import uop_key
from ir.post_order import post_order
from ir.tiny.graph import Graph, Imm, Ref
from ir.uop.table import UOpKind

LEAST_UOPS = 20
"""A call of fewer uops, movements not counted, is no part. Activations and norms have at most 15, and kernels fuse them
with what is around them; 12 calls of 12 uops take 0.4 s to optimize, so that little is gained."""

Path = tuple[Ref, ...]
"""The calls that lead to a uop, the outermost first."""


class CalledPart(NamedTuple):
    """A call that becomes a part. uops: the uops that only this part computes."""

    path: Path
    uops: frozenset[Ref]


def cut_calls(graph: Graph, known: Collection[Ref] = ()) -> tuple[CalledPart, ...]:
    """The calls that become parts; none of them lies in another one. known: the values that are known when the program
    is built."""
    values = StoredValues(graph, known)
    calls = {node.id: node.calls for node in values.nodes if node.calls} | _repeats(values)
    parts = _repeated_calls(values, calls) if calls else ()
    return (*parts, *_pieces(values, [uop for part in parts for uop in part.uops]))


def _repeated_calls(values: StoredValues, calls: Mapping[Ref, Path]) -> tuple[CalledPart, ...]:
    chooser = _Chooser(values, calls)
    chosen = chooser.choose(())
    parts = without_cycles(values.graph, [CalledPart(path, frozenset(chooser.uops[path])) for path in chosen])
    in_turn = _in_turn(values.graph, parts)
    counts = Counter(chooser.forms[part.path] for part in in_turn)
    return tuple(part for part in in_turn if counts[chooser.forms[part.path]] > 1)


def _pieces(values: StoredValues, taken: Collection[Ref]) -> Iterator[CalledPart]:
    """The pieces of what is left, each as a call: `piece1`, `piece2`, …."""
    if any(node.op.kind is UOpKind.LOOP or node.calls for node in values.nodes):
        return
    for number, piece in enumerate(find_pieces(values, taken), 1):
        yield CalledPart((f"piece{number}",), frozenset(piece))


def _repeats(values: StoredValues) -> dict[Ref, Path]:
    """The uops of repeated blocks, each block as a call: `block1`, `block2`, …."""
    taken = {call for node in values.nodes for call in node.calls}
    prefix = "block"
    while any(call.startswith(prefix) for call in taken):
        prefix += "_"
    blocks = enumerate(find_repeats(values, LEAST_UOPS), 1)
    return {uop: (f"{prefix}{number}",) for number, block in blocks for uop in block}


class _Chooser:
    """uops: call → the uops that only the call computes, in order. inner: call → the calls in it."""

    def __init__(self, values: StoredValues, calls: Mapping[Ref, Path]) -> None:
        self.values, self.graph, self.known = values, values.graph, values.known
        self.uops: dict[Path, list[Ref]] = defaultdict(list)
        self.inner: dict[Path, dict[Path, None]] = defaultdict(dict)
        with_loops: set[Path] = set()
        for node in self.values.nodes:
            own = calls.get(node.id, ())
            for depth in range(len(own)):
                path = own[: depth + 1]
                self.inner[path[:-1]][path] = None
                if node.op.kind is UOpKind.LOOP:
                    with_loops.add(path)
                elif node.uop != "INPUT":
                    self.uops[path].append(node.id)
        large = [path for path, uops in self.uops.items() if len(uops) >= LEAST_UOPS and path not in with_loops]
        forms = {path: self._form(self.uops[path]) for path in large}
        counts = Counter(forms.values())
        self._repeated = {path for path in large if counts[forms[path]] > 1}
        self.forms = {path: forms[path] for path in self._repeated if self._is_free_to_cut(path)}
        self._counts = Counter(self.forms.values())

    def choose(self, path: Path) -> list[Path]:
        """The calls in a call that become parts; or the call itself, unless calls in it equal each other."""
        inner = [part for call in self.inner[path] for part in self.choose(call)]
        has_equal = len({self.forms[part] for part in inner}) < len(inner)
        is_part = path in self.forms and self._counts[self.forms[path]] > 1
        return [path] if is_part and not has_equal else inner

    def _form(self, uops: Sequence[Ref]) -> object:
        """Equal for calls that compute the same from values of equal types."""
        own, number = set(uops), dict[Ref, int]()
        entries: list[object] = []
        for ref in post_order(uops, lambda ref: self.graph[ref].refs if ref in own or ref in self.values.free else ()):
            number[ref] = len(number)
            entries.append(self._entry(ref, number, is_own=ref in own))
        return tuple(entries), tuple(number[uop] for uop in uops if self._leaves(uop, own))

    def _entry(self, ref: Ref, number: Mapping[Ref, int], *, is_own: bool) -> object:
        node = self.graph[ref]
        if is_own or ref in self.values.free:
            return uop_key(node, (read if isinstance(read, Imm) else number[read] for read in node.src))
        type_ = self.graph.types[ref]
        return type_.dtype, type_.shape, ref in self.known

    def _leaves(self, uop: Ref, own: AbstractSet[Ref]) -> bool:
        """Whether uops outside of `own` read a value, or it is an output."""
        return uop in self.values.written or not self.values.readers[uop] <= own

    @cached_property
    def _after_repeated(self) -> set[Ref]:
        """The values that need a result of a repeated call."""
        repeated = {uop for path in self._repeated for uop in self.uops[path]}
        for node in self.values.nodes:
            if any(not repeated.isdisjoint(self.values.sources[ref]) for ref in node.refs):
                repeated.add(node.id)
        return repeated

    def _is_free_to_cut(self, path: Path) -> bool:
        """Whether the values on the edge of a call are stored in any case. Values that come before all repeated calls
        may be stored for the cut: there are few of them."""
        own = set(self.uops[path])
        read = {source for uop in own for ref in self.graph[uop].refs for source in self.values.sources[ref]}
        edge = {uop for uop in own if self._leaves(uop, own)} | ((read - own) & self._after_repeated)
        return all(map(self.values.is_stored, edge))


def without_cycles(graph: Graph, parts: Sequence[CalledPart]) -> tuple[CalledPart, ...]:
    """The parts that do not need their own results. No call needs its own result, but a program may state any calls."""
    while True:
        try:
            tuple(units_in_order(graph, parts))
        except CycleError as error:
            parts = [part for part in parts if part not in error.args[1]]
        else:
            return tuple(parts)


def _in_turn(graph: Graph, parts: Sequence[CalledPart]) -> list[CalledPart]:
    """The parts that run one after another. Of calls beside each other, one kernel may compute uops of both, which
    saves launches."""
    depth: dict[Ref, int] = {}
    turns: dict[CalledPart, int] = {}
    for item, reads in units_in_order(graph, parts):
        before = max((depth[ref] for ref in reads), default=0)
        if isinstance(item, CalledPart):
            turns[item] = before + 1
            depth |= dict.fromkeys(item.uops, before + 1)
        else:
            depth[item] = before
    counts = Counter(turns.values())
    return [part for part in parts if counts[turns[part]] == 1]


def units_in_order(graph: Graph, parts: Sequence[CalledPart]) -> Iterator[tuple[Ref | CalledPart, frozenset[Ref]]]:
    """The parts, and the uops outside of them that are not free, sources first; and the values in memory that each of
    them reads.

    Raises:
        CycleError: if parts need each other's results.
    """
    sources, free = stored_sources(graph), free_values(graph)
    part_of = {uop: part for part in parts for uop in part.uops}
    reads: dict[Ref | CalledPart, set[Ref]] = {}
    for node in graph.nodes:
        if node.id not in free:
            unit = part_of.get(node.id, node.id)
            reads.setdefault(unit, set()).update(*(sources[ref] for ref in node.refs))
    for part in parts:
        reads[part] -= part.uops
    order = TopologicalSorter({unit: {part_of.get(ref, ref) for ref in read} for unit, read in reads.items()})
    return ((unit, frozenset(reads[unit])) for unit in order.static_order())
