"""What a caller may choose about a compilation; every field has a good default."""

from __future__ import annotations

from typing import Any

import msgspec
from ir.rule import Exactness


class Budget(msgspec.Struct, frozen=True):
    """Limits of saturation: e-nodes and iterations per phase, and seconds of wall clock (None: no limit).

    A stop by the wall clock is flagged in `program.stats`, since it may differ from run to run.
    """

    nodes: int = 400_000
    iterations: int = 200
    seconds: float | None = None


class Options(msgspec.Struct, frozen=True):
    """The keywords of `optimize_and_compile`.

    rules: names of the families to use (None: all). exactness: the highest level allowed. extractor: by name.
    threads: 0 means every core. verify: compare with playback on random inputs after compiling.
    """

    rules: tuple[str, ...] | None = None
    exactness: Exactness = Exactness.ROUNDING
    extractor: str = "pareto"
    cost_model: str = "roofline"
    budget: Budget = Budget()
    threads: int = 0
    verify: bool = False
    strict: bool = False

    def fingerprint(self) -> dict[str, Any]:
        """What of the options shapes the compiled program: part of its cache key."""
        chosen: dict[str, Any] = msgspec.to_builtins(self)
        return {key: value for key, value in chosen.items() if key not in ("threads", "verify")}
