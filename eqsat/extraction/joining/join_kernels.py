"""Joining: one kernel of several outputs in place of two kernels of a priced cover, wherever that is cheaper.

    by-product  u = x + y is stored for a residual, and a kernel normalises u: it computes x + y, and stores that too
    siblings    tanh(x) and sigmoid(x), the sum and the maximum of a row: one loop nest, in which x is read once

Either way the joint kernel is several Store trees at the points of the widest; what the trees share is computed once.
Where one kernel reads the other's result, another candidate takes its place, which computes that result by itself. The
best pairs are joined first, a kernel at most once a round, until no pair gains. Kernels of three outputs come of
kernels of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from msgspec import structs

from eqsat.extraction.cover import Cover, CoverKernel, assert_acyclic
from eqsat.extraction.covering.agreement import find_dispute
from eqsat.extraction.enumeration.kernel_tree import Tree
from eqsat.extraction.joining.joint_kernels import JointKernels, Stores
from eqsat.extraction.joining.kernel_graph import KernelGraph
from eqsat.extraction.selection import Apart

VARIANTS = 2
"""Candidates that are tried in place of one that reads what is to become a by-product."""
LEAST_GAIN_NS = 1e-6
"""Below it, sums of times differ by their order alone."""

_Key = tuple[int, ...]
"""A kernel of a cover, by what it writes."""


@dataclass(frozen=True)
class _JointKernel:
    """One kernel in place of two, and the ns that it saves."""

    parts: tuple[_Key, _Key]
    kernel: CoverKernel
    gain: float


def is_gain(saved_ns: float) -> bool:
    """Whether a joint kernel saves time."""
    return saved_ns > LEAST_GAIN_NS


def join_kernels(cover: Cover, joint_kernels: JointKernels, is_wanted: Callable[[float], bool] = is_gain) -> Cover:
    """The cover, some of whose kernels do the work of several, in an order in which they can run.

    Args:
        joint_kernels: shared between covers, which often join the same kernels.
        is_wanted: says of the ns that a joint kernel saves whether to take the kernel.
    """
    joining = _Joining(joint_kernels, is_wanted)
    kernels = cover.kernels
    fresh = {kernel.writes for kernel in kernels if kernel.price}
    while fresh:
        kernels, fresh = joining.join_once(kernels, fresh)
    kernels = joining.explain(kernels)
    assert_acyclic(kernels)
    return replace(cover, kernels=kernels)


class _Joining:
    """Proposes joint kernels."""

    def __init__(self, joint_kernels: JointKernels, is_wanted: Callable[[float], bool]) -> None:
        self._joint_kernels, self._candidates, self._is_wanted = joint_kernels, joint_kernels.candidates, is_wanted
        self._apart: dict[tuple[_Key, _Key], Apart] = {}
        self._cheapest: dict[int, Sequence[Tree]] = {}

    def join_once(
        self, kernels: tuple[CoverKernel, ...], fresh: set[_Key]
    ) -> tuple[tuple[CoverKernel, ...], set[_Key]]:
        """The kernels after the best pairs with a `fresh` kernel were joined, and the joint kernels among them."""
        cover = self._graph(kernels)
        pairs = (pair for pair in cover.neighbours() if not fresh.isdisjoint([kernel.writes for kernel in pair]))
        proposals = [joint for pair in pairs for joint in self._proposals(cover, *pair)]
        taken: set[_Key] = set()
        joined: set[_Key] = set()
        for joint in sorted(proposals, key=lambda joint: -joint.gain):
            if taken.isdisjoint(joint.parts) and self._is_wanted(joint.gain):
                after = self._graph(kernels).replace_parts(joint.kernel, joint.parts)
                if after is not None and self._agrees(joint.kernel, after):
                    kernels = after
                    taken.update(joint.parts)
                    joined.add(joint.kernel.writes)
        return kernels, joined

    def _graph(self, kernels: Sequence[CoverKernel]) -> KernelGraph:
        return KernelGraph(kernels, self._candidates.roots, self._candidates.inputs)

    def _agrees(self, joint: CoverKernel, kernels: Sequence[CoverKernel]) -> bool:
        """Whether the joint kernel computes no value in another way than any other kernel."""
        roundings = self._candidates.roundings
        marks = (roundings.marks(kernel.trees, folded=kernel.price is None) for kernel in kernels)
        return not roundings.disagree(joint.trees) and find_dispute(marks) is None

    def explain(self, kernels: tuple[CoverKernel, ...]) -> tuple[CoverKernel, ...]:
        """The kernels, with the neighbours before them that they were not joined with."""
        there = {kernel.writes for kernel in kernels}
        apart: dict[_Key, tuple[Apart, ...]] = {}
        for (first, second), reason in self._apart.items():
            if first in there and second in there:
                apart[second] = (*apart.get(second, ()), reason)
        return tuple(
            replace(kernel, selection=structs.replace(kernel.selection, apart=apart.get(kernel.writes, ())))
            for kernel in kernels
        )

    def _proposals(self, cover: KernelGraph, first: CoverKernel, second: CoverKernel) -> Iterator[_JointKernel]:
        """The joint kernels of two that can be generated; the second may read what the first writes."""
        apart = Apart(self._names(first.writes), reason="no candidate does the work of both")
        for stores in self._variants(cover, first, second):
            joint = self._joint_kernels.of(stores)
            if isinstance(joint, str):
                apart = apart if apart.time_ns else structs.replace(apart, reason=joint)
                continue
            gain = first.time_ns + second.time_ns - joint.time_ns
            if apart.extra_ns is None or -gain < apart.extra_ns:
                apart = structs.replace(apart, time_ns=joint.time_ns, extra_ns=-gain, reason="")
            single = (*(first.parts or (first,)), *(second.parts or (second,)))
            yield _JointKernel((first.writes, second.writes), replace(joint, parts=single), gain)
        self._apart[first.writes, second.writes] = apart

    def _names(self, buffers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._candidates.names[buffer] for buffer in buffers)

    def _variants(self, cover: KernelGraph, first: CoverKernel, second: CoverKernel) -> Iterator[Stores]:
        """The values that a kernel may store if it does the work of both."""
        own = dict(zip(first.writes, first.trees, strict=True))
        others = dict(zip(second.writes, second.trees, strict=True))
        if not cover.is_before(first, second.reads):
            yield {**own, **others}
            return
        kept = {buffer: tree for buffer, tree in own.items() if cover.is_read_beside(buffer, second)}
        if not kept and len(others) == 1:
            return  # one kernel in place of the two was a candidate like any other
        choices = {buffer: self._trees_without(cover, first, buffer, tree) for buffer, tree in others.items()}
        count = max(map(len, choices.values())) if all(choices.values()) else 0
        for turn in range(count):
            trees = {buffer: several[min(turn, len(several) - 1)] for buffer, several in choices.items()}
            yield {
                **trees,
                **{buffer: self._joint_kernels.store_within(trees, buffer) or tree for buffer, tree in kept.items()},
            }

    def _trees_without(self, cover: KernelGraph, first: CoverKernel, buffer: int, tree: Tree) -> list[Tree]:
        """The tree, or the cheapest candidates for its buffer that need nothing of what the first kernel writes."""
        if not cover.is_before(first, tree.reads):
            return [tree]
        others = (
            other
            for other in self._cheapest_trees(buffer)
            if not cover.is_before(first, other.reads) and cover.has(other.reads)
        )
        return list(islice(others, VARIANTS))

    def _cheapest_trees(self, buffer: int) -> Sequence[Tree]:
        """The candidates for a buffer that run when the program does, the cheapest first."""
        if buffer not in self._cheapest:
            several = self._candidates.by_buffer.get(buffer, ())
            running = [candidate for candidate in several if not (candidate.refusal or candidate.compile_time)]
            self._cheapest[buffer] = [one.tree for one in sorted(running, key=self._candidates.prices.cost)]
        return self._cheapest[buffer]
