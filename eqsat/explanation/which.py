"""Which kernel is meant: by its place, its report, the buffer that it writes, or its name where one launch has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from eqsat.runtime.compiled import KernelReport
from ir.diagnostics import Kind, fail

Wanted: TypeAlias = "int | str | KernelReport"
"""What a kernel may be named by."""


def place_of(kernels: Sequence[KernelReport], wanted: Wanted) -> int:
    """The launch that is meant, from 0 on.

    Raises:
        EqsatError: InvalidOption, where there is none, or several; it lists the buffers that tell them apart.
    """
    if isinstance(wanted, int) and not isinstance(wanted, bool) and -len(kernels) <= wanted < len(kernels):
        return wanted % len(kernels)
    if isinstance(wanted, KernelReport):
        wanted = wanted.writes[0]
    writing = [place for place, each in enumerate(kernels) if wanted in each.writes]
    named = [place for place, each in enumerate(kernels) if wanted in (each.name, each.function)]
    if len(found := writing or named) == 1:
        return found[0]
    if found:
        message = f"{len(found)} kernels are called {wanted!r}: name the buffer that is written"
    else:
        message = f"there is no kernel {wanted!r}: name a kernel, the buffer that it writes, or its place"
    places = found or range(len(kernels))
    known = [f"{kernels[place].name} → {', '.join(kernels[place].writes)}" for place in places]
    fail(Kind.INVALID_OPTION, "explain", message, hint="; ".join(known[:_HINTS]), kernels=len(kernels))


def output_of(kernels: Sequence[KernelReport], wanted: Wanted) -> tuple[int, int]:
    """The launch that is meant, and which of its outputs: the one named, else the first. Raises as `place_of`."""
    place = place_of(kernels, wanted)
    writes = kernels[place].writes
    return place, writes.index(wanted) if isinstance(wanted, str) and wanted in writes else 0


_HINTS = 8
