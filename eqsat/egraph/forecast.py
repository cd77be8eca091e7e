"""How often rules would match in an e-graph, at most: known before they run, for no search of the engine can be
stopped.

The matches of a pattern are counted from its leaves up, class by class, without listing them: a class has as many as
its nodes have, and a node as many as the product over its operands. Texts that have to agree, facts and primitives are
not asked for, so there may be fewer matches, never more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.egglog_text import joined_tables
from eqsat.egraph.engine import Row
from ir.term.language import CTORS, App, Term, Var, sort_of, substitute, subterms
from ir.term.rule import Rule

Counts = NDArray[np.float64]
"""A number for every class; floats, since they may pass any integer."""


class Forecast:
    """The matches that patterns can have in an e-graph with these rows in its constructors' tables."""

    def __init__(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._codes: dict[int | str, int] = {}
        self._columns = {name: self._coded(name, rows[name]) for name in CTORS}
        self._classes = 1 + max((int(each.max()) for name in CTORS for each in self._classes_of(name)), default=0)
        self._counted: dict[Term, Counts] = {}

    def of(self, rule: Rule) -> float:
        """The most matches that a rule, or a table that it joins, can have."""
        tables = (table.columns[0] for table in joined_tables(rule))
        parts = [self.total(each) for each in tables if isinstance(each, App)]
        return max([self._together(rule.patterns), *parts])

    def total(self, pattern: App) -> float:
        """The most matches that a pattern can have."""
        return float(self._count(pattern).sum())

    def _together(self, patterns: Sequence[App]) -> float:
        """The most matches that patterns can have side by side: each further one meets the first where both have the
        same part or variable, and only there."""
        first, *others = patterns
        found = self.total(first)
        for other in others:
            shared = [each for each in _joints(other) if each in {*_joints(first)}]
            most = [float(self._at(other, each).max(initial=0.0)) for each in shared]
            found *= min(most, default=self.total(other))
        return found

    def _count(self, pattern: Term) -> Counts:
        """The matches of a pattern whose root is each class."""
        plain = _without_names(pattern)
        if plain not in self._counted:
            self._counted[plain] = self._count_nodes(plain)
        return self._counted[plain]

    def _count_nodes(self, pattern: Term) -> Counts:
        if not isinstance(pattern, App):
            return np.ones(self._classes)
        return self._summed(self._columns[pattern.ctor.name][-1], self._weights(pattern))

    def _weights(self, pattern: App, left_out: Term | None = None) -> Counts:
        """The matches of a pattern at each node of its constructor, as if one operand were any."""
        columns = self._columns[pattern.ctor.name]
        weights = np.ones(len(columns[-1]))
        for column, arg in zip(columns, pattern.args, strict=False):
            if isinstance(arg, str | int):
                weights *= column == self._codes.get(arg, -1)
            elif isinstance(arg, App) and arg is not left_out:
                weights *= self._count(arg)[column]
        return weights

    def _at(self, pattern: App, part: Term) -> Counts:
        """The matches of a pattern in which a part of it is each class."""
        if pattern == part:
            return self._count(pattern)
        path = _path(pattern, part)
        above = np.ones(self._classes)
        for holder, place, inside in path:
            columns = self._columns[holder.ctor.name]
            weights = self._weights(holder, inside) * above[columns[-1]]
            above = self._summed(columns[place], weights)
        return above * self._count(part)

    def _summed(self, classes: NDArray[np.int64], weights: Counts) -> Counts:
        """The sum of the weights of each class."""
        return np.bincount(classes, weights, self._classes).astype(np.float64)

    def _coded(self, name: str, rows: Sequence[Row]) -> list[NDArray[np.int64]]:
        """The columns of a table, its values last; a text or an integer is a code."""
        sorts = (*CTORS[name].args, CTORS[name].result)
        columns = list(zip(*((*args, value) for args, value in rows), strict=True)) or [()] * len(sorts)
        return [
            np.array([self._code(each) for each in column] if not sort.is_class else column, np.int64)
            for sort, column in zip(sorts, columns, strict=True)
        ]

    def _code(self, text: int | str) -> int:
        return self._codes.setdefault(text, len(self._codes))

    def _classes_of(self, name: str) -> Iterator[NDArray[np.int64]]:
        """The columns of a table that hold classes."""
        sorts = (*CTORS[name].args, CTORS[name].result)
        for sort, column in zip(sorts, self._columns[name], strict=True):
            if sort.is_class and len(column):
                yield column


def _joints(pattern: App) -> list[Term]:
    """The parts and variables of a pattern that are classes."""
    return [each for each in subterms(pattern) if isinstance(each, App | Var) and sort_of(each).is_class]


def _path(pattern: App, part: Term) -> list[tuple[App, int, Term]]:
    """The way down to a part: each pattern on it, and the place and the operand that come next."""
    for place, arg in enumerate(pattern.args):
        if arg == part:
            return [(pattern, place, arg)]
        if isinstance(arg, App) and (below := _path(arg, part)):
            return [(pattern, place, arg), *below]
    return []


def _without_names(pattern: Term) -> Term:
    """A pattern in which variables of a sort have one name: it is counted once for all that look like it."""
    inside = [each for each in subterms(pattern) if isinstance(each, Var)]
    return substitute(pattern, {each.name: Var(f"any{each.sort.value}", each.sort) for each in inside})
