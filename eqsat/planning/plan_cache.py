"""Plans that were measured, kept on disk: a file for each region on one machine, by the hash of all that their times
depend on. Regions that differ in names only share a file, so that programs share measurements.

Only compilations that ask for measured plans read them (`autotune=True`): what any other call gives depends on no
clock, whatever lies in the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from eqsat.runtime.artifact_cache import source_digest
from ir.diagnostics import EqsatError
from ir.host.checked_file import read_checked, write_checked
from ir.plan.plan import Plan
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
        names = _canonical_names(region)
        for plan in rivals:
            if _renamed(to_builtins(plan), names) == kept.plan:
                return MeasuredPlan(plan, kept.ns, kept.first_ns, kept.tried, kept.refused)
        return None

    def keep(self, region: Region, measured: MeasuredPlan) -> None:
        """Keep a region's plan for the next compilation; where nothing can be written, that one measures again."""
        plan = _renamed(to_builtins(measured.plan), _canonical_names(region))
        kept = _KeptPlan(plan, measured.ns, measured.first_ns, measured.tried, measured.refused)
        with contextlib.suppress(OSError):
            write_checked(self.path(region), to_json(kept).encode())


def _canonical_names(region: Region) -> dict[str, str]:
    """The canonical name of each buffer and value."""
    other = canonical(region)
    buffers = zip(region.buffers, other.buffers, strict=True)
    values = zip(region.body, other.body, strict=True)
    return {own.name: new.name for own, new in buffers} | {own.name: new.name for own, new in values}


def _renamed(data: Any, names: Mapping[str, str]) -> Any:
    """JSON with other names. A word that is also a name changes too, as it does in every plan of the region."""
    if isinstance(data, str):
        return names.get(data, data)
    if isinstance(data, list | tuple):
        return [_renamed(item, names) for item in data]
    if isinstance(data, Mapping):
        return {key: _renamed(item, names) for key, item in data.items()}
    return data
