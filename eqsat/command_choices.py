"""Options of the optimizer that are written as text on the command line: rules, terms of the cost model, a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.options import Budget
from ir.diagnostics import Kind, fail


def names_in(words: Sequence[str] | None) -> list[str] | None:
    """The names of an option that may be repeated and may have commas; None if it is not given."""
    if words is None:
        return None
    return [name for word in words for name in map(str.strip, word.split(",")) if name]


def budget_in(text: str | None) -> Budget | None:
    """The budget of `nodes=50000,seconds=2`; None if there is no text.

    Raises:
        EqsatError: InvalidOption for an unknown limit, or for a value that is no number.
    """
    if text is None:
        return None
    limits: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = map(str.strip, part.partition("="))
        try:
            limits[name] = float(value) if name == "seconds" else int(value)
        except ValueError:
            limits[name] = None
        if name not in Budget.__struct_fields__ or limits[name] is None:
            hint = ", ".join(f"{limit}=…" for limit in Budget.__struct_fields__)
            fail(Kind.INVALID_OPTION, "options", f"{part.strip()!r} is no limit of a budget", hint=hint)
    return Budget(**limits)
