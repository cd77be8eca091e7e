"""Sizes on the command line: `-d batch=4`, `-d batch=1,4,8`, `-d batch=1..64`, `-d batch=64..512..64`, and sizes that
follow from others: `-d total=past+1`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from eqsat.serving.buckets import Buckets, check_symbols, split_dims, split_related
from eqsat.serving.preparation import MOST_SIZES, combinations
from ir.diagnostics import Kind, fail
from ir.tiny.size_expr import SizeExpr, parse_size

FORMS = "NAME=SIZE, NAME=SIZE,SIZE,…, NAME=FIRST..LAST (or FIRST..LAST..STEP) or NAME=OTHER+SIZE"
"""The forms of a dim, for messages."""
_SIZES = re.compile(r"\d+(,\d+)*")
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?:\.\.(\d+))?")

CommandDims = Mapping[str, int | Buckets | str]
"""Sizes by symbol, as `dims=` takes them."""


def sizes_of(text: str) -> int | Buckets | str | None:
    """The size, or the sizes, that a text names; the text itself if it is an expression of other sizes; None if it is
    none.

    Raises:
        EqsatError: ResourceExceeded for more sizes than can be prepared.
    """
    if _SIZES.fullmatch(text):
        sizes = [int(size) for size in text.split(",")]
        return sizes[0] if len(sizes) == 1 else Buckets(*sizes)
    match = _RANGE.fullmatch(text)
    if match is None:
        expr = parse_size(text)
        return text if expr is not None and expr.symbols else None
    first, last, step = (int(part or 1) for part in match.groups())
    if first > last or not step:
        return None
    count = (last - first) // step + 1
    if count > MOST_SIZES:
        message = f"{text} are {count} sizes, and {MOST_SIZES} are the most"
        fail(Kind.RESOURCE_EXCEEDED, "dims", message, hint=f"{first}..{last}..{-(-count // MOST_SIZES) * step}")
    return Buckets(*range(first, last + 1, step))


def read_dims(given: Sequence[str] | None) -> CommandDims:
    """The sizes of all `-d` options.

    Raises:
        typer.BadParameter: for an option that is no name with sizes, and for a name that is given twice.
    """
    import typer

    dims: dict[str, int | Buckets | str] = {}
    for dim in given or ():
        name, equals, text = dim.partition("=")
        sizes = sizes_of(text) if name and equals else None
        if sizes is None:
            raise typer.BadParameter(f"{dim!r} is not {FORMS}", param_hint="--dim")
        if name in dims:
            raise typer.BadParameter(f"{name} is given twice", param_hint="--dim")
        dims[name] = sizes
    return dims


def single_sizes(dims: CommandDims, verb: str) -> dict[str, int]:
    """The dims of a command that works at one size of every symbol.

    Raises:
        EqsatError: InvalidOption if a symbol has several sizes.
    """
    rest, related = split_related(dims)
    one, several = split_dims(rest)
    for name, sizes in several.items():
        hint = f"-d {name}={sizes[0]}; compile, show, profile and check take several"
        fail(Kind.INVALID_OPTION, verb, f"eqsat {verb} takes one size of {name}, not {len(sizes)}", hint=hint)
    return _complete(one, related)


def each_combination(dims: CommandDims) -> list[dict[str, int]]:
    """Every combination of the sizes; a single, empty one for no dims.

    Raises:
        EqsatError: ResourceExceeded for more combinations than can be prepared.
    """
    rest, related = split_related(dims)
    return [_complete(sizes, related) for sizes in combinations(rest, {}, list(rest))]


def several_symbols(dims: CommandDims) -> tuple[str, ...]:
    """The symbols with several sizes."""
    return tuple(split_dims(dims)[1])


def _complete(sizes: Mapping[str, int], related: Mapping[str, SizeExpr]) -> dict[str, int]:
    """The sizes, with those that follow from them.

    Raises:
        EqsatError: InvalidOption if one follows from a size that is not given.
    """
    check_symbols([symbol for expr in related.values() for symbol in expr.symbols], sizes, "-d")
    return {**sizes, **{symbol: expr.at(sizes) for symbol, expr in related.items()}}


def title_of(sizes: Mapping[str, int], shown: Sequence[str]) -> str:
    """The sizes of some symbols in words: `batch=4, seq=128`."""
    return ", ".join(f"{name}={sizes[name]}" for name in shown)
