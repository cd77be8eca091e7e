"""A kernel's trees → Region Buffer SSA: a shared subterm is one let, and a let has only the axes that it depends on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from eqsat.extraction.enumeration.kernel_tree import Tree, used_axes
from ir.dtype import dtype as dtype_of
from ir.index.expr import axis, box_of
from ir.index.map import AxisMap, axis_map, compose, project, support
from ir.names import new_name
from ir.post_order import post_order
from ir.region.region import Buffer, Definition, Number, Op, Operand, OpKind, Region, Yield
from ir.term.text import parse_number
from ir.uop.table import FUNCTIONS

Sizes = tuple[int, ...]
_Place = tuple[Tree, Sizes]
"""A tree, and the domain over which it is computed."""


class _Value(NamedTuple):
    """A let, and the axes of the kernel's domain that the let's axes are."""

    name: str
    axes: tuple[int, ...]


class Written(NamedTuple):
    """A result of a region: a Store tree and the buffer that it fills; `at` as in `ir.region.region.Yield`."""

    tree: Tree
    output: Buffer
    at: AxisMap | None = None


def region_of_several(written: Sequence[Written], input_of: Callable[[int], Buffer]) -> tuple[Region, tuple[int, ...]]:
    """The region that computes several Store trees at the points of the first one, and the Buf classes that are its
    inputs, whose buffers `input_of` gives. Shared parts are computed once. Inputs come in the order of first use. The
    region's name lists its ops: `dot_add_relu`."""
    read = {buffer for result in written for buffer in (*result.tree.reads, *result.tree.gathered)}
    names = [*(result.output.name for result in written), *(input_of(buffer).name for buffer in read)]
    builder = _Builder(names, input_of)
    yields = tuple(builder.yield_of(result) for result in written)
    region = Region(
        name=titles([result.tree for result in written]),
        inputs=tuple(builder.inputs.values()),
        outputs=tuple(result.output for result in written),
        body=tuple(builder.body),
        yields=yields,
    )
    return region, tuple(builder.inputs)


def titles(trees: Sequence[Tree]) -> str:
    """The name of a kernel with several results: `tanh_and_sigmoid`."""
    names = list(dict.fromkeys(map(title, trees)))
    return "_and_".join(names[:_TITLES]) + ("_and_more" if len(names) > _TITLES else "")


def title(tree: Tree) -> str:
    """The name of a kernel: its ops in order, from the accumulator on outwards, such as `dot_add_relu`."""
    words: list[str] = []
    part: Tree | None = tree
    while part is not None and len(words) < _WORDS:
        words += [_word(part)] if _word(part) else []
        inner = [kid for kid in part.kids if kid.accumulators]
        leads = inner if part.node.ctor == "Stream" else inner or list(part.kids)
        stop = part.node.ctor in ("Reduce", "Contract", "Scan", "Scatter")
        part = leads[0] if leads and not stop else None
    return "_".join(reversed(words)) or "copy"


_WORDS, _TITLES = 5, 3
"""Most words of a kernel's title, and most titles in the name of a kernel with several results."""
_NAMES = {"contraction": "dot", "stream": "stream", "scatter": "scatter"}
"""Names of lets by kind, where the function's name does not tell the op."""


def _word(tree: Tree) -> str:
    match tree.node.ctor:
        case "Contract":
            return "dot"
        case "Scan":
            return f"cum{tree.node.op}"
        case "Gather" | "Index" | "Scatter" | "Stream" | "Table":
            return tree.node.ctor.lower()
        case "Reduce" | "PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern":
            return tree.node.op
        case _:
            return ""


class _Step(NamedTuple):
    """The op of a let over `domain`; its last `reduced` axes are accumulated away. `updates`: the sizes of the updates
    of a scatter; the first operand is over `domain`, the others are over these sizes."""

    kind: OpKind
    fn: str
    dtype: str
    operands: Sequence[Tree]
    domain: Sizes
    reduced: int = 0
    along: int | None = None
    updates: Sizes = ()

    @property
    def places(self) -> list[tuple[Tree, Sizes]]:
        """The operands, each with the domain where the op reads it."""
        domains = [self.domain, *(self.updates for _ in self.operands[1:])] if self.updates else None
        return list(zip(self.operands, domains or [self.domain] * len(self.operands), strict=True))


class _Builder:
    """Lets in SSA order. A tree becomes one let per domain. taken: the names of buffers, which no let may have."""

    def __init__(self, taken: Sequence[str], input_of: Callable[[int], Buffer]) -> None:
        self.inputs: dict[int, Buffer] = {}
        self.body: list[Definition] = []
        self._input_of = input_of
        self._taken = set(taken)
        self._done: dict[_Place, _Value] = {}
        self._lets: dict[Op, str] = {}

    def yield_of(self, result: Written) -> Yield:
        """The yield of a Store tree."""
        (value,) = result.tree.kids
        shape = result.output.memref.shape
        let = self.value(value, shape)
        selection = _selection(shape, tuple(range(len(shape))), let.axes)
        return Yield(let.name, result.output.name, selection, result.at)

    def value(self, tree: Tree, domain: Sizes) -> _Value:
        """The let that holds the tree; a mere read or number is copied into one."""
        root = (_bare(tree), domain)
        for place in post_order([root], self._below):
            self._done[place] = self._emit(*place)
        return self._done[root]

    def _below(self, place: _Place) -> list[_Place]:
        """The operands that are lets, with the domains where they are computed."""
        step = self._step(*place)
        bare = ((_bare(operand), own) for operand, own in step.places)
        return [_place_of(operand, own) for operand, own in bare if operand.node.ctor not in ("Load", "Imm")]

    def _step(self, tree: Tree, domain: Sizes) -> _Step:
        node, kids = tree.node, tree.kids
        match node.ctor:
            case "Load" | "Imm" | "At":
                return _Step("copy", "copy", self._dtype(tree), (tree,), domain)
            case "Index":
                return _Step("index", "index", node.dtype, (), domain)
            case "Table":
                return _Step("table", "table", node.dtype, (), node.sizes)
            case "Gather":
                return _Step("gather", "gather", self._dtype(tree), kids, domain)
            case "PUn" | "EUn" if node.op == "cast":
                return _Step("cast", "cast", node.dtype, kids, domain)
            case "PUn" | "EUn":
                return _Step("unary", FUNCTIONS[node.op].called or node.op, node.dtype, kids, domain)
            case "PBin" | "PTern" | "EBin" | "ETern":
                return _Step("ewise", FUNCTIONS[node.op].called or node.op, node.dtype, kids, domain)
            case "Reduce" if not node.sizes:  # sums of one element: only the dtype changes
                return _Step("cast", "cast", node.dtype, kids, domain)
            case "Reduce":
                return _Step("reduce", node.op, node.dtype, kids, domain + node.sizes, len(node.sizes))
            case "Contract":
                return _Step("contraction", "sum", node.dtype, kids, domain + node.sizes, len(node.sizes))
            case "Stream":
                return _Step("stream", node.op, node.dtype, kids, domain + node.sizes, len(node.sizes))
            case "Scan":
                return _Step("scan", node.op, node.dtype, kids, domain, along=node.axis)
            case "Scatter":
                element = node.type.dtype.name
                return _Step("scatter", node.op, element, kids, node.type.shape, along=node.axis, updates=node.sizes)
        raise AssertionError(f"{node.ctor} is no part of a kernel")

    def _emit(self, tree: Tree, domain: Sizes) -> _Value:
        step = self._step(tree, domain)
        match step.kind:
            case "index":
                return self._index(tree, step)
            case "table":
                return self._table(tree, step)
            case "gather":
                return self._gather(tree, step)
            case "scatter":
                return self._scatter(step)
            case "cast" if tree.node.ctor == "Reduce" and tree.node.op == "sum" and dtype_of(step.dtype).is_float:
                return self._add_to_zero(self._op(step), step)
            case _:
                return self._op(step)

    def _op(self, step: _Step) -> _Value:
        """An op over the axes that its operands depend on, and those along which it accumulates."""
        domain, kept = step.domain, len(step.domain) - step.reduced
        axes = {axis for operand in step.operands for axis in self._axes(operand, domain)}
        along = () if step.along is None else (step.along,)
        order = tuple(sorted({*axes, *range(kept, len(domain)), *along}))
        op = Op(
            kind=step.kind,
            fn=step.fn,
            dtype=step.dtype,
            domain=tuple(domain[axis_] for axis_ in order),
            inputs=tuple(self._operand(operand, domain, order) for operand in step.operands),
            reduced=step.reduced,
            axis=None if step.along is None else order.index(step.along),
        )
        return self._let(op, order[: len(order) - step.reduced])

    def _add_to_zero(self, term: _Value, step: _Step) -> _Value:
        """0 + the only term of a sum of floats: 0 where the term is -0."""
        sizes = tuple(step.domain[axis] for axis in term.axes)
        operand = Operand(term.name, _selection(sizes, term.axes, term.axes))
        op = Op(kind="ewise", fn="add", dtype=step.dtype, domain=sizes, inputs=(operand, Number(0.0, step.dtype)))
        return self._let(op, term.axes)

    def _axes(self, tree: Tree, domain: Sizes) -> tuple[int, ...]:
        """The axes of `domain` that an operand depends on."""
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
        sizes = tuple(view.sizes[axis_] for axis_ in order)
        op = Op(kind="index", fn="index", dtype=step.dtype, domain=sizes, index_map=_project(view, order))
        return self._let(op, order)

    def _table(self, tree: Tree, step: _Step) -> _Value:
        numbers = tuple(Number(float(number), step.dtype) for number in tree.node.numbers)
        op = Op(kind="table", fn="table", dtype=step.dtype, domain=step.domain, inputs=numbers)
        return self._let(op, tuple(range(len(step.domain))))

    def _gather(self, tree: Tree, step: _Step) -> _Value:
        (index,) = step.operands
        view, place = tree.node.map, len(step.domain)
        order = tuple(sorted({*used_axes(view), *self._axes(index, step.domain)} - {place}))
        source = Operand(self._input(tree.node.buffer).name, _project(view, (*order, place)))
        op = Op(
            kind="gather",
            fn="gather",
            dtype=step.dtype,
            domain=tuple(step.domain[axis_] for axis_ in order),
            inputs=(source, self._operand(index, step.domain, order)),
        )
        return self._let(op, order)

    def _scatter(self, step: _Step) -> _Value:
        """A scatter over its result and, as one reduced axis, over the updates of an element."""
        along = step.along or 0
        domain = (*step.domain, step.updates[along])
        rank = len(step.domain)
        at_result = tuple(range(rank))
        at_updates = (*at_result[:along], rank, *at_result[along + 1 :])
        inputs: list[Operand | Number] = []
        for (operand, own), axes in zip(step.places, (at_result, at_updates, at_updates), strict=True):
            read = self._operand(operand, own, tuple(range(rank)))
            if isinstance(read, Operand):
                read = Operand(read.value, compose(read.map, _selection(domain, tuple(range(rank + 1)), axes)))
            inputs.append(read)
        op = Op(
            kind=step.kind,
            fn=step.fn,
            dtype=step.dtype,
            domain=domain,
            inputs=tuple(inputs),
            reduced=1,
            axis=along,
        )
        return self._let(op, at_result)

    def _operand(self, tree: Tree, domain: Sizes, order: tuple[int, ...]) -> Operand | Number:
        """The tree as an operand of an op over the axes `order` of the kernel's `domain`."""
        tree = _bare(tree)
        node = tree.node
        if node.ctor == "Imm":
            return _number(node.number, node.dtype)
        if node.ctor == "Load":
            if node.map.fill is not None:
                return Number(_json_number(node.map.fill, self._dtype(tree)), self._dtype(tree))
            return Operand(self._input(node.buffer).name, _project(node.map, order))
        if node.ctor == "At":
            read = self._at(tree)
            return Operand(read.value, _project(read.map, order))
        value = self._done[tree, domain]
        return Operand(value.name, _selection(tuple(domain[axis_] for axis_ in order), order, value.axes))

    def _at(self, tree: Tree) -> Operand:
        """The read of a value that is stored on chip."""
        value, shape = _place_of(tree, ())
        let = self._done[value, shape]
        selection = _selection(shape, tuple(range(len(shape))), let.axes)
        return Operand(let.name, compose(selection, tree.node.map))

    def _dtype(self, tree: Tree) -> str:
        if tree.node.ctor == "At":
            return tree.node.type.dtype.name
        return tree.node.dtype if tree.node.source is None else self._input_of(tree.node.source).memref.dtype

    def _input(self, buffer: int) -> Buffer:
        if buffer not in self.inputs:
            self.inputs[buffer] = self._input_of(buffer)
        return self.inputs[buffer]

    def _let(self, op: Op, axes: tuple[int, ...]) -> _Value:
        """The let of an op; equal ops of several domains share one."""
        if op in self._lets:
            return _Value(self._lets[op], axes)
        name = new_name(f"{_NAMES.get(op.kind, op.fn)}_{len(self.body)}", self._taken)
        self._taken.add(name)
        self.body.append(Definition(name, op))
        self._lets[op] = name
        return _Value(name, axes)


def _bare(tree: Tree) -> Tree:
    """The tree without Pure and Fin, marks that compute nothing."""
    while tree.node.ctor in ("Pure", "Fin"):
        (tree,) = tree.kids
    return tree


def _place_of(tree: Tree, domain: Sizes) -> _Place:
    """Where an operand of an op over `domain` is computed: there, or over its own domain if it is stored on chip."""
    if tree.node.ctor != "At":
        return tree, domain
    (value,) = tree.kids
    return _bare(value), tree.node.type.shape


def _project(view: AxisMap, order: tuple[int, ...]) -> AxisMap:
    """The map over these axes of its domain; it may depend on no others."""
    projected = project(view, order)
    assert projected is not None, f"{view} depends on more than {order}: {sorted(support(view))}"
    return projected


def _selection(sizes: Sizes, order: tuple[int, ...], wanted: tuple[int, ...]) -> AxisMap:
    """The map from a domain with axes `order` to the coordinates `wanted`, some of these axes."""
    if 0 in sizes:
        return axis_map(sizes, [_ORIGIN for _ in wanted])
    box = box_of(sizes)
    return axis_map(sizes, [axis(order.index(axis_), box) for axis_ in wanted])


_ORIGIN = axis(0, ((0, 0),))


def _number(text: str, element: str) -> Number:
    return Number(_json_number(parse_number(text), element), element)


def _json_number(value: bool | int | float, element: str) -> bool | int | float | str:
    """The number in the dtype; inf and nan, which JSON lacks, as text."""
    if dtype_of(element).is_bool:
        return bool(value)
    if not dtype_of(element).is_float:
        return int(value)
    return float(value) if math.isfinite(value) else str(float(value))
