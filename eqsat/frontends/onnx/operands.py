"""Operands that must be known when the program is built, and other common needs of the lowerings."""

from __future__ import annotations

from typing import NoReturn

from eqsat.lazy.argument_checks import axis_in
from eqsat.lazy.known_value import known_value
from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail
from ir.frontend import STAGE


def known_integers(tensor: Tensor, what: str) -> list[int]:
    """The elements of a tensor that is known when the program is built. Raises EqsatError, UnsupportedOp."""
    return [int(element) for element in known_value(tensor, what, STAGE).ravel()]


def known_number(tensor: Tensor, what: str) -> int | float | bool:
    """The only element of a tensor that is known when the program is built. Raises EqsatError, UnsupportedOp."""
    value: int | float | bool = known_value(tensor, what, STAGE).reshape(()).item()
    return value


def axes_of(axes: Tensor | None, x: Tensor, what: str = "the list of axes") -> tuple[int, ...] | None:
    """The axes of x that a tensor lists, counted from the front; None without the tensor."""
    return None if axes is None else tuple(axis_in(axis, x.shape) for axis in known_integers(axes, what))


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """Raises EqsatError, UnsupportedOp."""
    fail(Kind.UNSUPPORTED_OP, STAGE, f"{message} is not supported", hint=hint)


def malformed(message: str, hint: str | None = None) -> NoReturn:
    """Raises EqsatError, MalformedGraph."""
    fail(Kind.MALFORMED_GRAPH, STAGE, message, hint=hint)
