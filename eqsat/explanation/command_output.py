"""Output of the commands `eqsat explain` and `eqsat explore`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.explanation.explore import Exploration
from eqsat.explanation.kernel_by_name import Wanted
from ir.serde import to_builtins

if TYPE_CHECKING:
    from eqsat.runtime.program import Program


def kernel_argument(word: str | None) -> Wanted | None:
    """A kernel named on a command line: a number is its place, other words are names."""
    return int(word) if word is not None and word.lstrip("-").isdecimal() else word


def explain(program: Program, kernel: Wanted | None, pair: Sequence[Wanted | None] | None, as_json: bool) -> None:
    """Print an explanation of all kernels, of one, or why a pair was not fused."""
    if pair is not None:
        first, second = (kernel for kernel in pair if kernel is not None)
        answer = program.why_not(first, second)
        print(json.dumps(to_builtins(answer), indent=2) if as_json else answer)
    elif as_json:
        print(json.dumps(program.explained(kernel), indent=2))
    else:
        _print(program.explanation(kernel))


def explore_model(model: str, **keywords: Any) -> Exploration:
    """The exploration of a model, or of a saved program."""
    from eqsat.api import load
    from eqsat.explanation.explore import explore
    from eqsat.runtime.store import is_saved

    return load(model).explore() if is_saved(Path(model)) else explore(model, **keywords)


def show(run: Exploration, other: Exploration | None, as_json: bool) -> None:
    """Print the run, or its comparison with another run."""
    if as_json:
        data = run.data()
        if other is not None:
            data = {"run": data, "without": other.data(), "comparison": to_builtins(run.compare(other))}
        print(json.dumps(data, indent=2))
    else:
        _print(run.view() if other is None else run.compare(other).view())


def _print(content: Any) -> None:
    """In colours and as wide as the terminal; plain text if the output is no terminal."""
    from rich.console import Console

    from eqsat.explanation.explain import render

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(content)
    else:
        print(render(content), end="")
