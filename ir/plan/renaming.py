"""Plans of regions that differ in the names of buffers and values alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ir.plan.plan import Plan
from ir.region.region import Region
from ir.serde import from_builtins, to_builtins


def rename_plan(plan: Plan, names: Mapping[str, str]) -> Plan:
    """The plan with other names of buffers and values; no old name may be a word of the plan itself."""
    renamed: Plan = from_builtins(rename_words(to_builtins(plan), names), Plan)  # type: ignore[arg-type]
    return renamed


def rename_words(data: Any, names: Mapping[str, str]) -> Any:
    """JSON whose words have other names."""
    if isinstance(data, str):
        return names.get(data, data)
    if isinstance(data, list | tuple):
        return [rename_words(item, names) for item in data]
    if isinstance(data, Mapping):
        return {key: rename_words(item, names) for key, item in data.items()}
    return data


def names_between(region: Region, other: Region) -> dict[str, str]:
    """The names in a region → those of the same buffers and values in one of the same form."""
    buffers = zip(region.buffers, other.buffers, strict=True)
    values = zip(region.body, other.body, strict=True)
    return {own.name: new.name for own, new in buffers} | {own.name: new.name for own, new in values}
