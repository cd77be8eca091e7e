"""Parses Tiny IR: JSON with comments, or Tiny text; checked for form, not yet for shapes."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.tiny.check_calls import check_calls
from ir.tiny.graph import STAGE, check_arg, check_barrier, check_call_ids, check_id, check_operands
from ir.tiny.node import CALL, GraphCall, Imm, Node, Ref, StatedType
from ir.tiny.source import Source, source_of
from ir.tiny.text_to_source import is_tiny_text, text_to_source
from ir.uop.args import ArgKind, canonical, is_text, number
from ir.uop.table import UOPS

TINY_SUFFIX = ".tiny"
"""Of files with Tiny text."""

_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*')


def parse(source: str | os.PathLike[str] | Mapping[str, Any] | Source) -> Source:
    """Reads a program from Tiny text, JSON text, a file's path, or a dict. Raises EqsatError."""
    document = source if isinstance(source, (Mapping, Source)) else read_document(source)
    if isinstance(document, Source):
        return document
    if not isinstance(document, Mapping):
        fail(Kind.MALFORMED_GRAPH, STAGE, "a program is a JSON object", hint='{"uops": […]}')
    notes: tuple[Diagnostic, ...] = ()
    if "ops" in document and "uops" not in document:
        from ir.tiny.older_form import read_dump

        document, notes = read_dump(document)
    _check_keys(document, ("uops", "outputs", "dims", "graphs"), "a program")
    return check_calls(_body(document, notes, _graphs(document.get("graphs") or {})))


def program_text(source: str | os.PathLike[str]) -> str:
    """The text itself, or that of the file. A string is a text if it has a line break or a brace, begins with %, or is
    blank; other strings are paths."""
    if isinstance(source, str) and ("{" in source or "\n" in source or source.lstrip()[:1] in ("", "%")):
        return source
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"neither a program's text nor a readable file: {reason}",
            at=str(source)[:80],
        )


def read_document(source: str | os.PathLike[str]) -> Any:
    """The Source of Tiny text, the JSON value of any other text; of a text or of a file. Tiny text is what a file
    whose name ends in .tiny holds, or begins with a %id, `graph`, `dims` or `return`. Raises EqsatError, which names
    the file."""
    text = program_text(source)
    at = None if text is source else str(source)
    if is_tiny_text(text) or (at is not None and at.endswith(TINY_SUFFIX)):
        return check_calls(text_to_source(text, at))
    return document_of(text, at)


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


def _graphs(documents: object) -> dict[str, Source]:
    """The named graphs, each written as a program."""
    if not isinstance(documents, Mapping):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`graphs` is an object: graphs by name", hint='{"block": {"uops": […]}}')
    graphs = {}
    for name, document in documents.items():
        if not is_text(name) or not name or not isinstance(document, Mapping):
            fail(Kind.MALFORMED_GRAPH, STAGE, "a graph is an object with a name", at=str(name)[:80])
        _check_keys(document, ("uops", "outputs", "dims"), "a graph", at=f"@{name}")
        graphs[name] = _body(document, (), {})
    return graphs


def _body(document: Mapping[str, Any], notes: tuple[Diagnostic, ...], graphs: Mapping[str, Source]) -> Source:
    """The program of a document."""
    uops: list[Node | GraphCall] = []
    stated: dict[Ref, StatedType] = {}
    for index, record in enumerate(_list(document, "uops")):
        uop = _uop(record, index)
        uops.append(uop)
        if record.get("type") is not None:
            stated |= _stated(record["type"], uop)
    outputs = document.get("outputs")
    if outputs is not None:
        outputs = tuple(_id(output, "outputs") for output in _list(document, "outputs"))
    return source_of(uops, outputs, document.get("dims"), notes=notes, graphs=graphs, stated=stated)


def _uop(record: object, index: int) -> Node | GraphCall:
    if not isinstance(record, Mapping):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"uops[{index}] is not an object")
    place, name = f"uops[{index}]", record.get("uop")
    if name == CALL:
        return _call(record, place)
    ref = _id(record.get("id"), place)
    _check_keys(record, ("id", "uop", "src", "arg", "tag", "calls", "barrier", "type"), "a uop", at=ref)
    if not isinstance(name, str):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`uop` must name a uop", at=ref)
    if name not in UOPS:
        close = difflib.get_close_matches(name.upper(), UOPS, n=1)
        hint = f"did you mean {close[0]}?" if close else "one of " + ", ".join(UOPS)
        fail(Kind.UNKNOWN_UOP, STAGE, f"there is no uop {name!r}", at=ref, hint=hint)
    arg, tag = _arg_and_tag(record, ref)
    src = tuple(_operand(operand, ref) for operand in _list(record, "src", ref))
    try:
        check_operands(UOPS[name], src)
        calls = check_call_ids(record.get("calls"))
        barrier = check_barrier(record.get("barrier", False))
        return Node(ref, name, src, check_arg(UOPS[name], arg, bound=False), tag, calls, barrier)
    except EqsatError as error:
        raise error.locate(at=ref, op=UOPS[name].label(arg)) from None


def _call(record: Mapping[str, Any], place: str) -> GraphCall:
    """A call: its `id` is the id of its result, or the list of the ids of several."""
    ids = record.get("id")
    results = tuple(_id(ref, place) for ref in (ids if isinstance(ids, (list, tuple)) and ids else [ids]))
    _check_keys(record, ("id", "uop", "src", "arg", "tag", "type"), "a call", at=results[0])
    arg, tag = _arg_and_tag(record, results[0])
    graph = arg.get("graph")
    if not is_text(graph) or not graph or len(arg) != 1:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            "a CALL has one attribute, the name of a graph",
            at=results[0],
            hint='"arg": {"graph": "block"}',
        )
    src = _list(record, "src", results[0])
    return GraphCall(results, graph, tuple(_id(ref, f"{place}, an operand of a call") for ref in src), tag)


def _arg_and_tag(record: Mapping[str, Any], at: Ref) -> tuple[Mapping[str, Any], str | None]:
    arg, tag = record.get("arg") or {}, record.get("tag")
    if not isinstance(arg, Mapping) or not (tag is None or is_text(tag)):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`arg` is an object and `tag` a string", at=at)
    return arg, tag


def _stated(types: object, uop: Node | GraphCall) -> dict[Ref, StatedType]:
    """The stated types of a uop's results: one type, or for several results a list of types and nulls."""
    listed = types if isinstance(types, (list, tuple)) else [types]
    if len(listed) != len(uop.results):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`type` states another number of types than the uop has results", at=uop.id)
    given = zip(uop.results, listed, strict=True)
    return {ref: _stated_type(type_, uop.id) for ref, type_ in given if type_ is not None}


def _stated_type(record: object, at: Ref) -> StatedType:
    try:
        if not isinstance(record, Mapping) or not {"dtype", "shape"} <= record.keys() <= {"dtype", "shape", "names"}:
            raise ValueError
        shape = canonical(ArgKind.DIMS, record["shape"])
        names = canonical(ArgKind.NAMES, record.get("names") or [None] * len(shape))
        if len(names) != len(shape):
            raise ValueError
        return StatedType(canonical(ArgKind.DTYPE, record["dtype"]), shape, names)
    except (ValueError, OverflowError):
        hint = '"type": {"dtype": "fp32", "shape": ["n", 8], "names": ["rows", null]}; names may be left out'
        fail(Kind.MALFORMED_GRAPH, STAGE, "`type` states no type", at=at, hint=hint)


def _id(value: object, place: str) -> Ref:
    try:
        return check_id(value)
    except EqsatError as error:
        (one,) = error.diagnostics
        raise EqsatError(msgspec.structs.replace(one, message=f"{place}: {one.message}")) from None


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
