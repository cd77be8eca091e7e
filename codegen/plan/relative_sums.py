"""Finds sums of exponentials relative to a maximum of the same row. Their terms can be cut into parts:

    M = max s[k]    S = Σ fn(s[k] - M)·v[k]      a part p, with its own maximum:  S[p] = Σ fn(s[k] - M[p])·v[k]
                                                 all parts:                       S = Σ fn(M[p] - M)·S[p]

With parts the exponentials have other arguments, so that results round otherwise (exactness "rounding").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ir.dtype import dtype, promote
from ir.index.map import AxisMap, compose, identity, lift, project
from ir.region.region import Op, Operand, Region, behind

_EXPONENTIALS = ("exp", "exp2")


class Relative(NamedTuple):
    """The maximum, by name, to which a sum is relative, and the function of the exponential."""

    maximum: str
    fn: str


class _Read(NamedTuple):
    """A read of a value."""

    value: str
    at: AxisMap


def relative_sums(region: Region) -> Mapping[str, Relative]:
    """Name of a sum → the maximum of the same scores to which it is relative."""
    finder = _Finder(region)
    sums = {name: finder.relative(op) for name, op in finder.ops.items() if (op.kind, op.fn) == ("reduce", "sum")}
    return {name: relative for name, relative in sums.items() if relative is not None}


class _Finder:
    def __init__(self, region: Region) -> None:
        self.ops: dict[str, Op] = {let.name: let.op for let in region.body}
        self.dtypes = {buffer.name: buffer.memref.dtype for buffer in region.buffers}
        self.dtypes |= {name: op.dtype for name, op in self.ops.items()}

    def relative(self, op: Op) -> Relative | None:
        """The maximum to which a sum is relative; None where there is none."""
        term = self._operand(op, 0, identity(op.domain))
        if term is None:
            return None
        factors = [term, None]
        if (product := self.ops.get(term.value)) is not None and product.fn == "mul":
            factors = [self._operand(product, side, term.at) for side in (0, 1)]
        for power, factor in (factors, factors[::-1]):
            power_op = self.ops.get(power.value) if power is not None else None
            if power is None or power_op is None or power_op.fn not in _EXPONENTIALS:
                continue
            greatest = self._maximum(op, self._operand(power_op, 0, power.at))
            if greatest is not None and (factor is None or not self._depends_on(factor.value, greatest)):
                return Relative(greatest, power_op.fn)
        return None

    def _maximum(self, of: Op, apart: _Read | None) -> str | None:
        """The maximum that `apart`, a read at the terms of the sum `of`, subtracts from a score of the same row."""
        difference = self.ops.get(apart.value) if apart is not None else None
        if apart is None or difference is None or difference.fn != "sub":
            return None
        score, greatest = (self._operand(difference, side, apart.at) for side in (0, 1))
        if score is None or greatest is None:
            return None
        score, greatest = self._before_widening(score), self._before_widening(greatest)
        maximum = self.ops.get(greatest.value)
        if maximum is None or (maximum.kind, maximum.fn) != ("reduce", "max"):
            return None
        return greatest.value if self._terms(maximum, greatest.at, of) == score else None

    def _terms(self, maximum: Op, at: AxisMap, of: Op) -> _Read | None:
        """The read of the score by the maximum at `at`, over the terms of the sum `of`."""
        rank, sizes = len(of.shape), of.domain[len(of.shape) :]
        row = project(at, range(rank))
        if row is None or maximum.domain[len(maximum.shape) :] != sizes:
            return None
        read = self._operand(maximum, 0, lift(row, sizes))
        if read is None or not self._is_exact_in(maximum.dtype, self.dtypes[read.value]):
            return None
        return self._before_widening(read)

    def _operand(self, op: Op, number: int, at: AxisMap) -> _Read | None:
        relative = op.inputs[number]
        return _Read(relative.value, compose(relative.map, at)) if isinstance(relative, Operand) else None

    def _before_widening(self, read: _Read) -> _Read:
        """The read before copies and widening casts."""
        while (op := self.ops.get(read.value)) is not None and op.kind in ("copy", "cast"):
            below = self._operand(op, 0, read.at)
            if below is None or not self._is_exact_in(op.dtype, self.dtypes[below.value]):
                break
            read = below
        return read

    def _is_exact_in(self, wide: str, narrow: str) -> bool:
        return wide == narrow or promote(dtype(wide), dtype(narrow)) == dtype(wide)

    def _depends_on(self, value: str, other: str) -> bool:
        return other in behind(self.ops, value)
