"""Parses Tiny IR: JSON with comments, checked for form, not yet for shapes."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.tiny.graph import STAGE, Imm, Node, Ref, check_arg, check_operands
from ir.uop.args import NON_FINITE, ArgKind, is_symbol, is_text, number
from ir.uop.table import UOPS

_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*')
IDENTIFIER = re.compile(r"[^\W\d]\w*'*")
_RESULT_AXIS = re.compile(r"i\d+\Z")


class Source(msgspec.Struct, frozen=True):
    """A well-formed program whose sizes may be symbols: uops with sources first, outputs if stated, known sizes."""

    uops: tuple[Node, ...]
    outputs: tuple[Ref, ...] | None = None
    dims: Mapping[str, int] = {}
    notes: tuple[Diagnostic, ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that stand for sizes, in order of appearance."""
        return tuple(dict.fromkeys(symbol for node in self.uops for symbol in size_symbols(node)))


def parse(source: str | os.PathLike[str] | Mapping[str, Any] | Source) -> Source:
    """Reads a program from JSON text, a file's path, or a dict. Raises EqsatError."""
    if isinstance(source, Source):
        return source
    document = source if isinstance(source, Mapping) else read_document(source)
    if not isinstance(document, Mapping):
        fail(Kind.MALFORMED_GRAPH, STAGE, "a program is a JSON object", hint='{"uops": […]}')
    notes: tuple[Diagnostic, ...] = ()
    if "ops" in document and "uops" not in document:
        from ir.tiny.older_form import read_dump

        document, notes = read_dump(document)
    _check_keys(document, ("uops", "outputs", "dims"), "a program")
    nodes = [_node(record, index) for index, record in enumerate(_list(document, "uops"))]
    outputs = document.get("outputs")
    if outputs is not None:
        outputs = tuple(_id(output, "outputs") for output in _list(document, "outputs"))
    return Source(_check_ids(nodes, outputs or ()), outputs, check_dims(document.get("dims") or {}), notes)


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
        elif spec.kind is ArgKind.PAIRS:
            yield from (size for pair in value for size in pair if isinstance(size, str))
        elif spec.kind is ArgKind.INDEX_MAP:
            yield from (name for text in value for name in index_symbols(text))


def index_symbols(expression: str) -> Iterator[str]:
    """The names in an index expression that are not axes i0, i1, … of the result."""
    return (name for name in IDENTIFIER.findall(expression) if not _RESULT_AXIS.match(name))


def program_text(source: str | os.PathLike[str]) -> str:
    if isinstance(source, str) and ("{" in source or "\n" in source or not source.strip()):
        return source
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"neither JSON text nor a readable file: {reason}",
            at=str(source)[:80],
        )


def read_document(source: str | os.PathLike[str]) -> Any:
    """The JSON value of a text or of a file. Raises EqsatError, which names the file."""
    text = program_text(source)
    return document_of(text, at=None if text is source else str(source))


def document_of(text: str, at: str | None = None) -> Any:
    """The JSON value of a text with // comments; comments are blanked, so that errors keep their line and column."""
    plain = _STRING_OR_COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " " * len(m[0]), text)
    try:
        return json.loads(plain, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"not JSON: {error.msg}, line {error.lineno}, column {error.colno}",
            at=at,
            hint="the text may be cut short" if error.pos >= len(plain.rstrip()) else None,
            line=error.lineno,
            column=error.colno,
        )
    except (ValueError, RecursionError) as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not JSON that can be read: {error}", at=at)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        fail(Kind.MALFORMED_GRAPH, STAGE, f"the key {twice!r} occurs twice in one object")
    return record


def _node(record: object, index: int) -> Node:
    if not isinstance(record, Mapping):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"uops[{index}] is not an object")
    ref = _id(record.get("id"), f"uops[{index}]")
    _check_keys(record, ("id", "uop", "src", "arg", "tag"), "a uop", at=ref)
    name = record.get("uop")
    if not isinstance(name, str):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`uop` must name a uop", at=ref)
    if name not in UOPS:
        close = difflib.get_close_matches(name.upper(), UOPS, n=1)
        hint = f"did you mean {close[0]}?" if close else "one of " + ", ".join(UOPS)
        fail(Kind.UNKNOWN_UOP, STAGE, f"there is no uop {name!r}", at=ref, hint=hint)
    arg, tag = record.get("arg") or {}, record.get("tag")
    if not isinstance(arg, Mapping) or not (tag is None or is_text(tag)):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`arg` is an object and `tag` a string", at=ref)
    src = tuple(_operand(operand, ref) for operand in _list(record, "src", ref))
    try:
        check_operands(UOPS[name], src)
        return Node(ref, name, src, check_arg(UOPS[name], arg, bound=False), tag)
    except EqsatError as error:
        raise error.locate(at=ref, op=UOPS[name].label(arg)) from None


def _id(value: object, place: str) -> Ref:
    if not is_text(value) or not value or value in NON_FINITE:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{place}: {value!r} is no id", hint="a string, not inf or nan")
    return value


def _operand(value: object, at: Ref) -> Ref | Imm:
    if isinstance(value, Imm):
        return value
    immediate = number(value)
    if immediate is not None:
        return Imm(immediate)
    if not isinstance(value, str) or not value:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{value!r} is neither an id nor a number", at=at)
    return value


def _list(record: Mapping[str, Any], key: str, at: Ref | None = None) -> Sequence[Any]:
    value = record.get(key)
    if value is None and key == "src":
        return ()
    if not isinstance(value, (list, tuple)):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"`{key}` must be a list", at=at)
    return value


def _check_keys(record: Mapping[str, Any], known: Sequence[str], owner: str, at: Ref | None = None) -> None:
    if unknown := [key for key in record if key not in known]:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"{owner} has no key {unknown[0]!r}",
            at=at,
            hint="known: " + ", ".join(known),
        )


def _check_ids(nodes: Sequence[Node], outputs: Sequence[Ref]) -> tuple[Node, ...]:
    """The nodes sorted: sources before readers, else as written. Ids must be unique and defined."""
    by_id: dict[Ref, Node] = {}
    for node in nodes:
        if node.id in by_id:
            fail(Kind.MALFORMED_GRAPH, STAGE, "two uops have this id", at=node.id)
        by_id[node.id] = node
    for node in nodes:
        for ref in node.refs:
            if ref not in by_id:
                close = difflib.get_close_matches(ref, by_id, n=1)
                hint = f"did you mean {close[0]!r}?" if close else None
                fail(Kind.MALFORMED_GRAPH, STAGE, f"reads {ref!r}, which no uop defines", at=node.id, hint=hint)
    for ref in outputs:
        if ref not in by_id:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the output {ref!r} is no uop", at=ref)
    return _sort_sources_first(by_id)


def _sort_sources_first(by_id: Mapping[Ref, Node]) -> tuple[Node, ...]:
    """Depth first with an explicit stack: programs may be deeper than Python's. A cycle is MalformedGraph."""
    done: dict[Ref, Node] = {}
    for root in by_id:
        path: dict[Ref, Iterator[Ref]] = {} if root in done else {root: iter(by_id[root].refs)}
        while path:
            ref, pending = next(reversed(path.items()))
            below = next((source for source in pending if source not in done), None)
            if below is None:
                done[ref] = by_id[ref]
                del path[ref]
            elif below in path:
                cycle = [*path][[*path].index(below) :]
                fail(Kind.MALFORMED_GRAPH, STAGE, "the uops form a cycle", at=below, cycle=cycle)
            else:
                path[below] = iter(by_id[below].refs)
    return tuple(done.values())
