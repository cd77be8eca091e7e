"""The names of free sizes: those of `torch.export.Dim`, or of the axis that has the size."""

from __future__ import annotations

import re
from typing import Any

_SIZE_OF_ARGUMENT = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\]")
"""How torch names the size of an axis of a function's argument."""


def names_of(size: Any) -> list[str]:
    """The names of a SymInt that is one symbol: of torch.export.Dim("batch"), `batch`; of axis 0 of the arguments x and
    mask, `x_0` and `mask_0`. Empty where torch knows no such origin."""
    environment, symbol = size.node.shape_env, size.node.expr
    given = getattr(environment, "source_name_to_debug_name", {})
    names = []
    for source in environment.var_to_sources.get(symbol, ()):
        text = source.name if isinstance(source.name, str) else source.name()
        match = _SIZE_OF_ARGUMENT.fullmatch(text)
        names += [given[text]] if text in given else [f"{match[1]}_{match[2]}"] if match else []
    return names
