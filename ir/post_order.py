"""Depth-first order without recursion: programs are deeper than Python's stack."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def post_order(roots: Iterable[T], below: Callable[[T], Iterable[T]]) -> list[T]:
    """Everything that the roots reach, once: the nodes below a node before the node, as far as there are no cycles.

    The order is that of a recursive walk from the first root to the last, from the first node below to the last.
    """
    done: list[T] = []
    entered: set[T] = set()
    path: list[tuple[T, Iterator[T]]] = []
    for root in roots:
        if root not in entered:
            entered.add(root)
            path.append((root, iter(below(root))))
        while path:
            node, pending = path[-1]
            for deeper in pending:
                if deeper not in entered:
                    entered.add(deeper)
                    path.append((deeper, iter(below(deeper))))
                    break
            else:
                done.append(node)
                path.pop()
    return done
