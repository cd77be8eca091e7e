"""Graphs of one program at several sizes → a graph by sizes: every number as an expression of the sizes.

A frontend binds sizes before it makes a graph. So the expressions come from examples: the program at the largest sizes,
and at sizes that are one less. `GraphBySizes.difference` compares the program at other sizes with its expressions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from eqsat.model import BoundModel
from ir.diagnostics import EqsatError
from ir.tiny.graph import Graph, Node
from ir.tiny.graph_by_sizes import (
    GraphBySizes,
    NodeBySizes,
    Place,
    Value,
    different_constant,
    element_of,
    form_of,
    numbers_of,
    same_value,
    value_of,
)
from ir.tiny.restriction import refuse_padding
from ir.tiny.size_expr import Product, SizeExpr, Sizes, size_expr

Bind = Callable[[Sizes], BoundModel]
"""The program at given sizes."""

MOST_ALONE = 4
"""Of so many symbols that vary alone, products of two are looked for."""

Directions = tuple[tuple[str, ...], ...]
"""One direction or two, by their symbols."""


class _Example(NamedTuple):
    """The program at sizes that are one less than the largest ones: those of one direction, or of two directions. The
    symbols of a direction vary together."""

    directions: Directions
    bound: BoundModel

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols whose sizes are one less."""
        return tuple(symbol for direction in self.directions for symbol in direction)

    def numbers(self, place: int) -> dict[Place, Value]:
        """The numbers of the uop at a place."""
        graph = self.bound.graph
        return numbers_of(graph.nodes[place], graph.types, self.bound.constants)


def fit_sizes(bind: Bind, largest: Sizes, symbols: Sequence[str]) -> GraphBySizes:
    """The program at all sizes up to `largest`, of which those of `symbols` vary.

    Symbols of which one alone cannot vary, as T where a mask [S, T] meets keys [P + S], vary together: their
    differences stay as they are in `largest`. Symbols that cannot vary at all are as in `largest`: a batch of 2 where
    torch traced no batch of 1, or a number of channels of which the program takes the root.

    Raises:
        EqsatError: UnsupportedOp where all other sizes have other uops, or where a number is no such expression.
    """
    bound = bind(largest)
    examples = _examples(bind, bound, largest, symbols)
    unknown = [_unknown_number(bound, example, largest) for example in examples]
    if all(unknown):
        node, numbers = next(one for one in unknown if one)
        refuse_padding("a number depends on the sizes in an unknown way", node, numbers=numbers)
    examples = [example for example, found in zip(examples, unknown, strict=True) if found is None]
    varying = tuple(symbol for example in examples for symbol in example.symbols)
    examples += _pairs(bind, bound, largest, examples)
    nodes = tuple(_sized(place, bound, examples, largest) for place in range(len(bound.graph.nodes)))
    return GraphBySizes(bound.graph, bound.constants, dict(largest), varying, nodes)


def at_other_sizes(bind: Bind, sizes: Sizes) -> BoundModel | Exception:
    """The program at sizes that no call has, or why there is none: a function that is traced may refuse them."""
    try:
        return bind(sizes)
    except Exception as error:  # a user's function raises what it likes
        return error


def _examples(bind: Bind, bound: BoundModel, largest: Sizes, symbols: Sequence[str]) -> list[_Example]:
    """The program at sizes that are one less: each alone, or several together."""

    def smaller(*together: str) -> list[_Example]:
        """The example, if it has the uops of `bound`; none if it has others, or if there is no program at the sizes."""
        other = at_other_sizes(bind, _one_less(largest, together))
        return [_Example((together,), other)] if isinstance(other, BoundModel) and _are_alike(bound, other) else []

    alone = [example for symbol in symbols for example in smaller(symbol)]
    rest = [symbol for symbol in symbols if (symbol,) not in [example.symbols for example in alone]]
    if not rest:
        return alone
    tied = smaller(*rest) if len(rest) > 1 else []
    examples = [*alone, *tied] if tied else smaller(*symbols) or alone
    return examples or _refuse_others(bound.graph, at_other_sizes(bind, _one_less(largest, symbols)))


def _pairs(bind: Bind, bound: BoundModel, largest: Sizes, alone: Sequence[_Example]) -> list[_Example]:
    """The program at sizes of which those of two directions are one less, for products of sizes."""
    pairs = []
    for one, other in itertools.combinations(alone if len(alone) <= MOST_ALONE else (), 2):
        directions = (*one.directions, *other.directions)
        both = at_other_sizes(bind, _one_less(largest, [*one.symbols, *other.symbols]))
        if isinstance(both, BoundModel) and _are_alike(bound, both):
            pairs.append(_Example(directions, both))
    return pairs


def _refuse_others(graph: Graph, smaller: BoundModel | Exception) -> NoReturn:
    if isinstance(smaller, Exception):
        reason = smaller.diagnostics[0].message if isinstance(smaller, EqsatError) else repr(smaller)
        refuse_padding(f"there is no program at sizes that are one less: {reason}")
    pairs = zip(graph.nodes, smaller.graph.nodes, strict=False)
    different = (node for node, other in pairs if form_of(node) != form_of(other))
    refuse_padding("the uop is another one, or reads other values, at other sizes", next(different, None))


def _one_less(largest: Sizes, symbols: Sequence[str]) -> dict[str, int]:
    return {symbol: size - 1 if symbol in symbols else size for symbol, size in largest.items()}


def _are_alike(largest: BoundModel, smaller: BoundModel) -> bool:
    one, other = largest.graph, smaller.graph
    return (
        len(one.nodes) == len(other.nodes)
        and one.outputs == other.outputs
        and all(form_of(a) == form_of(b) for a, b in zip(one.nodes, other.nodes, strict=True))
        and not different_constant(smaller.constants, largest.constants)
    )


def _unknown_number(bound: BoundModel, example: _Example, largest: Sizes) -> tuple[Node, list[Value]] | None:
    """A number of the largest sizes and of an example between which there is no expression, and its uop."""
    types = bound.graph.types
    for place, node in enumerate(bound.graph.nodes):
        element, smaller = element_of(node, types), example.numbers(place)
        for at, value in numbers_of(node, types, bound.constants).items():
            less = smaller.get(at, False)
            if not same_value(value, less) and not _expression(value, [(example, less)], largest, element):
                return node, [value, less]
    return None


def _sized(place: int, bound: BoundModel, examples: Sequence[_Example], largest: Sizes) -> NodeBySizes:
    node, types = bound.graph.nodes[place], bound.graph.types
    element, smaller = element_of(node, types), [example.numbers(place) for example in examples]
    varying: dict[Place, SizeExpr] = {}
    for at, value in numbers_of(node, types, bound.constants).items():
        others = [numbers.get(at) for numbers in smaller]
        if any(other is None for other in others):
            refuse_padding("the value has another rank at other sizes", node)
        found = [(example, other) for example, other in zip(examples, others, strict=True) if other is not None]
        if all(same_value(value, other) for _, other in found):
            continue
        expr = _expression(value, found, largest, element)
        if expr is None:
            refuse_padding("a number depends on the sizes in an unknown way", node, numbers=[value, *others])
        varying[at] = expr
    return NodeBySizes(node, varying)


def _expression(
    value: Value, others: Sequence[tuple[_Example, Value]], largest: Sizes, element: np.dtype[np.generic]
) -> SizeExpr | None:
    """The expression that is `value` at the largest sizes, and each of `others` at the sizes of its example."""
    for inverted in (False, True):
        whole = [_whole(number, inverted) for number in (value, *(other for _, other in others))]
        if None in whole:
            continue
        first, *rest = [number for number in whole if number is not None]
        differences = {example.directions: first - less for (example, _), less in zip(others, rest, strict=True)}
        expr = _sum_of_products(first, differences, largest)._replace(inverted=inverted)
        fits = [(value, largest), *((other, _one_less(largest, example.symbols)) for example, other in others)]
        if all(same_value(value_of(expr, sizes, element, type(number)), number) for number, sizes in fits):
            return expr
    return None


def _sum_of_products(first: int, differences: Mapping[Directions, int], largest: Sizes) -> SizeExpr:
    """k + Σ aᵢ·xᵢ + Σ bᵢⱼ·xᵢ·xⱼ that is `first` at the largest sizes, and less by `differences` where the sizes of one
    direction, or of two, are one less. x: the size of the first symbol of a direction."""
    alone = {directions[0]: less for directions, less in differences.items() if len(directions) == 1}
    linear = dict(alone)
    products: list[tuple[Product, int]] = []
    for directions, less in differences.items():
        if len(directions) == 2:
            one, other = directions
            factor = alone[one] + alone[other] - less
            products.append(((one[0], other[0]), factor))
            linear[one] -= factor * largest[other[0]]
            linear[other] -= factor * largest[one[0]]
    terms = [*(((direction[0],), factor) for direction, factor in linear.items()), *products]
    return size_expr(first - size_expr(0, terms).at(largest), terms)


def _whole(number: Value, inverted: bool) -> int | None:
    """The integer that a number, or the inverse of a float, is near to."""
    if isinstance(number, bool) or (inverted and (not isinstance(number, float) or number == 0)):
        return None
    exact = 1 / number if inverted else number
    return round(exact) if abs(exact) < 2**53 else None
