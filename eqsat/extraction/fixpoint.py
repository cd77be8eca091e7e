"""Iteration to a fixpoint, in the order of a worklist."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence


def to_fixpoint(order: Sequence[int], readers: Mapping[int, Iterable[int]], improve: Callable[[int], bool]) -> None:
    """Call `improve` on every node, and again on the readers of every node that changed, until no node changes.

    Of the nodes that wait, the first in `order` is next. `improve` returns whether its node changed. Readers that are
    not in `order` are left out.
    """
    place = {node: position for position, node in enumerate(order)}
    queue = list(range(len(order)))
    queued = set(queue)
    while queue:
        position = heapq.heappop(queue)
        queued.discard(position)
        if improve(order[position]):
            for reader in readers.get(order[position], ()):
                again = place.get(reader)
                if again is not None and again not in queued:
                    queued.add(again)
                    heapq.heappush(queue, again)
