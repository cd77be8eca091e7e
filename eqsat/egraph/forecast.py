"""An upper bound on the matches of rules in an e-graph. It is needed before they run, because no search of the engine
can be stopped.

The matches of a pattern are counted from its leaves up, class by class, without listing them: a class has the sum over
its nodes, a node the product over its operands. Equality of texts, facts and primitives are ignored, so the bound is
never too small.
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
"""A number per class; floats, because the counts can exceed any integer type."""


class Forecast:
    """The matches that patterns can have in an e-graph with these rows in the tables of its constructors."""

    def __init__(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._codes: dict[int | str, int] = {}
        self._columns = {name: self._encode(name, rows[name]) for name in CTORS}
        self._classes = 1 + max((int(column.max()) for name in CTORS for column in self._classes_of(name)), default=0)
        self._counts: dict[Term, Counts] = {}

    def of(self, rule: Rule) -> float:
        """An upper bound on the matches of a rule, and of any table that it joins."""
        tables = (table.columns[0] for table in joined_tables(rule))
        parts = [self.total(pattern) for pattern in tables if isinstance(pattern, App)]
        return max([self._total_of_all(rule.patterns), *parts])

    def total(self, pattern: App) -> float:
        """An upper bound on the matches of a pattern."""
        return float(self._count(pattern).sum())

    def _total_of_all(self, patterns: Sequence[App]) -> float:
        """An upper bound on the matches of several patterns together. Each further pattern is joined with the first
        through one part or variable that both have."""
        first, *others = patterns
        bound = self.total(first)
        for other in others:
            shared = [part for part in _class_terms(other) if part in {*_class_terms(first)}]
            most = [float(self._at(other, part).max(initial=0.0)) for part in shared]
            bound *= min(most, default=self.total(other))
        return bound

    def _count(self, pattern: Term) -> Counts:
        """The matches of a pattern by the class of its root."""
        plain = _without_names(pattern)
        if plain not in self._counts:
            self._counts[plain] = self._count_nodes(plain)
        return self._counts[plain]

    def _count_nodes(self, pattern: Term) -> Counts:
        if not isinstance(pattern, App):
            return np.ones(self._classes)
        return self._sum_by_class(self._columns[pattern.ctor.name][-1], self._weights(pattern))

    def _weights(self, pattern: App, left_out: Term | None = None) -> Counts:
        """The matches of a pattern at each node of its constructor; the operand `left_out` matches anything."""
        columns = self._columns[pattern.ctor.name]
        weights = np.ones(len(columns[-1]))
        for column, arg in zip(columns, pattern.args, strict=False):
            if isinstance(arg, str | int):
                weights *= column == self._codes.get(arg, -1)
            elif isinstance(arg, App) and arg is not left_out:
                weights *= self._count(arg)[column]
        return weights

    def _at(self, pattern: App, part: Term) -> Counts:
        """The matches of a pattern by the class of one of its parts."""
        if pattern == part:
            return self._count(pattern)
        path = _path(pattern, part)
        above = np.ones(self._classes)
        for holder, place, inside in path:
            columns = self._columns[holder.ctor.name]
            weights = self._weights(holder, inside) * above[columns[-1]]
            above = self._sum_by_class(columns[place], weights)
        return above * self._count(part)

    def _sum_by_class(self, classes: NDArray[np.int64], weights: Counts) -> Counts:
        """The sum of the weights by class."""
        return np.bincount(classes, weights, self._classes).astype(np.float64)

    def _encode(self, name: str, rows: Sequence[Row]) -> list[NDArray[np.int64]]:
        """The columns of a table, values last; texts and integers are replaced by codes."""
        sorts = (*CTORS[name].args, CTORS[name].result)
        columns = list(zip(*((*args, value) for args, value in rows), strict=True)) or [()] * len(sorts)
        return [
            np.array([self._code(text) for text in column] if not sort.is_class else column, np.int64)
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


def _class_terms(pattern: App) -> list[Term]:
    """The parts and variables of a pattern that stand for classes."""
    return [term for term in subterms(pattern) if isinstance(term, App | Var) and sort_of(term).is_class]


def _path(pattern: App, part: Term) -> list[tuple[App, int, Term]]:
    """The path down to a part: at each step the pattern, and the place and the operand to go to."""
    for place, arg in enumerate(pattern.args):
        if arg == part:
            return [(pattern, place, arg)]
        if isinstance(arg, App) and (below := _path(arg, part)):
            return [(pattern, place, arg), *below]
    return []


def _without_names(pattern: Term) -> Term:
    """A pattern with one variable name per sort, so that similar patterns are counted once."""
    inside = [var for var in subterms(pattern) if isinstance(var, Var)]
    return substitute(pattern, {var.name: Var(f"any{var.sort.value}", var.sort) for var in inside})
