"""The options of `torch.compile(model, backend="eqsat", options={…})`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NamedTuple

from eqsat.api import optimize_and_compile
from eqsat.lazy.argument_checks import flag
from eqsat.runtime.program import Program
from eqsat.serving.buckets import Buckets, buckets_of
from eqsat.serving.when_missing import ADAPT, WhenMissing, check_when_missing
from ir.diagnostics import Kind, fail

_NOT_OURS = frozenset({"source", "constants", "strict"})
"""Parameters of `optimize_and_compile` that Dynamo's graph decides."""


class BackendOptions(NamedTuple):
    """fallback: whether eager runs operators that eqsat lacks, and graphs that it cannot compile; False: they are
    errors. None: eager runs them, but a defect of eqsat itself is an error. on_program: is called with each new
    program. freezing: whether parameters are constants of graphs without gradients. dims: buckets of free sizes by
    name. all_dims: buckets of all free sizes. when_missing: what answers calls whose code is not built. program:
    keywords of `eqsat.optimize_and_compile`, for each program."""

    fallback: bool | None = None
    on_program: Callable[[Program], object] = lambda program: None
    freezing: bool = False
    dims: Mapping[str, Buckets] = {}
    all_dims: Buckets | None = None
    when_missing: WhenMissing = ADAPT
    program: Mapping[str, Any] = {}


def backend_options(given: Any) -> BackendOptions:
    """The options, checked. Raises EqsatError, InvalidOption, for an unknown one."""
    if given is not None and not isinstance(given, Mapping):
        fail(Kind.INVALID_OPTION, "options", "options= is a mapping", hint='options={"exactness": "exact"}')
    options = dict(given or {})
    known = sorted({"fallback", "freezing", "on_program", *signature(optimize_and_compile).parameters} - _NOT_OURS)
    unknown = [name for name in options if name not in known]
    if unknown:
        message = f"the backend has no option {', '.join(map(repr, unknown))}"
        fail(Kind.INVALID_OPTION, "options", message, hint=", ".join(known))
    usual = BackendOptions()
    fallback = options.pop("fallback", None)
    on_program = options.pop("on_program", usual.on_program)
    if not callable(on_program):
        fail(Kind.INVALID_OPTION, "options", f"on_program= is a function of a Program, not {on_program!r}")
    dims, when_missing = options.pop("dims", usual.dims), options.pop("when_missing", usual.when_missing)
    if not isinstance(dims, Mapping | list | tuple | range):
        hint = 'options={"dims": {"x_0": [1, 8]}}: axis 0 of the argument x; [1, 8]: all free sizes'
        fail(Kind.INVALID_OPTION, "options", f"dims= is a mapping of sizes by name, or sizes, not {dims!r}", hint=hint)
    check_when_missing(when_missing)
    by_name, every = (dims, None) if isinstance(dims, Mapping) else ({}, buckets_of(dims))
    return BackendOptions(
        fallback if fallback is None else flag(fallback, "fallback"),
        on_program,
        flag(options.pop("freezing", usual.freezing), "freezing"),
        {name: buckets_of(sizes) for name, sizes in by_name.items()},
        every,
        when_missing,
        options,
    )
