"""A module with the prices of its calls, between the passes that change both."""

from __future__ import annotations

from typing import NamedTuple

from ir.module.module import Module
from ir.pricer import Price


class PricedModule(NamedTuple):
    """prices: of the running calls. kept: the positions that these calls had among the running calls before a pass."""

    module: Module
    prices: tuple[Price, ...]
    kept: tuple[int, ...]
