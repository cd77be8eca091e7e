"""The options of `torch.compile(model, backend="eqsat", options={…})`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NamedTuple

from eqsat.api import optimize_and_compile
from eqsat.lazy.argument_checks import flag
from eqsat.runtime.program import Program
from ir.diagnostics import Kind, fail

_NOT_OURS = frozenset({"source", "dims", "constants", "strict"})
"""Parameters of `optimize_and_compile` that Dynamo's graph decides."""


class BackendOptions(NamedTuple):
    """fallback: whether eager runs operators that eqsat lacks; else they are an error. on_program: is called with each
    program when it is built. program: keywords of `eqsat.optimize_and_compile`, for each program."""

    fallback: bool = False
    on_program: Callable[[Program], object] = lambda program: None
    program: Mapping[str, Any] = {}


def backend_options(given: Any) -> BackendOptions:
    """The options, checked. Raises EqsatError, InvalidOption, for an unknown one."""
    if given is not None and not isinstance(given, Mapping):
        fail(Kind.INVALID_OPTION, "options", "options= is a mapping", hint='options={"exactness": "exact"}')
    options = dict(given or {})
    known = sorted({"fallback", "on_program", *signature(optimize_and_compile).parameters} - _NOT_OURS)
    unknown = [name for name in options if name not in known]
    if unknown:
        message = f"the backend has no option {', '.join(map(repr, unknown))}"
        fail(Kind.INVALID_OPTION, "options", message, hint=", ".join(known))
    fallback = flag(options.pop("fallback", True), "fallback")
    on_program = options.pop("on_program", BackendOptions().on_program)
    if not callable(on_program):
        fail(Kind.INVALID_OPTION, "options", f"on_program= is a function of a Program, not {on_program!r}")
    return BackendOptions(fallback, on_program, options)
