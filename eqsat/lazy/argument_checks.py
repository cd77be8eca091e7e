"""Checks of the axes, sizes and numbers that callers of lazy tensors pass."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from ir.diagnostics import Kind, fail
from ir.grammar import with_article, with_count

STAGE = "tensor"

Axis = SupportsIndex | Sequence[SupportsIndex] | None
Sizes = SupportsIndex | Sequence[SupportsIndex]
Number = bool | int | float


def integer(value: Any, what: str) -> int:
    """`value` as an int. Raises EqsatError, MalformedGraph, if it is no whole number."""
    try:
        return operator.index(value)
    except TypeError:
        return fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is a whole number, not {_describe(value)}")


def number(value: Any, what: str) -> float:
    """`value` as a Python number; a bool is none. Raises EqsatError, MalformedGraph, for anything else."""
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.integer | np.floating):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is a number, not {_describe(value)}")
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Whether the value is a Python number; NumPy's scalars are arrays of rank 0."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def is_shape(value: Any) -> bool:
    """Whether the value is a Python whole number, or a list or tuple of them; a tensor is not."""
    items = value if isinstance(value, list | tuple) else (value,)
    return all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items)


def integers(value: Any, what: str) -> tuple[int, ...]:
    """A list or tuple of whole numbers. Raises EqsatError, MalformedGraph, for anything else."""
    if not isinstance(value, list | tuple):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is a list of whole numbers, not {_describe(value)}")
    return tuple(integer(item, f"an element of {what}") for item in value)


def sizes(shape: Any, what: str = "a shape") -> tuple[int, ...]:
    """A shape; a single number is the shape of a vector."""
    return integers(shape, what) if isinstance(shape, list | tuple) else (integer(shape, what),)


def spread(arguments: Sequence[Any], what: str) -> tuple[int, ...]:
    """Whole numbers, passed one by one or as one list."""
    is_list = len(arguments) == 1 and isinstance(arguments[0], list | tuple)
    return integers(arguments[0] if is_list else tuple(arguments), what)


def shape_and_dtype(arguments: Sequence[Any], dtype: Any) -> tuple[tuple[int, ...], Any]:
    """Sizes one by one, or as one list, which a dtype may follow."""
    if len(arguments) == 2 and isinstance(arguments[0], list | tuple):
        return integers(arguments[0], "a shape"), arguments[1]
    return spread(arguments, "a shape"), dtype


def flag(value: Any, what: str) -> bool:
    """True or False. Raises EqsatError, MalformedGraph, for anything else."""
    if not isinstance(value, bool | np.bool):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is True or False, not {_describe(value)}")
    return bool(value)


def pairs(value: Any, what: str) -> tuple[tuple[int, int], ...]:
    """A list of (before, after). Bare numbers are refused as ambiguous: NumPy reads them as before and after each axis,
    torch as before and after the last axes."""
    if not isinstance(value, list | tuple) or any(not isinstance(item, list | tuple) for item in value):
        shown = f"{value!r}" if isinstance(value, list | tuple) and is_shape(value) else _describe(value)
        hint = "[(1, 1), (0, 2)] is one element before and after axis 0, two after axis 1"
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is one (before, after) per axis, not {shown}", hint=hint)
    return tuple(pair(item, f"an element of {what}") for item in value)


def pair(value: Any, what: str) -> tuple[int, int]:
    """Two whole numbers; a single number counts twice."""
    if not isinstance(value, list | tuple):
        one = integer(value, what)
        return one, one
    both = integers(value, what)
    if len(both) != 2:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} has two numbers, not {len(both)}")
    return both[0], both[1]


def per_axis(value: Any, count: int, what: str) -> tuple[int, ...]:
    """One whole number for each of `count` axes; a single number is that of every axis."""
    if not isinstance(value, list | tuple):
        return (integer(value, what),) * count
    numbers = integers(value, what)
    if len(numbers) != count:
        message = (
            f"{what} has {with_count(len(numbers), 'number')} for {with_count(count, 'spatial axis', 'spatial axes')}"
        )
        fail(Kind.MALFORMED_GRAPH, STAGE, message, hint=f"{count} numbers, or one for all axes")
    return numbers


def one_of(value: Any, known: Sequence[str], what: str) -> str:
    """`value`, which is one of the known names. Raises EqsatError, MalformedGraph, for anything else."""
    if not isinstance(value, str) or value not in known:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is no {_describe(value)}", hint=", ".join(known))
    return value


def axis_in(axis: Any, shape: Sequence[int]) -> int:
    """The axis counted from the front. Raises EqsatError, MalformedGraph, if a value of this shape has no such axis."""
    place, rank = integer(axis, "an axis"), len(shape)
    if not -rank <= place < rank:
        message = f"axis {place} is out of range for a tensor of rank {rank}"
        hint = f"an axis from {-rank} to {rank - 1}" if rank else "reshape(1) gives it an axis"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, hint=hint, shape=list(shape))
    return place % rank


def axes_in(axis: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """The axes, sorted and counted from the front; None means all axes."""
    if axis is None:
        return tuple(range(len(shape)))
    given = axis if isinstance(axis, list | tuple) else [axis]
    axes = sorted(axis_in(item, shape) for item in given)
    if len(set(axes)) != len(axes):
        fail(Kind.MALFORMED_GRAPH, STAGE, "an axis stands twice", axes=axes)
    return tuple(axes)


def refuse(kind: Kind, op: str, message: str, *shapes: tuple[int, ...], hint: str) -> NoReturn:
    """Raise an EqsatError of this kind that shows the shapes."""
    fail(kind, STAGE, message, op=op, hint=hint, shapes=[list(shape) for shape in shapes])


def _describe(value: Any) -> str:
    """`value` for a message: plain numbers and texts as they are, anything else by its type."""
    return repr(value) if isinstance(value, bool | int | float | str | None) else with_article(type(value).__name__)
