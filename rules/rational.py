"""The values of terms in exact arithmetic: floats are fractions, integers wrap in their dtype.

Two rational functions that agree on random fractions are equal but for a vanishing chance (Schwartz 1980, Zippel 1979).
No tolerance hides a difference.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ir.dtype import DType, TensorType, dtype
from ir.index.map import apply, parse_map
from ir.term.language import App, Ctor, Term
from ir.term.playback import node_value
from ir.term.text import parse_number, parse_numbers, parse_sizes
from ir.term.types import term_type
from ir.uop.table import FUNCTIONS, UOPS

Array = NDArray[Any]

_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "fdiv": operator.truediv,
        "quotient": operator.truediv,
        "recip": lambda x: 1 / x,
        "neg": operator.neg,
        "abs": abs,
        "max": max,
        "min": min,
        "relu": lambda x: max(x, Fraction(0)),
        "floor": lambda x: Fraction(math.floor(x)),
        "ceil": lambda x: Fraction(math.ceil(x)),
        "cmplt": operator.lt,
        "cmple": operator.le,
        "cmpgt": operator.gt,
        "cmpge": operator.ge,
        "cmpeq": operator.eq,
        "cmpne": operator.ne,
        "where": lambda condition, x, y: x if condition else y,
    }
)
RATIONAL = frozenset({*_FUNCTIONS, "cast"})
"""The elementwise ops on floats that have an exact value."""

_REDUCERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"sum": operator.add, "prod": operator.mul, "max": max, "min": min}
)
_STARTS = MappingProxyType({"sum": Fraction(0), "prod": Fraction(1)})


class NotRational(Exception):  # noqa: N818 - a signal, not an error
    """The value is no fraction: an infinity, NaN, a division by zero, or the result of an op without exact values."""


def random_fractions(inputs: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """The inputs, with random fractions in the place of floats."""

    def draw(array: Array) -> Array:
        if array.dtype.kind in "biu":
            return array
        over, under = rng.integers(-999, 1000, array.shape), rng.integers(1, 98, array.shape)
        return _map_elements(lambda a, b: Fraction(int(a), int(b)), over, under)

    return {name: draw(array) for name, array in inputs.items()}


def exact_value(term: Term, inputs: Mapping[str, Array]) -> Array:
    """The value of a well-typed ground term; object arrays of fractions stand for floats of any dtype.

    Raises:
        NotRational: where the value is no fraction.
    """
    types: dict[App, TensorType] = {}
    values: dict[App, Array] = {}

    def value(part: App) -> Array:
        if part not in values:
            args = [value(arg) if isinstance(arg, App) else arg for arg in part.args]
            values[part] = _value(part.ctor, args, term_type(part, types), inputs)
        return values[part]

    if not isinstance(term, App):
        raise TypeError(f"{term} is no value")
    return value(term)


def _value(ctor: Ctor, args: Sequence[Any], type_: TensorType, inputs: Mapping[str, Array]) -> Array:
    fields = ctor.by_field(args)
    match ctor.name, fields:
        case "Input", {"name": name}:
            return inputs[name]
        case ("Store", {"value": value}) | ("Pure", {"x": value}) | ("Fin", {"acc": value}):
            return np.asarray(value)
        case ("Load", {"buffer": value, "map": read}) | ("At", {"value": value, "map": read}):
            return _fractions(apply(parse_map(read), value), type_)
        case (("PView" | "EView"), {"x": value, "map": read}):
            return _fractions(apply(parse_map(read), value), type_)
        case "Imm", {"value": number, "sizes": sizes}:
            return _fractions(np.full(parse_sizes(sizes), parse_number(number), object), type_)
        case "Table", {"numbers": numbers, "sizes": sizes}:
            return np.asarray(parse_numbers(numbers), object).reshape(parse_sizes(sizes))
        case (("PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern"), {"op": op, "dtype": element, **operands}):
            return _operation(op, dtype(element), list(operands.values()))
        case (("Stream" | "Scatter"), _):
            raise NotRational
        case "PMax", {"sizes": sizes, "x": value} if type_.dtype.is_float:
            return _greatest(sizes, value)
        case (("Reduce" | "Contract" | "Scan"), _) if type_.dtype.is_float:
            return _accumulation(ctor.name, fields, type_)
    return _fractions(node_value(ctor.name, args, inputs), type_)


def _fractions(array: Array, type_: TensorType) -> Array:
    if not type_.dtype.is_float:
        return np.asarray(array, type_.dtype.numpy)
    return _map_elements(_fraction, array)


def _fraction(value: Any) -> Fraction:
    try:
        return Fraction(value if isinstance(value, Fraction) else value.item() if hasattr(value, "item") else value)
    except (OverflowError, ValueError):
        raise NotRational from None


def _operation(op: str, element: DType, operands: Sequence[Array]) -> Array:
    if op == "cast":
        return _cast(operands[0], element)
    if all(operand.dtype != object for operand in operands):
        out = TensorType.of(element, operands[0].shape)
        return _fractions(FUNCTIONS[op].apply(operands, {"to": element.name}, out), out)
    if op not in _FUNCTIONS:
        raise NotRational
    try:
        elements = _map_elements(_FUNCTIONS[op], *operands)
    except ZeroDivisionError:
        raise NotRational from None
    return elements if element.is_float else elements.astype(element.numpy)


def _cast(value: Array, element: DType) -> Array:
    if element.is_float:
        return _map_elements(_fraction, value)
    if value.dtype != object:
        return np.asarray(UOPS["CAST"].apply([value], {"to": element.name}, TensorType.of(element, value.shape)))
    if element.is_bool:
        return _map_elements(bool, value).astype(np.bool_)
    low, high = int(element.lowest), int(element.highest)
    return _map_elements(lambda x: min(max(math.trunc(x), low), high), value).astype(element.numpy)


def _accumulation(ctor: str, fields: Mapping[str, Any], type_: TensorType) -> Array:
    if ctor == "Scan":
        scan = np.frompyfunc(_REDUCERS[fields["op"]], 2, 1)
        return np.asarray(scan.accumulate(fields["x"], axis=fields["axis"]), object)
    if ctor == "Contract":
        x, y = (_map_elements(_fraction, fields[name]) for name in ("x", "y"))
        return _reduction("sum", _map_elements(operator.mul, x, y), type_.shape)
    return _reduction(fields["op"], _map_elements(_fraction, fields["x"]), type_.shape)


def _greatest(sizes: str, value: Array) -> Array:
    reduced = len(parse_sizes(sizes))
    outer = value.shape[: value.ndim - reduced]
    greatest = _reduction("max", _map_elements(_fraction, value), outer)
    return np.broadcast_to(greatest.reshape(outer + (1,) * reduced), value.shape)


def _reduction(op: str, value: Array, outer: tuple[int, ...]) -> Array:
    """The value, of fractions, reduced over all axes after the `outer` ones."""
    terms = value.reshape(*outer, -1) if value.size else np.empty((*outer, 0), object)
    total = np.empty(outer, object)
    for at in np.ndindex(outer):
        total[at] = _combine(op, list(terms[at]))
    return total


def _combine(op: str, terms: list[Fraction]) -> Fraction:
    if op in _STARTS:
        terms = [_STARTS[op], *terms]
    if not terms:
        raise NotRational
    total = terms[0]
    for term in terms[1:]:
        total = _REDUCERS[op](total, term)
    return total


def _map_elements(fn: Callable[..., Any], *arrays: Array) -> Array:
    """`fn` of the elements, as an object array."""
    out = np.empty(arrays[0].shape, object)
    flat = [array.ravel() for array in arrays]
    out.ravel()[:] = [fn(*elements) for elements in zip(*flat, strict=True)] if out.size else []
    return out
