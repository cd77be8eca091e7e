"""Tiny text → Source. A hand-written recursive descent; the text of a program has no recursion deeper than a list.

    program   = { graph | "dims" sizes | uop | "return" values }
    graph     = "graph" "@"id "(" [ "%"id ":" type { "," … } ] ")" "{" { "dims" sizes | uop } "return" values "}"
    uop       = result { "," result } "=" ( name | "call" "@"id ) "(" [ item { "," item } ] ")"
    result    = "%"id [ ":" type ]
    item      = "%"id | number | name "=" value
    type      = name "[" [ axis { "," axis } ] "]"          axis = size | name "=" size
    value     = number | name | string | "_" | "[" [ value { "," value } ] "]"
    sizes     = name "=" integer { "," … }                   values = "%"id { "," "%"id }

The comment of a line begins with //. A uop's names are those of the table, in either case. A program in the braces of
`graph @main` is the program itself.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from ir.diagnostics import Kind, fail
from ir.tiny.check_calls import MAIN
from ir.tiny.graph import (
    STAGE,
    check_arg,
    check_attribute,
    check_attribute_name,
    check_barrier,
    check_call_ids,
    check_id,
    check_operands,
)
from ir.tiny.implied_arg import fill_arg, type_of_source
from ir.tiny.node import GraphCall, Imm, Node, Ref, StatedType, TextPlace
from ir.tiny.source import Source, refuse_undefined, source_of
from ir.tiny.text_tokens import END, Token, TokenReader
from ir.tiny.words import NOTHING
from ir.uop.args import NON_FINITE, ArgKind, canonical
from ir.uop.table import UOPS, UOp

T = TypeVar("T")

_FIRST = re.compile(r"(?:\s|//[^\n]*(?:\n|\Z))*(?:%|(?:graph|dims|return)\b)")
_DEEPEST_LIST = 8
"""Most lists in each other that the value of an attribute may have; no attribute has more than two."""


class _Body(NamedTuple):
    """The contents of a graph or of the program itself, as far as they are read."""

    uops: list[Node | GraphCall]
    outputs: list[Ref] | None
    dims: dict[str, int]
    stated: dict[Ref, StatedType]
    places: dict[Ref, TextPlace]
    reads: list[Token]


def is_tiny_text(text: str) -> bool:
    """Whether a text begins as Tiny text does: with a %id, or with the word `graph`, `dims` or `return`."""
    return _FIRST.match(text) is not None


def text_to_source(text: str, file: str | None = None) -> Source:
    """The program that a Tiny text holds. file: the name of its file, for messages.

    Raises:
        EqsatError: MalformedGraph, UnknownUOp, DtypeMismatch or AccDtypeMissing, with line and column.
    """
    return _Reader(text, file).program()


class _Reader(TokenReader):
    # the program

    def program(self) -> Source:
        graphs: dict[str, Source] = {}
        main = self._new_body()
        main_at: int | None = None
        while not self._is(END):
            start = self._token.start
            if not self._is("word", "graph"):
                if MAIN in graphs:
                    self._refuse(start, f"the program is in `graph @{MAIN}`", hint="write this uop into its braces")
                main_at = start if main_at is None else main_at
                main = self._statement(main)
                continue
            name, graph = self._graph()
            if name in graphs:
                self._refuse(start, f"there are two graphs @{name}", hint="give one of them another name")
            if name == MAIN and main_at is not None:
                self._refuse(start, "there are uops outside of graphs, which are the program", hint="rename this graph")
            graphs[name] = graph
        if MAIN in graphs:
            whole = graphs.pop(MAIN)
            return msgspec.structs.replace(whole, graphs=graphs)
        if graphs and main_at is None:
            hint = f"name one graph @{MAIN}, or write uops and calls after the graphs"
            self._refuse(len(self.text.rstrip()), "there are graphs, but no program that calls them", hint=hint)
        return self._finish(main, graphs)

    def _new_body(self) -> _Body:
        return _Body([], None, {}, {}, {}, [])

    def _finish(self, body: _Body, graphs: Mapping[str, Source]) -> Source:
        """The body as a program; every id that is read must be defined."""
        for token in body.reads:
            if token.text not in body.places:
                details = self._details(token.start)
                refuse_undefined(token.text, body.places, f"no uop defines %{token.text}", None, **details)
        outputs = None if body.outputs is None else tuple(body.outputs)
        return source_of(body.uops, outputs, body.dims, graphs=graphs, stated=body.stated, places=body.places)

    def _graph(self) -> tuple[str, Source]:
        """A graph with its name."""
        self._take()
        name = self._expect("graph", None, "the graph's name", hint="graph @block(%x: fp32[n, 8]) { … }").text
        body = self._new_body()
        self._mark("(")
        self._listed(lambda: self._parameter(body), ")")
        self._expect("mark", "{", "`{` and the graph's uops")
        while not self._has("mark", "}"):
            if self._is(END):
                self._refuse_token(f"`}}` at the end of @{name}")
            body = self._statement(body)
        if body.outputs is None:
            self._next -= 1
            self._refuse_token(f"`return` at the end of @{name}", hint="return %y")
        return name, self._finish(body, {})

    def _parameter(self, body: _Body) -> None:
        ref = self._expect("value", None, "a parameter", hint="%x: fp32[n, 8]")
        self._expect("mark", ":", "`:` and the parameter's type", hint=f"%{ref.text}: fp32[n, 8]")
        stated = self._type()
        with self._errors_at(ref.start, ref.text, "parameter"):
            arg = check_arg(UOPS["INPUT"], fill_arg(UOPS["INPUT"], {}, ref.text, stated), bound=False)
        self._define(body, ref)
        body.uops.append(Node(ref.text, "INPUT", (), arg))

    # statements

    def _statement(self, body: _Body) -> _Body:
        """The body with one more uop, with sizes, or with what it returns."""
        if body.outputs is not None:
            self._refuse_token("nothing after `return`", hint="a program has one `return`, at its end")
        if self._has("word", "dims"):
            self._sizes(body.dims)
        elif self._has("word", "return"):
            return body._replace(outputs=[token.text for token in self._values(body)])
        elif self._is("value"):
            self._uop(body)
        else:
            self._refuse_token("a uop, `graph`, `dims` or `return`", hint="%y = add(%x, 1.0)")
        return body

    def _sizes(self, dims: dict[str, int]) -> None:
        """The sizes of symbols."""
        while True:
            name = self._name("a symbol", "dims n=64, m=8")
            if name.text in dims:
                self._refuse(name.start, f"{name.text} has two sizes")
            self._mark("=")
            size = self._expect("number", None, f"the size of {name.text}")
            with self._errors_at(size.start):
                (dims[name.text],) = _canonical(ArgKind.DIMS, [self._number(size)], "a size is an integer ≥ 0")
                if isinstance(dims[name.text], str) or dims[name.text] < 0:
                    self._refuse(size.start, "a size is an integer ≥ 0")
            if not self._has("mark", ","):
                return

    def _values(self, body: _Body) -> list[Token]:
        """Values between commas; none at the end of a graph."""
        tokens: list[Token] = []
        if self._is(END) or self._is("mark", "}") or self._is("word", "graph"):
            return tokens
        while not tokens or self._has("mark", ","):
            tokens.append(self._expect("value", None, "a value", hint="%y"))
        body.reads.extend(tokens)
        return tokens

    def _uop(self, body: _Body) -> None:
        """A uop, or a call, with its results."""
        results: list[tuple[Token, StatedType | None]] = []
        while not results or self._has("mark", ","):
            ref = self._expect("value", None, "a value", hint="%y = add(%x, 1.0)")
            results.append((ref, self._type() if self._has("mark", ":") else None))
        self._expect("mark", "=", "`=` and a uop", hint=f"%{results[0][0].text} = add(%x, 1.0)")
        name = self._expect("word", None, "the name of a uop, or `call`")
        uop = self._call(body, results) if name.text == "call" else self._node(body, name, results)
        for ref, stated in results:
            self._define(body, ref)
            if stated is not None and not (isinstance(uop, Node) and type_of_source(uop) == stated):
                body.stated[ref.text] = stated
        body.uops.append(uop)

    def _define(self, body: _Body, ref: Token) -> None:
        if ref.text in body.places:
            first = body.places[ref.text].line
            self._refuse(ref.start, f"%{ref.text} is defined in line {first}", hint="every value has an id of its own")
        with self._errors_at(ref.start):
            check_id(ref.text)
        body.places[ref.text] = self._place(ref.start)

    def _call(self, body: _Body, results: list[tuple[Token, StatedType | None]]) -> GraphCall:
        name = self._expect("graph", None, "the graph's name", hint="%y = call @block(%x)")
        self._mark("(")
        tags: list[str] = []
        operands: list[Ref] = []

        def item() -> None:
            if self._is("word", "tag"):
                tags.append(self._attribute_text())
                return
            if not self._is("value"):
                self._refuse_token("a value", hint="a call reads values: make a scalar first, by cast of the immediate")
            body.reads.append(self._token)
            operands.append(self._take().text)

        self._listed(item, ")")
        return GraphCall(tuple(ref.text for ref, _ in results), name.text, tuple(operands), tags[-1] if tags else None)

    def _node(self, body: _Body, name: Token, results: list[tuple[Token, StatedType | None]]) -> Node:
        op = self._op(name)
        (ref, stated), *more = results
        if more:
            self._refuse(more[0][0].start, f"{op.name} has one result", hint="several results are those of a call")
        self._expect("mark", "(", "`(` and the uop's operands")
        src: list[Ref | Imm] = []
        arg: dict[str, Any] = {}
        tags: list[str] = []
        calls: list[Ref] = []
        barriers: list[bool] = []
        self._listed(lambda: self._item(body, op, src, arg, tags, calls, barriers), ")")
        with self._errors_at(ref.start, ref.text, op.label(arg)):
            check_operands(op, src)
            filled = check_arg(op, fill_arg(op, arg, ref.text, stated), bound=False)
        return Node(ref.text, op.name, tuple(src), filled, tags[-1] if tags else None, tuple(calls), any(barriers))

    def _op(self, name: Token) -> UOp:
        if name.text.upper() in UOPS:
            return UOPS[name.text.upper()]
        close = difflib.get_close_matches(name.text.upper(), UOPS, n=1)
        names = [op.fn for op in UOPS.values()]
        hint = f"did you mean {close[0].lower()}?" if close else "one of call, " + ", ".join(names)
        self._refuse(name.start, f"there is no uop {name.text!r}", hint=hint, kind=Kind.UNKNOWN_UOP)

    def _item(
        self,
        body: _Body,
        op: UOp,
        src: list[Ref | Imm],
        arg: dict[str, Any],
        tags: list[str],
        calls: list[Ref],
        barriers: list[bool],
    ) -> None:
        """One operand or attribute of a uop."""
        token = self._token
        if self._is("value"):
            body.reads.append(self._take())
            src.append(token.text)
        elif self._is("word", "tag"):
            tags.append(self._attribute_text())
        elif self._is("word", "calls"):
            calls[:] = self._call_ids()
        elif self._is("word", "barrier"):
            barriers.append(self._barrier())
        elif self._is("number") or (self._is("word") and token.text in ("true", "false")):
            src.append(Imm(self._value(0)))
        elif self._is("word"):
            self._attribute(op, arg)
        else:
            self._refuse_token("an operand or an attribute", hint="%x, 1.0, or axes=[0]")

    def _attribute(self, op: UOp, arg: dict[str, Any]) -> None:
        name = self._take()
        self._expect("mark", "=", f"`=` and the value of {name.text}", hint=f"an operand is %{name.text} or a number")
        with self._errors_at(name.start, label=op.name):
            check_attribute_name(op, name.text)
        if name.text in arg:
            self._refuse(name.start, f"the attribute {name.text} stands twice")
        start = self._token.start
        value = self._value(0)
        with self._errors_at(start, label=op.name):
            arg[name.text] = check_attribute(op, name.text, value)

    def _attribute_text(self) -> str:
        """The string of `tag="…"`."""
        name = self._take()
        self._expect("mark", "=", "`=` and the text of the tag", hint=f'{name.text}="a remark"')
        return self._expect("string", None, "a text in quotes", hint=f'{name.text}="a remark"').text

    def _call_ids(self) -> tuple[Ref, ...]:
        """The ids of `calls=[layer1, norm]`."""
        name = self._take()
        self._expect("mark", "=", "`=` and a list of calls", hint=f"{name.text}=[layer1]")
        start = self._token.start
        with self._errors_at(start):
            return check_call_ids(self._value(0))

    def _barrier(self) -> bool:
        """The value of `barrier=true`."""
        self._take()
        self._expect("mark", "=", "`=` and true or false", hint="barrier=true")
        start = self._token.start
        with self._errors_at(start):
            return check_barrier(self._value(0))

    # types and values

    def _type(self) -> StatedType:
        name = self._expect("word", None, "a type", hint="fp32[n, 8]")
        with self._errors_at(name.start):
            dtype = _canonical(ArgKind.DTYPE, name.text, f"{name.text!r} is no dtype", Kind.DTYPE_MISMATCH)
        self._expect("mark", "[", "`[` and the sizes", hint=f"{name.text}[n, 8], or {name.text}[] of a scalar")
        axes = self._listed(self._axis, "]")
        return StatedType(dtype, tuple(size for _, size in axes), tuple(name for name, _ in axes))

    def _axis(self) -> tuple[str | None, int | str]:
        """The name of an axis, or None, and its size."""
        if self._is("number"):
            return None, self._size()
        word = self._name("a size or the name of an axis", "fp32[n, 8], fp32[rows=8, 8]")
        return (word.text, self._size()) if self._has("mark", "=") else (None, word.text)

    def _size(self) -> int | str:
        if not self._is("number"):
            return self._name("a size", "an integer or a symbol").text
        token = self._take()
        with self._errors_at(token.start):
            (size,) = _canonical(ArgKind.DIMS, [self._number(token)], "a size is an integer or a symbol")
        return size  # type: ignore[no-any-return]

    def _name(self, wanted: str, hint: str) -> Token:
        """A symbol or the name of an axis."""
        token = self._token
        if not (self._is("word") or self._is("string")):
            self._refuse_token(wanted, hint)
        with self._errors_at(token.start):
            _canonical(ArgKind.DIMS, [token.text], f"{token.text!r} is no name of letters, digits and underscores")
        return self._take()

    def _value(self, depth: int) -> Any:
        """The value of an attribute, or an immediate."""
        token = self._token
        if self._has("mark", "["):
            if depth == _DEEPEST_LIST:
                self._refuse(token.start, "lists are nested too deeply")
            return self._listed(lambda: self._value(depth + 1), "]")
        if self._is("number"):
            return self._number(self._take())
        if self._is("string"):
            return self._take().text
        if self._is("word"):
            constants = {"true": True, "false": False, NOTHING: None}
            return constants.get(self._take().text, token.text)
        self._refuse_token("a number, a name, a string or a list")

    def _number(self, token: Token) -> int | float:
        if token.text in NON_FINITE:
            return NON_FINITE[token.text]
        try:
            return float(token.text) if re.search(r"[.eE]", token.text) else int(token.text)
        except ValueError:
            self._refuse(token.start, "no number that can be read")


def _canonical(kind: ArgKind, value: object, message: str, error: Kind = Kind.MALFORMED_GRAPH) -> Any:
    try:
        return canonical(kind, value)
    except (ValueError, OverflowError):
        fail(error, STAGE, message)
