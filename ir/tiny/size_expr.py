"""Expressions of sizes: P + 1, 2·S - 1, B·S, and 1 / S."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ir.uop.args import is_symbol

Sizes = Mapping[str, int]
"""Sizes by symbol."""
Product = tuple[str, ...]
"""A product of sizes, by their symbols in alphabetical order."""


class SizeExpr(NamedTuple):
    """const + Σ factor·product, over products of sizes; its reciprocal if `inverted`."""

    const: int
    terms: tuple[tuple[Product, int], ...] = ()
    inverted: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the number is the same at all sizes."""
        return not self.terms

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols whose sizes it needs."""
        return tuple(dict.fromkeys(symbol for product, _ in self.terms for symbol in product))

    def at(self, sizes: Sizes) -> int:
        """The number at these sizes, before it is inverted."""
        return self.const + sum(factor * math.prod(map(sizes.__getitem__, product)) for product, factor in self.terms)

    def plus(self, other: SizeExpr, times: int = 1) -> SizeExpr:
        """The sum with a multiple of another expression."""
        return size_expr(self.const + times * other.const, [*self.terms, *((p, times * f) for p, f in other.terms)])

    def times(self, other: SizeExpr) -> SizeExpr:
        """The product with another expression."""
        left, right = [((), self.const), *self.terms], [((), other.const), *other.terms]
        return size_expr(0, [(one + two, f * g) for one, f in left for two, g in right])

    def __str__(self) -> str:
        parts = ["·".join(product if factor == 1 else (str(factor), *product)) for product, factor in self.terms]
        text = " + ".join([*parts, *([str(self.const)] if self.const or not parts else [])]).replace("+ -", "- ")
        return f"1 / ({text})" if self.inverted else text


def size_expr(const: int, terms: Iterable[tuple[Product, int]]) -> SizeExpr:
    """The sum of a number and of terms, of which several may have one product."""
    factors: dict[Product, int] = {(): const}
    for product, factor in terms:
        product = tuple(sorted(product))
        factors[product] = factors.get(product, 0) + factor
    const = factors.pop(())
    return SizeExpr(const, tuple((product, factor) for product, factor in factors.items() if factor))


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
            return SizeExpr(0, (((name,), 1),))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return SizeExpr(0).plus(_read(operand), -1)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _read(left).plus(_read(right))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _read(left).plus(_read(right), -1)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _read(left).times(_read(right))
    raise ValueError("no expression of sizes")
