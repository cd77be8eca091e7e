"""Methods of lazy tensors as functions: `tensor.sum(x, axis=1)` is `x.sum(axis=1)`, also for an array or a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from eqsat.lazy.argument_checks import STAGE
from ir.diagnostics import Kind, fail

F = TypeVar("F", bound=Callable[..., Any])

_FIRST = ("x", "input", "a", "array")
"""The names of the first argument, here, in torch and in NumPy."""


def function_form(as_tensor: Callable[[Any], Any], method: F) -> F:
    """The method as a function whose first argument becomes a tensor."""
    name = method.__name__

    @wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not arguments:
            given = [key for key in _FIRST if key in keywords]
            if not given:
                fail(Kind.MALFORMED_GRAPH, STAGE, f"{name} has no tensor", op=name, hint=f"tensor.{name}(x, …)")
            arguments = (keywords.pop(given[0]),)
        return method(as_tensor(arguments[0]), *arguments[1:], **keywords)

    return cast(F, call)
