"""Why a phase of saturation ended."""

from __future__ import annotations

from enum import StrEnum


class Stop(StrEnum):
    """`SATURATED`: nothing changes any more. MATCH_LIMIT: nothing changes any more, but some rules rest. The others are
    limits of `eqsat.Budget`."""

    SATURATED = "saturated"
    NODE_LIMIT = "node_limit"
    ITERATION_LIMIT = "iteration_limit"
    MATCH_LIMIT = "match_limit"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
