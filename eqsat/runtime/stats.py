"""Figures of the optimization of a program."""

from __future__ import annotations

import msgspec

from eqsat.egraph.saturation_stats import SaturationStats
from ir.diagnostics import Diagnostic


class Stats(msgspec.Struct, frozen=True):
    """uops: of the bound graph. kernels_before: one per uop. candidates: that extraction considered.
    estimated_before_ns: a lower bound on the time of the program as written. seconds: wall time by stage of the
    optimizer. extraction: notes of extraction. planning: notes on plans chosen against the estimate."""

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
        """All notes and warnings of the optimizer."""
        return (*self.saturation.warnings, *self.extraction, *self.planning)
