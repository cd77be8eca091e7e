"""What callers of lazy tensors write for numbers of axes, sizes and elements, checked."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from ir.diagnostics import Kind, fail
from ir.grammar import with_article

STAGE = "tensor"

Axis = SupportsIndex | Sequence[SupportsIndex] | None
Sizes = SupportsIndex | Sequence[SupportsIndex]
Number = bool | int | float


def integer(value: Any, what: str) -> int:
    """`value` as an int. Raises EqsatError, MalformedGraph, for what is no whole number."""
    try:
        return operator.index(value)
    except TypeError:
        return fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is a whole number, not {_shown(value)}")


def number(value: Any, what: str) -> float:
    """A Python or NumPy number, no bool. Raises EqsatError, MalformedGraph, for anything else."""
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.integer | np.floating):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is a number, not {_shown(value)}")
    return value.item() if isinstance(value, np.generic) else value


def is_shape(value: Any) -> bool:
    """Whether it is a Python whole number, or a list or tuple of them, as a shape is written, and no tensor is."""
    several = value if isinstance(value, list | tuple) else (value,)
    return all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in several)


def integers(value: Any, what: str) -> tuple[int, ...]:
    """A list or tuple of whole numbers; EqsatError, MalformedGraph, for anything else."""
    if not isinstance(value, list | tuple):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is a list of whole numbers, not {_shown(value)}")
    return tuple(integer(each, f"an element of {what}") for each in value)


def sizes(shape: Any, what: str = "a shape") -> tuple[int, ...]:
    """A shape; one number is that of a vector."""
    return integers(shape, what) if isinstance(shape, list | tuple) else (integer(shape, what),)


def spread(arguments: Sequence[Any], what: str) -> tuple[int, ...]:
    """Whole numbers that are given one by one or as one list."""
    one = len(arguments) == 1 and isinstance(arguments[0], list | tuple)
    return integers(arguments[0] if one else tuple(arguments), what)


def flag(value: Any, what: str) -> bool:
    """True or False; EqsatError, MalformedGraph, for anything else."""
    if not isinstance(value, bool | np.bool):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is True or False, not {_shown(value)}")
    return bool(value)


def pairs(value: Any, what: str) -> tuple[tuple[int, int], ...]:
    """A list of (before, after). Numbers without pairs are refused: to NumPy they are before and after each axis, to
    torch before and after the last axes."""
    if not isinstance(value, list | tuple) or any(not isinstance(each, list | tuple) for each in value):
        shown = f"{value!r}" if isinstance(value, list | tuple) and is_shape(value) else _shown(value)
        hint = "[(1, 1), (0, 2)] is one element before and after axis 0, two after axis 1"
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} is one (before, after) per axis, not {shown}", hint=hint)
    return tuple(pair(each, f"an element of {what}") for each in value)


def pair(value: Any, what: str) -> tuple[int, int]:
    """Two whole numbers; one number is both."""
    if not isinstance(value, list | tuple):
        one = integer(value, what)
        return one, one
    both = integers(value, what)
    if len(both) != 2:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} has two numbers, not {len(both)}")
    return both[0], both[1]


def axis_in(axis: Any, shape: Sequence[int]) -> int:
    """The axis counted from the front. Raises EqsatError, MalformedGraph, where a value of this shape has none such."""
    place, rank = integer(axis, "an axis"), len(shape)
    if not -rank <= place < rank:
        message = f"axis {place} is out of range for a tensor of rank {rank}"
        hint = f"an axis from {-rank} to {rank - 1}" if rank else "reshape(1) gives it an axis"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, hint=hint, shape=list(shape))
    return place % rank


def axes_in(axis: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """The axes in order, counted from the front; None is all of them."""
    if axis is None:
        return tuple(range(len(shape)))
    given = axis if isinstance(axis, list | tuple) else [axis]
    axes = sorted(axis_in(each, shape) for each in given)
    if len(set(axes)) != len(axes):
        fail(Kind.MALFORMED_GRAPH, STAGE, "an axis stands twice", axes=axes)
    return tuple(axes)


def refuse(kind: Kind, op: str, message: str, *shapes: tuple[int, ...], hint: str) -> NoReturn:
    """Raise an EqsatError of this kind that shows the shapes."""
    fail(kind, STAGE, message, op=op, hint=hint, shapes=[list(shape) for shape in shapes])


def _shown(value: Any) -> str:
    """`value` for a message, by its type where that is no plain number or text."""
    return repr(value) if isinstance(value, bool | int | float | str | None) else with_article(type(value).__name__)
