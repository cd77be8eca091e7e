"""The sizes that `dims=` gives: one size per symbol, or the buckets in which a free size is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ir.diagnostics import Kind, fail
from ir.tiny.size_expr import SizeExpr, parse_size

STAGE = "options"


class Buckets(tuple[int, ...]):
    """The sizes of a free dim that a program is built for ahead of calls, in ascending order: `Buckets(1, 2, 4, 8)`.

    `dims={"batch": [1, 2, 4, 8], "seq": range(64, 513, 64)}` says the same.

    Raises:
        EqsatError: InvalidOption unless there is at least one size, and all are integers from 0 on.
    """

    def __new__(cls, *sizes: int) -> Buckets:
        if not sizes:
            fail(Kind.INVALID_OPTION, STAGE, "Buckets() has no size", hint="Buckets(1, 2, 4, 8)")
        return super().__new__(cls, sorted({check_size(size) for size in sizes}))

    def __getnewargs__(self) -> tuple[int, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"Buckets({', '.join(map(str, self))})"

    def above(self, size: int) -> int:
        """The smallest bucket that holds `size`; `size` itself where all buckets are smaller."""
        return next((bucket for bucket in self if bucket >= size), size)


def check_size(size: object) -> int:
    """The size of an axis. Raises EqsatError, InvalidOption, unless it is an integer from 0 on."""
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 0 <= size < 2**62:
        fail(Kind.INVALID_OPTION, STAGE, f"a size is an integer from 0 on, not {size!r}")
    return int(size)


def buckets_of(sizes: object) -> Buckets:
    """One size, or several sizes, as buckets. Raises EqsatError, InvalidOption, for other values."""
    if isinstance(sizes, Buckets):
        return sizes
    if isinstance(sizes, Iterable) and not isinstance(sizes, str | bytes | Mapping):
        return Buckets(*sizes)
    return Buckets(check_size(sizes))


def split_dims(dims: Any) -> tuple[Any, dict[str, Buckets]]:
    """The sizes in `dims=` that are fixed, as they are given, and the buckets by symbol."""
    if not isinstance(dims, Mapping):
        return dims, {}
    several = {
        symbol: buckets_of(sizes)
        for symbol, sizes in dims.items()
        if isinstance(sizes, Buckets | list | tuple | range | np.ndarray)
    }
    return {symbol: size for symbol, size in dims.items() if symbol not in several}, several


def split_related(dims: Any) -> tuple[Any, dict[str, SizeExpr]]:
    """`dims=` without the sizes that are texts, and the expressions of other sizes that these texts are.

    Raises:
        EqsatError: InvalidOption for a text that is no such expression.
    """
    if not isinstance(dims, Mapping):
        return dims, {}
    related: dict[str, SizeExpr] = {}
    for symbol, text in dims.items():
        if isinstance(text, str):
            expr = parse_size(text)
            if expr is None or any(isinstance(dims.get(other), str) for other in expr.symbols):
                hint = '"past + 1": symbols that are no texts themselves, integers, + - *'
                fail(Kind.INVALID_OPTION, STAGE, f"dims= gives {symbol} as {text!r}, no expression", hint=hint)
            related[symbol] = expr
    return {symbol: size for symbol, size in dims.items() if symbol not in related}, related


def check_related(related: Mapping[str, SizeExpr], free: Iterable[str], known: Iterable[str]) -> None:
    """Raises EqsatError, InvalidOption, unless free dims follow from other dims."""
    others = {*free, *known} - related.keys()
    check_symbols(related, free, "dims=")
    check_symbols([symbol for expr in related.values() for symbol in expr.symbols], others, "dims=")


def check_symbols(given: Iterable[object], free: Iterable[str], what: str) -> None:
    """Raises EqsatError, InvalidOption, for a name that is no free dim. what: says who gives the names."""
    known = tuple(free)
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    names = ", ".join(map(repr, unknown))
    hint = f"the free dims are {', '.join(known)}" if known else "leave the size out of dims= to keep it free"
    is_or_are = "is no free dim" if len(unknown) == 1 else "are no free dims"
    fail(Kind.INVALID_OPTION, STAGE, f"{what}: {names} {is_or_are} of this program", hint=hint)
