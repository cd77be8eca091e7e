"""Protobuf's tensors and attributes → NumPy arrays and plain values."""

from __future__ import annotations

import math
import sys
from typing import Any

import msgspec
import numpy as np

from eqsat.frontends.onnx.element_types import PACKED_TYPES, element_type
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import dtype
from ir.frontend import STAGE


class TensorLiteral(msgspec.Struct, frozen=True):
    """A tensor in an attribute: its dtype, sizes and elements in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    elements: tuple[int | float | bool, ...]

    @property
    def array(self) -> np.ndarray:
        """The tensor as an array."""
        return np.asarray(self.elements).astype(dtype(self.dtype).numpy).reshape(self.shape)


def decode_array(proto: Any, at: str, raw: np.ndarray | None = None) -> np.ndarray:
    """The array of a TensorProto. raw: the raw data, if it was left out of the TensorProto.

    Raises:
        EqsatError: MalformedGraph for a damaged tensor, UnsupportedOp for an element type that eqsat lacks.
    """
    from onnx.numpy_helper import to_array

    if proto.data_type:
        try:
            element = element_type(proto.data_type)
        except EqsatError as error:
            raise error.locate(at=at, op="constant") from None
        whole = raw is not None and raw.nbytes == math.prod(proto.dims) * element.numpy.itemsize
        if raw is not None and whole and min(proto.dims, default=0) >= 0 and sys.byteorder == "little":
            array = raw.view(element.numpy).reshape(proto.dims)
            array.flags.writeable = False  # as arrays of protobuf's bytes are
            return array
    if raw is not None:
        proto.raw_data = raw.tobytes()
    try:
        return np.asarray(to_array(proto))
    except Exception as error:  # onnx raises many types for a damaged tensor
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a constant cannot be read: {error}", at=at)


def packed_bytes(proto: Any, at: str, raw: np.ndarray | None = None) -> np.ndarray:
    """The bytes of a TensorProto of packed integers, u8. raw: the raw data, if it was left out of the TensorProto.

    Raises:
        EqsatError: MalformedGraph for a tensor with too few or too many bytes.
    """
    if raw is None:
        raw = np.frombuffer(proto.raw_data, np.uint8) if proto.raw_data else np.asarray(proto.int32_data, np.int32)
    data = raw.astype(np.uint8, copy=False)
    bits, count = PACKED_TYPES[proto.data_type].bits, math.prod(proto.dims)
    if min(proto.dims, default=0) < 0 or data.size != -(-count * bits // 8):
        message = f"{list(proto.dims)} integers of {bits} bits in {data.size} bytes"
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a constant cannot be read: {message}", at=at)
    return data


def decode_attribute(attribute: Any, at: str) -> Any:
    """The value of an attribute in JSON's types; a tensor becomes the fields of a TensorLiteral.

    Raises:
        EqsatError: MalformedGraph for a damaged attribute, UnsupportedOp for one that holds no number, text or tensor.
    """
    value = _attribute_value(attribute, at)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if type(value).__name__ == "TensorProto":
        array = decode_array(value, at)
        return msgspec.to_builtins(TensorLiteral(str(dtype(array.dtype)), array.shape, tuple(array.ravel().tolist())))
    if isinstance(value, list | tuple):
        return [item.decode(errors="replace") if isinstance(item, bytes) else item for item in value]
    if not isinstance(value, int | float | str):
        held = type(value).__name__
        fail(Kind.UNSUPPORTED_OP, STAGE, f"the attribute {attribute.name!r} holds a {held}: not supported", at=at)
    return value


def constant_of(node: Any, at: str) -> np.ndarray:
    """The value of a Constant node."""
    (attribute,) = node.attribute[:1] or [None]
    dtypes = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if attribute is not None and attribute.name == "value":
        return decode_array(attribute.t, at)
    if attribute is None or attribute.name not in dtypes:
        what = "without a value" if attribute is None else f"with the attribute {attribute.name}"
        fail(Kind.UNSUPPORTED_OP, STAGE, f"a Constant {what} is not supported", at=at, op="Constant")
    try:
        return np.asarray(_attribute_value(attribute, at), dtypes[attribute.name])
    except (TypeError, ValueError, OverflowError) as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a constant cannot be read: {error}", at=at, op="Constant")


def _attribute_value(attribute: Any, at: str) -> Any:
    from onnx.helper import get_attribute_value

    try:
        return get_attribute_value(attribute)
    except ValueError as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"an attribute cannot be read: {error}", at=at)
