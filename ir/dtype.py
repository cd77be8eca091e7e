"""Element types and the type of a tensor value: dtype, shape, axis names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import ml_dtypes
import msgspec
import numpy as np

from ir.diagnostics import Kind, fail


class DType(msgspec.Struct, frozen=True):
    """An element type. `name` is its one spelling in every dump."""

    name: str
    bits: int
    is_float: bool
    is_signed: bool
    aliases: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory (bool takes one)."""
        return self.bits // 8

    @property
    def is_bool(self) -> bool:
        return self.name == "bool"

    @property
    def is_int(self) -> bool:
        """An integer that is not bool."""
        return not self.is_float and not self.is_bool

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of one element; bf16 is ml_dtypes.bfloat16."""
        return _NUMPY[self.name]

    @property
    def accumulator(self) -> DType:
        """The dtype in which values of this one are computed and summed: fp32 for fp16 and bf16."""
        return DTYPES["fp32"] if self.name in ("fp16", "bf16") else self

    @property
    def lowest(self) -> float | int:
        """The identity of a maximum: -inf, the least integer, or False."""
        return -math.inf if self.is_float else self._bounds[0]

    @property
    def highest(self) -> float | int:
        """The identity of a minimum: inf, the greatest integer, or True."""
        return math.inf if self.is_float else self._bounds[1]

    @property
    def _bounds(self) -> tuple[int, int]:
        if self.is_bool:
            return 0, 1
        info = np.iinfo(self.numpy)
        return int(info.min), int(info.max)


DTYPES: Mapping[str, DType] = MappingProxyType(
    {
        element.name: element
        for element in (
            DType("fp16", 16, True, True, ("f16", "float16", "half")),
            DType("bf16", 16, True, True, ("bfloat16",)),
            DType("fp32", 32, True, True, ("f32", "float32", "float")),
            DType("fp64", 64, True, True, ("f64", "float64", "double")),
            DType("i8", 8, False, True, ("int8",)),
            DType("u8", 8, False, False, ("uint8",)),
            DType("i16", 16, False, True, ("int16",)),
            DType("u16", 16, False, False, ("uint16",)),
            DType("i32", 32, False, True, ("int32", "int")),
            DType("u32", 32, False, False, ("uint32",)),
            DType("i64", 64, False, True, ("int64", "long")),
            DType("u64", 64, False, False, ("uint64",)),
            DType("bool", 8, False, False, ("bool_", "boolean")),
        )
    }
)
HALVES = ("fp16", "bf16")
"""The floats of 16 bits, which registers hold as fp32."""
_NUMPY: Mapping[str, np.dtype] = MappingProxyType(
    {
        "fp16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "fp32": np.dtype(np.float32),
        "fp64": np.dtype(np.float64),
        "i8": np.dtype(np.int8),
        "u8": np.dtype(np.uint8),
        "i16": np.dtype(np.int16),
        "u16": np.dtype(np.uint16),
        "i32": np.dtype(np.int32),
        "u32": np.dtype(np.uint32),
        "i64": np.dtype(np.int64),
        "u64": np.dtype(np.uint64),
        "bool": np.dtype(np.bool_),
    }
)
_BY_NAME: Mapping[str, DType] = MappingProxyType(
    {name: element for element in DTYPES.values() for name in (element.name, *element.aliases)}
)
_BY_NUMPY: Mapping[np.dtype, DType] = MappingProxyType({numpy: DTYPES[name] for name, numpy in _NUMPY.items()})

fp16, bf16, fp32, fp64 = DTYPES["fp16"], DTYPES["bf16"], DTYPES["fp32"], DTYPES["fp64"]
i8, i16, i32, i64 = DTYPES["i8"], DTYPES["i16"], DTYPES["i32"], DTYPES["i64"]
u8, u16, u32, u64 = DTYPES["u8"], DTYPES["u16"], DTYPES["u32"], DTYPES["u64"]
bool_ = DTYPES["bool"]


DTypeLike: TypeAlias = "str | DType | np.dtype | type"
"""A spelling of a dtype, as the function `dtype` reads it."""


def dtype(spec: DTypeLike) -> DType:
    """The DType of a name ("fp32", "float32", "f32"), of a dtype of NumPy or torch, of NumPy's scalar type, of Python's
    float, int or bool (64 bits, as in NumPy), or of itself. Raises EqsatError, DtypeMismatch, for anything else."""
    if isinstance(spec, DType):
        return spec
    element = None
    if isinstance(spec, str):  # the most frequent form, so the first one
        element = _BY_NAME.get(spec)
    elif type(spec).__module__ == "torch" and type(spec).__name__ == "dtype":
        element = _BY_NAME.get(str(spec).removeprefix("torch."))
    elif isinstance(spec, np.dtype):
        element = _BY_NUMPY.get(spec)
    elif isinstance(spec, type) and (spec in (float, int, bool) or issubclass(spec, np.generic)):
        element = _BY_NUMPY.get(np.dtype(spec))
    if element is None:
        fail(
            Kind.DTYPE_MISMATCH,
            "dtype",
            f"{str(spec)!r} is not an element type",
            hint="one of " + ", ".join(DTYPES),
        )
    return element


def promote(a: DType, b: DType) -> DType | None:
    """The float type that holds both: the wider of two floats, fp32 for fp16 with bf16; None if either is no float."""
    if not (a.is_float and b.is_float):
        return None
    if a == b:
        return a
    return fp32 if a.bits == b.bits else max(a, b, key=lambda element: element.bits)


def is_widening(narrow: DType, wide: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, and both are floats, or both integers."""
    if narrow.is_int and wide.is_int:
        return wide.lowest <= narrow.lowest and narrow.highest <= wide.highest
    return promote(narrow, wide) == wide


class TensorType(msgspec.Struct, frozen=True):
    """The type of a value: element type, sizes in elements, and a name (a symbol of the source) or None per axis."""

    dtype: DType
    shape: tuple[int, ...]
    names: tuple[str | None, ...]

    @staticmethod
    def of(element: DType | str, shape: tuple[int, ...], names: tuple[str | None, ...] | None = None) -> TensorType:
        """A type whose axes are unnamed unless `names` says otherwise."""
        return TensorType(dtype(element), shape, names if names is not None else (None,) * len(shape))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements; 1 for a scalar, 0 when any axis is empty."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bytes

    def __str__(self) -> str:
        axes = (f"{name}={size}" if name else str(size) for name, size in zip(self.names, self.shape, strict=True))
        return f"{self.dtype}[{', '.join(axes)}]"
