"""Arithmetic on index values, on texts, while rules match.

An index is a coordinate. It is never negative, and it is exact only where its dtype holds every value that it takes.
The answer "" says that the result is no index, or no number of its dtype.
"""

from __future__ import annotations

import ml_dtypes

from ir.dtype import DType, dtype
from ir.index.expr import AxisExpr, Box, constant, floordiv, interval, mod
from ir.index.map import AxisMap, axis_map, compose, identity, parse_map
from ir.term.language import Primitive
from ir.term.text import parse_number


@Primitive
def index_as(view: str, source: str, to: str) -> str:
    """The same index in another dtype, where both dtypes hold it."""
    map_ = parse_map(view)
    return view if _holds(map_, dtype(source)) and _holds(map_, dtype(to)) else ""


@Primitive
def index_and_number(op: str, view: str, element: str, number: str) -> str:
    """The index that is `op` of an index and a number."""
    value, map_ = parse_number(number), parse_map(view)
    if not float(value).is_integer() or map_.is_empty or (op == "mul" and number.startswith("-")):
        return ""
    index = _combine(op, map_.exprs[0], constant(int(value)), map_.interior)
    return _index(map_, index, dtype(element))


@Primitive
def index_and_index(op: str, left: str, right: str, element: str) -> str:
    """The index that is `op` of two indices."""
    a, b = parse_map(left), parse_map(right)
    if a.is_empty or a.sizes != b.sizes or not _holds(b, dtype(element)):
        return ""
    return _index(a, _combine(op, a.exprs[0], b.exprs[0], a.interior), dtype(element))


@Primitive
def compared_with_number(op: str, view: str, element: str, number: str) -> str:
    """The result of comparing an index with a number, where it is the same at every point."""
    map_, value = parse_map(view), parse_number(number)
    if not _holds(map_, dtype(element)):
        return ""
    low, high = interval(map_.exprs[0], map_.interior)
    return _decide(op, low, high, value, value)


@Primitive
def compared_with_index(op: str, left: str, right: str, element: str) -> str:
    """The result of comparing two indices, where it is the same at every point."""
    a, b = parse_map(left), parse_map(right)
    if a.sizes != b.sizes or not (_holds(a, dtype(element)) and _holds(b, dtype(element))):
        return ""
    low, high = interval(a.exprs[0] - b.exprs[0], a.interior)
    return _decide(op, low, high, 0, 0)


@Primitive
def picked(read: str, view: str, element: str) -> str:
    """`read` with the index for the last axis of its domain, where the index stays within this axis."""
    map_, index = parse_map(read), parse_map(view)
    if map_.sizes[:-1] != index.sizes or not _holds(index, dtype(element)):
        return ""
    if interval(index.exprs[0], index.interior)[1] >= map_.sizes[-1]:
        return ""
    return str(compose(map_, axis_map(index.sizes, [*identity(index.sizes).exprs, *index.exprs])))


def _combine(op: str, left: AxisExpr, right: AxisExpr, box: Box) -> AxisExpr | None:
    number = right.const if not right.terms else None
    match op:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul" if number is not None:
            return left * number
        case "idiv" if number is not None and number > 0:
            return floordiv(left, number, box)
        case "mod" if number is not None and number > 0:
            return mod(left, number, box)
    return None


def _index(domain: AxisMap, index: AxisExpr | None, element: DType) -> str:
    if index is None or not _holds(domain, element):
        return ""
    result = axis_map(domain.sizes, [index])
    return str(result) if _holds(result, element) else ""


def _holds(view: AxisMap, element: DType) -> bool:
    """Whether the dtype holds every value of the index, and every value is a possible coordinate."""
    if view.is_empty or view.guards or element.is_bool:
        return False
    low, high = interval(view.exprs[0], view.interior)
    most = 2 ** (ml_dtypes.finfo(element.numpy).nmant + 1) if element.is_float else int(element.highest)
    return low >= 0 and high <= min(most, _FARTHEST)


_FARTHEST = 2**48
"""An upper bound of coordinates, in elements: no buffer is as long. Arithmetic on larger indices could overflow 64
bits."""


def _decide(op: str, low: float, high: float, least: float, most: float) -> str:
    """`true` or `false` where `op` gives it for every a in [low, high] and every b in [least, most]."""
    match op:
        case "cmplt":
            return _verdict(high < least, low >= most)
        case "cmple":
            return _verdict(high <= least, low > most)
        case "cmpgt":
            return _verdict(low > most, high <= least)
        case "cmpge":
            return _verdict(low >= most, high < least)
        case "cmpeq":
            return _verdict(low == high == least == most, high < least or low > most)
        case "cmpne":
            return _verdict(high < least or low > most, low == high == least == most)
    return ""


def _verdict(always: bool, never: bool) -> str:
    return "true" if always else "false" if never else ""
