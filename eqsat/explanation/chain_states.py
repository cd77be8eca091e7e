"""The term of a kernel before and after every step of its chain, as graphs that a page draws."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from eqsat.explanation.chain import Chain, chain_in, notation_of
from eqsat.explanation.history import LONGEST, Derivation, History
from eqsat.explanation.notation import Notation
from eqsat.runtime.kernel_term import KernelTerm
from ir.module.module import KernelCall

MOST_NODES = 120
"""Larger terms are not drawn."""


class ChainStates(msgspec.Struct, frozen=True):
    """The terms of a chain as one graph.

    labels, children: of every node; children are numbers of nodes. roots: the node of the whole term before each step,
    and after the last one. changes: of each step, the nodes of the rewritten term and of what it became.
    """

    labels: tuple[str, ...]
    children: tuple[tuple[int, ...], ...]
    roots: tuple[int, ...]
    changes: tuple[tuple[int, int], ...]


def chain_with_states(
    history: History, call: KernelCall, term: KernelTerm, output: int = 0
) -> tuple[Chain, ChainStates | None]:
    """The chain of one output of a kernel, and its terms; None instead of terms that are too large to draw.

    Raises:
        EqsatError: as `History.derivation`.
    """
    derivation = history.derivation(call, term, output)
    notation = notation_of(history, derivation)
    chain = chain_in(derivation, notation, call.writes[output])
    return chain, _states(derivation, chain, notation)


def _states(derivation: Derivation, chain: Chain, notation: Notation) -> ChainStates | None:
    if len(derivation.rewrites) > LONGEST:
        return None
    wholes = derivation.wholes()
    ends = [0]
    for step in chain.steps:
        ends.append(ends[-1] + step.times)
    drawn = _TermGraph(derivation, notation)
    roots = tuple(drawn.number(wholes[end]) for end in ends)
    if any(drawn.size(root) > MOST_NODES for root in roots):
        return None
    firsts = [derivation.rewrites[first] for first, _ in pairwise(ends)]
    changes = tuple((drawn.number(rewrite.before), drawn.number(rewrite.after)) for rewrite in firsts)
    return ChainStates(tuple(drawn.labels), tuple(drawn.children), roots, changes)


class _TermGraph:
    """Numbers the terms of a derivation, and labels each by its root alone. Named tensors are leaves."""

    def __init__(self, derivation: Derivation, notation: Notation) -> None:
        self.labels: list[str] = []
        self.children: list[tuple[int, ...]] = []
        self._names, self._nodes = derivation.names, derivation.replay.nodes
        self._outermost = derivation.start, derivation.end
        self._notation = notation.with_marks()
        self._numbers: dict[int, int] = {}

    def number(self, term: int) -> int:
        """The number of a term, whose operands are numbered before it."""
        waiting = [term]
        while waiting:
            top = waiting[-1]
            below = self._operands(top)
            if missing := [child for child in below if child not in self._numbers]:
                waiting.extend(missing)
                continue
            waiting.pop()
            if top not in self._numbers:
                self._numbers[top] = len(self.labels)
                self.labels.append(self._label(top))
                self.children.append(tuple(self._numbers[child] for child in below))
        return self._numbers[term]

    def size(self, root: int) -> int:
        """The number of nodes that a numbered term has."""
        seen, waiting = {root}, [root]
        while waiting:
            fresh = [child for child in self.children[waiting.pop()] if child not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
        return len(seen)

    def _is_leaf(self, term: int) -> bool:
        return term in self._names and term not in self._outermost

    def _operands(self, term: int) -> Sequence[int]:
        node = self._nodes[term]
        if self._is_leaf(term) or (node.ctor == "Load" and self._is_leaf(node.buffer)):
            return ()
        return list(dict.fromkeys(node.children))

    def _label(self, term: int) -> str:
        node = self._nodes[term]
        if node.ctor in ("Store", "Fin") and not self._is_leaf(term):
            return {"Store": "store", "Fin": "finish"}[node.ctor]
        return self._notation(term, depth=1)
