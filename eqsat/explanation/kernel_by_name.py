"""Finds the kernel that the caller names: by place, report, written buffer, or a name that only one launch has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from eqsat.runtime.compiled import KernelReport
from ir.diagnostics import Kind, fail

Wanted: TypeAlias = "int | str | KernelReport"
"""How a caller may name a kernel."""


def place_of(kernels: Sequence[KernelReport], wanted: Wanted) -> int:
    """The place of the launch that the caller names, from 0 on.

    Raises:
        EqsatError: InvalidOption if no launch or several launches fit; the hint lists their buffers.
    """
    if isinstance(wanted, int) and not isinstance(wanted, bool) and -len(kernels) <= wanted < len(kernels):
        return wanted % len(kernels)
    if isinstance(wanted, KernelReport):
        wanted = wanted.writes[0]
    writing = [place for place, kernel in enumerate(kernels) if wanted in kernel.writes]
    named = [place for place, kernel in enumerate(kernels) if wanted in (kernel.name, kernel.function)]
    if len(places := writing or named) == 1:
        return places[0]
    if places:
        message = f"{len(places)} kernels are called {wanted!r}: name the buffer that is written"
    else:
        message = f"there is no kernel {wanted!r}: name a kernel, the buffer that it writes, or its place"
    listed = places or range(len(kernels))
    known = [f"{kernels[place].name} → {', '.join(kernels[place].writes)}" for place in listed]
    fail(Kind.INVALID_OPTION, "explain", message, hint="; ".join(known[:_HINTS]), kernels=len(kernels))


def output_of(kernels: Sequence[KernelReport], wanted: Wanted) -> tuple[int, int]:
    """The place of the launch that the caller names, and of its output: the named one, else the first. Raises as
    `place_of`."""
    place = place_of(kernels, wanted)
    writes = kernels[place].writes
    return place, writes.index(wanted) if isinstance(wanted, str) and wanted in writes else 0


_HINTS = 8
"""Kernels that a hint lists at most."""
