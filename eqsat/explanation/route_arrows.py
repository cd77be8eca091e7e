"""The corners of a drawing's arrows: as laid out between frames and within them, and around the boxes of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqsat.explanation.layered_layout import Edge, Layout, Point

SIDE = 8.0
"""Pixels between an arrow and the boxes that it passes."""


@dataclass(frozen=True)
class Router:
    """home: the outer node, a frame, of every box that has one, and of every frame with a name. inner: the layout of
    every frame. outer: that of frames, and of boxes without one; outer_sizes: their sizes. centres, sizes: of boxes."""

    home: Mapping[str, str]
    inner: Mapping[str, Layout]
    outer: Layout
    centres: Mapping[str, Point]
    sizes: Mapping[str, Point]
    outer_sizes: Mapping[str, Point]

    def route(self, edge: Edge) -> list[Point]:
        """The corners of an arrow from a box to a box or a frame."""
        a, b = edge
        source, target = self.home.get(a, a), self.home.get(b, b)
        if source == target:
            return self._within(edge) if b in self.centres else self._back(a, source)
        route = list(self.outer.routes[source, target])
        if a in self.home:
            route[:1] = self._through(a, route[0], source)
        if b in self.home and b in self.centres:
            route[-1:] = self._through(b, route[-1], target)[::-1]
        return route

    def _within(self, edge: Edge) -> list[Point]:
        """An arrow between two boxes of a frame, as laid out there."""
        inside = self.inner[self.home[edge[0]]]
        (x, y), (old_x, old_y) = self.centres[edge[0]], inside.centres[edge[0]]
        return [(corner[0] + x - old_x, corner[1] + y - old_y) for corner in inside.routes[edge]]

    def _back(self, box: str, frame: str) -> list[Point]:
        """An arrow from a box to its own frame, around the right side."""
        (x, y), (_, height) = self.outer.centres[frame], self.outer_sizes[frame]
        right, top = x + self.outer_sizes[frame][0] / 2, y - height / 2
        start, bottom = self._through(box, (self.centres[box][0], y + height / 2), frame)[0], y + height / 2 + SIDE
        under = [(start[0], bottom), (right + SIDE, bottom), (right + SIDE, top + SIDE), (right, top + SIDE)]
        return [start, *under]

    def _through(self, box: str, exit_point: Point, frame: str) -> list[Point]:
        """The corners from a box straight to its frame's border, the lower one if the exit is there; on the right of
        boxes in between."""
        (x, y), half = self.centres[box], self.sizes[box][1] / 2
        is_down = exit_point[1] >= self.outer.centres[frame][1]
        start, border = y + half if is_down else y - half, exit_point[1]
        low, high = sorted((start, border))
        right, step = x, SIDE / 2 if is_down else -SIDE / 2
        hidden = [self._sides(name) for name in self.inner[frame].centres if low < self.centres[name][1] < high]
        while any(left < right < edge for left, edge in hidden):
            right = max(edge for left, edge in hidden if left < right < edge) + SIDE / 2
        return [(x, start), (x, border)] if right == x else [(x, start), (right, start + step), (right, border)]

    def _sides(self, box: str) -> Point:
        """The x of a box's sides, with a pixel of space."""
        x, width = self.centres[box][0], self.sizes[box][0]
        return x - width / 2 - 1, x + width / 2 + 1
