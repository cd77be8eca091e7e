"""No public call ends in a bare traceback: a failure of ours becomes an EqsatError of kind InternalError.

The error names stage and region, and the file that a reproducer was written to. A MemoryError becomes ResourceExceeded.
KeyboardInterrupt, SystemExit, and what a caller's own code raises (`progress=`, a handler of a signal) pass through.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from eqsat.failure.reproducer import Failure, ScriptCall, carried, write_reproducer
from ir.diagnostics import Diagnostic, EqsatError, Kind
from ir.region.region import Region

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type[Any])

Retell = Callable[[str, Sequence[Any], Mapping[str, Any]], Sequence[ScriptCall]]
"""From a public call's name, arguments and keywords: the calls that make a script do the same."""

_HOME = Path(__file__).parents[2]
_OURS = tuple(f"{_HOME / package}/" for package in ("eqsat", "rules", "codegen", "ir"))
_STAGE, _CALLERS = "_eqsat_stage", "_eqsat_callers"
"""What an exception on its way up is marked with."""


def reported(
    retell: Retell | None = None, passing: tuple[type[BaseException], ...] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function a public call: what leaves it is an EqsatError, or one of `passing`. `retell` None: a script can
    make the call as it is."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        name = getattr(function, "__name__", "call")
        retold = retell or partial(_as_it_is, f"{function.__module__}:{name}")

        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            try:
                return function(*args, **keywords)
            except EqsatError:
                raise
            except passing:
                raise
            except BaseException as error:
                if _passes(error):
                    raise
                raise _reported(error, name, lambda: retold(name, args, keywords)) from error

        return call

    return decorated


def reports_all(retell: Retell) -> Callable[[C], C]:
    """Makes all methods and properties of a class public calls, those whose names begin with an underscore aside."""

    def decorated(owner: C) -> C:
        for name, member in list(vars(owner).items()):
            if name.startswith("_") and name not in _SPECIAL:
                continue
            if isinstance(member, property) and member.fget is not None:
                setattr(owner, name, property(reported(retell)(member.fget), doc=member.__doc__))
            elif callable(member) and not isinstance(member, type):
                setattr(owner, name, reported(retell)(member))
        return owner

    return decorated


_SPECIAL = ("__call__", "__repr__", "__str__", "__reduce__")


def _as_it_is(function: str, _: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> Sequence[ScriptCall]:
    """The same call of `function`."""
    return [ScriptCall("", function, tuple(map(carried, args)), keywords)]


@contextmanager
def at_stage(name: str) -> Iterator[None]:
    """What fails inside fails at this stage, unless it failed at a stage inside that."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, EqsatError):
            _mark(error, _STAGE, name)
        raise


@contextmanager
def callers_code() -> Iterator[None]:
    """What fails inside is none of our failures: it reaches the caller as it is."""
    try:
        yield
    except BaseException as error:
        _mark(error, _CALLERS, True)
        raise


def is_panic(error: BaseException) -> bool:
    """Whether it is the panic of a library written in Rust, which is no Exception."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def _mark(error: BaseException, key: str, value: object) -> None:
    error.__dict__.setdefault(key, value)


def _passes(error: BaseException) -> bool:
    """Whether the exception is meant for the caller as it is."""
    if not isinstance(error, Exception) and not is_panic(error):
        return True
    return _CALLERS in error.__dict__ or _is_no_call(error) or _is_interrupt(error)


def _is_no_call(error: BaseException) -> bool:
    """Whether the caller gave arguments that the function does not have, so that it never began."""
    traceback = error.__traceback__
    return isinstance(error, TypeError) and traceback is not None and traceback.tb_next is None


def _is_interrupt(error: BaseException) -> bool:
    """Whether a handler of a signal raised it, as one that limits the time of a call does."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    return any(place.code in handlers for place in _places(error.__traceback__))


class _TracebackFrame(NamedTuple):
    """A frame of a traceback: its code, the line that it was at, its local names."""

    code: CodeType
    line: int
    names: Mapping[str, Any]

    @property
    def is_ours(self) -> bool:
        return self.code.co_filename.startswith(_OURS)

    def __str__(self) -> str:
        return f"{Path(self.code.co_filename).relative_to(_HOME)}:{self.line} in {self.code.co_name}"


def _places(traceback: TracebackType | None) -> list[_TracebackFrame]:
    """The frames of a traceback, the innermost last."""
    found = []
    while traceback is not None:
        frame = traceback.tb_frame
        found.append(_TracebackFrame(frame.f_code, traceback.tb_lineno, frame.f_locals))
        traceback = traceback.tb_next
    return found


def _region(places: Sequence[_TracebackFrame]) -> Region | None:
    """The region that the innermost function which knows of one was at work on."""
    for place in reversed(places):
        for value in place.names.values():
            if isinstance(value, Region):
                return value
    return None


def _reported(error: BaseException, name: str, retold: Callable[[], Sequence[ScriptCall]]) -> EqsatError:
    """The exception as an EqsatError; whatever goes wrong meanwhile does not hide it."""
    stage = error.__dict__.get(_STAGE, name.strip("_"))
    places = _places(error.__traceback__)
    region = _region(places)
    at = region.name if region is not None else None
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, MemoryError):
        hint = "a smaller program or smaller arrays, or a machine with more memory"
        return EqsatError(
            Diagnostic(kind=Kind.RESOURCE_EXCEEDED, stage=stage, message=f"memory is full: {said}", at=at, hint=hint)
        )
    where = next((str(each) for each in reversed(places) if each.is_ours), "")
    details = {"where": where} if where else {}
    try:
        failure = Failure(error, stage, where, str(region) if region is not None else "")
        details["reproducer"] = str(write_reproducer(failure, retold()))
        hint = "please report this with the file `reproducer`, which makes it happen again"
    except Exception as problem:  # the caller is to learn of the failure, not of what came after it
        details["reproducer"] = f"none could be written: {type(problem).__name__}: {problem}"
        hint = "please report this with the program and the traceback above"
    message = f"eqsat failed, which is a defect of its own: {said}"
    return EqsatError(
        Diagnostic(kind=Kind.INTERNAL_ERROR, stage=stage, message=message, at=at, hint=hint, details=details)
    )
