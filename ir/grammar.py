"""The grammar of messages: articles and plurals."""

from __future__ import annotations


def with_article(noun: str) -> str:
    """`noun` after "a" or "an": "an int", "a list"; "u" counts as a consonant, as in "ufunc"."""
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def with_count(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 operand", "2 operands". plural: if it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
