"""Index expressions as text: with remainders, and in the syntax of Python or C.

i - 4*(i//4)             i % 4
64*i - 1008*(i//16)      64*(i % 16) + 16*(i//16)
2*(i//4) - 16*(i//32)    2*(i//4 % 8)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from ir.index.expr import AxisExpr, Box, FloorDiv, Term, interval
from ir.index.linear import sum_text

Name = Callable[[int], str]
"""The name of a variable by its number."""


class Remainder(msgspec.Struct, frozen=True):
    """expr % modulus."""

    expr: AxisExpr
    modulus: int

    @property
    def plain(self) -> AxisExpr:
        """The remainder as a sum with a floor."""
        return self.expr - AxisExpr(0, ((FloorDiv(self.expr, self.modulus), self.modulus),))


Piece: TypeAlias = "Term | Remainder"


def pieces(expr: AxisExpr) -> tuple[int, list[tuple[int, Piece]]]:
    """(c, [(a, p), …]) with expr = c + Σ a·p. Floors and terms are combined to remainders p where that is simpler."""
    const, terms = expr.const, dict(expr.terms)
    remainders: list[tuple[int, Piece]] = []
    while splits := [
        split for floor in terms if isinstance(floor, FloorDiv) for split in _remainders_with(floor, terms)
    ]:
        left, floor, k, remainder = min(splits, key=lambda split: abs(split[0]))
        for term, times in remainder.expr.terms:
            terms[term] -= k * times
        terms[floor] = left
        const -= k * remainder.expr.const
        remainders.append((k, remainder))
        terms = {term: c for term, c in terms.items() if c}
    return const, [*((c, term) for term, c in terms.items()), *remainders]


def _remainders_with(floor: FloorDiv, terms: dict[Term, int]) -> Iterator[tuple[int, FloorDiv, int, Remainder]]:
    """(left, floor, k, e % m): c·floor plus all terms of k·e equals left·floor + k·(e % m), and |left| < |c|."""
    inner, q, c = floor.expr, floor.divisor, terms[floor]
    first, times = inner.terms[0]
    k, rest = divmod(terms.get(first, 0), times)
    if k and not rest and abs(c + k * q) < abs(c) and all(terms.get(term) == k * n for term, n in inner.terms):
        yield c + k * q, floor, k, Remainder(inner, q)
    for term, k in terms.items():
        if isinstance(term, FloorDiv) and term.expr == inner and q % term.divisor == 0 and q != term.divisor:
            modulus = q // term.divisor
            if abs(c + k * modulus) < abs(c):
                yield c + k * modulus, floor, k, Remainder(AxisExpr(0, ((term, 1),)), modulus)


def multiples(expr: AxisExpr, of: int) -> AxisExpr:
    """The part of an expression that is a multiple of `of` for all values of the variables."""
    const, parts = pieces(expr)
    total = AxisExpr(const // of * of)
    for c, piece in parts:
        if c % of == 0:
            total += (piece.plain if isinstance(piece, Remainder) else AxisExpr(0, ((piece, 1),))) * c
    return total


def bounds(expr: AxisExpr, box: Box) -> tuple[int, int]:
    """Bounds (inclusive) of the values over the box: `interval`'s, tightened by the bounds of its pieces."""
    low, high = interval(expr, box)
    if expr.is_affine:
        return low, high
    const, parts = pieces(expr)
    first = last = const
    for c, piece in parts:
        ends = [c * end for end in _range(piece, box)]
        first, last = first + min(ends), last + max(ends)
    return max(low, first), min(high, last)


def _range(piece: Piece, box: Box) -> tuple[int, int]:
    if isinstance(piece, Remainder):
        low, high = bounds(piece.expr, box)
        return (low, high) if low >= 0 and high < piece.modulus else (0, piece.modulus - 1)
    if isinstance(piece, FloorDiv):
        low, high = bounds(piece.expr, box)
        return low // piece.divisor, high // piece.divisor
    return box[piece]


class Writing:
    """Writes indices in a language. `divide` and `times` are its operators; `wide` is written after a coefficient if
    the product must be computed in 64 bits."""

    def __init__(self, name: Name, divide: str = "//", times: str = "*", wide: str = "") -> None:
        self.name, self.divide, self.times, self.wide = name, divide, times, wide

    def text(self, expr: AxisExpr) -> str:
        """The expression. Numerators of floors are never negative, so a division that truncates is right."""
        const, parts = pieces(expr)
        return self._sum([(c, self._piece(piece)) for c, piece in parts], const)

    def flat(self, at: Sequence[AxisExpr], strides: Sequence[int]) -> str:
        """Σ coordinate · stride. A coordinate of several terms is written as a factor, in brackets."""
        const, parts = 0, list[tuple[int, str]]()
        for expr, stride in zip(at, strides, strict=True):
            own, inner = pieces(expr)
            if len(inner) > 1:
                parts.append((stride, self.text(expr)))
            else:
                parts += [(stride * c, self._piece(piece)) for c, piece in inner]
                const += own * stride
        return self._sum(parts, const)

    def _sum(self, parts: Iterable[tuple[int, str]], const: int) -> str:
        both = sorted(parts, key=lambda part: part[0] < 0)
        if self.wide:  # large products come first: the terms added to them are then computed in 64 bits as well
            both.sort(key=lambda part: -abs(part[0]))
        if len(both) == 1 and both[0][0] == 1 and not const:
            return both[0][1]
        return sum_text([(c, _bracket(c, text)) for c, text in both], const, f"{self.wide}{self.times}")

    def _piece(self, piece: Piece) -> str:
        if isinstance(piece, Remainder):
            return f"{self._operand(piece.expr)} % {piece.modulus}"
        if isinstance(piece, FloorDiv):
            return f"{self._operand(piece.expr)}{self.divide}{piece.divisor}"
        return self.name(piece)

    def _operand(self, expr: AxisExpr) -> str:
        text = self.text(expr)
        return text if " " not in text else f"({text})"


def _bracket(c: int, text: str) -> str:
    """A factor as text, in brackets if it would bind otherwise."""
    if c == 1 and not text.startswith("-"):
        return text
    return f"({text})" if " " in text or "/" in text or text.startswith("-") else text
