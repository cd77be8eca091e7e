"""Trees up to the buffers at their leaves: what the blocks of a deep model have in common."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple


class Structure(NamedTuple):
    """A tree with its buffers replaced by places, and the buffers.

    number   equal for trees that differ in their buffers only
    buffers  by first appearance: trees of equal numbers have theirs in corresponding places
    """

    number: int
    buffers: tuple[int, ...]

    def over(self, renamed: Mapping[int, int]) -> Structure:
        """The same structure over other buffers."""
        return Structure(self.number, tuple([renamed[buffer] for buffer in self.buffers]))


def leaf(buffer: int) -> Structure:
    """A buffer alone."""
    return Structure(-1, (buffer,))


class Structures:
    """Numbers structures as they are built, from their parts."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def combine(self, label: Hashable, parts: Sequence[Structure]) -> Structure:
        """The structure that `label` makes of these parts; which of their buffers are the same belongs to it."""
        if len(parts) == 1:
            return Structure(self._number((label, parts[0].number)), parts[0].buffers)
        places: dict[int, int] = {}
        numbered = [
            (part.number, tuple([places.setdefault(buffer, len(places)) for buffer in part.buffers])) for part in parts
        ]
        return Structure(self._number((label, *numbered)), tuple(places))

    def _number(self, structure: Hashable) -> int:
        return self._numbers.setdefault(structure, len(self._numbers))
