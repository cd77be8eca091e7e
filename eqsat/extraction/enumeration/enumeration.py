"""Candidate kernels: for a Buf class, the concrete terms by which one kernel can compute it.

Inside a kernel every class offers alternatives. Where a producer was inlined, its nodes stand in one class with the
Load of the value that the producer would have stored: the enumeration chooses whether to recompute or to read. Per
class only the best few trees survive, and none that reads more buffers and computes more than another of its kind.
Classes can be cyclic (relu(relu(x)) = relu(x)), so the choice is repeated until it no longer changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product

from eqsat.egraph.buffers import input_classes
from eqsat.egraph.enode import ENode
from eqsat.egraph.view import STEPS, EGraphView
from eqsat.extraction.enumeration.alternatives import Alternatives, AlternativesKey, AlternativesMemo
from eqsat.extraction.enumeration.kernel_tree import Forest, Tree, streamed_scores
from eqsat.extraction.enumeration.limits import DEFAULT, EnumerationLimits
from eqsat.extraction.enumeration.ranking import BufferFacts, LowerBound, Ranking
from eqsat.extraction.enumeration.read_facts import ReadFacts
from eqsat.extraction.enumeration.structures import leaf
from eqsat.extraction.enumeration.sum_facts import SumFacts
from eqsat.extraction.fixpoint import to_fixpoint
from ir.post_order import post_order
from ir.term.language import Sort
from rules import FAMILIES, ORDINARY

_Node = tuple[ENode, tuple[int, ...]]
"""An e-node and the class arguments that are decided inside the kernel."""

_NOTHING = Alternatives()

_ORDINARY = frozenset([None, *(rule.name for family in ORDINARY for rule in FAMILIES[family])])
"""The rules of ordinary fusion; None built what was loaded."""


class EGraphFacts:
    """The facts of a saturated e-graph that hold whichever of its nodes are enumerated.

    Args:
        bound: the pricer's plan-free lower bound.
        outputs: Buf classes that some kernel must write in any case.
        constant: Buf classes that are known when the program is built.
    """

    def __init__(
        self,
        view: EGraphView,
        bound: LowerBound,
        outputs: Iterable[int] = (),
        constant: frozenset[int] = frozenset(),
        limits: EnumerationLimits = DEFAULT,
    ) -> None:
        self.view, self.limits = view, limits
        self.forest = Forest(view)
        self.memo = AlternativesMemo(self.forest)
        given = frozenset(outputs) | {*input_classes(view).values()}
        program = frozenset(view.tiny.values())
        self.reads = ReadFacts(view, given, constant)
        self.ranking = Ranking(self.forest, bound, self.reads, given, constant, program | constant, limits)
        self.sums = SumFacts(view, bound)
        self.scores = _scores(view)


class Enumeration:
    """Candidates from some nodes of a saturated e-graph, made when they are asked for.

    Args:
        nodes: class → its nodes of which candidates are made; all nodes by default.
        whole: an enumeration of all nodes. What it chose is taken over where no node that is left out stands below.
    """

    def __init__(
        self,
        facts: EGraphFacts,
        nodes: Mapping[int, Sequence[ENode]] | None = None,
        whole: Enumeration | None = None,
    ) -> None:
        self._facts, self._whole, self.forest = facts, whole, facts.forest
        self._nodes = facts.view.classes if nodes is None else nodes
        self._alternatives: dict[int, Alternatives] = {}
        self._candidates: dict[int, tuple[Tree, ...]] = {}
        self._extractables: dict[int, list[_Node]] = {}

    def of(self, buffer: int) -> tuple[Tree, ...]:
        """The candidates of a Buf class, the most promising first."""
        if buffer not in self._candidates:
            self._candidates[buffer] = self._enumerate(buffer)
        return self._candidates[buffer]

    def _enumerate(self, buffer: int) -> tuple[Tree, ...]:
        stores = [(node, (node.value,)) for node in self._nodes[buffer] if node.ctor == "Store"]
        for _, (value,) in stores:
            self._choose_below(value)

        def choose() -> tuple[Tree, ...]:
            combined = (tree for node, operands in stores for tree in self._combine(node, operands))
            trees = [tree for tree in combined if buffer not in tree.reads]
            fresh = [tree for tree in trees if not any(self._is_stale(read, buffer) for read in tree.reads)]
            return self._facts.ranking.best(
                fresh or trees, self._facts.limits.candidates, self.forest.type_of(buffer).nbytes
            )

        nothing = Alternatives((), leaf(buffer))

        def facts(read: int) -> tuple[BufferFacts, bool]:
            return self._facts.ranking.facts(read), self._is_stale(read, buffer)

        return self._facts.memo.choose(AlternativesKey("stored", self._rows(stores), nothing), facts, choose).trees

    def _is_stale(self, read: int, reader: int) -> bool:
        """Whether another buffer is always as good to store; only the kernels on the way to it may read this one."""
        successor = self._facts.reads.successor(read)
        if successor is None:
            return False
        while successor is not None and successor != reader:
            successor = self._facts.reads.successor(successor)
        return successor is None

    def _choose_below(self, root: int) -> None:
        """Choose the alternatives of a class, and of all classes below, that are not chosen yet."""

        def below(value: int) -> list[int]:
            kids = (kid for _, operands in self._extractable(value) for kid in operands)
            return [kid for kid in kids if not self._is_known(kid)]

        order = [] if self._is_known(root) else post_order([root], below)
        readers: dict[int, dict[int, None]] = {class_: {} for class_ in order}
        for class_ in order:
            for _, operands in self._extractable(class_):
                for kid in operands:
                    if kid in readers:
                        readers[kid][class_] = None
        to_fixpoint(order, readers, self._improve)

    def _is_known(self, class_: int) -> bool:
        """Whether the alternatives of a class are chosen, here or in the whole."""
        if self._whole is not None and class_ in self._whole._alternatives and class_ not in self._reduced:
            self._alternatives[class_] = self._whole._alternatives[class_]
        return class_ in self._alternatives

    @cached_property
    def _reduced(self) -> frozenset[int]:
        """The classes that miss nodes, or hold values below which some class does."""
        view = self._facts.view
        readers: dict[int, list[int]] = {}
        for class_, nodes in view.classes.items():
            for kid in (kid for node in nodes for kid in node.inline_children):
                readers.setdefault(kid, []).append(class_)
        missing = [class_ for class_, nodes in view.classes.items() if len(self._nodes[class_]) < len(nodes)]
        return frozenset(post_order(missing, lambda class_: readers.get(class_, ())))

    def _improve(self, class_: int) -> bool:
        """Choose again among what is known and what its nodes give; whether the choice changed."""
        before = self._alternatives.get(class_, _NOTHING)
        nodes = self._extractable(class_)
        inner, is_score = self._facts.view.sorts[class_] is not Sort.EPI, class_ in self._facts.scores

        def choose() -> tuple[Tree, ...]:
            trees = [tree for node, operands in nodes for tree in self._combine(node, operands, is_score)]
            return self._facts.ranking.best([*before.trees, *trees], self._facts.limits.alternatives, inner=inner)

        key = AlternativesKey((inner, is_score), self._rows(nodes), before)
        after = self._facts.memo.choose(key, self._facts.ranking.facts, choose)
        self._alternatives[class_] = after
        return after.trees != before.trees

    def _rows(self, nodes: Iterable[_Node]) -> list[tuple[ENode, tuple[Alternatives, ...]]]:
        """Nodes with what their operands offer so far."""
        offered = self._alternatives
        return [(node, tuple([offered.get(kid, _NOTHING) for kid in operands])) for node, operands in nodes]

    def _extractable(self, class_: int) -> list[_Node]:
        """The nodes of a class that a kernel can hold, without useless reads and sums where others are left."""
        if class_ not in self._extractables:
            nodes = [node for node in self._nodes[class_] if node.ctor not in STEPS]
            kept = [node for node in nodes if not self._is_useless(node, nodes)]
            self._extractables[class_] = [(node, node.inline_children) for node in kept or nodes]
        return self._extractables[class_]

    def _is_useless(self, node: ENode, others: list[ENode]) -> bool:
        """Whether a node of a class with these nodes is a read or a sum that another of them beats."""
        if node.ctor == "Load":
            return self._facts.reads.is_useless_load(node)
        return self._facts.sums.is_useless_sum(node, others)

    def _combine(self, node: ENode, operands: tuple[int, ...], is_score: bool = False) -> Iterator[Tree]:
        """The node over every choice of its operands, as far as one kernel may hold them. `is_score`: it is what a
        stream or a maximum takes term by term. Nothing else takes a contraction that is finished inside the kernel: a
        plain sum of products is as good there."""
        choices = [self._alternatives.get(kid, _NOTHING).trees for kid in operands]
        if node.ctor == "At" and not is_score:
            choices = [tuple([tree for tree in several if tree.kinds != ("Contract",)]) for several in choices]
        elif node.ctor not in ("Stream", "Reduce"):
            choices = [tuple([tree for tree in several if not _is_nested_product(tree)]) for several in choices]
        while math.prod(map(len, choices)) > self._facts.limits.combinations:
            longest = max(range(len(choices)), key=lambda k: len(choices[k]))
            choices[longest] = choices[longest][:-1]
        for kids in product(*choices):
            if len(kids) == 1 or can_share_kernel(frozenset().union(*[kid.accumulators for kid in kids])):
                tree = self.forest.make(node, kids)
                if not tree.captured and can_share_kernel(tree.accumulators):
                    yield tree


def can_share_kernel(accumulators: frozenset[Tree]) -> bool:
    """Whether one kernel may hold them: a contraction by itself, or nested in scores that all others share."""
    if len(accumulators) < 2:
        return True
    scores = {one: streamed for one in accumulators if (streamed := streamed_scores(one))}
    nested = frozenset().union(*[tree.accumulators for tree in scores.values()])
    own = accumulators - nested
    if any(one.node.ctor == "Contract" for one in own):
        return False
    if len({(frozenset(tree.reads), tree.accumulators) for tree in scores.values()}) > 1:
        return False
    return not nested or (
        own <= scores.keys() and len(nested) == 1 and all(one.node.ctor == "Contract" for one in nested)
    )


def _is_nested_product(tree: Tree) -> bool:
    """Whether a contraction is finished here inside a kernel."""
    return tree.node.ctor == "At" and tree.kinds == ("Contract",)


def ordinary_nodes(view: EGraphView) -> Mapping[int, Sequence[ENode]]:
    """Class → its nodes that ordinary fusion has: loaded nodes, and nodes that its rules built, that read no buffer
    which a rule made."""
    rule_of, program = view.rules.get, frozenset(view.tiny.values())
    return {
        class_: [
            node for node in nodes if rule_of(node) in _ORDINARY and (node.source is None or node.source in program)
        ]
        for class_, nodes in view.classes.items()
    }


def _scores(view: EGraphView) -> frozenset[int]:
    """The classes that a stream takes term by term, or a maximum."""
    nodes = [node for several in view.classes.values() for node in several]
    return frozenset(
        node.score if node.ctor == "Stream" else node.x
        for node in nodes
        if node.ctor == "Stream" or (node.ctor == "Reduce" and node.op == "max")
    )
