"""Plans that were measured, kept on disk: a file for each region on one machine, by the hash of all that their times
depend on.

Only compilations that ask for measured plans read them (`autotune=True`): what any other call gives depends on no
clock, whatever lies in the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from eqsat.runtime.artifact_cache import source_digest
from ir.diagnostics import EqsatError
from ir.host.checked_file import read_checked, write_checked
from ir.plan.plan import Plan
from ir.region.region import Region
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


class PlanCache:
    """The measured plans of one machine below `folder`. `device`: what the machine is; `options`: what else kernels
    depend on."""

    def __init__(self, folder: Path, target: Target, device: str, options: Sequence[str] = ()) -> None:
        self._folder = folder / "plans"
        self._parts = [source_digest(), to_builtins(target), device, *options]

    def path(self, region: Region) -> Path:
        """Where the plan of a region is kept, whatever the region is called."""
        unnamed = to_builtins(msgspec.structs.replace(region, name=""))
        text = json.dumps([*self._parts, unnamed], sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def recall(self, region: Region, rivals: Sequence[Plan]) -> MeasuredPlan | None:
        """What was kept of a region, if it is whole, and its plan is one of those that the region has."""
        try:
            found = from_json(read_checked(self.path(region)), MeasuredPlan)
        except (OSError, ValueError, EqsatError):  # absent, damaged, or of another form: measured again
            return None
        return found if found.plan in rivals else None

    def keep(self, region: Region, found: MeasuredPlan) -> None:
        """Keep a region's plan for the next compilation; where nothing can be written, that one measures again."""
        with contextlib.suppress(OSError):
            write_checked(self.path(region), to_json(found).encode())
