"""Binds a program to a Graph: sizes are bound, shapes and float widths aligned, axes become positions.

Ops that a program leaves implicit (an EXPAND, a widening CAST) are inserted as uops, with a note for each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ir.diagnostics import Diagnostic, EqsatError, Kind, Severity, fail, note
from ir.dtype import TensorType, bf16, fp16, fp32
from ir.grammar import with_count
from ir.names import new_name
from ir.tiny.align import common_type, places, symbolic_shape
from ir.tiny.call_to_uops import call_to_uops
from ir.tiny.check_calls import outputs_of
from ir.tiny.dims import WHOLE, free_dims, implied_sizes, infer_dims, match_shapes, require_sizes
from ir.tiny.graph import STAGE, Graph, Imm, Node, Ref, type_node
from ir.tiny.node import GraphCall, StatedType
from ir.tiny.parse import parse
from ir.tiny.source import IDENTIFIER, Source, check_dims, index_symbols, size_symbols, with_places
from ir.tiny.uops_to_text import type_text
from ir.uop.loop import element_type, loop_shape
from ir.uop.table import Arg, ArgKind, UOpKind
from ir.uop.types import Names

__all__ = ["bind", "free_dims", "infer_dims", "load"]

Notes = tuple[Diagnostic, ...]
_SHAPE_KEYS = ("shape", "result_shape")


def load(
    source: str | os.PathLike[str] | Mapping[str, Any] | Source | Graph,
    dims: Mapping[str, int] | None = None,
    strict: bool = False,
) -> tuple[Graph, Notes]:
    """Reads and binds a program: Tiny or JSON text, a file's path, a dict, a Source; a Graph is returned unchanged."""
    return (source, ()) if isinstance(source, Graph) else bind(parse(source), dims, strict)


def bind(source: Source, dims: Mapping[str, int] | None = None, strict: bool = False) -> tuple[Graph, Notes]:
    """Gives every symbol its size: from `dims`, the program's own dims, or the shapes around it. Puts the uops of the
    graphs in place of their calls.

    Raises:
        EqsatError: UnboundDim, naming every symbol without a size; the errors of ill-typed uops and of operands that a
            called graph does not take; with `strict`, also for a uop that the loader would have to insert.
    """
    given = check_dims(dims or {})
    unused = [symbol for symbol in given if symbol not in source.symbols]
    warnings = [
        note(Kind.UNBOUND_DIM, STAGE, f"dims= binds {symbol!r}, which no size uses", severity=Severity.WARNING)
        for symbol in unused
    ]
    graph, notes = _bind(source, given, lambda sizes: _Calls(source.graphs, sizes, strict))
    return graph, (*source.notes, *warnings, *notes)


def _bind(
    source: Source, given: Mapping[str, int], calls: Callable[[Mapping[str, int]], _Calls]
) -> tuple[Graph, Notes]:
    """A program, or a called graph, at these sizes. calls: the graphs to call, for the sizes known so far."""
    sizes = {**source.dims, **given}
    binder = _BindingPass(source, sizes, calls(sizes))
    while binder.missing and binder.inferred:
        sizes |= binder.inferred
        binder = _BindingPass(source, sizes, calls(sizes))
    require_sizes(binder.missing, STAGE)
    outputs = [binder.alias.get(ref, ref) for ref in outputs_of(source)]
    return Graph.of_typed(binder.nodes, outputs, binder.types), binder.notes


class _Calls:
    """The graphs of a program, each bound once for all calls with operands of the same sizes.

    sizes: of the program's symbols, which graphs may use too.
    """

    def __init__(self, graphs: Mapping[str, Source], sizes: Mapping[str, int], strict: bool) -> None:
        self.graphs = graphs
        self.sizes = sizes
        self.strict = strict
        self._bound: dict[tuple[str, tuple[tuple[str, int], ...]], Graph] = {}

    def body(self, name: str, operands: Sequence[TensorType]) -> tuple[Graph, Notes]:
        """The graph of this name for operands of these types. The notes on a graph come with its first call.

        Raises:
            EqsatError: DtypeMismatch, InputMismatch or AxisSizeMismatch, for operands that the graph does not take;
                the errors of its uops.
        """
        source = self.graphs[name]
        shared = {symbol: self.sizes[symbol] for symbol in source.free_symbols if symbol in self.sizes}
        dims = _match_operands(source, operands, shared)
        key = name, tuple(sorted(dims.items()))
        if key in self._bound:
            return self._bound[key], ()
        graph, notes = _bind(source, dims, lambda _: self)
        self._bound[key] = graph
        return graph, notes


class _BindingPass:
    """One walk over a program with the sizes known so far; uops that need an unknown size are left out.

    alias: the result of a call that returns an operand unchanged, and that operand.
    """

    def __init__(self, source: Source, sizes: Mapping[str, int], calls: _Calls) -> None:
        self.sizes = sizes
        self.calls = calls
        self.strict = calls.strict
        self.nodes: list[Node] = []
        self.types: dict[Ref, TensorType] = {}
        self.notes: Notes = ()
        self.alias: dict[Ref, Ref] = {}
        self.missing: tuple[str, ...] = ()
        self.inferred: dict[str, int] = {}
        self._taken = {ref for uop in source.uops for ref in uop.results}
        self._inserted: dict[tuple[str, Ref, Arg], Ref] = {}
        for uop in source.uops:
            try:
                if isinstance(uop, GraphCall):
                    self._visit_call(uop)
                else:
                    self._visit(uop)
                for ref in uop.results:
                    self._check_stated(ref, source.stated.get(ref))
            except EqsatError as error:
                raise with_places(error.locate(at=uop.id, op=uop.label), source.places) from None

    def _check_stated(self, ref: Ref, stated: StatedType | None) -> None:
        """The value has the type that the program states of it. A symbol without a size gets the size of its axis."""
        type_ = self.types.get(self.alias.get(ref, ref))
        if stated is None or type_ is None:
            return
        agree = stated.dtype == type_.dtype.name and len(stated.shape) == type_.rank
        for size, name, real, known in zip(stated.shape, stated.names, type_.shape, type_.names, strict=False):
            if isinstance(size, str):
                size = self.sizes[size] if size in self.sizes else self.inferred.setdefault(size, real)
            agree = agree and size == real and name in (None, known)
        if not agree:
            fail(
                Kind.DTYPE_MISMATCH if stated.dtype != type_.dtype.name else Kind.AXIS_SIZE_MISMATCH,
                STAGE,
                "the value has another type than the program states",
                at=ref,
                hint="correct the stated type, or leave it out",
                stated=type_text(stated),
                found=str(type_),
            )

    def _visit_call(self, call: GraphCall) -> None:
        """Puts the uops of the called graph in place of the call, as soon as all types and sizes are known."""
        operands = tuple(self.alias.get(ref, ref) for ref in call.refs)
        typed = [self.types[ref] for ref in operands if ref in self.types]
        if len(typed) < len(operands):
            return
        try:
            body, notes = self.calls.body(call.graph, typed)
        except EqsatError as error:
            self._require_sizes(error, call, call.graph)
            return
        nodes, results = call_to_uops(msgspec.structs.replace(call, refs=operands), body, self._fresh)
        for node in nodes:
            self._add(node)
        self.alias |= {ref: result for ref, result in zip(call.results, results, strict=True) if ref != result}
        self.notes += tuple(_noted_within(one, call, call.graph) for one in notes)

    def _require_sizes(self, error: EqsatError, uop: GraphCall | Node, graph: str) -> None:
        """Notes the sizes that a graph lacks; raises any other error of the graph, at the uop that runs it."""
        missing = error.diagnostics[0].details.get("missing", ())
        if error.kind is not Kind.UNBOUND_DIM or not missing:
            raise EqsatError(_noted_within(one, uop, graph) for one in error.diagnostics) from None
        self.missing = tuple(dict.fromkeys((*self.missing, *missing)))

    def _bind_loop(self, node: Node, arg: Arg, src: Sequence[TensorType]) -> Arg | None:
        """The attributes of a LOOP with its graph in place of the name; None while the graph lacks sizes."""
        shape, name = loop_shape(src, arg), str(arg["graph"])
        scanned = src[shape.states : shape.states + shape.scanned]
        operands = [*src[: shape.states], *map(element_type, scanned), *src[shape.states + shape.scanned :]]
        takes = self.calls.graphs[name].inputs
        if len(takes) != len(operands):
            message = f"@{name} takes {with_count(len(takes), 'operand')}, found {len(operands)}"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, parameters=list(takes))
        try:
            graph, notes = self.calls.body(name, operands)
        except EqsatError as error:
            self._require_sizes(error, node, name)
            return None
        self.notes += tuple(_noted_within(one, node, name) for one in notes)
        return arg.with_(graph=graph.named(name))

    def _visit(self, node: Node) -> None:
        node = self._without_aliases(node)
        src = [self.types.get(ref) for ref in node.refs]
        typed = [type_ for type_ in src if type_ is not None]
        unknown = [symbol for symbol in size_symbols(node) if symbol not in self.sizes]
        if unknown and len(typed) == len(src):
            for symbol, size in implied_sizes(node, typed, self.sizes).items():
                if isinstance(symbol, str):
                    self.inferred.setdefault(symbol, size)
        if unknown:
            self.missing = tuple(dict.fromkeys((*self.missing, *unknown)))
        if not unknown and len(typed) == len(src):
            arg = self._bind_arg(node, typed)
            bound = self._bind_loop(node, arg, typed) if node.op.kind is UOpKind.LOOP else arg
            if bound is not None:
                self._add(self._align(node, bound))

    def _add(self, node: Node) -> Ref:
        exact, self.types[node.id] = type_node(node, self.types)
        self.nodes.append(exact)
        return node.id

    def _without_aliases(self, node: Node) -> Node:
        if not any(ref in self.alias for ref in node.refs):
            return node
        src = (read if isinstance(read, Imm) else self.alias.get(read, read) for read in node.src)
        return msgspec.structs.replace(node, src=tuple(src))

    def _bind_arg(self, node: Node, src: Sequence[TensorType]) -> Arg:
        """The attributes with symbols replaced by sizes, and axes by positions; symbols stay as names."""
        bound: dict[str, Any] = {}
        for key, value in node.arg.items():
            match node.op.args[key].kind:
                case ArgKind.DIMS:
                    bound[key] = tuple(map(self._size, value))
                case ArgKind.PAIRS:
                    bound[key] = tuple((self._size(low), self._size(high)) for low, high in value)
                case ArgKind.SIZE:
                    bound[key] = self._size(value)
                case ArgKind.AXIS:
                    bound[key] = _axis(value, src, node.arg)
                case ArgKind.AXES if key != "broadcast_dimensions":
                    bound[key] = tuple(_axis(axis, src, node.arg) for axis in value)
                case ArgKind.INDEX_MAP:
                    bound[key] = tuple(self._index(text) for text in value)
                case _:
                    bound[key] = value
        if node.uop == "RESHAPE" and bound["result_shape"].count(WHOLE) == 1:
            bound["result_shape"] = _resolve_whole(node, src, self.sizes, bound["result_shape"])
        if node.uop in ("REDUCE", "FLIP"):
            bound["axes"] = tuple(sorted(bound["axes"]))
        names = _symbol_names(node, src)
        if any(names) and "names" not in bound:
            bound["names"] = names
        return Arg(bound)

    def _size(self, size: int | str) -> int:
        return self.sizes[size] if isinstance(size, str) else size

    def _index(self, text: str) -> str:
        symbols = set(index_symbols(text))
        return re.sub(IDENTIFIER, lambda m: str(self.sizes[m[0]]) if m[0] in symbols else m[0], text)

    def _align(self, node: Node, arg: Arg) -> Node:
        """The node on operands of one shape and dtype; the uops that this needs are inserted before it."""
        node = msgspec.structs.replace(node, arg=arg)
        if node.uop == "EXPAND":
            return self._lift(node)
        if self.strict or node.op.kind not in (UOpKind.BINARY, UOpKind.TERNARY):
            return node
        return self._broadcast(self._widen(node))

    def _widen(self, node: Node) -> Node:
        """Casts fp16 and bf16 operands beside fp32 to fp32; the condition of a WHERE does not count."""
        slots = range(1 if node.op.has_condition else 0, len(node.src))
        dtypes = {self.types[ref].dtype for slot in slots if (ref := _ref(node, slot)) is not None}
        if fp32 not in dtypes or not dtypes & {fp16, bf16}:
            return node
        src = list(node.src)
        for slot in slots:
            ref = _ref(node, slot)
            if ref is not None and self.types[ref].dtype in (fp16, bf16):
                src[slot] = self._insert(node, "CAST", ref, Arg(to=fp32.name), Kind.DTYPE_MISMATCH)
        return msgspec.structs.replace(node, src=tuple(src))

    def _broadcast(self, node: Node) -> Node:
        """Inserts the RESHAPEs and EXPANDs that give all operands one shape."""
        operands = [self.types[ref] for ref in node.refs]
        if len({operand.shape for operand in operands}) <= 1:
            return node
        big = max(operands, key=lambda operand: operand.rank)
        where = [places(operand, big) for operand in operands]
        shape, names = common_type(operands, where, big.rank)
        placed = iter(zip(node.refs, where, strict=True))
        src = tuple(
            operand if isinstance(operand, Imm) else self._expand(node, *next(placed), shape, names)
            for operand in node.src
        )
        return msgspec.structs.replace(node, src=src)

    def _expand(self, node: Node, ref: Ref, axes: Sequence[int], shape: tuple[int, ...], names: Names) -> Ref:
        """`ref` expanded to a value of this shape, with its own axes at `axes`."""
        ref = self._spread(node, ref, axes, len(shape))
        if self.types[ref].shape == shape:
            return ref
        arg = Arg(result_shape=shape, names=names if any(names) else None).with_()
        return self._insert(node, "EXPAND", ref, arg, Kind.BROADCAST_MISMATCH)

    def _spread(self, node: Node, ref: Ref, axes: Sequence[int], rank: int) -> Ref:
        """`ref` with axes of size 1 added so that its own axes are at `axes`."""
        type_ = self.types[ref]
        if type_.rank == rank:
            return ref
        shape = [1] * rank
        names: list[str | None] = [None] * rank
        for axis, size, name in zip(axes, type_.shape, type_.names, strict=True):
            shape[axis], names[axis] = size, name
        arg = Arg(result_shape=tuple(shape), names=tuple(names) if any(names) else None).with_()
        return self._insert(node, "RESHAPE", ref, arg, Kind.BROADCAST_MISMATCH)

    def _lift(self, node: Node) -> Node:
        """An EXPAND whose source has fewer axes, on a RESHAPE of the source that adds them."""
        (ref,) = node.refs
        source = self.types[ref]
        result = TensorType(source.dtype, node.arg["result_shape"], _all_names(node.arg))
        kept = node.arg.get("broadcast_dimensions")
        arg = node.arg.with_(broadcast_dimensions=None)
        if kept is not None and not _fits(kept, source, result):
            fail(
                Kind.BROADCAST_MISMATCH,
                STAGE,
                "`broadcast_dimensions` must list the result's axes that are not expanded",
                broadcast_dimensions=kept,
                src_shape=symbolic_shape(source),
                result_shape=symbolic_shape(result),
            )
        if source.rank < result.rank:
            if kept is not None:
                axes = tuple(kept)
            elif self.strict:
                axes = tuple(range(result.rank - source.rank, result.rank))
            else:
                axes = places(source, result)
            ref = self._spread(node, ref, axes, result.rank)
        return msgspec.structs.replace(node, src=(ref,), arg=arg)

    def _insert(self, node: Node, uop: str, ref: Ref, arg: Arg, kind: Kind) -> Ref:
        """Inserts a uop before `node`, once per operand."""
        key = (uop, ref, arg)
        if key not in self._inserted:
            new = Node(self._fresh(f"{ref}.{uop.lower()}"), uop, (ref,), arg)
            self._inserted[key] = self._add(new)
            message = f"inserted {uop} of `{ref}`: {self.types[ref]} → {self.types[new.id]}"
            self.notes += (note(kind, STAGE, message, at=node.id, op=node.label, inserted=new.id),)
        return self._inserted[key]

    def _fresh(self, wish: str) -> Ref:
        name = new_name(wish, self._taken)
        self._taken.add(name)
        return name


def _match_operands(source: Source, operands: Sequence[TensorType], known: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a called graph's symbols: those of its parameters from the operands, the others from `known`."""
    parameters = source.inputs
    for (name, node), operand in zip(parameters.items(), operands, strict=True):
        if operand.dtype.name != node.arg["dtype"]:
            fail(
                Kind.DTYPE_MISMATCH,
                STAGE,
                f"the parameter {name!r} takes {node.arg['dtype']}, found {operand.dtype}",
                hint="insert a CAST of the operand",
                operand=str(operand),
            )
    declared = {name: node.arg["shape"] for name, node in parameters.items()}
    shapes = {name: operand.shape for name, operand in zip(parameters, operands, strict=True)}
    try:
        return match_shapes(declared, shapes, {**source.dims, **known})
    except EqsatError as error:
        (first,) = error.diagnostics
        message = first.message.replace("input", "parameter", 1)
        raise EqsatError(msgspec.structs.replace(first, at=None, message=message)) from None


def _noted_within(one: Diagnostic, uop: GraphCall | Node, graph: str) -> Diagnostic:
    """A diagnostic about the graph that a uop runs: uops of the graph are named below it, as they are in reports."""
    if one.at is None:
        return msgspec.structs.replace(one, at=uop.id, op=uop.label)
    details = {**one.details, "calls": [f"@{graph}", *one.details.get("calls", ())]}
    return msgspec.structs.replace(one, at=f"{uop.id}/{one.at}", details=details)


def _ref(node: Node, slot: int) -> Ref | None:
    operand = node.src[slot]
    return None if isinstance(operand, Imm) else operand


def _axis(axis: int | str, src: Sequence[TensorType], arg: Arg) -> int:
    """A position ≥ 0, from a position or a symbol of the source (of the result, if there is no source)."""
    names = src[0].names if src else tuple(map(_name, arg["shape"]))
    if isinstance(axis, int):
        if not -len(names) <= axis < len(names):
            fail(Kind.MALFORMED_GRAPH, STAGE, f"axis {axis} is outside a value of rank {len(names)}", axis=axis)
        return axis % len(names)
    if names.count(axis) != 1:
        how_often = "two axes" if axis in names else "no axis"
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"{axis} is the name of {how_often} of the source",
            hint="give the position",
            axes=[name or "_" for name in names],
        )
    return names.index(axis)


def _name(size: object) -> str | None:
    return size if isinstance(size, str) else None


def _symbol_names(node: Node, src: Sequence[TensorType]) -> Names:
    """The symbols that a uop's own shape gives its result's axes."""
    for key in _SHAPE_KEYS:
        if key in node.arg:
            return tuple(map(_name, node.arg[key]))
    if node.uop == "POOL":
        kernel = tuple(map(_name, node.arg["kernel"]))
        return (None,) * src[0].rank + kernel
    return ()


def _all_names(arg: Arg) -> Names:
    names: Names = arg.get("names") or (None,) * len(arg["result_shape"])
    return names


def _fits(kept: Sequence[object], source: TensorType, result: TensorType) -> bool:
    """Whether `broadcast_dimensions` lists the result axes that the source has (equal ranks) or lies on (fewer)."""
    if len(set(kept)) != len(kept) or not all(isinstance(axis, int) and 0 <= axis < result.rank for axis in kept):
        return False
    axes = [axis for axis in kept if isinstance(axis, int)]
    if source.rank != result.rank:
        return len(axes) == source.rank and axes == sorted(axes)
    return all(
        source.shape[axis] == result.shape[axis] if axis in axes else source.shape[axis] == 1
        for axis in range(result.rank)
    )


def _resolve_whole(
    node: Node, src: Sequence[TensorType], sizes: Mapping[str, int], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """The shape with its −1 replaced by a size."""
    whole = implied_sizes(node, src, sizes).get(WHOLE)
    if whole is None:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            f"no size for −1 makes {src[0].size} elements",
            src_shape=src[0].shape,
            result_shape=shape,
        )
    return tuple(whole if size == WHOLE else size for size in shape)
