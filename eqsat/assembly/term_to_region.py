"""A concrete kernel → Region Buffer SSA: shared subterms once, each value over the axes that it depends on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from eqsat.extraction.kernel_tree import Tree, used_axes
from ir.dtype import dtype as dtype_of
from ir.index.expr import axis, box_of
from ir.index.map import AxisMap, axis_map, compose, project, support
from ir.post_order import post_order
from ir.region.region import Buffer, Definition, Number, Op, Operand, OpKind, Region, Yield
from ir.term.text import parse_number

Sizes = tuple[int, ...]
_Place = tuple[Tree, Sizes]
"""A tree and the domain over which it is computed."""


class _Value(NamedTuple):
    """A let, and the axes of the kernel's domain that its own are."""

    name: str
    axes: tuple[int, ...]


class Written(NamedTuple):
    """What a region computes: a Store tree, into a buffer; `at` as `ir.region.region.Yield` has it."""

    tree: Tree
    output: Buffer
    at: AxisMap | None = None


def region_of(tree: Tree, output: Buffer, input_of: Callable[[int], Buffer]) -> Region:
    """The region that computes a Store tree into `output`; `input_of` gives the buffer of each Buf class it reads.

    Inputs come in the order of first use. A region is called by what it does: `dot_add_relu`.
    """
    return region_of_several([Written(tree, output)], input_of)


def region_of_several(written: Sequence[Written], input_of: Callable[[int], Buffer]) -> Region:
    """The region that computes several Store trees at the points of the first; what they share is computed once."""
    builder = _Builder([each.output.name for each in written], input_of)
    yields = tuple(builder.written(each) for each in written)
    return Region(
        name=titles([each.tree for each in written]),
        inputs=tuple(builder.inputs.values()),
        outputs=tuple(each.output for each in written),
        body=tuple(builder.body),
        yields=yields,
    )


def titles(trees: Sequence[Tree]) -> str:
    """What a kernel of several results does: `tanh_and_sigmoid`."""
    found = list(dict.fromkeys(map(title, trees)))
    return "_and_".join(found[:_TITLES]) + ("_and_more" if len(found) > _TITLES else "")


def title(tree: Tree) -> str:
    """What a kernel does, by its ops outside the accumulator from the first to the last: `dot_add_relu`."""
    words: list[str] = []
    each: Tree | None = tree
    while each is not None and len(words) < _WORDS:
        words += [_word(each)] if _word(each) else []
        inner = [kid for kid in each.kids if kid.accumulators]
        leads = inner if each.node.ctor == "Stream" else inner or list(each.kids)
        stop = each.node.ctor in ("Reduce", "Contract", "Scan")
        each = leads[0] if leads and not stop else None
    return "_".join(reversed(words)) or "copy"


_WORDS, _TITLES = 5, 3
_NAMES = {"contraction": "dot", "stream": "stream"}
"""What values are called whose function does not say what they are."""


def _word(tree: Tree) -> str:
    match tree.node.ctor:
        case "Contract":
            return "dot"
        case "Scan":
            return f"cum{tree.node.op}"
        case "Gather" | "Index" | "Stream":
            return tree.node.ctor.lower()
        case "Reduce" | "PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern":
            return tree.node.op
        case _:
            return ""


class _Step(NamedTuple):
    """What a let computes: an op over `domain`, whose last `reduced` axes are accumulated away."""

    kind: OpKind
    fn: str
    dtype: str
    operands: Sequence[Tree]
    domain: Sizes
    reduced: int = 0
    along: int | None = None


class _Builder:
    """Lets in SSA order. A tree is emitted once per domain: numbers alone are at home in several."""

    def __init__(self, outputs: Sequence[str], input_of: Callable[[int], Buffer]) -> None:
        self.inputs: dict[int, Buffer] = {}
        self.body: list[Definition] = []
        self._input_of = input_of
        self._taken = set(outputs)
        self._done: dict[_Place, _Value] = {}
        self._lets: dict[Op, str] = {}

    def written(self, what: Written) -> Yield:
        """What is yielded of a Store tree."""
        (value,) = what.tree.kids
        shape = what.output.memref.shape
        result = self.value(value, shape)
        taking = _selection(shape, tuple(range(len(shape))), result.axes)
        return Yield(result.name, what.output.name, taking, what.at)

    def value(self, tree: Tree, domain: Sizes) -> _Value:
        """The let that holds the tree; a bare read or number is copied into one."""
        root = (_bare(tree), domain)
        for place in post_order([root], self._below):
            self._done[place] = self._emit(*place)
        return self._done[root]

    def _below(self, place: _Place) -> list[_Place]:
        """The operands that are lets of their own, each where it is computed."""
        step = self._step(*place)
        bare = map(_bare, step.operands)
        return [_home(each, step.domain) for each in bare if each.node.ctor not in ("Load", "Imm")]

    def _step(self, tree: Tree, domain: Sizes) -> _Step:
        node, kids = tree.node, tree.kids
        match node.ctor:
            case "Load" | "Imm" | "At":
                return _Step("copy", "copy", self._dtype(tree), (tree,), domain)
            case "Index":
                return _Step("index", "index", node.dtype, (), domain)
            case "Gather":
                return _Step("gather", "gather", self._dtype(tree), kids, domain, along=node.axis)
            case "PUn" | "EUn" if node.op == "cast":
                return _Step("cast", "cast", node.dtype, kids, domain)
            case "PUn" | "EUn":
                return _Step("unary", node.op, node.dtype, kids, domain)
            case "PBin" | "PTern" | "EBin" | "ETern":
                return _Step("ewise", node.op, node.dtype, kids, domain)
            case "Reduce" if not node.sizes:  # of one element each: what is left is the dtype
                return _Step("cast", "cast", node.dtype, kids, domain)
            case "Reduce":
                return _Step("reduce", node.op, node.dtype, kids, domain + node.sizes, len(node.sizes))
            case "Contract":
                return _Step("contraction", "sum", node.dtype, kids, domain + node.sizes, len(node.sizes))
            case "Stream":
                return _Step("stream", node.op, node.dtype, kids, domain + node.sizes, len(node.sizes))
            case "Scan":
                return _Step("scan", node.op, node.dtype, kids, domain, along=node.axis)
        raise AssertionError(f"{node.ctor} is no part of a kernel")

    def _emit(self, tree: Tree, domain: Sizes) -> _Value:
        step = self._step(tree, domain)
        match step.kind:
            case "index":
                return self._index(tree, step)
            case "gather":
                return self._gather(tree, step)
            case "cast" if tree.node.ctor == "Reduce" and tree.node.op == "sum" and dtype_of(step.dtype).is_float:
                return self._added_to_zero(self._op(step), step)
            case _:
                return self._op(step)

    def _op(self, step: _Step) -> _Value:
        """An op over the axes of its domain that its operands depend on, and those that it accumulates along."""
        domain, kept = step.domain, len(step.domain) - step.reduced
        axes = {axis for each in step.operands for axis in self._axes(each, domain)} | set(range(kept, len(domain)))
        order = tuple(sorted(axes | ({step.along} if step.along is not None else set())))
        op = Op(
            kind=step.kind,
            fn=step.fn,
            dtype=step.dtype,
            domain=tuple(domain[each] for each in order),
            inputs=tuple(self._operand(each, domain, order) for each in step.operands),
            reduced=step.reduced,
            axis=None if step.along is None else order.index(step.along),
        )
        return self._let(op, order[: len(order) - step.reduced])

    def _added_to_zero(self, term: _Value, step: _Step) -> _Value:
        """0 + the only term of a sum of floats: 0 where the term is -0."""
        sizes = tuple(step.domain[axis] for axis in term.axes)
        operand = Operand(term.name, _selection(sizes, term.axes, term.axes))
        op = Op(kind="ewise", fn="add", dtype=step.dtype, domain=sizes, inputs=(operand, Number(0.0, step.dtype)))
        return self._let(op, term.axes)

    def _axes(self, tree: Tree, domain: Sizes) -> tuple[int, ...]:
        """The axes of `domain` that an operand is defined over."""
        tree = _bare(tree)
        if tree.node.ctor == "Imm":
            return ()
        if tree.node.ctor == "Load":
            return used_axes(tree.node.map)
        if tree.node.ctor == "At":
            return used_axes(self._at(tree).map)
        return self._done[tree, domain].axes

    def _index(self, tree: Tree, step: _Step) -> _Value:
        view = tree.node.map
        order = used_axes(view)
        sizes = tuple(view.sizes[each] for each in order)
        op = Op(kind="index", fn="index", dtype=step.dtype, domain=sizes, index_map=_projected(view, order))
        return self._let(op, order)

    def _gather(self, tree: Tree, step: _Step) -> _Value:
        (index,) = step.operands
        order = tuple(sorted({*used_axes(tree.node.map), *self._axes(index, step.domain)}))
        source = Operand(self._input(tree.node.buffer).name, _projected(tree.node.map, order))
        op = Op(
            kind="gather",
            fn="gather",
            dtype=step.dtype,
            domain=tuple(step.domain[each] for each in order),
            inputs=(source, self._operand(index, step.domain, order)),
            axis=step.along,
        )
        return self._let(op, order)

    def _operand(self, tree: Tree, domain: Sizes, order: tuple[int, ...]) -> Operand | Number:
        """The tree read at the point of a domain that has the axes `order` of the kernel's `domain`."""
        tree = _bare(tree)
        node = tree.node
        if node.ctor == "Imm":
            return _number(node.number, node.dtype)
        if node.ctor == "Load":
            if node.map.fill is not None:
                return Number(_json_number(node.map.fill, self._dtype(tree)), self._dtype(tree))
            return Operand(self._input(node.buffer).name, _projected(node.map, order))
        if node.ctor == "At":
            found = self._at(tree)
            return Operand(found.value, _projected(found.map, order))
        value = self._done[tree, domain]
        return Operand(value.name, _selection(tuple(domain[each] for each in order), order, value.axes))

    def _at(self, tree: Tree) -> Operand:
        """Where a value that is finished on chip is read."""
        value, shape = _home(tree, ())
        done = self._done[value, shape]
        taking = _selection(shape, tuple(range(len(shape))), done.axes)
        return Operand(done.name, compose(taking, tree.node.map))

    def _dtype(self, tree: Tree) -> str:
        if tree.node.ctor == "At":
            return tree.node.type.dtype.name
        return tree.node.dtype if tree.node.source is None else self._input_of(tree.node.source).memref.dtype

    def _input(self, buffer: int) -> Buffer:
        if buffer not in self.inputs:
            self.inputs[buffer] = self._input_of(buffer)
            self._taken.add(self.inputs[buffer].name)
        return self.inputs[buffer]

    def _let(self, op: Op, axes: tuple[int, ...]) -> _Value:
        """The let of an op; what several domains have in common is computed once."""
        if op in self._lets:
            return _Value(self._lets[op], axes)
        base = f"{_NAMES.get(op.kind, op.fn)}_{len(self.body)}"
        name = base
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self.body.append(Definition(name, op))
        self._lets[op] = name
        return _Value(name, axes)


def _bare(tree: Tree) -> Tree:
    """The tree without the marks of a kernel's parts, which compute nothing."""
    while tree.node.ctor in ("Pure", "Fin"):
        (tree,) = tree.kids
    return tree


def _home(tree: Tree, domain: Sizes) -> _Place:
    """Where an operand of an op over `domain` is computed: there, or over its own domain if it is finished on chip."""
    if tree.node.ctor != "At":
        return tree, domain
    (value,) = tree.kids
    return _bare(value), tree.node.type.shape


def _projected(view: AxisMap, order: tuple[int, ...]) -> AxisMap:
    """The map over these axes of its domain, which are all that it depends on."""
    found = project(view, order)
    assert found is not None, f"{view} depends on more than {order}: {sorted(support(view))}"
    return found


def _selection(sizes: Sizes, order: tuple[int, ...], wanted: tuple[int, ...]) -> AxisMap:
    """From a domain whose axes are `order` to the coordinates `wanted`, a part of them."""
    if 0 in sizes:
        return axis_map(sizes, [_ORIGIN for _ in wanted])
    box = box_of(sizes)
    return axis_map(sizes, [axis(order.index(each), box) for each in wanted])


_ORIGIN = axis(0, ((0, 0),))


def _number(text: str, element: str) -> Number:
    return Number(_json_number(parse_number(text), element), element)


def _json_number(value: bool | int | float, element: str) -> bool | int | float | str:
    """The number as the dtype holds it; what JSON has not, as text."""
    if dtype_of(element).is_bool:
        return bool(value)
    if not dtype_of(element).is_float:
        return int(value)
    return float(value) if math.isfinite(value) else str(float(value))
