"""The meaning of terms on NumPy arrays. Every rewrite must keep it.

A Pro or Epi is the array of its values over its domain; an Acc is the array of its finished values. Every op rounds to
its dtype, as in Tiny. A contraction multiplies and sums in the widest accumulator of its own dtype and its operands'
dtypes, and rounds once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ir.dtype import DType, TensorType, dtype, promote
from ir.index.expr import interval
from ir.index.map import apply, parse_map
from ir.term.language import CTORS, App, Term, Var
from ir.term.text import parse_number, parse_numbers, parse_sizes, parse_type
from ir.uop.playback import convert, gather_at
from ir.uop.table import FUNCTIONS, SCANS, UOPS

Array = NDArray[Any]
Value = Array | str | int


def evaluate(
    term: Term,
    inputs: Mapping[str, Array],
    buffers: Mapping[str, Array] = MappingProxyType({}),
    wide: bool = False,
) -> Array:
    """The value of a term. Its pattern variables, if any, are buffers with values in `buffers`.

    inputs: the arrays of `Input`s by name. wide: every float is fp64 and nothing is rounded.
    """
    known: dict[App, Array] = {}

    def value(part: Term) -> Value:
        match part:
            case App():
                if part not in known:
                    known[part] = node_value(part.ctor.name, [value(arg) for arg in part.args], inputs, wide)
                return known[part]
            case Var():
                return buffers[part.name]
            case str() | int():
                return part
        raise TypeError(f"{part} is not ground")

    result = value(term)
    if isinstance(result, str | int):
        raise TypeError(f"{term} is a text or a number, not a value")
    return result


def node_value(ctor: str, args: Sequence[Value], inputs: Mapping[str, Array], wide: bool = False) -> Array:
    """The value of one constructor whose arguments are values, texts and integers."""
    with np.errstate(all="ignore"):
        return _value_of(ctor, CTORS[ctor].by_field(args), inputs, wide)


def _value_of(ctor: str, fields: Mapping[str, Any], inputs: Mapping[str, Array], wide: bool) -> Array:
    match ctor, fields:
        case "Input", {"name": name, "type": type_}:
            return convert(inputs[name], parse_type(type_).dtype, wide)
        case "Store", {"value": value, "type": type_}:
            return _store(value, type_, wide)
        case ("Load", {"buffer": value, "map": read}) | ("At", {"value": value, "map": read}):
            return apply(parse_map(read), value)
        case (("PView" | "EView"), {"x": value, "map": read}):
            return apply(parse_map(read), value)
        case "Imm", {"dtype": element, "value": number, "sizes": sizes}:
            return np.broadcast_to(convert(np.asarray(parse_number(number)), dtype(element), wide), parse_sizes(sizes))
        case "Index", {"dtype": element, "map": coordinate}:
            return _index(element, coordinate, wide)
        case "Table", {"dtype": element, "numbers": numbers, "sizes": sizes}:
            values = np.asarray([float(number) for number in parse_numbers(numbers)])
            return convert(values.reshape(parse_sizes(sizes)), dtype(element), wide)
        case ("Gather", {"buffer": value, "map": read, "index": index}) | (
            "PGather",
            {"x": value, "map": read, "index": index},
        ):
            return gather_at(parse_map(read), value, index)
        case (("PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern"), {"op": op, "dtype": element, **operands}):
            return _elementwise(op, element, *operands.values(), wide=wide)
        case "PMax", {"sizes": sizes, "x": value}:
            return _greatest(sizes, value, wide)
        case "Reduce", {"op": op, "dtype": element, "sizes": sizes, "x": value}:
            return _reduce(op, element, sizes, value, wide)
        case "Contract", {"dtype": element, "sizes": sizes, "x": x, "y": y}:
            return _contract(element, sizes, x, y, wide)
        case "Stream", {"op": op, "dtype": element, "sizes": sizes, "score": score, "value": value}:
            return _stream(op, element, sizes, score, value, wide)
        case "Scan", {"op": op, "dtype": element, "axis": along, "x": value}:
            return _scan(op, element, along, value, wide)
        case "Scatter", {"op": op, "type": type_, "axis": along, "x": value, "index": index, "value": updates}:
            arg = {"op": op.upper(), "axis": along}
            return np.asarray(UOPS["SCATTER"].apply([value, index, updates], arg, parse_type(type_), wide))
        case ("Pure", {"x": value}) | ("Fin", {"acc": value}):
            return np.asarray(value)
    raise TypeError(f"{ctor} has no meaning")


def _store(value: Array, type_: str, wide: bool) -> Array:
    type_of = parse_type(type_)
    if value.shape != type_of.shape or not (wide or value.dtype == type_of.dtype.numpy):
        raise ValueError(f"a value {value.dtype}{list(value.shape)} is stored as {type_}")
    return value


def _index(element: str, coordinate: str, wide: bool) -> Array:
    view = parse_map(coordinate)
    last = 0 if view.is_empty else interval(view.exprs[0], view.interior)[1]
    return convert(apply(view, np.arange(last + 1)), dtype(element), wide)


def _elementwise(op: str, element: str, *operands: Array, wide: bool) -> Array:
    out = TensorType.of(element, operands[0].shape)
    return np.asarray(FUNCTIONS[op].apply(operands, {"to": element}, out, wide))


def _reduce(op: str, element: str, sizes: str, value: Array, wide: bool) -> Array:
    counts = parse_sizes(sizes)
    kept = value.ndim - len(counts)
    arg = {"op": op.upper(), "axes": tuple(range(kept, value.ndim)), "dtype": element}
    return np.asarray(UOPS["REDUCE"].apply([value], arg, TensorType.of(element, value.shape[:kept]), wide))


def _contract(element: str, sizes: str, x: Array, y: Array, wide: bool) -> Array:
    total = _accumulator(element, x, y)
    product = convert(x, total, wide) * convert(y, total, wide)
    return convert(_reduce("sum", total.name, sizes, product, wide), dtype(element), wide)


def _greatest(sizes: str, value: Array, wide: bool) -> Array:
    kept = value.ndim - len(parse_sizes(sizes))
    greatest = _reduce("max", dtype(value.dtype).name, sizes, value, wide)
    return np.broadcast_to(greatest.reshape(greatest.shape + (1,) * (value.ndim - kept)), value.shape)


def _stream(op: str, element: str, sizes: str, x: Array, y: Array, wide: bool) -> Array:
    """Scores, exponentials and sum are computed in the accumulator's dtype; the result is rounded once."""
    total = _accumulator(element, x, y)
    scores = convert(x, total, wide)
    greatest = _greatest(sizes, scores, wide)
    shifted = _elementwise("sub", total.name, scores, greatest, wide=wide)
    weights = _elementwise(op, total.name, shifted, wide=wide)
    return _contract(element, sizes, weights, y, wide)


def _accumulator(element: str, x: Array, y: Array) -> DType:
    """The widest accumulator of a result's dtype and its operands' dtypes."""
    total = dtype(element)
    for operand in (x, y):
        total = _wider(total, dtype(operand.dtype))
    return total


def _wider(total: DType, operand: DType) -> DType:
    return promote(total.accumulator, operand.accumulator) or total


def _scan(op: str, element: str, along: int, value: Array, wide: bool) -> Array:
    arg = {"axis": along, "dtype": element}
    return np.asarray(UOPS[SCANS[op]].apply([value], arg, TensorType.of(element, value.shape), wide))
