"""The log of launches: a record before each launch of a GPU's kernel, on a device or in the emulator."""

from __future__ import annotations

import logging

LAUNCHES = logging.getLogger("eqsat.launch")
"""At level DEBUG; the message is the kernel's name."""


def note_launch(kernel: str) -> None:
    """Logs that the kernel is launched next."""
    if LAUNCHES.isEnabledFor(logging.DEBUG):
        LAUNCHES.debug("%s", kernel)
