"""Which trees of a class survive: the most promising of each kind.

A tree is judged before any plan of it is made: by the least time that its work and its bytes can take, and by what must
be stored for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from typing import NamedTuple

from eqsat.extraction.enumeration.kernel_tree import Forest, Tree
from eqsat.extraction.enumeration.limits import EnumerationLimits
from eqsat.extraction.enumeration.read_facts import ReadFacts
from ir.dtype import TensorType

LowerBound = Callable[[float, float], float]
"""(flops, bytes) → a time in ns that no plan can beat."""

_Kind = tuple[str, ...]
_Starts = Mapping[frozenset[int], list[Tree]]
"""Trees by the values that are stored for them."""


class BufferFacts(NamedTuple):
    """All that the choice among trees depends on of a buffer that they read: where two buffers differ in nothing else,
    so do the choices.

    storing_ns      the least time to write it and read it again, by a kernel more; 0 where it is there in any case
    superseded      another buffer is always as good to store
    own             the program has this value as it was written
    costs_a_kernel  no kernel that accumulates could write it in place of its own result
    """

    type: TensorType
    constant: bool
    given: bool
    storing_ns: float
    costs_a_kernel: bool
    superseded: bool
    own: bool


class Ranking:
    """The order among trees over the buffers of one e-graph. `given` buffers exist in any case, `constant` ones are
    known when the program is built, `loaded` ones hold values of the program as it was written."""

    def __init__(
        self,
        forest: Forest,
        bound: LowerBound,
        reads: ReadFacts,
        given: frozenset[int],
        constant: frozenset[int],
        loaded: frozenset[int],
        limits: EnumerationLimits,
    ) -> None:
        self._forest, self._bound, self._reads, self._limits = forest, bound, reads, limits
        self._given, self._constant, self._loaded = given, constant, loaded
        self._facts: dict[int, BufferFacts] = {}

    def facts(self, buffer: int) -> BufferFacts:
        """What choices depend on of a buffer."""
        if buffer not in self._facts:
            size = self._forest.type_of(buffer)
            given, constant = buffer in self._given, buffer in self._constant
            self._facts[buffer] = BufferFacts(
                type=size,
                constant=constant,
                given=given,
                storing_ns=0.0 if given or constant else self._bound(0, 2 * size.nbytes),
                costs_a_kernel=self._reads.costs_a_kernel(buffer),
                superseded=self._reads.successor(buffer) is not None,
                own=buffer in self._loaded,
            )
        return self._facts[buffer]

    def best(self, trees: Iterable[Tree], keep: int, written: int = 0, inner: bool = False) -> tuple[Tree, ...]:
        """At most `keep` of each kind, fewer where all is constant, none dominated by another; the best of every kind
        come first. `written`: bytes that the kernel stores; `inner`: of a value inside a kernel.

        Of one kind, those that start from the same stored values stand behind the best of those that start elsewhere:
        which statistics are stored as well makes so many of them that they would be all. What stored values take to
        compute is not in the rank. So the best that no kernel is spent on comes second of its kind at the latest, and
        the tree for which least is stored, the chain that is computed as a whole, second of all.
        The best of a kind that reads the program's own buffers alone is among them.
        """
        distinct = tuple(dict.fromkeys(trees))
        if len(distinct) < 2:
            return distinct
        ranked = sorted(distinct, key=lambda tree: self._rank(tree, written, inner))
        kinds: dict[_Kind, list[Tree]] = {}
        for tree in ranked:
            kinds.setdefault(tree.kinds[: self._limits.reductions], []).append(tree)
        first, *others = _in_turn([self._of_one_kind(alike, keep) for alike in kinds.values()])
        whole = min(ranked, key=lambda tree: (self._stored(tree), not tree.accumulators))
        if whole is first:
            return (first, *others)
        return (first, whole, *[tree for tree in others if tree is not whole])

    def _of_one_kind(self, ranked: list[Tree], keep: int) -> list[Tree]:
        """Those of `best` that are alike, given the best first."""
        starts: dict[frozenset[int], list[Tree]] = {}
        for tree in ranked:
            alike = starts.setdefault(self._start(tree), [])
            enough = self._limits.constants if self._constant.issuperset(tree.reads) else keep
            if len(alike) < enough and not any(
                self._dominates(other, tree) for several in starts.values() for other in several
            ):
                alike.append(tree)
        chosen = [*islice(_in_turn(_places(starts)), keep)]
        own = next(filter(self._is_own, ranked), None)
        if own is not None and not any(map(self._is_own, chosen)):
            chosen.append(own)
        return chosen

    def _stored(self, tree: Tree) -> int:
        """How many values are stored for a tree."""
        return sum([not (read.given or read.constant) for read in map(self.facts, tree.reads)])

    def _is_own(self, tree: Tree) -> bool:
        """Whether it reads no buffer that a rule made."""
        return self._loaded.issuperset(tree.reads)

    def _dominates(self, a: Tree, b: Tree) -> bool:
        """Whether `a` reads no other buffer, no more of each, and computes no more than `b`; of what is known when the
        program is built no more in all: a constant folded into another is not another choice."""
        if a.flops > b.flops:
            return False
        spare = sum([size for buffer, size in b.reads.items() if buffer in self._constant])
        for buffer, size in a.reads.items():
            if buffer in self._constant:
                spare -= size
            elif size > b.reads.get(buffer, -1):
                return False
        return spare >= 0

    def _start(self, tree: Tree) -> frozenset[int]:
        """The values that a kernel is spent on, when the program runs, to store them for this one."""
        fresh = tree.reads.keys() - self._constant
        return frozenset(buffer for buffer in fresh if self.facts(buffer).costs_a_kernel)

    def _rank(self, tree: Tree, written: int, inner: bool) -> tuple[int, float, int, int, int, int]:
        """Constants first, stale reads last; the least time of the kernel and of what is stored for it; simplicity.

        What reductions give must be stored for every alternative of an inner value, since none can hold one: there only
        the launches of the kernels that write it count.
        Of constants, whose time does not count, come first what is computed at once, then what is only read.
        """
        reads = [self.facts(buffer) for buffer in tree.reads]
        if all(read.constant for read in reads):
            return 0, sum([not read.given for read in reads]), tree.flops, tree.ops, len(tree.reads), tree.serial
        time = self._bound(tree.flops, sum(tree.reads.values()) + written)
        launch = self._bound(0, 0)
        for read in reads:
            if not (read.given or read.constant):
                time += read.storing_ns if read.costs_a_kernel or not inner else launch
        return 1 + any(read.superseded for read in reads), time, tree.flops, tree.ops, len(tree.reads), tree.serial


def _places(starts: _Starts) -> list[list[Tree]]:
    """Trees by what they start from: the best start first, then that from nothing stored."""
    best, *others = starts
    return [starts[each] for each in (best, *sorted(others, key=bool))]


def _in_turn(several: Iterable[Iterable[Tree]]) -> Iterator[Tree]:
    """The first of each, then the second of each, and so on."""
    return (tree for rank in zip_longest(*several) for tree in rank if tree is not None)
