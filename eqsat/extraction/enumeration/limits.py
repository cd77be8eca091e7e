"""How much of an e-graph enumeration looks at."""

from __future__ import annotations

import msgspec


class EnumerationLimits(msgspec.Struct, frozen=True):
    """Limits of enumeration.

    alternatives  trees of one kind that survive per class of values
    constants     of these, the trees that read nothing but constants
    candidates    trees of one kind that survive per buffer
    reductions    how many accumulators a kind names: kernels that differ in further ones are of one kind
    gathered      how many values, stored to be gathered, a kind tells apart
    combinations  choices of operands that are tried per node
    """

    alternatives: int = 6
    constants: int = 2
    candidates: int = 12
    reductions: int = 3
    gathered: int = 3
    combinations: int = 144


DEFAULT = EnumerationLimits()
