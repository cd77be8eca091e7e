"""Index expressions as C: for one element, and for each lane of a register.

    i0 + 256*(i1//3)        i0 + 256 * (i1 / 3)
    (767*i0 + i1)//768      (767 * (int)i0 + (int)i1) / 768 + ((767 * (int)i0 + (int)i1) % 768 + l >= 768)

The second one is of lane `l`, and lanes advance i1. Where the divisor exceeds what they advance, a quotient grows by at
most one: the lanes share a division, and a CPU compares all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir.index.expr import AxisExpr
from ir.index.linear import sum_text
from ir.kernel.nodes import Variable, Within

_INT = 1 << 31
"""C's int holds what is below."""


class IndexToC:
    """The indices of one kernel in C. names: of its variables. lanes: of a register.

    The numerator of a floor division is never negative in a lane that is read, so that C's division is right. Where
    lanes that share a division begin below 0, C's quotient of the first one is 0, as in all of them that are read.
    """

    def __init__(self, variables: Sequence[Variable], names: Sequence[str], lanes: int) -> None:
        self._variables, self._names, self._lanes = variables, names, lanes

    def of(self, expr: AxisExpr) -> str:
        """The expression in C."""
        return self._text(expr, self._names, None)

    def each_lane(self, expr: AxisExpr, variable: int) -> str:
        """The expression at lane `l`, by which the variable is advanced: in C's int if that holds all that is added up,
        since a CPU computes more of these at once."""
        names = [f"(int){name}" for name in self._names] if self._is_short(expr) else self._names
        return self._text(expr, names, variable)

    def within(self, condition: Within, variable: int | None = None) -> str:
        """The condition in C; at lane `l`, by which a variable is advanced."""
        text = self.of(condition.expr) if variable is None else self.each_lane(condition.expr, variable)
        return f"{condition.low} <= {text} && {text} < {condition.high}"

    def _text(self, expr: AxisExpr, names: Sequence[str], lane: int | None) -> str:
        terms = []
        for term, c in expr.terms:
            if isinstance(term, int):
                terms.append((c, f"({names[term]} + l)" if term == lane else names[term]))
            else:
                text = self._quotient(term.expr, term.divisor, names, lane)
                terms.append((c, f"({text})" if c != 1 else text))
        return sum_text(terms, expr.const, " * ")

    def _quotient(self, numerator: AxisExpr, divisor: int, names: Sequence[str], lane: int | None) -> str:
        """The quotient. Lanes share the quotient of the first lane, and add one from the lane on that reaches the next
        multiple of the divisor, if at most one is reached."""
        step = numerator.coeff(lane) if lane is not None else None
        if step and 0 < step * (self._lanes - 1) < divisor:
            first = self._operand(numerator, names, None)
            advanced = "l" if step == 1 else f"{step} * l"
            return f"{first} / {divisor} + ({first} % {divisor} + {advanced} >= {divisor})"
        return f"{self._operand(numerator, names, lane)} / {divisor}"

    def _operand(self, expr: AxisExpr, names: Sequence[str], lane: int | None) -> str:
        text = self._text(expr, names, lane)
        is_bare = not expr.const and [c for _, c in expr.terms] == [1] and isinstance(expr.terms[0][0], int)
        return text if is_bare else f"({text})"

    def _is_short(self, expr: AxisExpr) -> bool:
        """Whether C's int holds an index in all lanes, and all that is added up for it."""
        return _reach(expr, self._variables, self._lanes) < _INT


def _reach(expr: AxisExpr, variables: Sequence[Variable], lanes: int) -> int:
    """The largest size of a sum on the way to an index."""
    reaches = [
        max(abs(variables[term].low), abs(variables[term].high)) + lanes
        if isinstance(term, int)
        else _reach(term.expr, variables, lanes)
        for term, _ in expr.terms
    ]
    sums = abs(expr.const) + sum(abs(c) * reach for (_, c), reach in zip(expr.terms, reaches, strict=True))
    return max([sums, *reaches])
