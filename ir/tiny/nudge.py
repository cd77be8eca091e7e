"""Nudging in a Tiny graph: floats move by the error they may have, before they become whole numbers or are compared.

Two playbacks, nudged up and down, tell the elements in which another rounding of a float may change a whole number by
one, or turn a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ir.dtype import TensorType
from ir.tiny.graph import Node
from ir.uop.playback import Array

_STEPS = frozenset({"FLOOR", "CEIL", "ROUND", "CMPLT", "CMPLE", "CMPGT", "CMPGE"})
"""Uops whose results jump where their first operand moves a little. So does a CAST of a float to another kind."""


def nudge_operands(
    node: Node, operands: Sequence[Array], types: Sequence[TensorType], to: TensorType, shares: Mapping[str, float]
) -> list[Array]:
    """The operands of a uop, the first of them nudged if the results jump.

    types, to: of the operands and the result. shares: by dtype, the distance relative to the largest magnitude of the
    operand; below 0, downwards. A number that its dtype holds exactly stays, as sums of whole numbers do."""
    share = shares.get(types[0].dtype.name, 0.0) if types else 0.0
    jumps = node.uop in _STEPS or (node.uop == "CAST" and not to.dtype.is_float)
    if not share or not jumps or not operands[0].size:
        return list(operands)
    first, *others = operands
    finite = np.isfinite(first)
    with np.errstate(over="ignore"):
        moves = finite & (first.astype(types[0].dtype.numpy).astype(first.dtype) != first)
    distance = share * float(np.abs(first[finite]).max(initial=0.0))
    return [np.where(moves, first + distance, first), *others]
