"""Concrete kernels: terms of the e-graph language in which every class has been decided, down to buffers.

A tree ends at reads of Buf classes, numbers and indices. Trees are shared: equal ones are one object, so that a
kernel is a DAG, and its price counts each value once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache

from eqsat.egraph.view import EGraphView, ENode
from eqsat.extraction.work import Work, union
from ir.axis_map import AxisMap, parse_map, support
from ir.dtype import TensorType
from ir.post_order import post_order
from ir.region_work import flops_per_point, footprint
from ir.term import CTORS, Sort
from ir.term_text import parse_sizes, parse_type

INLINE = (Sort.PRO, Sort.ACC, Sort.EPI)
"""The sorts that live inside a kernel."""

_PLAIN = (Sort.STR, Sort.I64)

VIEWS = ("PView", "EView")
"""Movements on their way down to the reads: no kernel can hold one."""


class Tree:
    """One shared term.

    node     the e-node chosen; its arguments of sort Buf stay classes
    kids     the trees of its other class arguments, in order
    reads    Buf class → bytes that the kernel reads of it
    axes     the axes of its domain that it depends on → their sizes
    rank     of its domain, None where nothing below tells (a number is at home in any)
    own      operations of its root over the axes it depends on, None where the root computes nothing
    flops    operations of this tree, shared values once
    ops      how many values it computes, shared ones once
    accumulators  the accumulators below, each once
    finished the axes of its domain at which it reads values that are finished on chip
    captured whether an accumulator would have such a value finished anew for each of its terms
    """

    __slots__ = (
        *("_kinds", "accumulators", "axes", "captured", "finished", "flops"),
        *("kids", "node", "ops", "own", "rank", "reads", "serial"),
    )

    def __init__(self, node: ENode, kids: tuple[Tree, ...], serial: int) -> None:
        self.node, self.kids, self.serial = node, kids, serial
        self.reads: Mapping[int, int] = {}
        self.axes: Mapping[int, int] = {}
        self.rank: int | None = None
        self.own: int | None = None
        self.flops = self.ops = 0
        self.accumulators: frozenset[Tree] = frozenset()
        self.finished: frozenset[int] = frozenset()
        self.captured = False
        self._kinds: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"{self.node.ctor}({', '.join(map(str, (*self.kids, *texts_of(self.node))))})"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The constructors of its accumulators, sorted: kernels of different kinds do not replace one another."""
        if self._kinds is None:
            self._kinds = tuple(sorted(each.node.ctor for each in self.accumulators))
        return self._kinds


class Forest:
    """Makes trees over one e-graph, and knows the types of its buffers."""

    def __init__(self, view: EGraphView) -> None:
        self.view = view
        self._trees: dict[tuple[ENode, tuple[int, ...]], Tree] = {}
        self._types: dict[int, TensorType] = {}
        self._works: dict[Tree, Work] = {}

    def type_of(self, buffer: int) -> TensorType:
        """The type of a Buf class."""
        if buffer not in self._types:
            node = next(each for each in self.view.classes[buffer] if each.ctor in ("Input", "Store"))
            self._types[buffer] = parse_type(str(node.args[1]))
        return self._types[buffer]

    def make(self, node: ENode, kids: tuple[Tree, ...]) -> Tree:
        """The tree of a node over these trees."""
        key = (node, tuple([kid.serial for kid in kids]))
        found = self._trees.get(key)
        if found is None:
            found = self._trees[key] = Tree(node, kids, len(self._trees))
            self._derive(found)
        return found

    def _derive(self, tree: Tree) -> None:
        self._gather_below(tree)
        match tree.node.ctor:
            case "Load":
                self._read(tree, int(tree.node.args[0]), parse_map(str(tree.node.args[1])))
            case "At":
                self._finish(tree, parse_map(str(tree.node.args[2])))
            case "Gather":
                buffer, view = int(tree.node.args[0]), parse_map(str(tree.node.args[1]))
                self._place(tree, view)
                points = math.prod(tree.axes.values())
                tree.reads = _more(tree.reads, buffer, points, self.type_of(buffer))
            case "Index":
                self._place(tree, parse_map(str(tree.node.args[1])))
            case "Reduce" | "Contract":
                self._reduce(tree)
            case "Scan":
                tree.captured |= int(tree.node.args[2]) in tree.finished
                self._work(tree, "scan", str(tree.node.args[0]), tree.axes)
            case "PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern":
                self._work(tree, "ewise", str(tree.node.args[0]), tree.axes)

    def _gather_below(self, tree: Tree) -> None:
        """What the kids have, together."""
        work = union(map(self._work_of, tree.kids))
        tree.flops, tree.ops = work.flops, work.size
        if len(tree.kids) == 1:
            (kid,) = tree.kids
            tree.reads, tree.axes, tree.rank, tree.accumulators = kid.reads, kid.axes, kid.rank, kid.accumulators
            tree.finished, tree.captured = kid.finished, kid.captured
            return
        reads: dict[int, int] = {}
        axes: dict[int, int] = {}
        for kid in tree.kids:
            for buffer, size in kid.reads.items():
                reads[buffer] = max(size, reads.get(buffer, 0))
            axes.update(kid.axes)
            tree.rank = kid.rank if tree.rank is None else tree.rank
            tree.accumulators |= kid.accumulators
            tree.finished |= kid.finished
            tree.captured |= kid.captured
        tree.reads, tree.axes = reads, axes

    def _work_of(self, tree: Tree) -> Work:
        """All that a tree computes: numbered when something is made of it, since most trees never become part of
        another."""
        found = self._works.get(tree)
        if found is None:
            below = union(self._works[kid] for kid in tree.kids)
            found = below if tree.own is None else below.plus(len(self._works), tree.own)
            self._works[tree] = found
        return found

    def _place(self, tree: Tree, view: AxisMap) -> None:
        """A read or an index knows its domain."""
        tree.axes = {**tree.axes, **{axis: view.sizes[axis] for axis in used_axes(view)}}
        tree.rank = len(view.sizes)

    def _finish(self, tree: Tree, view: AxisMap) -> None:
        """What is finished on chip has a domain of its own."""
        tree.axes = {}
        self._place(tree, view)
        tree.finished = frozenset(tree.axes)

    def _read(self, tree: Tree, buffer: int, view: AxisMap) -> None:
        self._place(tree, view)
        if view.fill is None:
            tree.reads = _more(tree.reads, buffer, footprint(view), self.type_of(buffer))

    def _reduce(self, tree: Tree) -> None:
        contraction = tree.node.ctor == "Contract"
        sizes = parse_sizes(str(tree.node.args[1 if contraction else 2]))
        outer = None if tree.rank is None else tree.rank - len(sizes)
        kept = {axis: size for axis, size in tree.axes.items() if outer is not None and axis < outer}
        tree.captured |= any(outer is not None and axis >= outer for axis in tree.finished)
        domain = {**kept, **{-1 - k: size for k, size in enumerate(sizes)}}
        self._work(tree, "contraction" if contraction else "reduce", "sum", domain)
        tree.axes, tree.rank = kept, outer

    def _work(self, tree: Tree, kind: str, fn: str, domain: Mapping[int, int]) -> None:
        own = math.prod(domain.values()) * flops_per_point(kind, fn)
        tree.own = own
        tree.flops += own
        tree.ops += 1
        if kind in ("contraction", "reduce", "scan"):
            tree.accumulators |= {tree}


def used_axes(view: AxisMap) -> tuple[int, ...]:
    """The axes that a value read through the map is defined over: those it depends on, all of an empty domain."""
    return tuple(range(len(view.sizes))) if view.is_empty else tuple(sorted(support(view)))


def _more(reads: Mapping[int, int], buffer: int, elements: int, type_: TensorType) -> Mapping[int, int]:
    bytes_read = min(elements, type_.size) * type_.dtype.bytes
    return {**reads, buffer: max(bytes_read, reads.get(buffer, 0))}


def inline_classes(view: EGraphView, node: ENode) -> tuple[int, ...]:
    """The class arguments of a node that are decided inside the kernel."""
    return tuple([int(node.args[place]) for place in _places(node.ctor, INLINE)])


def class_arguments(view: EGraphView, node: ENode) -> tuple[int, ...]:
    """Every class argument of a node: what it reads, and what is decided inside the kernel."""
    buffer = buffer_of(node)
    return (*(() if buffer is None else (buffer,)), *inline_classes(view, node))


def texts_of(node: ENode) -> tuple[int | str, ...]:
    """The arguments of a node that are not classes."""
    return tuple([node.args[place] for place in _places(node.ctor, _PLAIN)])


@cache
def _places(ctor: str, sorts: tuple[Sort, ...]) -> tuple[int, ...]:
    """Which arguments of a constructor are of these sorts."""
    return tuple(place for place, sort in enumerate(CTORS[ctor].args) if sort in sorts)


def buffer_of(node: ENode) -> int | None:
    """The Buf class that a Load or Gather reads."""
    return int(node.args[0]) if node.ctor in ("Load", "Gather") else None


def subtrees(tree: Tree) -> list[Tree]:
    """Every distinct tree below, operands before what reads them, the tree itself last."""
    return post_order([tree], lambda each: each.kids)


def buffers_of(tree: Tree) -> tuple[int, ...]:
    """The Buf classes that the tree reads, by first appearance: equal structures have them in corresponding places."""
    found = (buffer_of(each.node) for each in subtrees(tree))
    return tuple(dict.fromkeys(buffer for buffer in found if buffer is not None))


def rules_of(view: EGraphView, tree: Tree) -> tuple[str, ...]:
    """The rules that built the tree's nodes, once per node, sorted."""
    return tuple(sorted(view.rules[each.node] for each in subtrees(tree) if each.node in view.rules))


def structure(tree: Tree, leaf: Callable[[int], str]) -> tuple[object, ...]:
    """The tree with buffers replaced by their first appearance and `leaf` (a type, whether constant): equal for
    kernels that differ in what they are applied to."""
    numbers: dict[Tree, int] = {}
    seen: dict[int, int] = {}
    lines: list[tuple[object, ...]] = []
    for each in subtrees(tree):
        line: list[object] = [each.node.ctor, *texts_of(each.node), *(numbers[kid] for kid in each.kids)]
        buffer = buffer_of(each.node)
        if buffer is not None:
            line += [seen.setdefault(buffer, len(seen)), leaf(buffer)]
        numbers[each] = len(lines)
        lines.append(tuple(line))
    return tuple(lines)
