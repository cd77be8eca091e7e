"""Rewords diagnostics for the command line, where keywords of the library become options of a verb."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from eqsat.planning.tuning import STAGE as TUNING_STAGE
from eqsat.planning.tuning import UNCHANGED
from eqsat.serving.preparation import STAGE as PREPARE_STAGE
from ir.diagnostics import Diagnostic, Kind
from ir.grammar import with_count

_KEYWORD = re.compile(r"""\b(?P<name>[a-z]\w*)=(?:True\b|(?P<quote>["'])(?P<value>[^"']*)(?P=quote)|(?=[\s,;(]|$))""")
"""`emulate=True`, `target="cpu"`, or a keyword by itself: `threads=`."""

_OTHERWISE = {"dim": "dims"}
"""Parameters of verbs with another name than the library's keyword."""


def options_of(verb: Any) -> dict[str, str]:
    """The options of a Typer verb, by the library's keywords."""
    names = {parameter.name: max(parameter.opts, key=len) for parameter in getattr(verb, "params", ())}
    return {_OTHERWISE.get(name, name): option for name, option in names.items() if option.startswith("--")}


def in_words_of(options: Mapping[str, str], diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic for a user of a verb. A hint consists of pieces of advice, separated by semicolons; a piece with a
    keyword that is no option of the verb is left out.

    options: of the verb, from `options_of`.
    """
    missing = diagnostic.details.get("missing", ())
    if missing and (diagnostic.kind is Kind.UNBOUND_DIM or diagnostic.stage == PREPARE_STAGE):
        return msgspec.structs.replace(diagnostic, hint=" ".join(f"-d {name}=SIZE" for name in missing))
    advice = [piece for piece in (diagnostic.hint or "").split("; ") if _can_follow(options, piece)]
    return msgspec.structs.replace(
        diagnostic,
        message=with_options(options, diagnostic.message),
        hint=with_options(options, "; ".join(advice)) or None,
    )


def tuned_text(diagnostics: Iterable[Diagnostic]) -> tuple[str, list[Diagnostic]]:
    """The changes that autotuning made, one line in all, one per changed kernel and one for another cover; "" if
    nothing was tuned; and the other diagnostics."""
    tuned: list[Diagnostic] = []
    others: list[Diagnostic] = []
    for diagnostic in diagnostics:
        (tuned if diagnostic.kind is Kind.TUNED and diagnostic.stage == TUNING_STAGE else others).append(diagnostic)
    if not tuned:
        return "", others
    covers = [f"  the cover is {diagnostic.message}" for diagnostic in tuned if diagnostic.at is None]
    kernels = [diagnostic for diagnostic in tuned if diagnostic.at is not None]
    changed = [
        f"  {diagnostic.at}: {diagnostic.message}"
        for diagnostic in kernels
        if not diagnostic.message.endswith(UNCHANGED)
    ]
    head = f"autotuned: {len(changed)} of {with_count(len(kernels), 'kernel')} have another plan than the estimate's"
    return "\n".join([f"{head} choice", *covers, *changed]), others


def _can_follow(options: Mapping[str, str], advice: str) -> bool:
    return all(match["name"] in options for match in _KEYWORD.finditer(advice))


def with_options(options: Mapping[str, str], text: str) -> str:
    """The text with options in the place of keywords."""

    def option(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        if name not in options:
            return match[0]
        return options[name] if value is None else f"{options[name]} {value}"

    return _KEYWORD.sub(option, text)
