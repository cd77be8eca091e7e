"""The kernel that a buffer was loaded with: one uop, legal whatever the rules add."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import STEPS
from eqsat.extraction.enumeration.kernel_tree import Forest, Tree
from ir.index.map import identity


def as_written(forest: Forest, buffer: int) -> Tree | None:
    """The least kernel of nodes that no rule built, over inputs and the results of earlier uops. None for a buffer that
    no uop writes.

    Identity reads put a value and the Load of its buffer in one class, so loaded nodes lead from one uop into the next:
    the first read ends the kernel. A rule may add a copy of the buffer's own value, which a later uop makes; kernels
    that read results of earlier uops alone form no cycle.
    """
    search = _WrittenSearch(forest, buffer)
    return search.least(forest.view.stores(buffer))


class _WrittenSearch:
    def __init__(self, forest: Forest, buffer: int) -> None:
        self._forest = forest
        self._later = _from(forest, buffer)
        self._known: dict[int, Tree | None] = {}

    def least(self, nodes: Sequence[ENode]) -> Tree | None:
        """The smallest tree over some of these nodes."""
        trees = [tree for node in nodes if (tree := self._tree(node)) is not None]
        return min(trees, key=_size, default=None)

    def _tree(self, node: ENode) -> Tree | None:
        if node in self._forest.view.rules or node.ctor in STEPS or node.source in self._later:
            return None
        kids = [self._of_class(kid) for kid in node.inline_children]
        operands = tuple(kid for kid in kids if kid is not None)
        return self._forest.make(node, operands) if len(operands) == len(kids) else None

    def _of_class(self, class_: int) -> Tree | None:
        if class_ not in self._known:
            self._known[class_] = None  # a value is no part of itself
            nodes = self._forest.view.classes[class_]
            leaves = [node for node in nodes if node.ctor in ("Load", "Imm", "Index")]
            whole = [node for node in leaves if self._reads_whole(node)]
            self._known[class_] = self.least(whole) or self.least(leaves) or self.least(nodes)
        return self._known[class_]

    def _reads_whole(self, node: ENode) -> bool:
        """Whether a node reads a whole buffer: the result of another uop, not what that uop reads."""
        return node.ctor == "Load" and node.map == identity(self._forest.type_of(node.buffer).shape)


def _from(forest: Forest, buffer: int) -> frozenset[int]:
    """The buffers that are written first by the uop that first writes this one, or by a later uop."""
    order = list(dict.fromkeys(forest.view.tiny.values()))
    return frozenset(order[order.index(buffer) :]) if buffer in order else frozenset()


def _size(tree: Tree) -> tuple[int, int, int]:
    """Operations, the places it reads, age."""
    return tree.ops, len(tree.reads), tree.serial
