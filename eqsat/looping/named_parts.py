"""Names of the parts of a program: `main` outside of loops, else the name of the loop; `main.2`, … for further ones."""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.looping.parts import Part, PartLoop, Steps
from ir.diagnostics import Kind, fail

MAIN = "main"
"""The name of the first part outside of loops."""


def named_parts(steps: Steps) -> dict[str, Part]:
    """The parts by name, in the order of `parts_of`."""
    parts: dict[str, Part] = {}

    def visit(steps: Steps, home: str) -> None:
        for step in steps:
            if isinstance(step, PartLoop):
                visit(step.steps, step.name)
                continue
            name, count = home, 1
            while name in parts:
                count += 1
                name = f"{home}.{count}"
            parts[name] = step

    visit(steps, MAIN)
    return parts


def part_named(parts: Mapping[str, Part], name: str | None, stage: str) -> Part:
    """The part of this name, or the only part.

    Raises:
        EqsatError: InvalidOption, if there is no such part, or if there are several and none is named.
    """
    if name is None and len(parts) == 1:
        (only,) = parts.values()
        return only
    if name is None:
        message = f"a program with loops has an e-graph for each of its {len(parts)} parts"
        fail(Kind.INVALID_OPTION, stage, message, hint=f"part= names one: {', '.join(parts)}")
    if name not in parts:
        fail(Kind.INVALID_OPTION, stage, f"the program has no part {name!r}", hint=", ".join(parts))
    return parts[name]
