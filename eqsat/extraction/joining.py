"""Kernels of several outputs: a priced cover, in which one kernel does the work of two wherever that is cheaper.

    by-product  u = x + y is stored for a residual, and a kernel normalises u: it computes x + y, and stores that too
    siblings    tanh(x) and sigmoid(x), the sum and the maximum of a row: one loop nest, in which x is read once

Either way the joint kernel is several Store trees at the points of the widest; what they share is computed once. Where
one kernel reads the other's result, another candidate takes its place, which computes that by itself. The best pairs
are joined first, each kernel at most once a round, until no pair gains: kernels of three outputs come of those of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from eqsat.assembly.term_to_region import Written, region_of_several
from eqsat.egraph.enode import ENode
from eqsat.extraction.candidate import KernelCandidate, PricedRegion
from eqsat.extraction.cover import Cover, CoverKernel, assert_acyclic
from eqsat.extraction.enumeration import fits
from eqsat.extraction.extractors.agreement import disputed
from eqsat.extraction.kernel_graph import KernelGraph
from eqsat.extraction.kernel_tree import Forest, Tree, subtrees
from eqsat.extraction.one_rounding import SUM_TWICE, Roundings
from eqsat.extraction.placing import Placing, shape_of
from eqsat.extraction.selection import Apart, JointPart, Selection
from ir.index.map import AxisMap
from ir.pricer import Price, Pricer
from ir.region.region import Buffer

VARIANTS = 2
"""Candidates that are tried in place of one that reads what is to become a by-product."""

Wanted = Callable[[float], bool]
"""Says of what a joint kernel saves, in ns, whether to take it."""

_Key = tuple[int, ...]
"""A kernel of a cover, by what it writes."""
_Stores = Mapping[int, Tree]
"""Buf class → the Store tree that computes it."""


@dataclass(frozen=True)
class JoiningContext:
    """What joining needs to know of an extraction.

    candidates  of a buffer; `cost` of one in ns, as far as it is known
    edge, leaf  a buffer at the edge of a region, and what a price depends on of it
    roundings   how kernels round what they compute
    given       the buffers that are there before any kernel runs
    roots       those that must be written
    priced      joint kernels by structure, as far as they are known
    """

    forest: Forest
    pricer: Pricer
    candidates: Callable[[int], Sequence[KernelCandidate]]
    cost: Callable[[KernelCandidate], float]
    edge: Callable[[int], Buffer]
    leaf: Callable[[int], str]
    roundings: Roundings
    given: frozenset[int]
    roots: Sequence[int]
    priced: dict[tuple[object, ...], PricedRegion]


@dataclass(frozen=True)
class _JointKernel:
    """One kernel in place of two, and the ns that it saves."""

    parts: tuple[_Key, _Key]
    kernel: CoverKernel
    gain: float


def gains(saved_ns: float) -> bool:
    """Whether a joint kernel saves anything, beyond what sums differ by their order."""
    return saved_ns > 1e-6


def joined(cover: Cover, setting: JoiningContext, is_wanted: Wanted = gains) -> Cover:
    """The cover, some of whose kernels do the work of several, in an order in which they can run."""
    joining = _Joining(setting, is_wanted)
    found = cover.kernels
    fresh = {kernel.writes for kernel in found if kernel.price}
    while fresh:
        found, fresh = joining.round(found, fresh)
    kernels = joining.explained(found)
    assert_acyclic(kernels)
    return replace(cover, kernels=kernels)


class _Joining:
    """Proposes joint kernels, and prices each distinct region once."""

    def __init__(self, setting: JoiningContext, is_wanted: Wanted) -> None:
        self._setting, self._is_wanted = setting, is_wanted
        self._placing = Placing()
        self._stored = _StoredValues(setting.forest)
        self._apart: dict[tuple[_Key, _Key], Apart] = {}

    def round(self, kernels: tuple[CoverKernel, ...], fresh: set[_Key]) -> tuple[tuple[CoverKernel, ...], set[_Key]]:
        """The kernels after the best pairs of which one is `fresh` were joined, and which are joint by that."""
        cover = self._graph(kernels)
        pairs = (pair for pair in cover.neighbours() if not fresh.isdisjoint([each.writes for each in pair]))
        proposals = [joint for pair in pairs for joint in self._proposals(cover, *pair)]
        taken: set[_Key] = set()
        made: set[_Key] = set()
        for joint in sorted(proposals, key=lambda each: -each.gain):
            if taken.isdisjoint(joint.parts) and self._is_wanted(joint.gain):
                after = self._graph(kernels).with_one(joint.kernel, joint.parts)
                if after is not None and self._agrees(joint.kernel, after):
                    kernels = after
                    taken.update(joint.parts)
                    made.add(joint.kernel.writes)
        return kernels, made

    def _graph(self, kernels: Sequence[CoverKernel]) -> KernelGraph:
        return KernelGraph(kernels, self._setting.roots, self._setting.given)

    def _agrees(self, joint: CoverKernel, kernels: Sequence[CoverKernel]) -> bool:
        """Whether the joint kernel computes no value in another way than any other kernel."""
        found = self._setting.roundings
        marks = (found.marks(each.trees, folded=each.price is None) for each in kernels)
        return not found.disagree(joint.trees) and disputed(marks) is None

    def explained(self, kernels: tuple[CoverKernel, ...]) -> tuple[CoverKernel, ...]:
        """The kernels with what became of their pairs."""
        there = {kernel.writes for kernel in kernels}
        apart: dict[_Key, list[Apart]] = {}
        for (first, second), found in self._apart.items():
            if first in there and second in there:
                apart.setdefault(second, []).append(found)
        return tuple(
            replace(kernel, selection=structs.replace(kernel.selection, apart=tuple(apart[kernel.writes])))
            if kernel.writes in apart
            else kernel
            for kernel in kernels
        )

    def _proposals(self, cover: KernelGraph, first: CoverKernel, second: CoverKernel) -> Iterator[_JointKernel]:
        """The joint kernels of two that can be generated; the second may read what the first writes."""
        apart = Apart(self._names(first.writes), reason="no candidate does the work of both")
        for stores in self._variants(cover, first, second):
            kernel = self._kernel(stores, (first, second))
            if isinstance(kernel, str):
                apart = apart if apart.time_ns else structs.replace(apart, reason=kernel)
                continue
            gain = first.time_ns + second.time_ns - kernel.time_ns
            if apart.extra_ns is None or -gain < apart.extra_ns:
                apart = structs.replace(apart, time_ns=kernel.time_ns, extra_ns=-gain, reason="")
            yield _JointKernel((first.writes, second.writes), kernel, gain)
        self._apart[first.writes, second.writes] = apart

    def _names(self, buffers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._setting.edge(buffer).name for buffer in buffers)

    def _variants(self, cover: KernelGraph, first: CoverKernel, second: CoverKernel) -> Iterator[_Stores]:
        """What a kernel may store that is both."""
        own = dict(zip(first.writes, first.trees, strict=True))
        others = dict(zip(second.writes, second.trees, strict=True))
        if not cover.is_before(first, second.reads):
            yield {**own, **others}
            return
        kept = {buffer: tree for buffer, tree in own.items() if cover.is_read_beside(buffer, second)}
        if not kept and len(others) == 1:
            return  # one kernel in place of the two was a candidate like any other
        choices = {buffer: self._without(cover, first, buffer, tree) for buffer, tree in others.items()}
        ranks = max(map(len, choices.values())) if all(choices.values()) else 0
        for rank in range(ranks):
            trees = {buffer: several[min(rank, len(several) - 1)] for buffer, several in choices.items()}
            yield {**trees, **{buffer: self._within(trees, buffer) or tree for buffer, tree in kept.items()}}

    def _without(self, cover: KernelGraph, first: CoverKernel, buffer: int, tree: Tree) -> list[Tree]:
        """The tree, or the cheapest candidates for its buffer that need nothing of what the first kernel writes."""
        if not cover.is_before(first, tree.reads):
            return [tree]
        found = [
            choice
            for choice in self._setting.candidates(buffer)
            if not (choice.refusal or choice.compile_time or cover.is_before(first, choice.tree.reads))
            and cover.has(choice.tree.reads)
        ]
        return [choice.tree for choice in sorted(found, key=self._setting.cost)[:VARIANTS]]

    def _within(self, trees: _Stores, buffer: int) -> Tree | None:
        """The Store of a buffer as these trees compute its value anyway, where they do."""
        forest = self._setting.forest
        for each in subtrees(*trees.values()):
            for store, wrapped in self._stored[buffer].get(each.node, ()):
                value = each if wrapped is None else forest.make(wrapped, (each,))
                return forest.make(store, (value,))
        return None

    def _kernel(self, stores: _Stores, parts: tuple[CoverKernel, CoverKernel]) -> CoverKernel | str:
        """The kernel that stores all of these, or why there is none."""
        trees = sorted(stores.items(), key=lambda each: -math.prod(shape_of(each[1])))
        if not fits(frozenset[Tree]().union(*(tree.accumulators for _, tree in trees))):
            return "one kernel may not hold the accumulators of both"
        (_, widest), *others = trees
        try:
            places = [None, *(self._placing.at(widest, tree) for _, tree in others)]
        except LookupError as error:
            return str(error)
        priced, buffers = self._priced(trees, places)
        if self._setting.roundings.repeats_sums([tree for _, tree in trees], priced.region):
            return SUM_TWICE.reason
        if not isinstance(priced.price, Price):
            return priced.price.reason if priced.price else ""
        return CoverKernel(
            writes=tuple(buffer for buffer, _ in trees),
            trees=tuple(tree for _, tree in trees),
            reads=tuple(buffers[place] for place in priced.inputs),
            region=priced.region,
            price=priced.price,
            selection=self._selection(parts),
        )

    def _selection(self, parts: tuple[CoverKernel, CoverKernel]) -> Selection:
        """What else could have written the results of the parts, and what these were."""
        rivals = [rival for each in parts for rival in each.selection.rivals]
        rivals.sort(key=lambda each: math.inf if each.extra_ns is None else each.extra_ns)
        return Selection(
            candidates=sum(each.selection.candidates for each in parts),
            rivals=tuple(rivals),
            parts=tuple(part for each in parts for part in each.selection.parts or (self._part(each),)),
        )

    def _part(self, kernel: CoverKernel) -> JointPart:
        return JointPart(kernel.region.name, self._names(kernel.writes), kernel.time_ns)

    def _priced(
        self, trees: Sequence[tuple[int, Tree]], places: Sequence[AxisMap | None]
    ) -> tuple[PricedRegion, tuple[int, ...]]:
        """The region and its price, and the buffers in whose terms its inputs are told."""
        setting = self._setting
        number, buffers = setting.forest.shapes.joined(
            ("joint", tuple(places)), [setting.forest.shape_of(tree) for _, tree in trees]
        )
        key = (number, *map(setting.leaf, (*(buffer for buffer, _ in trees), *buffers)))
        if key not in setting.priced:
            outputs = [structs.replace(setting.edge(buffer), constant=False) for buffer, _ in trees]
            written = [Written(*each) for each in zip((tree for _, tree in trees), outputs, places, strict=True)]
            region = region_of_several(written, setting.edge)
            by_name = {setting.edge(buffer).name: buffer for buffer in buffers}
            inputs = tuple(buffers.index(by_name[each.name]) for each in region.inputs)
            setting.priced[key] = PricedRegion(region, inputs, setting.pricer.price(region))
        return setting.priced[key], buffers


class _StoredValues:
    """What the Stores of a buffer store, by the node of a value inside a kernel."""

    def __init__(self, forest: Forest) -> None:
        self._view = forest.view
        self._known: dict[int, dict[ENode, list[tuple[ENode, ENode | None]]]] = {}

    def __getitem__(self, buffer: int) -> dict[ENode, list[tuple[ENode, ENode | None]]]:
        """Node of a value → the Store of it, and the node that makes it one that can be stored, where it must be."""
        if buffer not in self._known:
            found: dict[ENode, list[tuple[ENode, ENode | None]]] = {}
            classes = self._view.classes
            for store in self._view.stores(buffer):
                for value in classes[store.value]:
                    found.setdefault(value, []).append((store, None))
                    if value.ctor == "Pure":
                        for each in classes[value.x]:
                            found.setdefault(each, []).append((store, value))
            self._known[buffer] = found
        return self._known[buffer]
