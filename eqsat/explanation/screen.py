"""Rich renderables on the standard output, no wider than the terminal."""

from __future__ import annotations

import shutil
from textwrap import wrap
from typing import Any

from eqsat.explanation.explain import WIDTH, render

UNBOUNDED = 1_000_000
"""More columns than a line has."""


def screen_width(otherwise: int = WIDTH) -> int:
    """The columns of the terminal, or of the environment's COLUMNS; `otherwise` if there is neither."""
    return shutil.get_terminal_size((otherwise, 24)).columns


def wrap_text(text: str, indent: int = 4) -> str:
    """Breaks the lines of a text at words to the width of the terminal; without a terminal, returns the text as it is.

    indent: columns before the further parts of a broken line.
    """
    width = screen_width(otherwise=UNBOUNDED)
    below = " " * min(indent, width // 2)
    lines = (wrap(line, width, subsequent_indent=below) if len(line) > width else [line] for line in text.splitlines())
    return "\n".join(part for parts in lines for part in parts)


def fitting_text(content: Any) -> str:
    """A renderable as plain text that is no wider than the screen."""
    return render(content, screen_width())


def print_fitting(content: Any) -> None:
    """Prints a renderable: in colours on a terminal, else as plain text."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(content)
    else:
        print(fitting_text(content), end="")
