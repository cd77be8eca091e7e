"""The type rules of terms: which combinations of constructors are meaningful, and the dtype and domain of their values.

NumPy broadcasts and wraps negative indices; the language does neither. A sound rewrite builds only well-typed terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ir.dtype import TensorType, dtype
from ir.index.map import AxisMap, parse_map
from ir.term.language import App, Term
from ir.term.text import parse_number, parse_sizes, parse_type
from ir.uop.table import SCANS, UOPS


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
        rule = _RULES.get(term.ctor.name)
        if rule is None:
            raise IllTyped(f"{term.ctor.name} has no type rule")
        args = [term_type(arg, known) if isinstance(arg, App) else arg for arg in term.args]
        known[term] = rule(*args)
    return known[term]


def _input(name: str, type_: str) -> TensorType:
    return parse_type(type_)


def _store(value: TensorType, type_: str) -> TensorType:
    wanted = parse_type(type_)
    _require(value == wanted, f"{value} is stored as {wanted}")
    return wanted


def _read(source: TensorType, read: str) -> TensorType:
    view = parse_map(read)
    _require(len(view.exprs) == source.rank, f"{view} reads {source}")
    _check_bounds(view, source, range(source.rank))
    for guard in view.guards:
        holds = source.dtype.is_float or parse_number(str(guard.fill)) == source.dtype.numpy.type(guard.fill)
        _require(holds, f"{guard.fill} is no {source.dtype}")
    return TensorType.of(source.dtype, view.sizes)


def _check_bounds(view: AxisMap, source: TensorType, axes: range | list[int]) -> None:
    """Requires that every element read along these axes exists."""
    if view.is_empty:
        return
    grid = np.meshgrid(*map(np.arange, view.sizes), indexing="ij", sparse=True)
    reads: Any = np.asarray(True)
    for guard in view.guards:
        reads = reads & guard.holds(grid)
    for axis in axes:
        at, inside = np.broadcast_arrays(view.exprs[axis].eval(grid), reads)
        wrong = inside & ((at < 0) | (at >= source.shape[axis]))
        _require(not wrong.any(), f"{view} reads outside {source}, along axis {axis}")


def _at(value: TensorType, type_: str, read: str) -> TensorType:
    return _read(_store(value, type_), read)


def _imm(element: str, number: str, sizes: str) -> TensorType:
    parse_number(number)
    return TensorType.of(element, parse_sizes(sizes))


def _index(element: str, read: str) -> TensorType:
    view = parse_map(read)
    _require(len(view.exprs) == 1 and not view.guards, f"{view} is no coordinate")
    return TensorType.of(element, view.sizes)


def _gather(source: TensorType, read: str, axis: int, index: TensorType) -> TensorType:
    view = parse_map(read)
    fits = 0 <= axis < source.rank == len(view.exprs) and not view.guards
    _require(fits and index.dtype.is_int and index.shape == view.sizes, f"{source} gathered at {view} by {index}")
    _require(view.is_empty or source.shape[axis] > 0, f"nothing to gather in {source}")
    _check_bounds(view, source, [k for k in range(source.rank) if k != axis])
    return TensorType.of(source.dtype, view.sizes)


def _operation(op: str, element: str, *operands: TensorType) -> TensorType:
    row = UOPS.get(op.upper())
    if row is None or not row.kind.is_elementwise or row.arity != len(operands):
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


def _greatest(sizes: str, counts: str, value: TensorType) -> TensorType:
    _require(value.shape == parse_sizes(sizes) and not value.dtype.is_bool, f"the greatest of {value} over {sizes}")
    _drop_axes(value, parse_sizes(counts))
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


def _scan(op: str, element: str, axis: int, value: TensorType) -> TensorType:
    return UOPS[SCANS[op]].type_of([value], {"axis": axis, "dtype": element})


def _itself(value: TensorType) -> TensorType:
    return value


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise IllTyped(otherwise)


_RULES: Mapping[str, Callable[..., TensorType]] = MappingProxyType(
    {
        "Input": _input,
        "Store": _store,
        "Load": _read,
        "Imm": _imm,
        "Index": _index,
        "Gather": _gather,
        "PUn": _operation,
        "PBin": _operation,
        "PTern": _operation,
        "At": _at,
        "PView": _read,
        "PMax": _greatest,
        "Reduce": _reduce,
        "Contract": _contract,
        "Stream": _stream,
        "Scan": _scan,
        "Pure": _itself,
        "Fin": _itself,
        "EUn": _operation,
        "EBin": _operation,
        "ETern": _operation,
        "EView": _read,
    }
)
