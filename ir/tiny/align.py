"""How operands of unlike shape line up: from the right when axes are plain numbers, by name when they are named."""

from __future__ import annotations

from collections.abc import Sequence

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.tiny.graph import STAGE
from ir.uop.types import Names, merge_names

Places = tuple[int, ...]
"""Per axis of an operand, the axis of the common shape that it lies on."""


def written(type_: TensorType) -> list[int | str]:
    """A shape as its program writes it: names where axes have them."""
    return [name or size for name, size in zip(type_.names, type_.shape, strict=True)]


def places(small: TensorType, big: TensorType) -> Places:
    """Where each axis of `small` lies on `big`, of no lower rank. BroadcastMismatch when that is ambiguous."""
    offset = big.rank - small.rank
    right = tuple(range(offset, big.rank))
    if offset == 0:
        return right
    named = [name for name in small.names if name is not None]
    clear = all(big.names.count(name) <= 1 and named.count(name) == 1 for name in named)
    if clear and _consistent(small.names, big.names, right):
        return right
    if clear and len(named) == small.rank and all(name in big.names for name in named):
        found = tuple(big.names.index(name) for name in named)
        if list(found) == sorted(found):
            return found
    return _mismatch(small, big, "neither the names nor the right ends of the axes line up")


def common_type(operands: Sequence[TensorType], where: Sequence[Places], rank: int) -> tuple[tuple[int, ...], Names]:
    """The shape and names that all operands expand to. BroadcastMismatch when two sizes differ and neither is 1."""
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


def _consistent(small: Names, big: Names, at: Places) -> bool:
    """No two different names meet, and no name of `small` lies elsewhere on `big`."""
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
        lhs_shape=written(lhs),
        rhs_shape=written(rhs),
    )
