"""The types of the attributes of convolutions and pools in Frontend IR; `eqsat.nn.windows` says what they mean."""

from __future__ import annotations

from eqsat.nn.windows import AutoPadding

Pair = int | tuple[int, ...]
"""One number for all spatial axes, or one per axis."""
Padding = int | tuple[int | tuple[int, int], ...] | AutoPadding
"""The same padding on all sides, per axis one number or (before, after), or a name."""
