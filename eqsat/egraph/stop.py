"""Why a phase of saturation ended."""

from __future__ import annotations

from enum import StrEnum


class Stop(StrEnum):
    """`SATURATED`: nothing changed any more. The others are limits of `eqsat.options.Budget`; MATCH_LIMIT says that
    nothing changed any more but by rules that rest."""

    SATURATED = "saturated"
    NODE_LIMIT = "node_limit"
    ITERATION_LIMIT = "iteration_limit"
    MATCH_LIMIT = "match_limit"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
