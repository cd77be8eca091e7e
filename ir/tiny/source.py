"""A Tiny program as it is written: sizes may be symbols, and uops may be calls of named graphs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec
import numpy as np

from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.post_order import post_order
from ir.tiny.graph import STAGE
from ir.tiny.node import GraphCall, Node, Ref, StatedType, TextPlace
from ir.tiny.uops_to_text import body_lines, count_parameters, graph_lines
from ir.uop.args import ArgKind, is_symbol

IDENTIFIER = re.compile(r"[^\W\d]\w*'*")
_RESULT_AXIS = re.compile(r"i\d+\Z")


class Source(msgspec.Struct, frozen=True, eq=False):
    """A well-formed program whose sizes may be symbols: uops with sources first, outputs if stated, known sizes.

    graphs: by name, the graphs that may be called; the inputs of a graph are its parameters. stated: types that the
    program states of values, which must hold. places: where the uops stand, if the program was a text. Equality
    compares the program, not notes and places.
    """

    uops: tuple[Node | GraphCall, ...]
    outputs: tuple[Ref, ...] | None = None
    dims: Mapping[str, int] = {}
    notes: tuple[Diagnostic, ...] = ()
    graphs: Mapping[str, Source] = {}
    stated: Mapping[Ref, StatedType] = {}
    places: Mapping[Ref, TextPlace] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self._program == other._program

    def __hash__(self) -> int:
        return hash((self.uops, self.outputs))

    @property
    def _program(self) -> tuple[object, ...]:
        return self.uops, self.outputs, dict(self.dims), dict(self.graphs), dict(self.stated)

    @property
    def calls(self) -> tuple[GraphCall, ...]:
        """The calls among the uops, in order."""
        return tuple(uop for uop in self.uops if isinstance(uop, GraphCall))

    @property
    def callees(self) -> tuple[str, ...]:
        """The names of the graphs that calls and loops run, in order of appearance, each once."""
        named = (uop.graph if isinstance(uop, GraphCall) else uop.arg.get("graph") for uop in self.uops)
        return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))

    @property
    def inputs(self) -> dict[str, Node]:
        """The INPUT uops by tensor_id, in order; of a tensor that several declare, the first."""
        inputs: dict[str, Node] = {}
        for uop in self.uops:
            if isinstance(uop, Node) and uop.uop == "INPUT":
                inputs.setdefault(uop.arg["tensor_id"], uop)
        return inputs

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that stand for sizes, in order of appearance. Those of called graphs follow, as far as they are
        no sizes of parameters: these come from the operands."""
        reached = post_order([self], self._graphs_called)
        called = (symbol for graph in reached if graph is not self for symbol in graph.free_symbols)
        return tuple(dict.fromkeys((*self._own_symbols, *called)))

    @property
    def free_symbols(self) -> tuple[str, ...]:
        """The symbols of a graph's own uops that are no sizes of its parameters."""
        bound = {size for node in self.inputs.values() for size in node.arg["shape"]}
        return tuple(symbol for symbol in self._own_symbols if symbol not in bound and symbol not in self.dims)

    @property
    def _own_symbols(self) -> tuple[str, ...]:
        used = (symbol for uop in self.uops if isinstance(uop, Node) for symbol in size_symbols(uop))
        stated = (size for type_ in self.stated.values() for size in type_.shape if isinstance(size, str))
        return tuple(dict.fromkeys((*used, *stated)))

    def _graphs_called(self, graph: Source) -> list[Source]:
        return [self.graphs[name] for name in graph.callees]

    def __str__(self) -> str:
        blocks = [_block(name, graph) for name, graph in self.graphs.items()]
        main = "\n".join(body_lines(self.uops, self.stated, self.outputs, self.dims))
        return "\n\n".join([*blocks, main] if main else blocks)

    def to_json(self) -> dict[str, Any]:
        """The program as Tiny JSON; `ir.tiny.parse.parse` reads it back to an equal Source."""
        document: dict[str, Any] = {"uops": [self._record(uop) for uop in self.uops]}
        if self.outputs is not None:
            document["outputs"] = list(self.outputs)
        if self.dims:
            document["dims"] = dict(self.dims)
        if self.graphs:
            document["graphs"] = {name: graph.to_json() for name, graph in self.graphs.items()}
        return document

    def _record(self, uop: Node | GraphCall) -> dict[str, Any]:
        known = [self.stated.get(ref) for ref in uop.results]
        if not any(known):
            return uop.to_json()
        types = [None if stated is None else stated.to_json() for stated in known]
        return {**uop.to_json(), "type": types[0] if len(types) == 1 else types}


def _block(name: str, graph: Source) -> str:
    inner = graph.uops[count_parameters(graph.uops) :]
    return "\n".join(graph_lines(name, graph.uops, body_lines(inner, graph.stated, graph.outputs, graph.dims)))


def source_of(
    uops: Iterable[Node | GraphCall],
    outputs: tuple[Ref, ...] | None = None,
    dims: object = None,
    *,
    notes: tuple[Diagnostic, ...] = (),
    graphs: Mapping[str, Source] | None = None,
    stated: Mapping[Ref, StatedType] | None = None,
    places: Mapping[Ref, TextPlace] | None = None,
) -> Source:
    """The program of these parts, its uops sorted: sources before readers, else as written.

    Raises:
        EqsatError: MalformedGraph, if an id is defined twice, or read but not defined, for a cycle, or for wrong sizes.
    """
    listed, places = tuple(uops), places or {}
    try:
        by_id = _definitions(listed)
        _check_reads(listed, outputs or (), by_id)
        in_order = _sort_sources_first(by_id)
        return Source(in_order, outputs, check_dims(dims or {}), notes, graphs or {}, stated or {}, places)
    except EqsatError as error:
        raise with_places(error, places) from None


def with_places(error: EqsatError, places: Mapping[Ref, TextPlace]) -> EqsatError:
    """The same error; diagnostics at uops of a text show the places of the uops."""
    return EqsatError(_with_place(one, places.get(one.at or "")) for one in error.diagnostics)


def _with_place(one: Diagnostic, place: TextPlace | None) -> Diagnostic:
    if place is None or "line" in one.details:
        return one
    return msgspec.structs.replace(one, details={**one.details, **place.details})


def check_dims(dims: object) -> dict[str, int]:
    """Sizes by symbol; MalformedGraph unless all are integers ≥ 0."""
    if not isinstance(dims, Mapping):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`dims` gives sizes by symbol", hint='{"M": 128}')
    for symbol, size in dims.items():
        is_whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
        if not is_symbol(symbol) or not is_whole or not 0 <= size < 2**62:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"`dims`: {symbol!r} cannot be {size!r}", hint="an integer ≥ 0")
    return {symbol: int(size) for symbol, size in dims.items()}


def size_symbols(node: Node) -> Iterator[str]:
    """The symbols among a node's sizes, pads, strides and index expressions, without names of axes."""
    for key, spec in node.op.args.items():
        value = node.arg.get(key, ())
        if spec.kind is ArgKind.DIMS:
            yield from (size for size in value if isinstance(size, str))
        elif spec.kind is ArgKind.SIZE and isinstance(value, str):
            yield value
        elif spec.kind is ArgKind.PAIRS:
            yield from (size for pair in value for size in pair if isinstance(size, str))
        elif spec.kind is ArgKind.INDEX_MAP:
            yield from (name for text in value for name in index_symbols(text))


def index_symbols(expression: str) -> Iterator[str]:
    """The names in an index expression that are not axes i0, i1, … of the result."""
    return (name for name in IDENTIFIER.findall(expression) if not _RESULT_AXIS.match(name))


def refuse_undefined(ref: Ref, known: Iterable[Ref], message: str, at: str | None, **details: Any) -> NoReturn:
    """MalformedGraph for an id that no uop defines, with a similar id that one does."""
    close = difflib.get_close_matches(ref, list(known), n=1)
    hint = f"did you mean {close[0]!r}?" if close else None
    fail(Kind.MALFORMED_GRAPH, STAGE, message, at=at, hint=hint, **details)


def _definitions(uops: Sequence[Node | GraphCall]) -> dict[Ref, Node | GraphCall]:
    """The uops by the ids that they define. Ids must be unique."""
    by_id: dict[Ref, Node | GraphCall] = {}
    for uop in uops:
        for ref in uop.results:
            if ref in by_id:
                fail(Kind.MALFORMED_GRAPH, STAGE, "two uops have this id", at=ref)
            by_id[ref] = uop
    return by_id


def _check_reads(
    uops: Sequence[Node | GraphCall], outputs: Sequence[Ref], by_id: Mapping[Ref, Node | GraphCall]
) -> None:
    for uop in uops:
        for ref in uop.refs:
            if ref not in by_id:
                refuse_undefined(ref, by_id, f"reads {ref!r}, which no uop defines", uop.id)
    for ref in outputs:
        if ref not in by_id:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the output {ref!r} is no uop", at=ref)


def _sort_sources_first(by_id: Mapping[Ref, Node | GraphCall]) -> tuple[Node | GraphCall, ...]:
    """Depth first with an explicit stack: programs may be deeper than Python's. A cycle is MalformedGraph."""
    done: dict[Ref, Node | GraphCall] = {}
    for root in (uop.id for uop in by_id.values()):
        path: dict[Ref, Iterator[Ref]] = {} if root in done else {root: iter(by_id[root].refs)}
        while path:
            ref, pending = next(reversed(path.items()))
            below = next((by_id[source].id for source in pending if by_id[source].id not in done), None)
            if below is None:
                done[ref] = by_id[ref]
                del path[ref]
            elif below in path:
                cycle = [*path][[*path].index(below) :]
                fail(Kind.MALFORMED_GRAPH, STAGE, "the uops form a cycle", at=below, cycle=cycle)
            else:
                path[below] = iter(by_id[below].refs)
    return tuple(done.values())
