"""Plans of regions that differ in the names of buffers and values alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ir.plan.plan import Plan
from ir.region.region import Region
from ir.serde import from_builtins, to_builtins

_MADE = re.compile(r"(?<![a-z0-9])(in|out|v)\d")
"""A canonical name (`ir.region.region.canonical`) at the start of a word or of a part of it."""


def rename_plan(plan: Plan, names: Mapping[str, str]) -> Plan | None:
    """The plan of a region in canonical form, by the names of another region of that form. None where the plan has
    names that are made of those of the region, as the parts of a stream have."""
    words = to_builtins(plan)
    if any(word not in names and _MADE.search(word) for word in _words_of(words)):
        return None
    renamed: Plan = from_builtins(rename_words(words, names), Plan)  # type: ignore[arg-type]
    return renamed


def _words_of(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, list | tuple | Mapping):
        for item in data.values() if isinstance(data, Mapping) else data:
            yield from _words_of(item)


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
