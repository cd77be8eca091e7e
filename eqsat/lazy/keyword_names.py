"""Keywords of torch and NumPy that stand for a parameter of ours: `dim=` for `axis`, and the like."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, NoReturn, TypedDict, TypeVar, cast

from eqsat.lazy.argument_checks import STAGE, Axis, Number
from ir.diagnostics import Kind, fail

F = TypeVar("F", bound=Callable[..., Any])

OURS: Mapping[str, tuple[str, ...]] = {
    "a": ("x",),
    "array": ("x",),
    "arrays": ("parts",),
    "axis1": ("a",),
    "axis2": ("b",),
    "axis0": ("a",),
    "dim": ("axis",),
    "dims": ("axis",),
    "end": ("stop",),
    "end_dim": ("end",),
    "fill_value": ("value",),
    "indices": ("index",),
    "input": ("x",),
    "keepdim": ("keepdims",),
    "kernel_size": ("kernel",),
    "running_mean": ("mean",),
    "running_var": ("var",),
    "shifts": ("shift",),
    "src": ("updates",),
    "start_dim": ("start",),
    "steps": ("num",),
    "tensor": ("x",),
    "tensors": ("parts",),
    "value": ("updates",),
}
"""A name of torch or NumPy, and the names of ours that may stand for it: a function takes it for the parameter that it
has."""

NO_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "_stacklevel": (3,),
    "device": (None, "cpu"),
    "generator": (None,),
    "inplace": (False,),
    "layout": (None,),
    "memory_format": (None,),
    "non_blocking": (False, True),
    "out": (None,),
    "pin_memory": (False,),
    "reduce": (None,),
    "requires_grad": (False,),
    "size_average": (None,),
    "sparse_grad": (False,),
}
"""Keywords of torch that say nothing to a program, and the values that they may have."""


class Dim(TypedDict, total=False):
    """torch's keyword for `axis`, for type checkers; `takes_torchs_names` translates it."""

    dim: Axis


class End(TypedDict, total=False):
    """torch's keyword for `stop`."""

    end: Number


class DimAndKeep(Dim, total=False):
    """torch's keywords for `axis` and `keepdims`."""

    keepdim: bool


def takes_torchs_names(function: F) -> F:
    """The function, which also takes torch's and NumPy's names of its parameters.

    Calls raise EqsatError: MalformedGraph for a parameter that is passed by two names, and for an unknown keyword;
    UnsupportedOp for a keyword such as `out=` or `inplace=True`.
    """
    own = _parameters(function)
    others = {
        name: next(iter(own.keys() & {*ours}))
        for name, ours in OURS.items()
        if own.keys() & {*ours} and name not in own
    }
    places = {name: place for place, name in enumerate(own)}
    op = function.__name__.lstrip("_")
    is_open = "keywords" in inspect.signature(function).parameters

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not keywords.keys() <= own.keys():
            keywords = _translated(op, own, others, keywords, is_open)
        for name in keywords.keys() & own.keys():
            if places[name] < len(arguments) and own[name].kind is own[name].POSITIONAL_OR_KEYWORD:
                _refuse_twice(op, name, [f"{name}=", f"the argument at position {places[name]}"])
        return function(*arguments, **keywords)

    call.torchs_names = others  # type: ignore[attr-defined]
    call.__signature__ = _without_torchs(inspect.signature(function))  # type: ignore[attr-defined]
    return cast(F, call)


def _without_torchs(signature: inspect.Signature) -> inspect.Signature:
    """The signature without `**torch`, which is for type checkers."""
    kept = [parameter for parameter in signature.parameters.values() if parameter.name != "torch"]
    return signature.replace(parameters=kept)


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that have a name of their own."""
    every = inspect.signature(function).parameters
    return {
        name: parameter
        for name, parameter in every.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }


def _translated(
    op: str, own: Mapping[str, Any], others: Mapping[str, str], keywords: Mapping[str, Any], is_open: bool
) -> dict[str, Any]:
    """The keywords by our names, without those that say nothing. is_open: unknown ones stay; another function is called
    with them, which refuses them."""
    ours: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, value in keywords.items():
        if name not in own and name not in others and name in NO_EFFECT:
            require_no_effect(op, name, value)
            continue
        if name not in own and name not in others and not is_open:
            refuse_keyword(op, name, [parameter for parameter in own if parameter != "self"], others)
        if name in ("dim", "dims") and isinstance(value, list | tuple) and not value:
            hint = "leave it out to reduce all axes, or axis=() for none"
            fail(Kind.MALFORMED_GRAPH, STAGE, f"{name}= without an axis means all axes in torch", op=op, hint=hint)
        meant = others.get(name, name)
        if meant in given:
            _refuse_twice(op, meant, [f"{given[meant]}=", f"{name}="])
        given[meant], ours[meant] = name, value
    return ours


def require_no_effect(op: str, name: str, value: Any) -> None:
    """Raises EqsatError, UnsupportedOp, for a value of such a keyword that would say something."""
    if not any(value is known or (isinstance(value, str) and value == known) for known in NO_EFFECT[name]):
        hint = f"leave {name}= out; a program changes no argument, and optimize_and_compile(target=…) chooses a device"
        fail(Kind.UNSUPPORTED_OP, STAGE, f"{op} has no {name}=", op=op, hint=hint)


def refuse_keyword(op: str, name: str, known: Sequence[str], others: Iterable[str] = ()) -> NoReturn:
    """Raises EqsatError, MalformedGraph, for a keyword that a function does not have. known, others: its own names of
    the parameters, and those of other libraries."""
    near = get_close_matches(name, [*known, *others], 1)
    hint = f"{near[0]}=" if near else ", ".join(f"{keyword}=" for keyword in known) or "it takes no keywords"
    fail(Kind.MALFORMED_GRAPH, STAGE, f"{op} has no keyword {name}=", op=op, hint=hint)


def _refuse_twice(op: str, name: str, ways: Sequence[str]) -> None:
    message = f"{op} got {name} twice, by {' and '.join(ways)}"
    fail(Kind.MALFORMED_GRAPH, STAGE, message, op=op, hint="pass it once")
