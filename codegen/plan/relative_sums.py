"""Sums of exponentials relative to a maximum of the same row, whose terms can be cut into parts.

    M = max s[k]    S = Σ fn(s[k] - M)·v[k]      of a part p, with its own maximum:  S[p] = Σ fn(s[k] - M[p])·v[k]
                                                 of all parts:                       S = Σ fn(M[p] - M)·S[p]

Each exponential is computed of other numbers than before, so that results round otherwise (exactness "rounding").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ir.dtype import dtype, promote
from ir.index.map import AxisMap, compose, identity, lift, project
from ir.region.region import Op, Operand, Region, behind

_EXPONENTIALS = ("exp", "exp2")


class Relative(NamedTuple):
    """What a sum is relative to: the name of the maximum, and the exponential."""

    maximum: str
    fn: str


class _Read(NamedTuple):
    """A value, and where it is read."""

    value: str
    at: AxisMap


def relative_sums(region: Region) -> Mapping[str, Relative]:
    """The sums of a region that are relative to a maximum of the same scores, by name."""
    finder = _Finder(region)
    found = {name: finder.relative(op) for name, op in finder.ops.items() if (op.kind, op.fn) == ("reduce", "sum")}
    return {name: each for name, each in found.items() if each is not None}


class _Finder:
    def __init__(self, region: Region) -> None:
        self.ops: dict[str, Op] = {let.name: let.op for let in region.body}
        self.dtypes = {each.name: each.memref.dtype for each in region.buffers}
        self.dtypes |= {name: op.dtype for name, op in self.ops.items()}

    def relative(self, op: Op) -> Relative | None:
        """What a sum is relative to."""
        term = self._operand(op, 0, identity(op.domain))
        if term is None:
            return None
        factors = [term, None]
        if (product := self.ops.get(term.value)) is not None and product.fn == "mul":
            factors = [self._operand(product, side, term.at) for side in (0, 1)]
        for power, factor in (factors, factors[::-1]):
            made = self.ops.get(power.value) if power is not None else None
            if power is None or made is None or made.fn not in _EXPONENTIALS:
                continue
            greatest = self._maximum(op, self._operand(made, 0, power.at))
            if greatest is not None and (factor is None or not self._needs(factor.value, greatest)):
                return Relative(greatest, made.fn)
        return None

    def _maximum(self, of: Op, apart: _Read | None) -> str | None:
        """The maximum that scores are compared with in `apart`, which is read at the terms of the sum `of`."""
        difference = self.ops.get(apart.value) if apart is not None else None
        if apart is None or difference is None or difference.fn != "sub":
            return None
        score, greatest = (self._operand(difference, side, apart.at) for side in (0, 1))
        if score is None or greatest is None:
            return None
        score, greatest = self._unwidened(score), self._unwidened(greatest)
        maximum = self.ops.get(greatest.value)
        if maximum is None or (maximum.kind, maximum.fn) != ("reduce", "max"):
            return None
        return greatest.value if self._terms(maximum, greatest.at, of) == score else None

    def _terms(self, maximum: Op, at: AxisMap, of: Op) -> _Read | None:
        """What the maximum that is read at `at` is of, over the terms of the sum `of`."""
        rank, sizes = len(of.shape), of.domain[len(of.shape) :]
        row = project(at, range(rank))
        if row is None or maximum.domain[len(maximum.shape) :] != sizes:
            return None
        read = self._operand(maximum, 0, lift(row, sizes))
        if read is None or not self._holds(maximum.dtype, self.dtypes[read.value]):
            return None
        return self._unwidened(read)

    def _operand(self, op: Op, number: int, at: AxisMap) -> _Read | None:
        each = op.inputs[number]
        return _Read(each.value, compose(each.map, at)) if isinstance(each, Operand) else None

    def _unwidened(self, read: _Read) -> _Read:
        """The value of which copies and widening casts make this one."""
        while (op := self.ops.get(read.value)) is not None and op.kind in ("copy", "cast"):
            below = self._operand(op, 0, read.at)
            if below is None or not self._holds(op.dtype, self.dtypes[below.value]):
                break
            read = below
        return read

    def _holds(self, wide: str, narrow: str) -> bool:
        return wide == narrow or promote(dtype(wide), dtype(narrow)) == dtype(wide)

    def _needs(self, value: str, other: str) -> bool:
        return other in behind(self.ops, value)
