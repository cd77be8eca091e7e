"""Calls that mean one thing in NumPy and another in torch: a keyword decides, and a call without one is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

from eqsat.lazy.argument_checks import STAGE
from eqsat.lazy.keyword_names import NO_EFFECT, refuse_keyword, require_no_effect
from ir.diagnostics import Kind, fail

Library = Literal["NumPy", "torch"]


def two_meanings(
    in_torch: Callable[..., Any], without_keyword: Callable[..., Library | None], meanings: str, ways: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a method of its meaning in NumPy, which is decorated, and of its meaning in torch.

    A keyword that only one of the two has decides: `x.max(axis=1)` is NumPy's maximum, `x.max(dim=1)` torch's pair.

    in_torch: the meaning in torch, with torch's names of the parameters.
    without_keyword: called with the tensor and the arguments by position; the library whose meaning a call without such
        a keyword has, either one where both mean the same; None where the two differ.
    meanings, ways: what the call means in either library, and how to write both, for the message.
    """

    def combine(in_numpy: Callable[..., Any]) -> Callable[..., Any]:
        name = in_numpy.__name__
        of_numpy, of_torch = _names(in_numpy), _names(in_torch)

        @wraps(in_numpy)
        def call(x: Any, *arguments: Any, **keywords: Any) -> Any:
            for key in [key for key in keywords if key in NO_EFFECT and key not in of_numpy | of_torch]:
                require_no_effect(name, key, keywords.pop(key))
            for key in keywords:
                if key not in of_numpy | of_torch:
                    refuse_keyword(name, key, sorted((of_numpy | of_torch) - {"self", "x"}))
            numpys, torchs = keywords.keys() - of_torch, keywords.keys() - of_numpy
            if bool(numpys) == bool(torchs):
                chosen = None if numpys else without_keyword(x, *arguments, **keywords)
            else:
                chosen = "NumPy" if numpys else "torch"
            if chosen is None:
                fail(Kind.MALFORMED_GRAPH, STAGE, meanings, op=name, hint=ways, shape=x.shape)
            return (in_numpy if chosen == "NumPy" else in_torch)(x, *arguments, **keywords)

        call.torchs_names = {key: key for key in of_torch - of_numpy}  # type: ignore[attr-defined]
        return call

    return combine


def _names(function: Callable[..., Any]) -> set[str]:
    every = inspect.signature(function).parameters.values()
    return {
        parameter.name for parameter in every if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
