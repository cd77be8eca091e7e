"""Diagnostics in the words of the command line: keywords of the library are options of the verb at hand there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ir.diagnostics import Diagnostic, Kind

_KEYWORD = re.compile(r"""\b(?P<name>[a-z]\w*)=(?:True\b|(?P<quote>["'])(?P<value>[^"']*)(?P=quote)|(?=[\s,;(]|$))""")
"""`emulate=True`, `target="cpu"`, or a keyword by itself: `threads=`."""


_OTHERWISE = {"dim": "dims"}
"""Parameters of verbs whose keyword has another name."""


def options_of(verb: Any) -> dict[str, str]:
    """How a verb of Typer spells its options, by the keywords of the library."""
    spelled = {each.name: max(each.opts, key=len) for each in getattr(verb, "params", ())}
    return {_OTHERWISE.get(name, name): option for name, option in spelled.items() if option.startswith("--")}


def in_words_of(options: Mapping[str, str], diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic for a user of a verb. What its hint advises by keywords that are no options of the verb, one piece
    of advice after the other with semicolons between them, is left out.

    options: those of the verb, as `options_of` gives them.
    """
    missing = diagnostic.details.get("missing", ())
    if diagnostic.kind is Kind.UNBOUND_DIM and missing:
        return msgspec.structs.replace(diagnostic, hint=" ".join(f"-d {name}=SIZE" for name in missing))
    advice = [each for each in (diagnostic.hint or "").split("; ") if _can_follow(options, each)]
    return msgspec.structs.replace(
        diagnostic, message=_spelled(options, diagnostic.message), hint=_spelled(options, "; ".join(advice)) or None
    )


def _can_follow(options: Mapping[str, str], advice: str) -> bool:
    return all(found["name"] in options for found in _KEYWORD.finditer(advice))


def _spelled(options: Mapping[str, str], text: str) -> str:
    def option(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name not in options:
            return found[0]
        return options[name] if value is None else f"{options[name]} {value}"

    return _KEYWORD.sub(option, text)
