"""The alternatives of classes, chosen once for all classes that are alike.

The blocks of a deep model repeat one choice: which trees of a class survive, given its nodes and the alternatives of
the classes below. The choice depends on the buffers at the leaves only by a few facts about each buffer. So it is made
for the first of all classes that are alike, and copied for the others with the buffers exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from eqsat.egraph.enode import ENode
from eqsat.extraction.enumeration.kernel_tree import Forest, Tree
from eqsat.extraction.enumeration.structures import Structure, leaf

SMALL = 10
"""Up to so many combinations of operands, choosing is faster than looking a choice up."""


@dataclass(eq=False)
class Alternatives:
    """The trees that a class offers, the best first; the structure of all together where it was asked for."""

    trees: tuple[Tree, ...] = ()
    structure: Structure | None = None


@dataclass(frozen=True, eq=False)
class AlternativesKey:
    """All that the alternatives of a class depend on, except what is known of the buffers.

    label   what the choice depends on beside the rest
    rows    the nodes of the class, each with the alternatives of its operands
    before  the alternatives so far
    """

    label: Hashable
    rows: Sequence[tuple[ENode, tuple[Alternatives, ...]]]
    before: Alternatives

    @property
    def is_small(self) -> bool:
        """Whether there are few trees to choose from."""
        return sum([math.prod([len(operand.trees) for operand in operands]) for _, operands in self.rows]) <= SMALL


@dataclass(frozen=True, eq=False)
class _Choice:
    """The choice for the first key of a structure, which was about these buffers."""

    key: AlternativesKey
    buffers: tuple[int, ...]
    alternatives: Alternatives

    @cached_property
    def origins(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Of each tree: its row, and the places of its kids among their alternatives; −1 and the place of the tree
        among the alternatives before."""
        return tuple(map(self._origin, self.alternatives.trees))

    def _origin(self, tree: Tree) -> tuple[int, tuple[int, ...]]:
        before, rows = self.key.before.trees, self.key.rows
        if tree in before:
            return -1, (before.index(tree),)
        row = next(row for row, (node, _) in enumerate(rows) if node == tree.node)
        return row, tuple(operand.trees.index(kid) for operand, kid in zip(rows[row][1], tree.kids, strict=True))


class AlternativesMemo:
    """Memoizes the choice of alternatives; repeated blocks differ in buffers only."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._choices: dict[Hashable, _Choice] = {}

    def __len__(self) -> int:
        """How many keys were like none before."""
        return len(self._choices)

    def choose(
        self, key: AlternativesKey, facts: Callable[[int], Hashable], choose: Callable[[], tuple[Tree, ...]]
    ) -> Alternatives:
        """The result of `choose`, or its earlier result for a key like this one. facts: all that the choice depends on
        of a buffer."""
        if key.is_small:
            return Alternatives(choose())
        label = key.label, tuple([(node.ctor, node.texts) for node, _ in key.rows])
        number, buffers = self._forest.structures.combine(label, list(self._parts(key)))
        place = number, tuple(map(facts, buffers))
        choice = self._choices.get(place)
        if choice is not None:
            return self._copy(choice, key, dict(zip(choice.buffers, buffers, strict=True)))
        self._choices[place] = choice = _Choice(key, buffers, Alternatives(choose()))
        return choice.alternatives

    def _parts(self, key: AlternativesKey) -> Iterator[Structure]:
        """Everything in a key that reads buffers."""
        yield self._structure_of(key.before)
        for node, operands in key.rows:
            if node.source is not None:
                yield leaf(node.source)
            yield from map(self._structure_of, operands)

    def _structure_of(self, alternatives: Alternatives) -> Structure:
        if alternatives.structure is None:
            structures = [self._forest.structure_of(tree) for tree in alternatives.trees]
            alternatives.structure = self._forest.structures.combine("alternatives", structures)
        return alternatives.structure

    def _copy(self, choice: _Choice, key: AlternativesKey, renamed: Mapping[int, int]) -> Alternatives:
        trees: list[Tree] = []
        for like, (row, places) in zip(choice.alternatives.trees, choice.origins, strict=True):
            if row < 0:
                trees.append(key.before.trees[places[0]])
            else:
                node, operands = key.rows[row]
                kids = tuple([operand.trees[place] for operand, place in zip(operands, places, strict=True)])
                trees.append(self._forest.copy(node, kids, like, renamed))
        return Alternatives(tuple(trees), self._structure_of(choice.alternatives).over(renamed))
