"""The type rules of terms: which combinations of constructors are meaningful, and the dtype and domain of their values.

NumPy broadcasts and wraps negative indices; the language does neither. A sound rewrite builds only well-typed terms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ir.dtype import TensorType, dtype
from ir.index.map import AxisMap, parse_map
from ir.term.language import App, Term
from ir.term.text import parse_number, parse_numbers, parse_sizes, parse_type
from ir.uop.table import FUNCTIONS, SCANS, UOPS


class IllTyped(Exception):  # noqa: N818 - a verdict on a term
    """A term has no type; the message says why."""


def term_type(term: Term, known: dict[App, TensorType] | None = None) -> TensorType:
    """The dtype and sizes of a ground term's values over its domain; for a buffer, those of the tensor.

    known: types of subterms found so far; grows.

    Raises:
        IllTyped: if operands, maps, types or sizes do not fit.
        EqsatError: if a uop refuses its operands' dtypes, or a text is no map or type.
    """
    if not isinstance(term, App):
        raise IllTyped(f"{term} is no value")
    known = {} if known is None else known
    if term not in known:
        fields = {name: term_type(arg, known) if isinstance(arg, App) else arg for name, arg in term.fields.items()}
        known[term] = _type_of(term.ctor.name, fields)
    return known[term]


def _type_of(ctor: str, fields: Mapping[str, Any]) -> TensorType:
    """The type of a constructor's value. fields: types of operands, texts and integers."""
    match ctor, fields:
        case "Input", {"type": type_}:
            return parse_type(type_)
        case "Store", {"value": value, "type": type_}:
            return _store(value, type_)
        case ("Load", {"buffer": source, "map": read}) | (("PView" | "EView"), {"x": source, "map": read}):
            return _read(source, read)
        case "At", {"value": value, "type": type_, "map": read}:
            return _read(_store(value, type_), read)
        case "Imm", {"dtype": element, "value": number, "sizes": sizes}:
            parse_number(number)
            return TensorType.of(element, parse_sizes(sizes))
        case "Index", {"dtype": element, "map": read}:
            return _index(element, read)
        case "Table", {"dtype": element, "numbers": numbers, "sizes": sizes}:
            return _table(element, numbers, parse_sizes(sizes))
        case ("Gather", {"buffer": source, "map": read, "index": index}) | (
            "PGather",
            {"x": source, "map": read, "index": index},
        ):
            return _gather(source, read, index)
        case (("PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern"), {"op": op, "dtype": element, **operands}):
            return _operation(op, element, list(operands.values()))
        case "PMax", {"domain": domain, "sizes": sizes, "x": value}:
            return _greatest(domain, sizes, value)
        case "Reduce", {"op": op, "dtype": element, "sizes": sizes, "x": value}:
            return _reduce(op, element, sizes, value)
        case "Contract", {"dtype": element, "sizes": sizes, "x": x, "y": y}:
            return _contract(element, sizes, x, y)
        case "Stream", {"op": op, "dtype": element, "sizes": sizes, "score": score, "value": value}:
            return _stream(op, element, sizes, score, value)
        case "Scan", {"op": op, "dtype": element, "axis": axis, "x": value}:
            return UOPS[SCANS[op]].type_of([value], {"axis": axis, "dtype": element})
        case "Scatter", {"op": op, "type": type_, "sizes": sizes, "axis": axis, **operands}:
            return _scatter(op, parse_type(type_), parse_sizes(sizes), axis, list(operands.values()))
        case ("Pure", {"x": value}) | ("Fin", {"acc": value}):
            assert isinstance(value, TensorType)
            return value
    raise IllTyped(f"{ctor} has no type rule")


def _store(value: TensorType, type_: str) -> TensorType:
    wanted = parse_type(type_)
    _require(value == wanted, f"{value} is stored as {wanted}")
    return wanted


@lru_cache(1 << 14)
def _read(source: TensorType, read: str) -> TensorType:
    view = parse_map(read)
    _require(len(view.exprs) == source.rank, f"{view} reads {source}")
    _check_bounds(view, source)
    for guard in view.guards:
        holds = source.dtype.is_float or parse_number(str(guard.fill)) == source.dtype.numpy.type(guard.fill)
        _require(holds, f"{guard.fill} is no {source.dtype}")
    return TensorType.of(source.dtype, view.sizes)


def _check_bounds(view: AxisMap, source: TensorType) -> None:
    """Requires that every element read exists."""
    if view.is_empty:
        return
    grid = np.meshgrid(*map(np.arange, view.sizes), indexing="ij", sparse=True)
    reads: Any = np.asarray(True)
    for guard in view.guards:
        reads = reads & guard.holds(grid)
    for axis in range(source.rank):
        at, inside = np.broadcast_arrays(view.exprs[axis].eval(grid), reads)
        wrong = inside & ((at < 0) | (at >= source.shape[axis]))
        _require(not wrong.any(), f"{view} reads outside {source}, along axis {axis}")


def _index(element: str, read: str) -> TensorType:
    view = parse_map(read)
    _require(len(view.exprs) == 1 and not view.guards, f"{view} is no coordinate")
    return TensorType.of(element, view.sizes)


def _table(element: str, numbers: str, sizes: tuple[int, ...]) -> TensorType:
    _require(len(parse_numbers(numbers)) == math.prod(sizes), f"a table of {sizes} holds {numbers}")
    return TensorType.of(element, sizes)


def _gather(source: TensorType, read: str, index: TensorType) -> TensorType:
    view = parse_map(read)
    fits = len(view.sizes) > 0 and index.dtype.is_int and index.shape == view.sizes[:-1]
    _require(fits, f"{source} gathered at {view} by {index}")
    _require(index.size == 0 or view.sizes[-1] > 0, f"nothing to gather in {source}")
    return TensorType.of(_read(source, read).dtype, index.shape)


def _operation(op: str, element: str, operands: Sequence[TensorType]) -> TensorType:
    row = FUNCTIONS.get(op)
    if row is None or row.arity != len(operands):
        raise IllTyped(f"{op} is no op of {len(operands)} operands")
    result = row.type_of(operands, {"to": element})
    _require(result.dtype == dtype(element), f"{op} gives {result}, not {element}")
    return result


def _reduce(op: str, element: str, sizes: str, value: TensorType) -> TensorType:
    _require(op in ("sum", "max", "min", "prod"), f"{op} is no reduction")
    counts = parse_sizes(sizes)
    outer = _drop_axes(value, counts)
    summed = value if counts else TensorType.of(value.dtype, (*value.shape, 1))
    axes = tuple(range(outer.rank, summed.rank))
    return UOPS["REDUCE"].type_of([summed], {"op": op.upper(), "axes": axes, "dtype": element})


def _scatter(
    op: str, result: TensorType, sizes: tuple[int, ...], axis: int, operands: Sequence[TensorType]
) -> TensorType:
    source, index, updates = operands
    _require(source == result and index.shape == sizes, f"{updates} scattered at {index} to {source} as {result}")
    return UOPS["SCATTER"].type_of(operands, {"op": op.upper(), "axis": axis})


def _greatest(domain: str, sizes: str, value: TensorType) -> TensorType:
    _require(value.shape == parse_sizes(domain) and not value.dtype.is_bool, f"the greatest of {value} over {domain}")
    _drop_axes(value, parse_sizes(sizes))
    return value


def _contract(element: str, sizes: str, x: TensorType, y: TensorType) -> TensorType:
    _require(x.shape == y.shape, f"a product of {x} and {y}")
    _reduce("sum", element, sizes, x)
    return _reduce("sum", element, sizes, y)


def _stream(op: str, element: str, sizes: str, x: TensorType, y: TensorType) -> TensorType:
    _require(op in ("exp", "exp2"), f"{op} is no exponential")
    _require(x.dtype.is_float and y.dtype.is_float, f"{x} and {y} are no floats")
    return _contract(element, sizes, x, y)


def _drop_axes(value: TensorType, counts: tuple[int, ...]) -> TensorType:
    kept = value.rank - len(counts)
    _require(value.shape[max(kept, 0) :] == counts, f"{value} reduced over {list(counts)}")
    return TensorType.of(value.dtype, value.shape[:kept])


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise IllTyped(otherwise)
