"""How a program came about, in numbers."""

from __future__ import annotations

import msgspec

from eqsat.egraph.saturate import SaturationStats
from ir.diagnostics import Diagnostic


class Stats(msgspec.Struct, frozen=True):
    """uops of the graph as bound; kernels before (one a uop) and after; candidates that extraction considered; a bound
    from below on the time of the program as written; seconds of wall clock per stage of the optimizer; what extraction
    had to say, and what chose other plans than the estimate did."""

    uops: int
    kernels_before: int
    kernels_after: int
    candidates: int
    estimated_before_ns: float
    saturation: SaturationStats
    seconds: dict[str, float]
    extraction: tuple[Diagnostic, ...] = ()
    planning: tuple[Diagnostic, ...] = ()

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that the optimizer had to say."""
        return (*self.saturation.warnings, *self.extraction, *self.planning)
