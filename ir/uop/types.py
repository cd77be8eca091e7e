"""The type rules of the uops: the result's type from the operands' types and the bound attributes.

An immediate operand has the type of the tensor beside it. Errors name no place: the caller, who knows the uop, adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir.diagnostics import Kind, fail
from ir.dtype import DType, TensorType, bool_, dtype, promote, u32, u64

Names = tuple[str | None, ...]
Types = Sequence[TensorType]
TypeRule = Callable[[Types, Mapping[str, Any]], TensorType]
Allowed = Callable[[DType], bool]

STAGE = "tiny"


def floats(element: DType) -> bool:
    """float dtypes"""
    return element.is_float


def numbers(element: DType) -> bool:
    """float and integer dtypes"""
    return not element.is_bool


def integers(element: DType) -> bool:
    """integer dtypes"""
    return element.is_int


def logical(element: DType) -> bool:
    """integer dtypes and bool"""
    return not element.is_float


def elementwise(allowed: Allowed) -> TypeRule:
    """Operands of one allowed dtype and one shape give a result of that dtype and shape."""

    def rule(src: Types, arg: Mapping[str, Any]) -> TensorType:
        require_dtype(src[0].dtype, allowed)
        return _agree(src)

    return rule


def comparison(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """Operands of one dtype and one shape give a bool of that shape."""
    common = _agree(src)
    return TensorType(bool_, common.shape, common.names)


def where(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """A bool condition and two values of one dtype, all of one shape."""
    condition, *values = src
    if condition.dtype != bool_:
        fail(Kind.DTYPE_MISMATCH, STAGE, "the condition must be bool", found=condition.dtype)
    common = _agree(values)
    _same_shape(condition, common)
    return TensorType(common.dtype, common.shape, merge_names([operand.names for operand in src]))


def random(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """Offset, subsequence and key in u64, all of one shape, give u32 of that shape."""
    for operand in src:
        require_dtype(operand.dtype, _counts)
    common = _agree(src)
    return TensorType(u32, common.shape, common.names)


def _counts(element: DType) -> bool:
    """u64"""
    return element == u64


def cast(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """The same shape in the dtype `to`."""
    return TensorType(dtype(arg["to"]), src[0].shape, src[0].names)


def bitcast(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """The same shape in the dtype `to`, which is as wide as the operand's dtype; neither is bool."""
    (value,) = src
    result, of = dtype(arg["to"]), dtype(arg.get("of", value.dtype))
    if value.dtype != of:
        fail(Kind.DTYPE_MISMATCH, STAGE, f"the operand is no {of}", hint="leave `of` out", found=value.dtype)
    for element in (value.dtype, result):
        if element.is_bool:
            fail(Kind.DTYPE_MISMATCH, STAGE, "a bool has no bits that a number has", hint="a CAST from or to u8")
    if value.dtype.bits != result.bits:
        hint = "a CAST, or Tensor.bitcast, which splits or joins elements"
        given, wanted = (f"{element} ({element.bits} bits)" for element in (value.dtype, result))
        fail(Kind.DTYPE_MISMATCH, STAGE, "the dtypes differ in width", hint=hint, found=given, to=wanted)
    return TensorType(result, value.shape, value.names)


def input_(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """The type that `dtype`, `shape` and `names` state."""
    shape = sizes(arg["shape"])
    return TensorType(dtype(arg["dtype"]), shape, given_names(arg, (None,) * len(shape)))


def iota(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """A numeric tensor of `shape` along one `axis`."""
    shape = sizes(arg["shape"])
    axis_position(arg["axis"], len(shape))
    element = dtype(arg["dtype"])
    require_dtype(element, numbers)
    return TensorType(element, shape, given_names(arg, (None,) * len(shape)))


def reduce(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """`axes` are removed; the result has the stated `dtype` (float from floats, integer from integers and bool)."""
    (value,) = src
    axes = [axis_position(axis, value.rank) for axis in arg["axes"]]
    if not axes or len(set(axes)) != len(axes):
        fail(Kind.MALFORMED_GRAPH, STAGE, "REDUCE needs at least one axis, each once", axes=arg["axes"])
    element = _accumulator_dtype(value.dtype, arg, boolean=arg["op"] in ("MAX", "MIN"))
    kept = [axis for axis in range(value.rank) if axis not in axes]
    return TensorType(element, tuple(value.shape[axis] for axis in kept), tuple(value.names[axis] for axis in kept))


def scan(*, boolean: bool) -> TypeRule:
    """The source's shape in the stated `dtype`. `boolean`: bools may stay bools."""

    def rule(src: Types, arg: Mapping[str, Any]) -> TensorType:
        (value,) = src
        axis_position(arg["axis"], value.rank)
        return TensorType(_accumulator_dtype(value.dtype, arg, boolean=boolean), value.shape, value.names)

    return rule


def gather(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """The index's shape. Ranks agree; off the axis the index is no larger than the source."""
    value, index = src
    require_dtype(index.dtype, integers)
    if value.rank != index.rank:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            "GATHER's index must have the source's rank",
            src_shape=value.shape,
            index_shape=index.shape,
        )
    axis = axis_position(arg["axis"], value.rank)
    if value.shape[axis] == 0 and index.size > 0:
        fail(Kind.AXIS_SIZE_MISMATCH, STAGE, "nothing to gather from an axis of size 0", src_shape=value.shape)
    for other in range(value.rank):
        if other != axis and index.shape[other] > value.shape[other]:
            fail(
                Kind.AXIS_SIZE_MISMATCH,
                STAGE,
                f"GATHER's index is larger than its source on axis {other}",
                src_shape=value.shape,
                index_shape=index.shape,
            )
    return TensorType(value.dtype, index.shape, index.names)


def scatter(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """The source's type. Index and updates have one shape; off the axis it is the source's."""
    value, index, updates = src
    require_dtype(index.dtype, integers)
    if arg["op"] in ("SUM", "PROD"):
        require_dtype(value.dtype, numbers)
    if updates.dtype != value.dtype:
        fail(
            Kind.DTYPE_MISMATCH,
            STAGE,
            "SCATTER's updates must have the source's dtype",
            hint="insert a CAST",
            src_dtype=value.dtype,
            updates_dtype=updates.dtype,
        )
    axis = axis_position(arg["axis"], value.rank)
    fits = index.rank == value.rank and all(
        size == other for place, (size, other) in enumerate(zip(index.shape, value.shape, strict=True)) if place != axis
    )
    if not fits or updates.shape != index.shape:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            f"SCATTER's index and updates must have one shape, that of the source but on axis {axis}",
            src_shape=value.shape,
            index_shape=index.shape,
            updates_shape=updates.shape,
        )
    return value


def require_dtype(element: DType, allowed: Allowed) -> None:
    """DtypeMismatch unless `element` is allowed; the predicate's docstring names the allowed dtypes."""
    if not allowed(element):
        fail(
            Kind.DTYPE_MISMATCH,
            STAGE,
            f"defined for {allowed.__doc__} only",
            hint="insert a CAST",
            found=element,
        )


def sizes(shape: Sequence[int]) -> tuple[int, ...]:
    """`shape`, after a check that every size is an integer ≥ 0."""
    for size in shape:
        if not isinstance(size, int):
            fail(Kind.UNBOUND_DIM, STAGE, f"the size {size!r} is not bound", shape=shape)
        if size < 0:
            fail(Kind.AXIS_SIZE_MISMATCH, STAGE, "a size is negative", shape=shape)
    return tuple(shape)


def axis_position(axis: int, rank: int) -> int:
    """`axis`, after a check that it is one of `rank` positions."""
    if not isinstance(axis, int) or not 0 <= axis < rank:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"axis {axis} is outside a value of rank {rank}",
            axis=axis,
            rank=rank,
        )
    return axis


def merge_names(several: Sequence[Names]) -> Names:
    """For every axis the name that all named ones share; an axis with two different names becomes unnamed."""
    names_of_axes = [{name for name in axis if name is not None} for axis in zip(*several, strict=True)]
    return tuple(next(iter(names)) if len(names) == 1 else None for names in names_of_axes)


def given_names(arg: Mapping[str, Any], otherwise: Names) -> Names:
    """The entries of the attribute `names`; entries that are null or missing come from `otherwise`."""
    given = arg.get("names")
    if given is None:
        return otherwise
    if len(given) != len(otherwise):
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"`names` has {len(given)} entries for {len(otherwise)} axes",
            names=given,
        )
    return tuple(name or other for name, other in zip(given, otherwise, strict=True))


def _agree(src: Types) -> TensorType:
    first = src[0]
    for other in src[1:]:
        if other.dtype != first.dtype:
            fail(
                Kind.DTYPE_MISMATCH,
                STAGE,
                "operands differ in dtype",
                hint="insert a CAST",
                lhs_dtype=first.dtype,
                rhs_dtype=other.dtype,
            )
        _same_shape(first, other)
    return TensorType(first.dtype, first.shape, merge_names([operand.names for operand in src]))


def _same_shape(a: TensorType, b: TensorType) -> None:
    if a.shape != b.shape:
        fail(
            Kind.BROADCAST_MISMATCH,
            STAGE,
            "operands differ in shape",
            hint="insert RESHAPE and EXPAND",
            lhs_shape=a.shape,
            rhs_shape=b.shape,
        )


def _accumulator_dtype(source: DType, arg: Mapping[str, Any], *, boolean: bool) -> DType:
    result = dtype(arg["dtype"])
    fits = (
        promote(source, result) is not None
        or (result.is_int and not source.is_float)
        or (boolean and source.is_bool and result.is_bool)
    )
    if not fits:
        fail(
            Kind.DTYPE_MISMATCH,
            STAGE,
            "floats accumulate in floats, integers and bool in integers",
            hint="insert a CAST before it",
            src_dtype=source,
            dtype=result,
        )
    return result
