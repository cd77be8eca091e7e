"""JSON of msgspec structs; an `AxisMap` or a `Bound` is its canonical text."""

import hashlib
import os
import threading
from typing import Any, TypeVar

import msgspec

from ir.diagnostics import jsonable
from ir.index.guard import Bound, parse_bound
from ir.index.map import AxisMap, parse_map

T = TypeVar("T")

_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_BUILDS = threading.Lock()


def _replace_lock() -> None:
    """In a forked child: the thread that held the lock does not exist there."""
    global _BUILDS
    _BUILDS = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_lock)


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


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type. One thread at a time builds decoders: msgspec reads a struct's annotations at first use,
    and crashes where a second thread uses the struct meanwhile."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        with _BUILDS:
            decoder = _DECODERS.setdefault(kind, msgspec.json.Decoder(kind, dec_hook=_decode))
    return decoder


def to_builtins(noun: Any) -> Any:
    """The noun as `json.loads` would return it: dicts, lists, strings, finite numbers; "inf", "-inf" and "nan"."""
    return jsonable(msgspec.to_builtins(noun, enc_hook=_encode))


def to_json(noun: Any) -> str:
    """The noun as indented JSON text."""
    return msgspec.json.format(msgspec.json.encode(noun, enc_hook=_encode), indent=2).decode()


def digest_of(noun: Any) -> str:
    """SHA-256 of the noun's JSON with sorted keys, in hexadecimal. Numbers must be finite."""
    return hashlib.sha256(msgspec.json.encode(noun, enc_hook=_encode, order="sorted")).hexdigest()


def from_json(text: str | bytes, kind: type[T]) -> T:
    """The noun of type `kind` written in `text`.

    Raises:
        msgspec.ValidationError: if the text does not have the type's fields.
    """
    return _decoder(kind).decode(text)


def from_builtins(value: Any, kind: type[T]) -> T:
    """The inverse of `to_builtins` for type `kind`.

    Raises:
        msgspec.ValidationError: if the value does not have the type's fields.
    """
    _decoder(kind)
    return msgspec.convert(value, type=kind, dec_hook=_decode)
