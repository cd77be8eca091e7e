"""A kernel without one of its synchronising statements, for each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ir.kernel.gpu.device_functions import DEVICE_FUNCTIONS, Effect

_ORDERING = {Effect.BARRIER, Effect.WARP_SYNC, Effect.COMMIT, Effect.WAIT, Effect.FENCE}
_NAMES = sorted(name for name, function in DEVICE_FUNCTIONS.items() if function.effect in _ORDERING)
_STATEMENT = re.compile(rf"\b(?:{'|'.join(_NAMES)})(?:<\d+>)?\(\);")


def deletions(text: str, kernel: str) -> Iterator[tuple[str, str]]:
    """(name, text) of each; the kernel takes the name, which says the line."""
    for match in _STATEMENT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        name = f"{kernel}_without_line_{line}"
        yield name, (text[: match.start()] + ";" + text[match.end() :]).replace(kernel, name)
