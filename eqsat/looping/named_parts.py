"""Finds a part of a program by its name."""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.looping.parts import Part, Steps, parts_of
from ir.diagnostics import Kind, fail


def named_parts(steps: Steps) -> dict[str, Part]:
    """The parts by name, in the order of `parts_of`."""
    return {part.name: part for part in parts_of(steps)}


def part_named(parts: Mapping[str, Part], name: str | None, stage: str) -> Part:
    """The part of this name, or the only part.

    Raises:
        EqsatError: InvalidOption, if there is no such part, or if there are several and none is named.
    """
    if name is None and len(parts) == 1:
        (only,) = parts.values()
        return only
    if name is None:
        message = f"this program has an e-graph for each of its {len(parts)} parts"
        fail(Kind.INVALID_OPTION, stage, message, hint=f"part= names one: {', '.join(parts)}")
    if name not in parts:
        fail(Kind.INVALID_OPTION, stage, f"the program has no part {name!r}", hint=", ".join(parts))
    return parts[name]
