"""JSON of msgspec structs; an `AxisMap` or a `Bound` is its canonical text."""

from typing import Any, TypeVar

import msgspec

from ir.diagnostics import jsonable
from ir.index.guard import Bound, parse_bound
from ir.index.map import AxisMap, parse_map

T = TypeVar("T")


def _encode(value: Any) -> Any:
    if isinstance(value, AxisMap | Bound):
        return str(value)
    raise NotImplementedError(f"no JSON form for {type(value).__name__}")


def _decode(kind: type, value: Any) -> Any:
    if kind is AxisMap:
        return parse_map(value)
    if kind is Bound:
        return parse_bound(value)
    raise NotImplementedError(f"no JSON form for {kind.__name__}")


def to_builtins(noun: Any) -> Any:
    """The noun as `json.loads` would return it: dicts, lists, strings, finite numbers; "inf", "-inf" and "nan"."""
    return jsonable(msgspec.to_builtins(noun, enc_hook=_encode))


def to_json(noun: Any) -> str:
    """The noun as indented JSON text."""
    return msgspec.json.format(msgspec.json.encode(noun, enc_hook=_encode), indent=2).decode()


def from_json(text: str | bytes, kind: type[T]) -> T:
    """The noun of type `kind` written in `text`.

    Raises:
        msgspec.ValidationError: if the text does not have the type's fields.
    """
    return msgspec.json.decode(text, type=kind, dec_hook=_decode)


def from_builtins(value: Any, kind: type[T]) -> T:
    """The inverse of `to_builtins` for type `kind`.

    Raises:
        msgspec.ValidationError: if the value does not have the type's fields.
    """
    return msgspec.convert(value, type=kind, dec_hook=_decode)
