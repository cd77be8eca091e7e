"""The attributes of a uop: their kinds, their canonical form, and an immutable mapping that holds them."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeGuard

import msgspec

from ir.diagnostics import EqsatError
from ir.dtype import dtype
from ir.uop.loop_body import LoopBody
from ir.uop.philox import WORDS

NON_FINITE: Mapping[str, float] = MappingProxyType(
    {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan}
)
"""Spellings in JSON text of numbers that JSON does not have."""

_SYMBOL = re.compile(r"[^\W\d]\w*'*\Z")
_INT64 = 2**63


class ArgKind(enum.StrEnum):
    """The kind of an attribute; the value is its name in messages."""

    DIMS = "a list of sizes (integers or symbols)"
    PAIRS = "a list of [low, high] pairs (integers or symbols)"
    AXIS = "an axis (a position or a symbol)"
    AXES = "a list of axes (positions or symbols)"
    NUMBER = "a number"
    DTYPE = "the name of a dtype"
    OPERAND = "the name of the operand's dtype"
    NAME = "a name (a string that is not empty)"
    TEXT = "a string"
    REDUCTION = "one of SUM, MAX, MIN, PROD"
    COMBINATION = "one of LAST, SUM, MAX, MIN, PROD"
    NAMES = "a list of axis names (strings or null)"
    INDEX_MAP = "one index expression per source axis"
    SIZE = "a size (an integer or a symbol)"
    COUNT = "a number of values (an integer from 0 on)"
    WORD = "the number of a word (0, 1, 2 or 3)"
    FLAG = "true or false"
    GRAPH = "the name of a graph"


class ArgSpec(msgspec.Struct, frozen=True):
    kind: ArgKind
    required: bool = True


class Arg(Mapping[str, Any]):
    """An immutable, hashable mapping from attribute names to values (numbers, strings, tuples of
    them, and graphs)."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any] = MappingProxyType({}), **more: Any) -> None:
        self._items: dict[str, Any] = dict(sorted({**items, **more}.items()))

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arg) and self._items == other._items

    def __repr__(self) -> str:
        return f"Arg({self._items!r})"

    def with_(self, **changes: Any) -> Arg:
        """A copy with these attributes set; None removes one."""
        return Arg({key: value for key, value in {**self._items, **changes}.items() if value is not None})


def is_symbol(value: object) -> bool:
    """Whether `value` is the name of a size: letters, digits and underscores, with optional trailing primes."""
    return isinstance(value, str) and _SYMBOL.match(value) is not None


def number(value: object) -> float | int | bool | None:
    """A number of JSON, or a non-finite number by its name; None for any other value."""
    if isinstance(value, str):
        return NON_FINITE.get(value)
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # one object, so that equal graphs compare equal
    return value if isinstance(value, (bool, int, float)) else None


def canonical(kind: ArgKind, value: object) -> Any:
    """`value` in its canonical form, the one form in later stages. ValueError (without text) if not of `kind`."""
    return _CANONICAL[kind](value)


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


def _size(value: object) -> int | str:
    if isinstance(value, str):
        _require(is_symbol(value))
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError
    size = int(value.__index__())
    _require(-_INT64 <= size < _INT64)
    return size


def _sequence(value: object, item: Callable[[object], Any]) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError
    return tuple(map(item, value))


def _pair(value: object) -> tuple[int | str, int | str]:
    low, high = _sequence(value, _size)
    return low, high


def _number(value: object) -> float | int | bool:
    read = number(value)
    if read is None:
        raise ValueError
    return read


def is_text(value: object) -> TypeGuard[str]:
    """Whether `value` is a string that UTF-8 can encode. JSON's "\\ud800", half a character, is not."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: object) -> str:
    if not is_text(value):
        raise ValueError
    return value


def _nonempty_text(value: object) -> str:
    text = _text(value)
    _require(text != "")
    return text


def _dtype(value: object) -> str:
    try:
        return dtype(_text(getattr(value, "name", value))).name
    except EqsatError:
        raise ValueError from None


def _reduction(value: object) -> str:
    op = _text(value).upper()
    _require(op in ("SUM", "MAX", "MIN", "PROD"))
    return op


def _combination(value: object) -> str:
    op = _text(value).upper()
    return op if op == "LAST" else _reduction(op)


def _name(value: object) -> str | None:
    if value is None:
        return None
    _require(is_symbol(value))
    return _text(value)


def _count(value: object) -> int:
    size = _size(value)
    if isinstance(size, str) or size < 0:
        raise ValueError
    return size


def _word(value: object) -> int:
    count = _count(value)
    _require(count < WORDS)
    return count


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _graph(value: object) -> str | LoopBody:
    """A name in a program as it is written, the graph itself in a bound one."""
    return value if isinstance(value, LoopBody) else _nonempty_text(value)


def _index_map(value: object) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        _require(set(value) == {f"x{axis}" for axis in range(len(value))})
        value = [value[f"x{axis}"] for axis in range(len(value))]
    return _sequence(value, lambda entry: str(entry) if type(entry) is int else _text(entry))


_CANONICAL: Mapping[ArgKind, Callable[[object], Any]] = MappingProxyType(
    {
        ArgKind.DIMS: lambda value: _sequence(value, _size),
        ArgKind.PAIRS: lambda value: _sequence(value, _pair),
        ArgKind.AXIS: _size,
        ArgKind.AXES: lambda value: _sequence(value, _size),
        ArgKind.NUMBER: _number,
        ArgKind.DTYPE: _dtype,
        ArgKind.OPERAND: _dtype,
        ArgKind.NAME: _nonempty_text,
        ArgKind.TEXT: _text,
        ArgKind.REDUCTION: _reduction,
        ArgKind.COMBINATION: _combination,
        ArgKind.NAMES: lambda value: _sequence(value, _name),
        ArgKind.INDEX_MAP: _index_map,
        ArgKind.SIZE: _size,
        ArgKind.COUNT: _count,
        ArgKind.WORD: _word,
        ArgKind.FLAG: _flag,
        ArgKind.GRAPH: _graph,
    }
)
