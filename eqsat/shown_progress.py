"""Progress on the screen: the stage, what it has counted, and the time, in terminals and notebooks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eqsat.clock import Progress

ProgressChoice = Progress | bool | None
"""The type of `progress=`: a function of a stage's name; True: shown on the screen; None or False: not shown."""


class ShownProgress:
    """A line on standard error. Called with the name of a stage; `detail` adds what the stage has counted."""

    def __init__(self, display: Any, task: Any) -> None:
        self._display, self._task = display, task
        self._stage = ""

    def __call__(self, stage: str) -> None:
        self._stage = stage
        self._display.update(self._task, description=stage)

    def detail(self, text: str) -> None:
        """Show `text` beside the stage."""
        self._display.update(self._task, description=f"{self._stage}: {text}")


class ShownCount(ShownProgress):
    """A bar on standard error, which each call moves one step further."""

    def __call__(self, step: str) -> None:
        self._display.update(self._task, description=step, advance=1)


@contextmanager
def telling(progress: ProgressChoice, steps: int | None = None) -> Iterator[Progress | None]:
    """The function to call with the name of every stage, or of every one of `steps` steps; None if nobody wants to
    know.

    The screen is used where standard error is a terminal, and in notebooks, and for work of the main thread only.
    """
    if not isinstance(progress, bool):
        yield progress
    elif not progress or threading.current_thread() is not threading.main_thread():
        yield None
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        bar = (BarColumn(), MofNCompleteColumn()) if steps is not None else ()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *bar, TimeElapsedColumn())
        is_seen = console.is_terminal or console.is_jupyter
        with Progress(*columns, console=console, transient=True, disable=not is_seen) as display:
            shown = ShownProgress if steps is None else ShownCount
            yield shown(display, display.add_task("", total=steps))


@contextmanager
def showing(stage: str) -> Iterator[None]:
    """Shows this stage on standard error, if that is a terminal."""
    with telling(True) as report:
        if report is not None:
            report(stage)
        yield
