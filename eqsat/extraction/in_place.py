"""Which concatenations count as nothing, since kernels are likely to write the parts into their places in the end
(`eqsat.assembly.concatenate_in_place`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ir.pricer import Price
from ir.region.concatenation import input_boxes
from ir.region.region import Region

_FILLING_SHARE = 0.05
"""The share of its time at which such a concatenation is priced: of two ways to do without copies, the one with fewer
concatenations wins."""


def filling_price(price: Price) -> Price:
    """The price of such a concatenation, of which this is the price as a kernel that copies."""
    return price.idle(_FILLING_SHARE * price.time_ns)


def may_fill(region: Region, buffers: Sequence[int], fixed: Collection[int]) -> bool:
    """Whether a region only puts results of kernels side by side. buffers: the Buf classes that it reads and writes.
    fixed: those whose memory the caller decides, or which are known when the program is built."""
    movable = len(set(buffers)) == len(buffers) and not any(buffer in fixed for buffer in buffers)
    return movable and input_boxes(region) is not None
