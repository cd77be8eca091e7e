"""Concrete kernels: terms of the e-graph language in which every class has been decided, down to buffers.

A tree ends at reads of Buf classes, numbers and indices. Equal trees are one object, so a kernel is a DAG, and its
price counts a shared value once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.extraction.enumeration.structures import Structure, Structures, leaf
from eqsat.extraction.enumeration.work import ValueWork, union
from ir.dtype import TensorType
from ir.index.facts import index_divisions
from ir.index.map import AxisMap, support
from ir.post_order import post_order
from ir.region.work import flops_per_point, footprint


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
    held     the accumulators below, shared ones once, and `accumulates` whether it is one itself
    gathered the buffers that gathers below read at computed places, apart from those of the gathers' indices
    finished domain axes at which an on-chip value is read
    captured whether an accumulator would recompute such a value for each of its terms
    structure the tree up to its buffers; computed on demand
    work     all that it computes, as sets of values; computed on demand
    """

    __slots__ = (
        *("_kinds", "accumulates", "axes", "captured", "finished", "flops", "gathered", "held"),
        *("kids", "node", "ops", "own", "rank", "reads", "serial", "structure", "work"),
    )

    def __init__(self, node: ENode, kids: tuple[Tree, ...], serial: int) -> None:
        self.node, self.kids, self.serial = node, kids, serial
        self.reads: Mapping[int, int] = {}
        self.axes: Mapping[int, int] = {}
        self.rank: int | None = None
        self.own: int | None = None
        self.flops = self.ops = 0
        self.held: frozenset[Tree] = frozenset()
        self.accumulates = False
        self.gathered: frozenset[int] = frozenset()
        self.finished: frozenset[int] = frozenset()
        self.captured = False
        self.structure: Structure | None = None
        self.work: ValueWork | None = None
        self._kinds: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"{self.node.ctor}({', '.join(map(str, (*self.kids, *self.node.texts)))})"

    def copy_facts(self, other: Tree, renamed: Mapping[int, int]) -> None:
        """Take over what is known of the same tree over other buffers."""
        self.reads = {renamed[buffer]: size for buffer, size in other.reads.items()}
        self.axes, self.rank, self.finished, self.captured = other.axes, other.rank, other.finished, other.captured
        self.own, self.flops, self.ops = other.own, other.flops, other.ops
        self.gathered = frozenset(renamed[buffer] for buffer in other.gathered)
        self.held, self.accumulates = _accumulators_of(self.kids), other.accumulates

    @property
    def accumulators(self) -> frozenset[Tree]:
        """The accumulators below and itself, if it is one: a tree that held itself would be freed by the collector
        alone, which takes a twentieth of the optimizer's time."""
        return self.held | {self} if self.accumulates else self.held

    @property
    def kinds(self) -> tuple[str, ...]:
        """The constructors of its accumulators, sorted: kernels of different kinds do not replace one another."""
        if self._kinds is None:
            self._kinds = tuple(sorted(tree.node.ctor for tree in self.accumulators))
        return self._kinds


class Forest:
    """Makes trees over one e-graph, and knows the types of its buffers."""

    def __init__(self, view: EGraphView) -> None:
        self.view = view
        self.structures = Structures()
        self._trees: dict[tuple[ENode, tuple[int, ...]], Tree] = {}
        self._types: dict[int, TensorType] = {}
        self._numbered = 0

    def __len__(self) -> int:
        """Distinct trees made."""
        return len(self._trees)

    def type_of(self, buffer: int) -> TensorType:
        """The type of a Buf class."""
        if buffer not in self._types:
            self._types[buffer] = self.view.type_of(buffer)
        return self._types[buffer]

    def make(self, node: ENode, kids: tuple[Tree, ...]) -> Tree:
        """The tree of a node over these trees."""
        key = (node, tuple([kid.serial for kid in kids]))
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = Tree(node, kids, len(self._trees))
            self._derive(tree)
        return tree

    def copy(self, node: ENode, kids: tuple[Tree, ...], like: Tree, renamed: Mapping[int, int]) -> Tree:
        """The tree of a node over these trees, where `like` is the same over other buffers."""
        key = (node, tuple([kid.serial for kid in kids]))
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = Tree(node, kids, len(self._trees))
            tree.copy_facts(like, renamed)
            tree.structure = self.structure_of(like).over(renamed)
        return tree

    def structure_of(self, tree: Tree) -> Structure:
        """The tree up to its buffers."""
        if tree.structure is None:
            for below in _unknown(tree, lambda below: below.structure is None):
                parts = [kid.structure for kid in below.kids if kid.structure is not None]
                if below.node.source is not None:
                    parts.append(leaf(below.node.source))
                below.structure = self.structures.combine((below.node.ctor, below.node.texts), parts)
            assert tree.structure is not None
        return tree.structure

    def _derive(self, tree: Tree) -> None:
        self._gather_below(tree)
        node = tree.node
        match node.ctor:
            case "Load":
                self._read(tree, node)
            case "At":
                self._finish(tree, node)
            case "Gather":
                tree.gathered = frozenset([node.buffer])
                divisions = index_divisions(node.map, self.type_of(node.buffer).shape)
                if divisions:
                    tree.own = math.prod(tree.axes.values()) * divisions * flops_per_point("ewise", "idiv")
                    tree.flops += tree.own
                self._place(tree, node)
                points = math.prod(tree.axes.values())
                tree.reads = _more(tree.reads, node.buffer, points, self.type_of(node.buffer))
            case "Index":
                self._place(tree, node)
            case "Table":
                tree.axes, tree.rank = dict(enumerate(node.sizes)), len(node.sizes)
            case "Reduce" | "Contract" | "Stream":
                self._reduce(tree)
            case "Scan":
                tree.captured |= node.axis in tree.finished
                self._work(tree, "scan", node.op, tree.axes)
            case "Scatter":
                self._scatter(tree)
            case "PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern":
                self._work(tree, "ewise", node.op, tree.axes)

    def _gather_below(self, tree: Tree) -> None:
        """Joins the facts of the kids."""
        work = union([kid.work or self._work_of(kid) for kid in tree.kids])
        tree.gathered = frozenset().union(*[kid.gathered for kid in tree.kids])
        tree.flops, tree.ops = work.flops, work.size
        if len(tree.kids) == 1:
            (kid,) = tree.kids
            tree.reads, tree.axes, tree.rank, tree.held = kid.reads, kid.axes, kid.rank, kid.accumulators
            tree.finished, tree.captured = kid.finished, kid.captured
            return
        reads: dict[int, int] = {}
        axes: dict[int, int] = {}
        for kid in tree.kids:
            for buffer, size in kid.reads.items():
                reads[buffer] = max(size, reads.get(buffer, 0))
            axes.update(kid.axes)
            tree.rank = kid.rank if tree.rank is None else tree.rank
            tree.finished |= kid.finished
            tree.captured |= kid.captured
        tree.reads, tree.axes, tree.held = reads, axes, _accumulators_of(tree.kids)

    def _work_of(self, tree: Tree) -> ValueWork:
        """All that a tree computes: numbered when something is made of it, since most trees never become part of
        another."""
        if tree.work is None:
            for below in _unknown(tree, lambda below: below.work is None):
                work = union([kid.work for kid in below.kids if kid.work is not None])
                below.work = work if below.own is None else work.plus(self._numbered, below.own)
                self._numbered += 1
            assert tree.work is not None
        return tree.work

    def _place(self, tree: Tree, node: ENode) -> None:
        """A read or an index knows its domain."""
        sizes, used = mapped_domain(node)
        tree.axes = {**tree.axes, **{axis: sizes[axis] for axis in used}}
        tree.rank = len(sizes)

    def _finish(self, tree: Tree, node: ENode) -> None:
        """What is finished on chip has a domain of its own."""
        tree.axes = {}
        self._place(tree, node)
        tree.finished = frozenset(tree.axes)

    def _read(self, tree: Tree, node: ENode) -> None:
        self._place(tree, node)
        if node.map.fill is None:
            tree.reads = _more(tree.reads, node.buffer, footprint(node.map), self.type_of(node.buffer))

    def _reduce(self, tree: Tree) -> None:
        """The exponentials of streams are not counted, since those of one score share them."""
        kind = {"Contract": "contraction", "Reduce": "reduce", "Stream": "stream"}[tree.node.ctor]
        sizes = tree.node.sizes
        outer = None if tree.rank is None else tree.rank - len(sizes)
        kept = {axis: size for axis, size in tree.axes.items() if outer is not None and axis < outer}
        terms = [kid for kid in tree.kids if kid is not streamed_scores(tree)]
        tree.captured |= any(outer is not None and axis >= outer for kid in terms for axis in kid.finished)
        domain = {**kept, **{-1 - k: size for k, size in enumerate(sizes)}}
        self._work(tree, kind, "sum", domain)
        tree.axes, tree.rank = kept, outer

    def _scatter(self, tree: Tree) -> None:
        """A scatter depends on all axes of its result, and computes something for every update."""
        node = tree.node
        self._work(tree, "scatter", node.op, dict(enumerate(node.sizes)))
        tree.axes, tree.rank = dict(enumerate(node.type.shape)), node.type.rank
        tree.captured |= bool(tree.finished)

    def _work(self, tree: Tree, kind: str, fn: str, domain: Mapping[int, int]) -> None:
        own = math.prod(domain.values()) * flops_per_point(kind, fn)
        tree.own = own
        tree.flops += own
        tree.ops += 1
        tree.accumulates = kind in ("contraction", "reduce", "stream", "scan", "scatter")


def _unknown(tree: Tree, is_unknown: Callable[[Tree], bool]) -> list[Tree]:
    """The tree and those below of which something is not known yet, operands first; mostly the tree alone."""
    if not any(is_unknown(kid) for kid in tree.kids):
        return [tree]
    return post_order([tree], lambda below: [kid for kid in below.kids if is_unknown(kid)])


def _accumulators_of(trees: tuple[Tree, ...]) -> frozenset[Tree]:
    """The accumulators of all."""
    return trees[0].accumulators.union(*[tree.accumulators for tree in trees[1:]]) if trees else frozenset()


def streamed_scores(accumulator: Tree) -> Tree | None:
    """The scores of a stream, or of a maximum beside one, which may be finished on chip term by term."""
    scores = accumulator.kids[0]
    if accumulator.node.ctor == "Stream":
        return scores
    if accumulator.node.ctor == "Contract" or accumulator.node.op != "max" or scores.node.ctor != "At":
        return None
    sizes = scores.node.map.sizes
    return scores if all(axis in scores.finished for axis, size in enumerate(sizes) if size > 1) else None


def mapped_domain(node: ENode) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of the domain of a Load, Gather, Index or At, and the axes of the domain that the map depends on. The
    last axis of a Gather's map is the index, and no axis of the domain."""
    sizes = node.map.sizes[:-1] if node.ctor == "Gather" else node.map.sizes
    return sizes, tuple(axis for axis in used_axes(node.map) if axis < len(sizes))


def used_axes(view: AxisMap) -> tuple[int, ...]:
    """The axes that a value read through the map is defined over: those it depends on, all of an empty domain."""
    return tuple(range(len(view.sizes))) if view.is_empty else tuple(sorted(support(view)))


def _more(reads: Mapping[int, int], buffer: int, elements: int, type_: TensorType) -> Mapping[int, int]:
    bytes_read = min(elements, type_.size) * type_.dtype.bytes
    return {**reads, buffer: max(bytes_read, reads.get(buffer, 0))}


def subtrees(*trees: Tree) -> list[Tree]:
    """Every distinct tree below and these trees, operands before the trees that read them."""
    return post_order(trees, lambda tree: tree.kids)


def rules_of(view: EGraphView, trees: Sequence[Tree]) -> tuple[str, ...]:
    """The rules that built the trees' nodes, once per node, sorted."""
    return tuple(sorted(view.rules[tree.node] for tree in subtrees(*trees) if tree.node in view.rules))
