"""The contraction of a region as plans for CPUs see it: windows that read much padding come first in k.

Then all channels of a position of the window follow one another, and a register tile leaves out many terms at once
(`codegen.plan.cpu.unread_terms`).
"""

from __future__ import annotations

from dataclasses import replace

from codegen.plan.contraction_view import Contraction, contraction_of
from codegen.plan.cpu.unread_terms import padded_windows
from codegen.plan.window_digits import share_inside
from ir.poly.core import PolyCore
from ir.region.region import Region

_MOST_INSIDE = 0.92
"""The share of a window's positions inside the image below which the window's digits come first."""


def cpu_contraction_of(
    region: Region, core: PolyCore, *, vector: int | None = None, ordered: bool = False
) -> Contraction | None:
    """As `codegen.plan.contraction_view.contraction_of`, with the digits of k in the order for CPUs."""
    view = contraction_of(region, core, vector=vector, ordered=ordered)
    if view is None:
        return None
    first = _padded_digits(view)
    return replace(view, k=tuple(sorted(view.k, key=lambda digit: digit not in first))) if first else view


def reads_much_padding(view: Contraction) -> bool:
    """Whether tiles of the rows leave out many terms that they would read from padding."""
    return bool(_padded_digits(view))


def _padded_digits(view: Contraction) -> set[int]:
    """The digits of windows that come first."""
    return {window.digit for window in padded_windows(view) if share_inside(window, view.sizes) < _MOST_INSIDE}
