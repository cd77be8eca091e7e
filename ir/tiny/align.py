"""Alignment of operands of different shapes: from the right for plain sizes, by name for named axes."""

from __future__ import annotations

from collections.abc import Sequence

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.tiny.graph import STAGE
from ir.uop.types import Names, merge_names

Places = tuple[int, ...]
"""For every axis of an operand, its axis of the common shape."""


def symbolic_shape(type_: TensorType) -> list[int | str]:
    """A shape with the names of named axes in place of their sizes, as programs write it."""
    return [name or size for name, size in zip(type_.names, type_.shape, strict=True)]


def places(small: TensorType, big: TensorType) -> Places:
    """The axis of `big` for every axis of `small`, whose rank is not higher. BroadcastMismatch if that is ambiguous."""
    offset = big.rank - small.rank
    right = tuple(range(offset, big.rank))
    if offset == 0:
        return right
    named = [name for name in small.names if name is not None]
    clear = all(big.names.count(name) <= 1 and named.count(name) == 1 for name in named)
    if clear and _names_agree(small.names, big.names, right):
        return right
    if clear and len(named) == small.rank and all(name in big.names for name in named):
        axes = tuple(big.names.index(name) for name in named)
        if list(axes) == sorted(axes):
            return axes
    return _mismatch(small, big, "neither the names nor the right ends of the axes line up")


def common_type(operands: Sequence[TensorType], where: Sequence[Places], rank: int) -> tuple[tuple[int, ...], Names]:
    """The shape and names that all operands expand to. BroadcastMismatch if two sizes differ and neither is 1."""
    shape: list[int] = [1] * rank
    names: list[Names] = [(None,) * rank]
    for operand, axes in zip(operands, where, strict=True):
        known: list[str | None] = [None] * rank
        for axis, size, name in zip(axes, operand.shape, operand.names, strict=True):
            if shape[axis] != 1 and size not in (1, shape[axis]):
                _mismatch(operands[0], operands[-1], f"sizes {shape[axis]} and {size} on axis {axis} cannot line up")
            shape[axis] = size if size != 1 else shape[axis]
            known[axis] = name
        names.append(tuple(known))
    return tuple(shape), merge_names(names)


def _names_agree(small: Names, big: Names, at: Places) -> bool:
    """Whether no two different names meet, and no name of `small` is elsewhere on `big`."""
    return all(
        name is None or big[axis] == name or (big[axis] is None and name not in big)
        for name, axis in zip(small, at, strict=True)
    )


def _mismatch(lhs: TensorType, rhs: TensorType, message: str) -> Places:
    fail(
        Kind.BROADCAST_MISMATCH,
        STAGE,
        message,
        hint="say it by RESHAPE and EXPAND",
        lhs_shape=symbolic_shape(lhs),
        rhs_shape=symbolic_shape(rhs),
    )
