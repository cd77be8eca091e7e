"""NumPy's einsum of lazy tensors: a product of all operands over all letters, then a sum over some letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from eqsat.lazy.argument_checks import STAGE
from eqsat.lazy.reductions import Reductions
from ir.diagnostics import Kind, fail

T = TypeVar("T", bound=Reductions)


def einsum(equation: str, operands: Sequence[T]) -> T:
    """The value of `numpy.einsum(equation, *operands)`. Raises EqsatError, MalformedGraph, where there is none."""
    if not isinstance(equation, str):
        _malformed(f"the equation of einsum is a text, not {type(equation).__name__}")
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        _malformed(f"the equation {equation!r} has {len(terms)} operands, but {len(operands)} are given")
    sizes: dict[str, int] = {}
    labelled = [_label(term, operand, sizes) for term, operand in zip(terms, operands, strict=True)]
    dots = tuple(letter for letter in sizes if not letter.isalpha())
    if arrow:
        result = _letters(right, dots)
    else:
        counts = "".join(terms)
        result = (*dots, *sorted(letter for letter in sizes if letter.isalpha() and counts.count(letter) == 1))
    unknown = [letter for letter in result if letter not in sizes]
    if unknown or len(set(result)) < len(result):
        _malformed(f"the result of the equation {equation!r} has a letter that no operand has, or one letter twice")
    order = (*result, *(letter for letter in sizes if letter not in result))
    total: Any = None
    for letters, operand in labelled:
        shape = [operand.shape[letters.index(letter)] if letter in letters else 1 for letter in order]
        aligned = operand.permute([letters.index(letter) for letter in order if letter in letters]).reshape(shape)
        total = aligned if total is None else total * aligned
    over = tuple(range(len(result), len(order)))
    full: T = total.expand([sizes[letter] for letter in order])
    return full.sum(over, dtype=full.dtype) if over else full


def _label(term: str, operand: T, sizes: dict[str, int]) -> tuple[tuple[str, ...], T]:
    """The letters of an operand's axes; an axis of `...` is a number from the right. A letter that stands twice takes
    the diagonal."""
    rank = operand.ndim - len(term.replace("...", ""))
    dots = tuple(str(place) for place in reversed(range(rank))) if "..." in term else ()
    letters = list(_letters(term, dots))
    if len(letters) != operand.ndim:
        _malformed(f"the operand {term!r} of the equation has {len(letters)} axes, the tensor {operand.ndim}")
    place = 0
    while place < len(letters):
        first = letters.index(letters[place])
        if first < place:
            operand, letters = _diagonal(operand, first, place), [*letters[:place], *letters[place + 1 :]]
        else:
            place += 1
    for letter, size in zip(letters, operand.shape, strict=True):
        if sizes.setdefault(letter, size) == 1:
            sizes[letter] = size
        elif size not in (1, sizes[letter]):
            _malformed(f"the letter {letter!r} of the equation stands for {sizes[letter]} and for {size} elements")
    return tuple(letters), operand


def _letters(term: str, dots: tuple[str, ...]) -> tuple[str, ...]:
    before, ellipsis, after = term.partition("...")
    return (*before, *(dots if ellipsis else ()), *after)


def _diagonal(x: T, first: int, second: int) -> T:
    """The elements whose positions along both axes agree, along the first one."""
    if x.shape[first] != x.shape[second]:
        _malformed(f"one letter of an operand stands for {x.shape[first]} and for {x.shape[second]} elements")
    same = x._positions(x.shape, first).eq(x._positions(x.shape, second))
    return x._choose(same, x, 0).sum(second, dtype=x.dtype)


def _malformed(message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, STAGE, message, op="einsum", hint='einsum("ij,jk->ik", a, b)')
