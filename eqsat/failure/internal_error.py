"""Turns a failure of eqsat in a public call into an EqsatError of kind InternalError, never a bare traceback.

The error names stage, region, and the file with a reproducer. A MemoryError becomes ResourceExceeded.
KeyboardInterrupt, SystemExit, and exceptions of the caller's own code (`progress=`, a signal handler) pass unchanged.
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

from eqsat.failure.reproducer import Failure, ScriptCall, with_file, write_reproducer
from ir.diagnostics import Diagnostic, EqsatError, Kind
from ir.region.region import Region

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type[Any])

Retell = Callable[[str, Sequence[Any], Mapping[str, Any]], Sequence[ScriptCall]]
"""From a public call's name, arguments and keywords to the calls of a script that does the same."""

_HOME = Path(__file__).parents[2]
_OURS = tuple(f"{_HOME / package}/" for package in ("eqsat", "rules", "codegen", "ir"))
_STAGE, _CALLERS = "_eqsat_stage", "_eqsat_callers"
"""Attributes of an exception: the stage where it was raised; that it is the caller's."""


def public_call(
    retell: Retell | None = None, passing: tuple[type[BaseException], ...] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function a public call, which raises only EqsatError and the exceptions in `passing`. retell: describes
    the call for the reproducer; None if the script can repeat the call unchanged."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = getattr(function, "__name__", "call")
        describe = retell or partial(_same_call, f"{function.__module__}:{name}")

        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            try:
                return function(*args, **keywords)
            except passing:
                raise
            except BaseException as error:
                if passes(error):
                    raise
                raise as_eqsat_error(error, name, lambda: describe(name, args, keywords)) from error

        return call

    return decorate


def reports_all(retell: Retell) -> Callable[[C], C]:
    """Makes all methods and properties of a class public calls, except those whose names begin with an underscore.
    `__call__` is one of these: another function around it would take a microsecond of every call."""

    def decorate(owner: C) -> C:
        for name, member in list(vars(owner).items()):
            if name.startswith("_") and name not in _SPECIAL:
                continue
            if isinstance(member, property) and member.fget is not None:
                setattr(owner, name, property(public_call(retell)(member.fget), doc=member.__doc__))
            elif callable(member) and not isinstance(member, type):
                setattr(owner, name, public_call(retell)(member))
        return owner

    return decorate


_SPECIAL = ("__repr__", "__str__", "__reduce__", "_repr_html_")
"""Methods with an underscore that are public calls all the same."""


def _same_call(function: str, _: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> Sequence[ScriptCall]:
    """The unchanged call of `function`."""
    return [ScriptCall("", function, tuple(map(with_file, args)), keywords)]


@contextmanager
def at_stage(name: str) -> Iterator[None]:
    """Marks an exception raised inside with this stage, unless an inner stage has marked it."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, EqsatError):
            _mark(error, _STAGE, name)
        raise


@contextmanager
def callers_code() -> Iterator[None]:
    """Marks an exception raised inside as the caller's, so that it reaches the caller unchanged."""
    try:
        yield
    except BaseException as error:
        _mark(error, _CALLERS, True)
        raise


def is_panic(error: BaseException) -> bool:
    """Whether the exception is the panic of a library written in Rust, which is no Exception."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def _mark(error: BaseException, key: str, value: object) -> None:
    error.__dict__.setdefault(key, value)


def passes(error: BaseException) -> bool:
    """Whether the exception must reach the caller unchanged."""
    if isinstance(error, EqsatError):
        return True
    if not isinstance(error, Exception) and not is_panic(error):
        return True
    return _CALLERS in error.__dict__ or _is_no_call(error) or _is_interrupt(error)


def _is_no_call(error: BaseException) -> bool:
    """Whether the call did not begin, because the function does not take these arguments."""
    traceback = error.__traceback__
    return isinstance(error, TypeError) and traceback is not None and traceback.tb_next is None


def _is_interrupt(error: BaseException) -> bool:
    """Whether a signal handler raised the exception, such as one that limits the time of a call."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    return any(frame.code in handlers for frame in _frames(error.__traceback__))


class _TracebackFrame(NamedTuple):
    """A frame of a traceback: its code, its current line, its local names."""

    code: CodeType
    line: int
    names: Mapping[str, Any]

    @property
    def is_ours(self) -> bool:
        return self.code.co_filename.startswith(_OURS)

    def __str__(self) -> str:
        return f"{Path(self.code.co_filename).relative_to(_HOME)}:{self.line} in {self.code.co_name}"


def _frames(traceback: TracebackType | None) -> list[_TracebackFrame]:
    """The frames of a traceback, the innermost last."""
    frames = []
    while traceback is not None:
        frame = traceback.tb_frame
        frames.append(_TracebackFrame(frame.f_code, traceback.tb_lineno, frame.f_locals))
        traceback = traceback.tb_next
    return frames


def _region(frames: Sequence[_TracebackFrame]) -> Region | None:
    """The region that the innermost function with a region among its locals worked on; None if there is none."""
    for frame in reversed(frames):
        for value in frame.names.values():
            if isinstance(value, Region):
                return value
    return None


def as_eqsat_error(error: BaseException, name: str, describe: Callable[[], Sequence[ScriptCall]]) -> EqsatError:
    """The exception as an EqsatError. A failure to write the reproducer does not hide it."""
    stage = error.__dict__.get(_STAGE, name.strip("_"))
    frames = _frames(error.__traceback__)
    region = _region(frames)
    at = region.name if region is not None else None
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, MemoryError):
        hint = "a smaller program or smaller arrays, or a machine with more memory"
        return EqsatError(
            Diagnostic(kind=Kind.RESOURCE_EXCEEDED, stage=stage, message=f"memory is full: {text}", at=at, hint=hint)
        )
    where = next((str(frame) for frame in reversed(frames) if frame.is_ours), "")
    details = {"where": where} if where else {}
    try:
        failure = Failure(error, stage, where, str(region) if region is not None else "")
        details["reproducer"] = str(write_reproducer(failure, describe()))
        hint = "please report this with the file `reproducer`: it repeats the call, or says what is left out"
    except Exception as problem:  # the first failure matters to the caller, not this one
        details["reproducer"] = f"none could be written: {type(problem).__name__}: {problem}"
        hint = "please report this with the program and the traceback above"
    message = f"eqsat failed, which is a defect of its own: {text}"
    return EqsatError(
        Diagnostic(kind=Kind.INTERNAL_ERROR, stage=stage, message=message, at=at, hint=hint, details=details)
    )
