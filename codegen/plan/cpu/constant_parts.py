"""The parts of a constant operand: the tensors from which it is computed, where these have far fewer bytes.

    w[n, k] = (q[n, k // 2] >> 4·(k % 2) & 15) · s[n, k // 32]        parts: q, one byte for two terms; s, for 32 terms

A plan may pack the parts when the program is built. Register tiles then compute the operand from panels of its parts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from codegen.plan.contraction_view import Contraction
from ir.dtype import DTYPES
from ir.index.map import support
from ir.poly.core import OperandRead
from ir.region.region import behind

_LEAST_GAIN = 2
"""The operand has at least so many times the bytes of its parts."""
_KINDS = frozenset(["unary", "ewise", "cast", "copy", "index"])
"""The kinds of ops that a register tile computes, term by term."""


class ConstantPart(NamedTuple):
    """A tensor from which an operand is computed: the digits of k along which it moves, in the order of `view.k`, and
    its dtype."""

    read: OperandRead
    digits: tuple[int, ...]
    dtype: str

    def terms(self, view: Contraction) -> int:
        """Its elements per row or column of the operand."""
        return view.extent(self.digits)


@lru_cache(maxsize=256)
def constant_parts(view: Contraction) -> tuple[ConstantPart, ...]:
    """The parts of the operand with the columns; none where the operand is no constant, where it is computed by other
    ops than elementwise ones or from padding, or where the parts have too many bytes."""
    side = view.vector
    reads = view.roles.reads[side]
    names = [read.buffer for read in reads]
    values = [view.ops[name] for name in behind(view.ops, view.operand(side).value) if name in view.ops]
    padded = view.operand(side).map.guards or any(operand.map.guards for op in values for operand in op.operands)
    if not (view.is_constant(side) and view.k and reads) or padded or len(set(names)) < len(names):
        return ()
    if any(op.kind not in _KINDS for op in values):
        return ()
    parts = tuple(_part(view, read) for read in reads)
    fits = _LEAST_GAIN * bytes_per_term(view, parts) <= DTYPES[view.accumulator].bytes
    return parts if fits else ()


def bytes_per_term(view: Contraction, parts: tuple[ConstantPart, ...]) -> float:
    """Bytes of the parts per element of the operand."""
    return sum(DTYPES[part.dtype].bytes * part.terms(view) for part in parts) / view.depth


def _part(view: Contraction, read: OperandRead) -> ConstantPart:
    used = support(read.map)
    return ConstantPart(read, tuple(digit for digit in view.k if digit in used), view.buffer(read).memref.dtype)
