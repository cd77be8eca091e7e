"""The parts of a constant operand: the values from which it is computed, where these have far fewer bytes.

    w[n, k] = (q[n, k // 2] >> 4·(k % 2) & 15) · s[n, k // 32]        parts: q, one byte for two terms; s, for 32 terms

A plan may pack the parts when the program is built. Register tiles then compute the operand from panels of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from codegen.plan.contraction_view import Contraction
from ir.dtype import DTYPES
from ir.index.map import AxisMap, compose, support
from ir.post_order import post_order
from ir.region.region import Buffer, behind

_LEAST_GAIN = 2
"""The operand has at least so many times the bytes of its parts."""
_KINDS = frozenset(["unary", "ewise", "cast", "copy"])
"""The kinds of ops that a register tile computes, term by term."""
_RARE = 1 / 8
"""A value of so many elements per term, or fewer, is computed when the program is built even if the values behind it
have half its bytes."""

_Place = tuple[str, AxisMap]
"""A value or buffer of the region, and its coordinates over the digits of the contraction."""


class ConstantPart(NamedTuple):
    """A value or buffer of the region from which the operand is computed, at coordinates `at` over the digits of the
    contraction; the digits of k on which it depends, in the order of `view.k`; whether it differs between columns; and
    its dtype."""

    value: str
    at: AxisMap
    digits: tuple[int, ...]
    in_columns: bool
    dtype: str

    def terms(self, view: Contraction) -> int:
        """Its elements per row or column of the operand."""
        return view.extent(self.digits)

    def sources(self, view: Contraction) -> tuple[Buffer, ...]:
        """The buffers from which it is computed."""
        names = behind(view.ops, self.value)
        return tuple(buffer for buffer in view.region.inputs if buffer.name in names)


def constant_parts(view: Contraction) -> tuple[ConstantPart, ...]:
    """The parts of the operand with the columns: of all values on the way to it, those with the fewest bytes. None
    where the operand is no constant, where there are no products, or where the parts have too many bytes."""
    return _cut_operand(view).parts


def shares_of_ops(view: Contraction) -> Mapping[str, float]:
    """The ops by which register tiles compute the operand from its parts, by name, and the share of the terms for which
    each is computed: an op that does not depend on a digit of k is computed once for all of the digit's points."""
    return _cut_operand(view).shares


def bytes_per_term(view: Contraction, parts: Sequence[ConstantPart]) -> float:
    """Bytes of the parts per element of the operand; infinitely many of no parts."""
    if not parts:
        return math.inf
    each = (part.terms(view) / (1 if part.in_columns else view.n) * DTYPES[part.dtype].bytes for part in parts)
    return sum(each) / view.depth


class _CutOperand(NamedTuple):
    """The parts of an operand, and the shares of the ops between the parts and the operand."""

    parts: tuple[ConstantPart, ...]
    shares: Mapping[str, float]


@lru_cache(maxsize=256)
def _cut_operand(view: Contraction) -> _CutOperand:
    """The operand with the columns, cut; without parts where `constant_parts` has none."""
    operand = view.operand(view.vector)
    is_known = view.is_constant(view.vector) and view.roles.reads[view.vector]
    if is_known and not view.is_empty and view.k and view.depth and not operand.map.guards:
        cuts = _Cuts(view)
        parts = cuts.parts()
        if _LEAST_GAIN * bytes_per_term(view, parts) <= DTYPES[view.accumulator].bytes:
            return _CutOperand(parts, cuts.shares())
    return _CutOperand((), {})


class _Cuts:
    """The parts of the values behind an operand."""

    def __init__(self, view: Contraction) -> None:
        self._view = view
        self._dtypes = {buffer.name: buffer.memref.dtype for buffer in view.region.inputs}
        self._dtypes |= {name: op.dtype for name, op in view.ops.items()}
        self._used: dict[_Place, frozenset[int]] = {}
        self._parts: dict[_Place, tuple[ConstantPart, ...]] = {}
        operand = view.operand(view.vector)
        self._root = (operand.value, compose(operand.map, view.roles.point))
        for place in post_order([self._root], self._below):
            below = self._below(place)
            self._used[place] = self._digits(place, below)
            self._parts[place] = self._cut(place, below)

    def parts(self) -> tuple[ConstantPart, ...]:
        """The parts of the operand; none if a part is read at several places: a part has one panel, by its name."""
        parts = self._parts[self._root]
        places = {part.value: part.at for part in parts}
        read = [*((part.value, part.at) for part in parts), *self._computed()]
        return parts if all(places.get(value, at) == at for value, at in read) else ()

    def shares(self) -> dict[str, float]:
        """The ops between the parts and the operand, and the share of the terms for which each is computed."""
        return {
            value: self._view.extent([*self._used[value, at].intersection(self._view.k)]) / self._view.depth
            for value, at in self._computed()
            if value in self._view.ops
        }

    def _computed(self) -> list[_Place]:
        """The values that a register tile computes, and the parts that are read at other places, too."""
        parts = {(part.value, part.at) for part in self._parts[self._root]}
        below = {place: [one for one in self._below(place) if one not in parts] for place in self._parts}
        return post_order([self._root], below.__getitem__)

    def _below(self, place: _Place) -> list[_Place]:
        """The operands of an op that a register tile computes."""
        value, at = place
        op = self._view.ops.get(value)
        if op is None or op.kind not in _KINDS or any(operand.map.guards for operand in op.operands):
            return []
        return [(operand.value, compose(operand.map, at)) for operand in op.operands]

    def _digits(self, place: _Place, below: list[_Place]) -> frozenset[int]:
        """The digits of the contraction on which a value depends."""
        value, at = place
        op = self._view.ops.get(value)
        if op is not None and op.index_map is not None:
            return support(compose(op.index_map, at))
        return frozenset[int]().union(*(self._used[one] for one in below)) if below else support(at)

    def _cut(self, place: _Place, below: list[_Place]) -> tuple[ConstantPart, ...]:
        """The value itself, or the parts of its operands if these have fewer bytes."""
        value, at = place
        op, used = self._view.ops.get(value), self._used[place]
        if op is not None and op.kind == "index":
            return ()
        digits = tuple(digit for digit in self._view.k if digit in used)
        own = ConstantPart(value, at, digits, not used.isdisjoint(self._view.columns), self._dtypes[value])
        deeper = tuple(dict.fromkeys(part for one in below for part in self._parts[one]))
        rare = own.terms(self._view) <= _RARE * self._view.depth
        most = bytes_per_term(self._view, deeper) * (2 if rare else 1)
        is_cut = not below or bytes_per_term(self._view, [own]) <= most
        return (own,) if is_cut else deeper
