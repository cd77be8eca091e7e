"""What classes offer, chosen once for all that are alike.

The blocks of a deep model put the same question again and again: which trees of a class survive, given its nodes and
what the classes below offer. The answer depends on the buffers at the leaves only by a few facts about each. So it is
worked out for the first of all classes that are alike, and copied for the others with the buffers exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from eqsat.egraph.enode import ENode
from eqsat.extraction.enumeration.kernel_tree import Forest, Tree
from eqsat.extraction.enumeration.structures import Shape, leaf

SMALL = 10
"""Combinations of operands that are sooner tried than looked up."""


@dataclass(eq=False)
class Menu:
    """The trees that a class offers, the best first; the structure of all together where somebody asked for it."""

    trees: tuple[Tree, ...] = ()
    shape: Shape | None = None


@dataclass(frozen=True, eq=False)
class Question:
    """What a class is to offer.

    label   what the choice depends on beside the rest
    rows    its nodes, each with what its operands offer
    before  what it offered so far
    facts   all that the choice depends on of a buffer
    """

    label: Hashable
    rows: Sequence[tuple[ENode, tuple[Menu, ...]]]
    before: Menu
    facts: Callable[[int], Hashable]

    @property
    def is_small(self) -> bool:
        """Whether it has few answers to choose from."""
        return sum([math.prod([len(menu.trees) for menu in operands]) for _, operands in self.rows]) <= SMALL


@dataclass(frozen=True, eq=False)
class _MenuAnswer:
    """What was chosen for the first question of its kind, which was about these buffers."""

    question: Question
    buffers: tuple[int, ...]
    menu: Menu

    @cached_property
    def origins(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Of each tree: its row, and the places of its kids on their menus; −1 and its place on the menu before."""
        return tuple(map(self._origin, self.menu.trees))

    def _origin(self, tree: Tree) -> tuple[int, tuple[int, ...]]:
        before, rows = self.question.before.trees, self.question.rows
        if tree in before:
            return -1, (before.index(tree),)
        row = next(row for row, (node, _) in enumerate(rows) if node == tree.node)
        return row, tuple(menu.trees.index(kid) for menu, kid in zip(rows[row][1], tree.kids, strict=True))


class Menus:
    """Answers to questions, by structure."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._answers: dict[Hashable, _MenuAnswer] = {}

    def __len__(self) -> int:
        """Questions that were like none before."""
        return len(self._answers)

    def chosen(self, question: Question, choose: Callable[[], tuple[Tree, ...]]) -> Menu:
        """What `choose` gives, or gave for a question like this one."""
        if question.is_small:
            return Menu(choose())
        label = question.label, tuple([(node.ctor, node.texts) for node, _ in question.rows])
        number, buffers = self._forest.shapes.joined(label, list(self._parts(question)))
        key = number, tuple(map(question.facts, buffers))
        answer = self._answers.get(key)
        if answer is not None:
            return self._copy(answer, question, dict(zip(answer.buffers, buffers, strict=True)))
        self._answers[key] = answer = _MenuAnswer(question, buffers, Menu(choose()))
        return answer.menu

    def _parts(self, question: Question) -> Iterator[Shape]:
        """Everything in a question that reads buffers."""
        yield self._shape_of(question.before)
        for node, operands in question.rows:
            if node.source is not None:
                yield leaf(node.source)
            yield from map(self._shape_of, operands)

    def _shape_of(self, menu: Menu) -> Shape:
        if menu.shape is None:
            menu.shape = self._forest.shapes.joined("menu", [self._forest.shape_of(tree) for tree in menu.trees])
        return menu.shape

    def _copy(self, answer: _MenuAnswer, question: Question, renamed: Mapping[int, int]) -> Menu:
        trees: list[Tree] = []
        for like, (row, places) in zip(answer.menu.trees, answer.origins, strict=True):
            if row < 0:
                trees.append(question.before.trees[places[0]])
            else:
                node, operands = question.rows[row]
                kids = tuple([menu.trees[place] for menu, place in zip(operands, places, strict=True)])
                trees.append(self._forest.copy(node, kids, like, renamed))
        return Menu(tuple(trees), self._shape_of(answer.menu).over(renamed))
