"""Names that no other thing has."""

from __future__ import annotations

from collections.abc import Container


def new_name(wish: str, taken: Container[str], mark: str = "_") -> str:
    """`wish`, or with the first number from 2 that makes it unlike the names in `taken`: `dot`, `dot_2`, `dot_3`, ….
    mark: what stands before the number."""
    name, count = wish, 1
    while name in taken:
        count += 1
        name = f"{wish}{mark}{count}"
    return name
