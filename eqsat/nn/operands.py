"""The first steps of the building blocks with their operands: floats, images, numbers per channel."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from eqsat.lazy.argument_checks import STAGE, is_number, refuse
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.lazy.promotion import floating
from eqsat.tensor import Tensor, as_tensor
from ir.diagnostics import Kind, fail
from ir.grammar import with_count

Operand = Tensor | np.ndarray
"""An array becomes a constant."""

F = TypeVar("F", bound=Callable[..., Any])

_SPATIAL = {1: "L", 2: "H, W", 3: "D, H, W"}
"""The names of the spatial axes, by their number."""


def floats_of(x: Tensor) -> Tensor:
    """The tensor; integers and bools are cast to fp64."""
    x = as_tensor(x)
    return x.cast(floating(x.dtype))


def tensor_of(op: str, name: str, value: Any) -> Tensor:
    """An argument that is a tensor or an array. Numbers, shapes and names are refused: they stand for an argument that
    another library has at this place, as the stride in `conv(x, w, 2)`."""
    if is_number(value) or isinstance(value, list | tuple | str | None):
        message = f"the {name} is a tensor or an array, not {value!r:.40}"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op=op, hint=f"{name}=tensor, and what it is by its own keyword")
    return as_tensor(value)


def image_of(x: Operand, op: str, axes: int | None = None) -> Tensor:
    """The tensor, after a check that it is [N, C, …] with this many spatial axes; with one at least, if None."""
    x = tensor_of(op, "x", x)
    if x.ndim < 3 or (axes is not None and x.ndim != axes + 2):
        wanted = f"[N, C, {_SPATIAL[axes] if axes else '…'}]"
        refuse(Kind.AXIS_SIZE_MISMATCH, op, f"x must be {wanted}", x.shape, hint="reshape or unsqueeze it")
    return x


def over_axes(general: F, name: str, axes: int) -> F:
    """The function `general`, whose first argument is x [N, C, …], as one called `name` for this many spatial axes."""

    @wraps(general)
    def call(x: Operand, *arguments: Any, **keywords: Any) -> Any:
        return general(image_of(x, name, axes), *arguments, **keywords)

    call = takes_torchs_names(call)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`{general.__name__}` of x [N, C, {_SPATIAL[axes]}].\n\n    {general.__doc__}"
    return cast(F, call)


def per_channel(op: str, value: Operand, x: Tensor, axis: int, name: str = "bias") -> Tensor:
    """`value`, one number per channel of x, reshaped to broadcast with x."""
    value = tensor_of(op, name, value)
    if value.size != x.shape[axis]:
        hint = with_count(x.shape[axis], "number")
        message = f"the {name} has not one number per channel"
        refuse(Kind.BROADCAST_MISMATCH, op, message, x.shape, value.shape, hint=hint)
    return value.reshape(-1 if value.size else 0, *(1,) * (x.ndim - axis - 1))
