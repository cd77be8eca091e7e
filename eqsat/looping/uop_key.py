"""When two uops compute the same: uop, operands and attributes agree."""

from __future__ import annotations

from collections.abc import Iterable

from ir.tiny.graph import Imm, Node


def uop_key(node: Node, operands: Iterable[object]) -> object:
    """Equal for uops that compute the same from equal operands. operands: in place of the uop's own. Names of axes,
    tags and calls do not count. Numbers count by their texts, which tell 0.0 from -0.0."""
    src = tuple(repr(read.value) if isinstance(read, Imm) else (read,) for read in operands)
    return node.uop, src, tuple((key, _exact(value)) for key, value in node.arg.items() if key != "names")


def _exact(value: object) -> object:
    return repr(value) if isinstance(value, bool | int | float) else (value,)
