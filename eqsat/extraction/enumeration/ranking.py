"""Which trees of a class survive: the most promising of each kind.

A tree is ranked before any plan of it is made: by the least time that its work and its bytes can take, and by the
buffers that must be stored for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from typing import NamedTuple, Protocol

from eqsat.extraction.enumeration.kernel_tree import Forest, Tree
from eqsat.extraction.enumeration.limits import EnumerationLimits
from eqsat.extraction.enumeration.read_facts import ReadFacts
from ir.dtype import DTYPES, DType, TensorType, is_widening


class LowerBound(Protocol):
    """A time in ns that no plan can beat, as `ir.pricer.Pricer.lower_bound`."""

    def __call__(self, flops: float, bytes_moved: float, narrow: bool = True) -> float: ...


_Kind = tuple[tuple[str, ...], int, bool]
"""The accumulators of a tree; how many values are stored to be gathered: one less where the source of a gather is
computed in place; and whether a product multiplies narrow numbers, which may be many times faster."""
_NARROW_BYTES = 2
"""Bytes of a number, at most, that matrix registers and tensor cores multiply."""
_Starts = Mapping[frozenset[int], list[Tree]]
"""Trees by the values that are stored for them."""


class BufferFacts(NamedTuple):
    """All that the choice among trees depends on of a buffer that they read: where two buffers differ in nothing else,
    so do the choices.

    given             the buffer exists in any case
    storing_ns        the least time to write and read the buffer, by one more kernel; 0 where it exists anyway
    needs_own_kernel  no kernel that accumulates could write it in place of its own result
    superseded        another buffer is always as good to store
    own               the program has this value as it was written
    """

    type: TensorType
    constant: bool
    given: bool
    storing_ns: float
    needs_own_kernel: bool
    superseded: bool
    own: bool


class Ranking:
    """The order among trees over the buffers of one e-graph.

    Args:
        given: buffers that exist in any case.
        constant: buffers that are known when the program is built.
        own: buffers that hold values of the program as it was written, and constants.
    """

    def __init__(
        self,
        forest: Forest,
        bound: LowerBound,
        reads: ReadFacts,
        given: frozenset[int],
        constant: frozenset[int],
        own: frozenset[int],
        limits: EnumerationLimits,
    ) -> None:
        self._forest, self._bound, self._reads, self._limits = forest, bound, reads, limits
        self._given, self._constant, self._own = given, constant, own
        self._facts: dict[int, BufferFacts] = {}
        self._narrow: dict[Tree, bool] = {}

    def facts(self, buffer: int) -> BufferFacts:
        """The facts of a buffer on which choices depend."""
        if buffer not in self._facts:
            size = self._forest.type_of(buffer)
            given, constant = buffer in self._given, buffer in self._constant
            self._facts[buffer] = BufferFacts(
                type=size,
                constant=constant,
                given=given,
                storing_ns=0.0 if given or constant else self._bound(0, 2 * size.nbytes),
                needs_own_kernel=self._reads.needs_own_kernel(buffer),
                superseded=self._reads.successor(buffer) is not None,
                own=buffer in self._own,
            )
        return self._facts[buffer]

    def best(self, trees: Iterable[Tree], keep: int, written: int = 0, inner: bool = False) -> tuple[Tree, ...]:
        """At most `keep` trees of each kind, fewer where all is constant, none dominated by another. The best of every
        kind come first.

        Trees of one kind that start from the same stored values are a group. Groups take turns, or one group would fill
        the list: there are many ways to choose which statistics are stored. The rank leaves out the time to compute
        stored values. So the first tree that starts from no stored value is the second of its kind at the
        latest. The tree with the fewest stored values, a chain that is computed as a whole, is the second of all at the
        latest. The best tree of a kind that reads the program's own buffers alone is in the list.

        Args:
            written: bytes that the kernel stores.
            inner: whether the trees compute a value inside a kernel.
        """
        distinct = tuple(dict.fromkeys(trees))
        if len(distinct) < 2:
            return distinct
        ranked = sorted(distinct, key=lambda tree: self._rank(tree, written, inner))
        kinds: dict[_Kind, list[Tree]] = {}
        for tree in ranked:
            gathered = sum(map(self._is_stored, tree.gathered))
            kind = (
                *(tree.kinds[: self._limits.reductions], min(gathered, self._limits.gathered)),
                self.multiplies_narrow(tree),
            )
            kinds.setdefault(kind, []).append(tree)
        first, *others = _take_turns([self._of_one_kind(alike, keep) for alike in kinds.values()])
        whole = min(ranked, key=lambda tree: (self._count_stored(tree), not tree.accumulators))
        if whole is first:
            return (first, *others)
        return (first, whole, *[tree for tree in others if tree is not whole])

    def _of_one_kind(self, ranked: list[Tree], keep: int) -> list[Tree]:
        """The trees of one kind that `best` keeps, given the best first."""
        starts: dict[frozenset[int], list[Tree]] = {}
        for tree in ranked:
            alike = starts.setdefault(self._start(tree), [])
            enough = self._limits.constants if self._constant.issuperset(tree.reads) else keep
            if len(alike) < enough and not any(
                self._dominates(other, tree) for several in starts.values() for other in several
            ):
                alike.append(tree)
        chosen = [*islice(_take_turns(_groups(starts)), keep)]
        own = next(filter(self._is_own, ranked), None)
        if own is not None and not any(map(self._is_own, chosen)):
            chosen.append(own)
        return chosen

    def multiplies_narrow(self, tree: Tree) -> bool:
        """Whether a tree holds a product of narrow numbers."""
        return any(map(self._is_narrow_product, tree.accumulators))

    def _is_narrow_product(self, accumulator: Tree) -> bool:
        if accumulator not in self._narrow:
            self._narrow[accumulator] = accumulator.node.ctor == "Contract" and all(
                self._before_widening(kid).bytes <= _NARROW_BYTES for kid in accumulator.kids
            )
        return self._narrow[accumulator]

    def _before_widening(self, tree: Tree) -> DType:
        """The dtype of a value inside of a kernel before it was widened: integers stay integers."""
        node = tree.node
        if node.source is not None:
            return self._forest.type_of(node.source).dtype
        if node.ctor == "PView":
            return self._before_widening(tree.kids[0])
        own = DTYPES[getattr(node, "dtype", "fp64")]
        if node.ctor == "PUn" and node.op == "cast":
            narrow = self._before_widening(tree.kids[0])
            return narrow if is_widening(narrow, own) else own
        return own

    def _count_stored(self, tree: Tree) -> int:
        """How many values are stored for a tree."""
        return sum(map(self._is_stored, tree.reads))

    def _is_stored(self, buffer: int) -> bool:
        """Whether a kernel is spent on storing the buffer."""
        facts = self.facts(buffer)
        return not (facts.given or facts.constant)

    def _is_own(self, tree: Tree) -> bool:
        """Whether it reads no buffer that a rule made."""
        return self._own.issuperset(tree.reads)

    def _dominates(self, a: Tree, b: Tree) -> bool:
        """Whether `a` reads no buffer that `b` does not read, no more bytes of any, and computes no more than `b`.
        Constants are compared by their bytes in all: a constant folded into another is not another choice."""
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
        return frozenset(buffer for buffer in fresh if self.facts(buffer).needs_own_kernel)

    def _rank(self, tree: Tree, written: int, inner: bool) -> tuple[int, float, int, int, int, int, int]:
        """Constants first, stale reads last; the least time of the kernel and of the kernels that store values for it;
        simplicity; the bytes that are read, so that a constant comes before a wider copy of it.

        The result of a reduction must be stored for every alternative of an inner value, since no alternative can hold
        a reduction: there only the launches of the kernels that write the result count.
        The time of constants does not count: constants that one kernel computes come first, then constants that are
        only read.
        """
        reads, size = [self.facts(buffer) for buffer in tree.reads], sum(tree.reads.values())
        if all(read.constant for read in reads):
            return 0, sum([not read.given for read in reads]), tree.flops, tree.ops, len(tree.reads), size, tree.serial
        time = self._bound(tree.flops, size + written, self.multiplies_narrow(tree))
        launch = self._bound(0, 0)
        for read in reads:
            if not (read.given or read.constant):
                time += read.storing_ns if read.needs_own_kernel or not inner else launch
        stale = any(read.superseded for read in reads)
        return 1 + stale, time, tree.flops, tree.ops, len(tree.reads), size, tree.serial


def _groups(starts: _Starts) -> list[list[Tree]]:
    """The groups of trees by the values that they start from: the best group first, then the one from no stored
    value."""
    best, *others = starts
    return [starts[start] for start in (best, *sorted(others, key=bool))]


def _take_turns(several: Iterable[Iterable[Tree]]) -> Iterator[Tree]:
    """The first tree of each list, then the second of each, and so on."""
    return (tree for rank in zip_longest(*several) for tree in rank if tree is not None)
