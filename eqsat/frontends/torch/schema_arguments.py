"""The arguments of an FX node → the arguments of a lowering, in the order of the operator's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PLACEMENT = frozenset({"layout", "device", "pin_memory", "non_blocking", "memory_format"})
"""Parameters that say where and how a tensor lies. Lowerings do not get them."""


def schema_arguments(target: Any, given: Sequence[Any], by_name: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """All positional arguments of the overload `target`, defaults included, and the keyword-only ones that the node
    gives."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for place, parameter in enumerate(target._schema.arguments):
        name = parameter.name
        if name in PLACEMENT:
            continue
        if parameter.kwarg_only:
            if name in by_name:
                keywords[name] = by_name[name]
        elif place < len(given):
            positional.append(given[place])
        else:
            positional.append(by_name.get(name, parameter.default_value))
    return positional, keywords
