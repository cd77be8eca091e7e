"""An ONNX file → the serialized model without the bytes of its large weights, and these bytes.

Protobuf copies the bytes of a weight when it parses a model, and again whenever somebody reads them. Here every weight
goes from the file to its place once. The fields are those of onnx.proto; their encoding is protobuf's
(https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

Weights = dict[str, np.ndarray]
"""The raw data of initializers as bytes, by the initializer's name."""

LARGE = 4096
"""Bytes from which the data of a weight is lifted."""

_VARINT, _LENGTH = 0, 2
_FIXED = {1: 8, 5: 4}
"""Wire types: of numbers, of messages and bytes; and those of a fixed size, with their bytes."""
_GRAPH, _INITIALIZER, _NAME, _RAW_DATA = (number << 3 | _LENGTH for number in (7, 5, 8, 9))
"""Tags, of a field's number and wire type: one of ModelProto, one of GraphProto, and two of TensorProto."""


class WireError(Exception):
    """The bytes are no protobuf message, name two initializers alike, or give one two raw data."""


class _LiftedTensor(NamedTuple):
    """An initializer: its name, the serialized rest, and the raw data if they are large."""

    name: str
    rest: bytes
    data: np.ndarray | None


class _WireField(NamedTuple):
    """A field whose content of `size` bytes comes next in the file. head: the bytes before the content, or a number."""

    tag: int
    head: bytes
    size: int


def lift_weights(file: BinaryIO) -> tuple[bytes, Weights]:
    """The serialized ModelProto in a file, of whose large initializers the raw data is left out; and this data.

    Raises:
        WireError: if the file holds no such message, names two initializers alike, or gives one two raw data.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    lifted: dict[str, np.ndarray | None] = {}
    text = b"".join(_model(file, size, lifted))
    return text, {name: data for name, data in lifted.items() if data is not None}


def _model(file: BinaryIO, size: int, lifted: dict[str, np.ndarray | None]) -> Iterator[bytes]:
    for field in _fields(file, size):
        if field.tag == _GRAPH:
            yield _message(field, b"".join(_graph(file, field.size, lifted)))
        else:
            yield field.head + _content(file, field)


def _graph(file: BinaryIO, size: int, lifted: dict[str, np.ndarray | None]) -> Iterator[bytes]:
    for field in _fields(file, size):
        if field.tag == _INITIALIZER:
            tensor = _tensor(file, field.size)
            if tensor.name in lifted:
                raise WireError(f"two initializers have the name {tensor.name!r}")
            lifted[tensor.name] = tensor.data
            yield _message(field, tensor.rest)
        else:
            yield field.head + _content(file, field)


def _tensor(file: BinaryIO, size: int) -> _LiftedTensor:
    name, data, parts, count = "", None, [], 0
    for field in _fields(file, size):
        count += field.tag == _RAW_DATA
        if field.tag == _RAW_DATA and field.size >= LARGE:
            data = _array(file, field.size)
            continue
        content = _content(file, field)
        if field.tag == _NAME:
            name = content.decode(errors="replace")
        parts.append(field.head + content)
    if count > 1:
        raise WireError(f"the initializer {name!r} has {count} raw data")
    return _LiftedTensor(name, b"".join(parts), data)


def _fields(file: BinaryIO, size: int) -> Iterator[_WireField]:
    """The fields of a message of so many bytes. Whoever takes a field reads its content before the next one."""
    left = size
    while left > 0:
        head = _varint(file)
        tag = _number(head)
        content = _FIXED.get(tag & 7, 0)
        if tag & 7 in (_VARINT, _LENGTH):
            number = _varint(file)
            head += number
            content = _number(number) if tag & 7 == _LENGTH else 0
        elif not content:
            raise WireError(f"no wire type {tag & 7}")
        left -= len(head) + content
        if left < 0:
            raise WireError("a field exceeds its message")
        yield _WireField(tag, head, content)


def _message(field: _WireField, content: bytes) -> bytes:
    """The field with this content in place of its own."""
    return _encoded(field.tag) + _encoded(len(content)) + content


def _content(file: BinaryIO, field: _WireField) -> bytes:
    content = file.read(field.size)
    if len(content) < field.size:
        raise WireError("the file ends early")
    return content


def _array(file: BinaryIO, size: int) -> np.ndarray:
    array = np.empty(size, np.uint8)
    if file.readinto(array.data) < size:  # type: ignore[attr-defined]
        raise WireError("the file ends early")
    return array


def _varint(file: BinaryIO) -> bytes:
    """The bytes of a number."""
    digits = bytearray()
    while not digits or digits[-1] & 0x80:
        digit = file.read(1)
        if not digit or len(digits) == 10:
            raise WireError("a number is too long, or the file ends early")
        digits += digit
    return bytes(digits)


def _number(digits: bytes) -> int:
    return sum((digit & 0x7F) << 7 * place for place, digit in enumerate(digits))


def _encoded(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*digits, number))
