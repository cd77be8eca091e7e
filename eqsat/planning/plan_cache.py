"""Plans that were measured, kept on disk: a file for each region on one machine, by the hash of all that their times
depend on. Regions that differ in names only share a file, so that programs share measurements.

Only compilations that ask for measured plans read them (`autotune=True`): what any other call gives depends on no
clock, whatever lies in the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from eqsat.runtime.artifact_cache import source_digest
from ir.diagnostics import EqsatError
from ir.host.checked_file import read_checked, write_checked
from ir.plan.plan import Plan
from ir.plan.renaming import names_between, rename_words
from ir.region.region import Region, canonical
from ir.serde import from_json, to_builtins, to_json
from ir.target import Target


class MeasuredPlan(msgspec.Struct, frozen=True):
    """The plan that was the fastest of `tried`, its time, and that of the one which the estimate had put first; ns.
    `refused`: why others could not be built; `first_ns` is None where the first is one of these."""

    plan: Plan
    ns: float
    first_ns: float | None
    tried: int
    refused: tuple[str, ...] = ()


class _KeptPlan(msgspec.Struct, frozen=True):
    """A `MeasuredPlan` on disk: `plan` as JSON, under the canonical names of buffers and values."""

    plan: Any
    ns: float
    first_ns: float | None
    tried: int
    refused: tuple[str, ...]


class PlanCache:
    """The measured plans of one machine below `folder`. `device` describes the machine; `options` are the other texts
    on which kernels depend."""

    def __init__(self, folder: Path, target: Target, device: str, options: Sequence[str] = ()) -> None:
        self._folder = folder / "plans"
        self._parts = [source_digest(), to_builtins(target), device, *options]

    def path(self, region: Region) -> Path:
        """Where the plan of a region is kept, whatever the region and its buffers are called."""
        text = json.dumps([*self._parts, to_builtins(canonical(region))], sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def recall(self, region: Region, rivals: Sequence[Plan]) -> MeasuredPlan | None:
        """The measurement that was kept of a region, if the file is whole and its plan is one of the region's plans."""
        try:
            kept = from_json(read_checked(self.path(region)), _KeptPlan)
        except (OSError, ValueError, EqsatError):  # absent, damaged, or of another form: measured again
            return None
        names = names_between(region, canonical(region))
        for plan in rivals:
            if rename_words(to_builtins(plan), names) == kept.plan:
                return MeasuredPlan(plan, kept.ns, kept.first_ns, kept.tried, kept.refused)
        return None

    def keep(self, region: Region, measured: MeasuredPlan) -> None:
        """Keep a region's plan for the next compilation; where nothing can be written, that one measures again."""
        plan = rename_words(to_builtins(measured.plan), names_between(region, canonical(region)))
        kept = _KeptPlan(plan, measured.ns, measured.first_ns, measured.tried, measured.refused)
        with contextlib.suppress(OSError):
            write_checked(self.path(region), to_json(kept).encode())
