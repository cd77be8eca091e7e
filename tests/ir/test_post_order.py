"""Depth-first order: what a recursive walk gives, at any depth."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ir.post_order import post_order

GRAPHS = st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=8, max_size=8)


def recursive(graph: Mapping[int, list[int]], roots: list[int]) -> list[int]:
    done: list[int] = []
    entered: set[int] = set()

    def visit(node: int) -> None:
        if node not in entered:
            entered.add(node)
            for child in graph[node]:
                visit(child)
            done.append(node)

    for root in roots:
        visit(root)
    return done


@given(GRAPHS, st.lists(st.integers(0, 7), max_size=4))
def test_is_the_order_of_a_recursive_walk(edges: list[list[int]], roots: list[int]) -> None:
    graph = dict(enumerate(edges))
    assert post_order(roots, graph.__getitem__) == recursive(graph, roots)


def test_depth_is_not_pythons() -> None:
    depth = 100_000
    assert post_order([depth], lambda n: [n - 1] if n else []) == list(range(depth + 1))
