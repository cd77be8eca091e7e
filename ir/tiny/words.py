"""The words of Tiny text: how ids, names, strings and numbers are written so that they read back."""

from __future__ import annotations

import json
import re
from typing import Any

_ID = r"(?:[\w.$'-]|/(?!/))+"
STRING = r'"(?:\\.|[^"\\\n])*"'
ID = rf"(?:{_ID}|{STRING})"
"""An id after its % or @."""
WORD = r"[^\W\d][\w.]*'*"
NUMBER = r"[+-]?(?:(?:inf|nan)(?![\w.'])|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
NOTHING = "_"
"""In place of the name of an axis without one."""

_PLAIN_ID = re.compile(rf"{_ID}\Z")
_PLAIN_WORD = re.compile(rf"{WORD}\Z")
_RESERVED = ("true", "false", "inf", "nan", NOTHING)


def id_text(ref: str) -> str:
    """An id or the name of a graph without its % or @: quoted if it has other characters than letters, digits,
    underscores and . / $ ' -."""
    return ref if _PLAIN_ID.match(ref) else string_text(ref)


def word_text(word: str) -> str:
    """A name: quoted if it would not read back as that name."""
    return word if _PLAIN_WORD.match(word) and word not in _RESERVED else string_text(word)


def string_text(text: str) -> str:
    """A string in quotes, with JSON's escapes."""
    return json.dumps(text, ensure_ascii=False)


def value_text(value: Any) -> str:
    """The value of an attribute: a number, a name, None, or a tuple of values. The text of a float has a point, an
    exponent, or is inf or nan."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if value is None:
        return NOTHING
    return word_text(value) if isinstance(value, str) else str(value).lower()
