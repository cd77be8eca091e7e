"""A call in a process of its own, which may crash."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Literal, TypeVar

T = TypeVar("T")


class CrashError(Exception):
    """The process ended before it had a result."""


def call_alone(function: Callable[..., T], *arguments: Any, start: Literal["spawn", "fork"] = "spawn") -> T:
    """The result of a function in a new process. start: how the process starts.

    Raises:
        CrashError: the process ended without a result, as by a signal.
    """
    context: Any = multiprocessing.get_context(start)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        result: T = ours.recv()
    except EOFError:
        process.join()
        raise CrashError(f"the process ended with code {process.exitcode}") from None
    process.join()
    return result


def _send(pipe: Connection, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    pipe.send(function(*arguments))
