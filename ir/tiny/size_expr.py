"""Expressions of sizes: P + 1, 2·S - 1, and 1 / S."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

from ir.uop.args import is_symbol

Sizes = Mapping[str, int]
"""Sizes by symbol."""


class SizeExpr(NamedTuple):
    """const + Σ factor·size, over sizes by symbol; its reciprocal if `inverted`."""

    const: int
    terms: tuple[tuple[str, int], ...] = ()
    inverted: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the number is the same at all sizes."""
        return not self.terms

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols whose sizes it needs."""
        return tuple(symbol for symbol, _ in self.terms)

    def at(self, sizes: Sizes) -> int:
        """The number at these sizes, before it is inverted."""
        return self.const + sum(factor * sizes[symbol] for symbol, factor in self.terms)

    def plus(self, other: SizeExpr, times: int = 1) -> SizeExpr:
        """The sum with a multiple of another expression."""
        factors = dict(self.terms)
        for symbol, factor in other.terms:
            factors[symbol] = factors.get(symbol, 0) + times * factor
        terms = tuple((symbol, factor) for symbol, factor in factors.items() if factor)
        return SizeExpr(self.const + times * other.const, terms)

    def __str__(self) -> str:
        parts = [symbol if factor == 1 else f"{factor}·{symbol}" for symbol, factor in self.terms]
        text = " + ".join([*parts, *([str(self.const)] if self.const or not parts else [])]).replace("+ -", "- ")
        return f"1 / ({text})" if self.inverted else text


def parse_size(text: str) -> SizeExpr | None:
    """The expression in a text, of symbols and integers with + - *; None if the text is none."""
    try:
        return _read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _read(node: ast.expr) -> SizeExpr:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return SizeExpr(number)
        case ast.Name(id=name) if is_symbol(name):
            return SizeExpr(0, ((name, 1),))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return SizeExpr(0).plus(_read(operand), -1)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _read(left).plus(_read(right))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _read(left).plus(_read(right), -1)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, other = _read(left), _read(right)
            if one.is_constant or other.is_constant:
                number, expr = (one.const, other) if one.is_constant else (other.const, one)
                return SizeExpr(0).plus(expr, number)
    raise ValueError("no expression of sizes")
