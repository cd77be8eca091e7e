"""Structures up to the buffers at their leaves: what the blocks of a deep model have in common."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple


class Shape(NamedTuple):
    """A structure over buffers.

    number   equal for structures that differ in their buffers only
    buffers  in corresponding places for equal numbers: by first appearance
    """

    number: int
    buffers: tuple[int, ...]

    def over(self, renamed: Mapping[int, int]) -> Shape:
        """The same over other buffers."""
        return Shape(self.number, tuple([renamed[buffer] for buffer in self.buffers]))


def leaf(buffer: int) -> Shape:
    """A buffer alone."""
    return Shape(-1, (buffer,))


class Shapes:
    """Numbers structures as they are built, from their parts."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def joined(self, label: Hashable, parts: Sequence[Shape]) -> Shape:
        """The structure that `label` makes of these; which of their buffers are the same belongs to it."""
        if len(parts) == 1:
            return Shape(self._number((label, parts[0].number)), parts[0].buffers)
        places: dict[int, int] = {}
        joints = [
            (part.number, tuple([places.setdefault(buffer, len(places)) for buffer in part.buffers])) for part in parts
        ]
        return Shape(self._number((label, *joints)), tuple(places))

    def _number(self, structure: Hashable) -> int:
        return self._numbers.setdefault(structure, len(self._numbers))
