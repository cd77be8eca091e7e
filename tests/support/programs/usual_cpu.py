"""The machine's CPU as most are."""

from __future__ import annotations

import msgspec

from eqsat.find_target import find_target
from ir.target import Target


def usual_cpu() -> Target:
    """The target "cpu" with cores that start two multiply-adds per cycle: tests expect the covers of such cores."""
    return msgspec.structs.replace(find_target("cpu"), fma_per_cycle=2.0)
