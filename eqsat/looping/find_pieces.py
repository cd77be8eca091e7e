"""Cuts what does not repeat into pieces, so that several processes can optimize a large program at a time.

    a b c │ d e f │ g h       one value is handed over at each cut, which kernels store in any case

Pieces are the same on every machine, however many processes there are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from eqsat.looping.stored import StoredValues
from ir.tiny.graph import Node, Ref

LEAST_UOPS = 60
"""A piece has so many uops that run with the program, at least; movements do not count. An e-graph of its own takes
0.1 s, and 60 uops of convolutions take 1 s."""


def find_pieces(values: StoredValues, taken: Collection[Ref]) -> list[list[Ref]]:
    """The uops of each piece, apart from those that are taken; none where there are no two pieces side by side."""
    nodes = [node for node in values.nodes if node.uop != "INPUT"]
    runs = np.array([node.id not in values.known for node in nodes], bool)
    free = np.array([node.id not in taken for node in nodes], bool)
    if np.count_nonzero(runs & free) < 2 * LEAST_UOPS:
        return []
    narrow = _narrow_places(values, nodes)
    pieces: list[list[Ref]] = []
    for start, end in _stretches(free):
        edges = [start]
        for place in narrow:
            left = np.count_nonzero(runs[edges[-1] : place]) if place > edges[-1] else 0
            if left >= LEAST_UOPS <= np.count_nonzero(runs[place:end]):
                edges.append(place)
        if len(edges) > 1:
            several = zip(edges, [*edges[1:], end], strict=True)
            pieces += ([node.id for node in nodes[first:last]] for first, last in several)
    return pieces


def _stretches(free: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """The ranges of places that are free, each as long as possible."""
    steps = np.diff(np.concatenate(([False], free, [False])).astype(np.int8))
    return list(zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True))


def _narrow_places(values: StoredValues, nodes: Sequence[Node]) -> list[int]:
    """The places between uops over which one value is handed, beside constants: one that kernels store in any case,
    since several accumulators read it. Of several such places of one value, the first."""
    place = {node.id: position for position, node in enumerate(nodes)}
    changes = np.zeros((3, len(nodes) + 2), np.int64)
    for position, node in enumerate(nodes):
        if node.id in values.known:
            continue
        last = max((place[reader] for reader in values.readers[node.id] if reader in place), default=position)
        good = values.is_stored(node.id) and values.accumulators_after(node.id) > 1
        for row, weight in ((0, 1), (1, position), (2, not good)):
            changes[row, position + 1] += weight
            changes[row, last + 1] -= weight
    handed, which, lost = np.cumsum(changes, axis=1)[:, : len(nodes) + 1]
    narrow = np.flatnonzero((handed == 1) & (lost == 0))
    return list({int(which[at]): int(at) for at in reversed(narrow)}.values())[::-1]
