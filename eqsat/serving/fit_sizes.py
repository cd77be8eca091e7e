"""Graphs of one program at several sizes → a sized graph: every number as an expression of the sizes.

A frontend binds sizes before it makes a graph. So the expressions come from examples: the program at the largest sizes,
and at sizes that are one less. `GraphBySizes.difference` compares the program at other sizes with its expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from ir.diagnostics import EqsatError, Kind, fail
from ir.tiny.graph import Graph, Node
from ir.tiny.graph_by_sizes import (
    GraphBySizes,
    NodeBySizes,
    Place,
    SizeExpr,
    Sizes,
    Value,
    element_of,
    form_of,
    numbers_of,
    same_value,
    value_of,
)
from ir.tiny.restriction import STAGE

Bind = Callable[[Sizes], Graph]
"""The program at given sizes."""


class _Example(NamedTuple):
    """The program at sizes where those of `symbols` are one less than the largest ones."""

    symbols: tuple[str, ...]
    graph: Graph


def fit_sizes(bind: Bind, largest: Sizes, symbols: Sequence[str]) -> GraphBySizes:
    """The program at all sizes up to `largest`, of which those of `symbols` vary.

    Symbols of which one alone cannot vary, as T where a mask [S, T] meets keys [P + S], vary together: their
    differences stay as they are in `largest`. Symbols that cannot vary at all are as in `largest`: a batch of 2 where
    torch traced no batch of 1, or a number of channels of which the program takes the root.

    Raises:
        EqsatError: UnsupportedOp where all other sizes have other uops, or where a number is no such expression.
    """
    graph = bind(largest)
    examples = _examples(bind, graph, largest, symbols)
    unknown = [_unknown_number(graph, example, largest) for example in examples]
    if all(unknown):
        node, numbers = next(one for one in unknown if one)
        _refuse("a number depends on the sizes in an unknown way", node, numbers=numbers)
    examples = [example for example, found in zip(examples, unknown, strict=True) if found is None]
    nodes = [_sized(place, node, graph, examples, largest) for place, node in enumerate(graph.nodes)]
    varying = tuple(symbol for example in examples for symbol in example.symbols)
    return GraphBySizes(graph, dict(largest), varying, tuple(nodes))


def _examples(bind: Bind, graph: Graph, largest: Sizes, symbols: Sequence[str]) -> list[_Example]:
    """The program at sizes that are one less: each alone, or several together."""

    def smaller(*together: str) -> list[_Example]:
        """The example, if it has the uops of `graph`; none if it has others, or if the sizes do not fit together."""
        try:
            other = bind(_one_less(largest, together))
        except EqsatError:
            return []
        return [_Example(together, other)] if _are_alike(graph, other) else []

    alone = [example for symbol in symbols for example in smaller(symbol)]
    rest = [symbol for symbol in symbols if (symbol,) not in [example.symbols for example in alone]]
    if not rest:
        return alone
    tied = smaller(*rest) if len(rest) > 1 else []
    examples = [*alone, *tied] if tied else smaller(*symbols) or alone
    return examples or _refuse_others(graph, bind(_one_less(largest, symbols)))


def _refuse_others(graph: Graph, smaller: Graph) -> NoReturn:
    pairs = zip(graph.nodes, smaller.nodes, strict=False)
    different = (node for node, other in pairs if form_of(node) != form_of(other))
    _refuse("the uop is another one, or reads other values, at other sizes", next(different, None))


def _one_less(largest: Sizes, symbols: Sequence[str]) -> dict[str, int]:
    return {symbol: size - 1 if symbol in symbols else size for symbol, size in largest.items()}


def _are_alike(one: Graph, other: Graph) -> bool:
    return (
        len(one.nodes) == len(other.nodes)
        and one.outputs == other.outputs
        and all(form_of(a) == form_of(b) for a, b in zip(one.nodes, other.nodes, strict=True))
    )


def _unknown_number(graph: Graph, example: _Example, largest: Sizes) -> tuple[Node, list[Value]] | None:
    """A number of the largest sizes and of an example between which there is no expression, and its uop."""
    for node, other in zip(graph.nodes, example.graph.nodes, strict=True):
        element, smaller = element_of(node, graph.types), numbers_of(other, example.graph.types)
        for at, value in numbers_of(node, graph.types).items():
            less = smaller.get(at, False)
            if not same_value(value, less) and not _expression(value, [(example.symbols, less)], largest, element):
                return node, [value, less]
    return None


def _sized(place: int, node: Node, graph: Graph, examples: Sequence[_Example], largest: Sizes) -> NodeBySizes:
    element = element_of(node, graph.types)
    smaller = [numbers_of(example.graph.nodes[place], example.graph.types) for example in examples]
    varying: dict[Place, SizeExpr] = {}
    for at, value in numbers_of(node, graph.types).items():
        others = [numbers.get(at) for numbers in smaller]
        if any(other is None for other in others):
            _refuse("the value has another rank at other sizes", node)
        found = [(example.symbols, other) for example, other in zip(examples, others, strict=True) if other is not None]
        if all(same_value(value, other) for _, other in found):
            continue
        expr = _expression(value, found, largest, element)
        if expr is None:
            _refuse("a number depends on the sizes in an unknown way", node, numbers=[value, *others])
        varying[at] = expr
    return NodeBySizes(node, varying)


def _expression(
    value: Value,
    others: Iterable[tuple[tuple[str, ...], Value]],
    largest: Sizes,
    element: np.dtype[np.generic],
) -> SizeExpr | None:
    """The expression that is `value` at the largest sizes, and each of `others` where its symbols are one less."""
    others = list(others)
    for inverted in (False, True):
        whole = [_whole(number, inverted) for number in (value, *(other for _, other in others))]
        if None in whole:
            continue
        first, *rest = [number for number in whole if number is not None]
        terms = tuple(
            (symbols[0], first - less) for (symbols, _), less in zip(others, rest, strict=True) if first != less
        )
        const = first - sum(factor * largest[symbol] for symbol, factor in terms)
        expr = SizeExpr(const, terms, inverted)
        fits = [(value, largest)]
        fits += [(other, _one_less(largest, symbols)) for symbols, other in others]
        if all(same_value(value_of(expr, sizes, element, type(number)), number) for number, sizes in fits):
            return expr
    return None


def _whole(number: Value, inverted: bool) -> int | None:
    """The integer that a number, or the inverse of a float, is near to."""
    if isinstance(number, bool) or (inverted and (not isinstance(number, float) or number == 0)):
        return None
    exact = 1 / number if inverted else number
    return round(exact) if abs(exact) < 2**53 else None


def _refuse(message: str, node: Node | None, **details: object) -> NoReturn:
    hint = "call with sizes that are built exactly, or leave this dim out of when_missing="
    at, op = (None, None) if node is None else (node.id, node.label)
    fail(Kind.UNSUPPORTED_OP, STAGE, f"padded positions reach results: {message}", at=at, op=op, hint=hint, **details)


def constants_agree(smaller: Mapping[str, np.ndarray], largest: Mapping[str, np.ndarray]) -> str:
    """Why the constants of a program are not the first elements of those at the largest sizes: "" if they are."""
    for name in smaller.keys() | largest.keys():
        one, other = smaller.get(name), largest.get(name)
        if one is other:
            continue
        if one is None or other is None or one.dtype != other.dtype or one.ndim != other.ndim:
            return f"the constant {name!r} is another one"
        first = other[tuple(map(slice, one.shape))]
        if first.shape != one.shape or first.tobytes() != one.tobytes():
            return f"the constant {name!r} depends on the padded size"
    return ""
