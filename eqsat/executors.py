"""Jobs on any `concurrent.futures.Executor`: processes of this machine or a Dask cluster; or in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any, TypeVar

from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.grammar import with_article

T = TypeVar("T")

STAGE = "executor"


def check_executor(executor: object) -> Executor | None:
    """Raises EqsatError, InvalidOption, for an object that is no executor."""
    if executor is not None and not isinstance(executor, Executor):
        hint = "ProcessPoolExecutor(…), or client.get_executor() of a Dask client"
        message = f"executor= is a concurrent.futures.Executor, not {with_article(type(executor).__name__)}"
        fail(Kind.INVALID_OPTION, STAGE, message, hint=hint)
    return executor


def run_jobs(
    function: Callable[..., T], jobs: Mapping[str, tuple[Any, ...]], executor: Executor | None
) -> Generator[tuple[str, T | EqsatError], None, None]:
    """The result of the function with the arguments of each job, or why there is none, in the order of the jobs.

    function, arguments and results travel to the executor's workers as pickles. A worker that ends, or arguments that
    cannot travel, are the error of that job; the others go on.
    """
    if executor is None:
        for name, arguments in jobs.items():
            try:
                yield name, function(*arguments)
            except EqsatError as error:
                yield name, error
        return
    waiting = {name: executor.submit(function, *arguments) for name, arguments in jobs.items()}
    try:
        for name, future in waiting.items():
            yield name, _result(name, future)
    finally:
        for future in waiting.values():
            future.cancel()


def _result(name: str, future: Future[Any]) -> Any:
    """The result, or why there is none."""
    try:
        return future.result()
    except EqsatError as error:
        return error
    except (BrokenExecutor, CancelledError) as error:
        message = f"the worker ended before its answer: {error or type(error).__name__}"
        return EqsatError(Diagnostic(kind=Kind.RESOURCE_EXCEEDED, stage=STAGE, message=message, at=name, hint=_ENDED))
    except Exception as error:
        if "pickle" not in f"{type(error).__name__} {error}".lower():
            raise
        message = f"it cannot travel to a worker: {error}"
        return EqsatError(Diagnostic(kind=Kind.INVALID_OPTION, stage=STAGE, message=message, at=name, hint=_TRAVELS))


_ENDED = "its error output says more; a script that starts processes needs if __name__ == '__main__'"
_TRAVELS = "a path, bytes, or a function of a module that makes the program"
