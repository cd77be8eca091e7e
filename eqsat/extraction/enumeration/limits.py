"""How much of an e-graph enumeration looks at."""

from __future__ import annotations

import msgspec


class EnumerationLimits(msgspec.Struct, frozen=True):
    """Of enumeration.

    alternatives  trees of one kind that survive per class of values
    constants     of them, those that read nothing but constants
    candidates    trees of one kind that survive per buffer
    reductions    how many reductions of a kernel are told apart: kernels with more are of one kind
    combinations  of operands that are looked at per node
    """

    alternatives: int = 6
    constants: int = 2
    candidates: int = 12
    reductions: int = 3
    combinations: int = 144


DEFAULT = EnumerationLimits()
