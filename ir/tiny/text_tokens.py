"""Tiny text as tokens: ids, words, numbers, strings and marks, one after the other; errors show line and column."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec

from ir.diagnostics import EqsatError, Kind, fail
from ir.tiny.graph import STAGE
from ir.tiny.node import Ref, TextPlace
from ir.tiny.words import ID, NUMBER, STRING, WORD
from ir.uop.args import is_text

T = TypeVar("T")

_TOKEN = re.compile(
    rf"(?P<space>\s+|//[^\n]*)|(?P<value>%{ID})|(?P<graph>@{ID})|(?P<string>{STRING})"
    rf"|(?P<number>{NUMBER})|(?P<word>{WORD})|(?P<mark>[:=,()\[\]{{}}])"
)
END = "end"
"""The kind of the token behind the last one."""
_NEAR = 60
"""Characters that a message shows on both sides of a place."""


class Token(NamedTuple):
    """A word of the text. kind: the name of a group of `_TOKEN`, or `END`. text: without the sign of an id, and
    without quotes."""

    kind: str
    text: str
    start: int


class TokenReader:
    """The tokens of a text in turn. file: the name of its file, for messages."""

    def __init__(self, text: str, file: str | None) -> None:
        self.text = text
        self.file = file
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._tokens = list(self._split())
        self._next = 0

    # the text as tokens

    def _split(self) -> Iterator[Token]:
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                self._refuse_character(at)
            kind = match.lastgroup or END
            if kind != "space":
                yield Token(kind, self._plain(kind, match[0], at), at)
            at = match.end()
        yield Token(END, "", len(self.text.rstrip()))

    def _plain(self, kind: str, word: str, at: int) -> str:
        """The text of a token without the sign of an id, and without quotes."""
        if kind in ("value", "graph"):
            word = word[1:]
        if word[:1] != '"':
            return word
        try:
            plain = json.loads(word, strict=False)
        except ValueError:
            self._refuse(at, "this string has an escape that JSON does not have", hint=r"\n, \", \\, \u00e9 and so on")
        if not is_text(plain) or (not plain and kind != "string"):
            self._refuse(at, "no text" if plain else "an id has at least one character")
        return str(plain)

    def _refuse_character(self, at: int) -> NoReturn:
        character = self.text[at]
        match character:
            case '"':
                self._refuse(at, "this string does not end on its line", hint=r"a line break in a string is \n")
            case "%" | "@":
                self._refuse(at, f"{character} without an id", hint=f'{character}name or {character}"any text"')
        self._refuse(at, f"unexpected {character!r}", hint="a comment begins with //" if character in "#;" else None)

    # places and errors

    def _place(self, at: int) -> TextPlace:
        line = bisect.bisect_left(self._breaks, at)
        start = self._breaks[line - 1] + 1 if line else 0
        end = self._breaks[line] if line < len(self._breaks) else len(self.text)
        low = max(start, at - _NEAR)
        return TextPlace(line + 1, at - start + 1, self.text[low : min(end, at + _NEAR)], at - low)

    def _details(self, at: int) -> dict[str, Any]:
        file = {} if self.file is None else {"file": self.file}
        return {**file, **self._place(at).details}

    def _refuse(self, at: int, message: str, *, hint: str | None = None, kind: Kind = Kind.MALFORMED_GRAPH) -> NoReturn:
        fail(kind, STAGE, message, hint=hint, **self._details(at))

    @contextmanager
    def _errors_at(self, at: int, ref: Ref | None = None, label: str | None = None) -> Iterator[None]:
        """Errors within show this place, unless they show one, and name the uop."""
        try:
            yield
        except EqsatError as error:
            details = self._details(at)
            raise EqsatError(
                one
                if "line" in one.details
                else msgspec.structs.replace(
                    one, at=one.at or ref, op=one.op or label, details={**one.details, **details}
                )
                for one in error.diagnostics
            ) from None

    # tokens in turn

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._token
        self._next += token.kind != END
        return token

    def _is(self, kind: str, text: str | None = None) -> bool:
        return self._token.kind == kind and text in (None, self._token.text)

    def _has(self, kind: str, text: str) -> bool:
        """Takes the token if it is this one."""
        if self._is(kind, text):
            self._take()
            return True
        return False

    def _expect(self, kind: str, text: str | None, wanted: str, hint: str | None = None) -> Token:
        if not self._is(kind, text):
            self._refuse_token(wanted, hint)
        return self._take()

    def _refuse_token(self, wanted: str, hint: str | None = None) -> NoReturn:
        token = self._token
        shown = "the end of the text" if token.kind == END else f"`{self.text[token.start :].split(chr(10))[0][:20]}`"
        self._refuse(token.start, f"expected {wanted}, found {shown}", hint=hint)

    def _mark(self, mark: str) -> None:
        self._expect("mark", mark, f"`{mark}`")

    def _listed(self, item: Callable[[], T], end: str) -> list[T]:
        """Items between commas up to the mark `end`, which is taken."""
        items: list[T] = []
        while not self._has("mark", end):
            if items and not self._has("mark", ","):
                self._refuse_token(f"`,` or `{end}`")
            items.append(item())
        return items
