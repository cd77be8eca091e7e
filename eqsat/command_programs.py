"""The programs that the commands work on: made from a model, or loaded from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from eqsat.api import load, optimize_and_compile
from eqsat.command_dims import CommandDims, each_combination, several_symbols, title_of
from eqsat.runtime.program import Program
from eqsat.runtime.store import is_saved


class Choices(NamedTuple):
    """The options of a verb that makes a program, by the library's keywords."""

    target: str = "auto"
    exactness: str = "rounding"
    threads: int | None = None
    emulate: bool = False
    autotune: bool | float = False
    tf32: bool = False
    recompile: bool = False


DEFAULT = Choices()
_OF_MAKING = ("target", "exactness", "autotune", "tf32")
"""The choices that a saved program has made."""


def make_program(model: str, dims: CommandDims, choices: Choices = DEFAULT) -> Program:
    """The program of a model or of a saved file.

    Raises:
        typer.BadParameter: for options that a saved program, or a model, does not take.
    """
    import typer

    if is_saved(Path(model)):
        given = {name: getattr(choices, name) for name in _OF_MAKING}
        refuse_of_saved(model, {"--dim": dims, **given_options(DEFAULT._asdict(), given)})
        return load(model, choices.threads, emulate=choices.emulate, recompile=choices.recompile)
    if choices.recompile:
        raise typer.BadParameter(f"{model} is no saved program", param_hint="--recompile")
    keywords = {name: value for name, value in choices._asdict().items() if name != "recompile"}
    return optimize_and_compile(model, dims=dims, progress=True, **keywords)


def programs_by_size(model: str, dims: CommandDims, choices: Choices) -> Iterator[tuple[str, Program]]:
    """A program for every combination of sizes, with the sizes in words where there are several."""
    shown = several_symbols(dims)
    for sizes in each_combination(dims):
        yield title_of(sizes, shown), make_program(model, sizes, choices)


def prepared(program: Program) -> Iterator[str]:
    """Builds the sizes of a program one by one: it is about these sizes then. Yields the sizes in words."""
    if program.variants or not program.buckets:
        yield ""
        return
    for sizes in each_combination(dict(program.buckets)):
        program.prepare(sizes, progress=True)
        yield title_of(sizes, tuple(sizes))


def given_options(defaults: Mapping[str, Any], choices: Mapping[str, Any]) -> dict[str, bool]:
    """Of each choice, by its option, whether it differs from the default."""
    return {f"--{name.replace('_', '-')}": choice != defaults[name] for name, choice in choices.items()}


def refuse_of_saved(model: str, given: Mapping[str, Any]) -> None:
    """Refuses options that were chosen when a saved program was compiled."""
    if is_saved(Path(model)):
        refuse(given, "a saved program is as it was compiled")


def refuse(options: Mapping[str, Any], message: str) -> None:
    """Refuses the options that are given."""
    import typer

    refused = [option for option, given in options.items() if given]
    if refused:
        raise typer.BadParameter(message, param_hint=refused)
