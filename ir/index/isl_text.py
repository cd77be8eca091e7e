"""AxisMaps, boxes and bounds as isl text. Tuples are named after values, axes as in the IndexBook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ir.index.expr import AxisExpr, axis_names
from ir.index.map import AxisMap, Bound

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def tuple_name(value: str) -> str:
    """A value's name with characters that isl reads: `C.mul` is C_mul."""
    plain = f"v{value}" if value[:1].isdigit() else value
    return value if _NAME.fullmatch(value) else re.sub(r"\W", "_", plain, flags=re.ASCII)


def points(value: str, rank: int) -> str:
    """`C[i0, i1]`"""
    return f"{tuple_name(value)}[{', '.join(axis_names(rank))}]"


def box(sizes: Sequence[int], names: Sequence[str]) -> list[str]:
    """`0 <= i0 < 4`, one condition per axis."""
    return [f"0 <= {name} < {size}" for name, size in zip(names, sizes, strict=True)]


def expression(expr: AxisExpr, names: Sequence[str]) -> str:
    """An `AxisExpr` in isl's notation, over axes of these names."""
    parts = [str(expr.const)]
    for term, c in expr.terms:
        name = names[term] if isinstance(term, int) else f"floor(({expression(term.expr, names)})/{term.divisor})"
        parts.append(f"{c}*{name}")
    return " + ".join(parts)


def conditions(bounds: Iterable[Bound], names: Sequence[str]) -> list[str]:
    """`1 <= 2*i0 + r0 < 9`, one condition per bound."""
    return [f"{bound.lo} <= {expression(bound.expr, names)} < {bound.hi}" for bound in bounds]


def guard_bounds(view: AxisMap) -> list[Bound]:
    """All bounds that hold where the map reads the operand."""
    return [bound for guard in view.guards for bound in guard.bounds]


def access(point: str, target: str, view: AxisMap, names: Sequence[str]) -> str:
    """`{ point[i0, r0] -> target[…] : box and guards }`; an unnamed tuple where `point` is empty."""
    coordinates = ", ".join(expression(expr, names) for expr in view.exprs)
    where = " and ".join([*box(view.sizes, names), *conditions(guard_bounds(view), names)]) or "1 = 1"
    head = f"{tuple_name(point) if point else ''}[{', '.join(names)}]"
    return f"{{ {head} -> {tuple_name(target)}[{coordinates}] : {where} }}"


@lru_cache(maxsize=1 << 14)
def relation(source: str, reader: str, view: AxisMap) -> str:
    """The relation from points of `source` to the points of `reader` that read them through `view`. A coordinate of
    the source that is no axis of the reader gets a name s0, s1, … and an equation among the conditions."""
    names = axis_names(len(view.sizes))
    coordinates, equations = [], []
    for position, expr in enumerate(view.exprs):
        plain = str(expr)
        if plain in names and plain not in coordinates:
            coordinates.append(plain)
        else:
            coordinates.append(f"s{position}")
            equations.append(f"s{position} = {expression(expr, names)}")
    where = [*equations, *box(view.sizes, names), *conditions(guard_bounds(view), names)]
    head = f"{tuple_name(source)}[{', '.join(coordinates)}]"
    return f"{{ {head} -> {tuple_name(reader)}[{', '.join(names)}] : {' and '.join(where) or '1 = 1'} }}"
