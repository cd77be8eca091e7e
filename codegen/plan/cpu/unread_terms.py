"""Terms that a register tile leaves out: all its rows read them from the padding of the image, which is zero.

Zero times a finite number adds nothing. So the other operand must be a constant, whose panels say whether all numbers
are finite (`codegen.lower.cpu.read_terms`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from codegen.plan.contraction_view import Contraction
from codegen.plan.window_digits import WindowDigit, window_digits
from ir.dtype import DTYPES
from ir.plan.cpu import Blocks, Place

_LEAST_TERMS = 16
"""Terms inside a digit from which on the tile tests the digit's terms."""
_LEAST_SHARE = 0.01
"""The least share of all terms that pays for the tests."""


class TileRange(NamedTuple):
    """Where the rows of a tile lie along one of their digits: the digit's size, the rows per step of the digit, and
    whether all its points count for every tile."""

    size: int
    inner: int
    whole: bool


def unread_digits(view: Contraction, blocks: Blocks, places: tuple[Place, Place]) -> tuple[WindowDigit, ...]:
    """The digits of k whose terms the plan's register tiles leave out where no row of theirs reads the image."""
    if blocks.algorithm != "outer" or places[view.vector] != "const_pool":
        return ()
    windows = _windows(view)
    return windows if windows and 1 - share_of_terms(view, blocks.mr) >= _LEAST_SHARE else ()


def lean_heights(view: Contraction, heights: Iterable[int]) -> tuple[int, ...]:
    """Of these heights of a tile, the one that leaves out the most terms, if tiles leave out terms at all: the tallest
    of several."""
    if not _windows(view):
        return ()
    return tuple(sorted(heights, key=lambda mr: (share_of_terms(view, mr), -mr))[:1])


@lru_cache(maxsize=256)
def share_of_terms(view: Contraction, mr: int) -> float:
    """The share of all terms that tiles of `mr` rows take where they leave out what they can."""
    first, windows = np.arange(0, view.m, mr), _windows(view)
    inside: dict[int, np.ndarray] = {}
    for window in windows:
        low, high = _range_of(view, window, first, mr)
        ends = window.row_step * low[:, None], window.row_step * high[:, None]
        place = window.step * np.arange(view.sizes[window.digit])
        taken = (place + np.maximum(*ends) >= window.low) & (place + np.minimum(*ends) < window.high)
        inside[window.digit] = inside.get(window.digit, True) & taken
    shares = [taken.mean(axis=1) for taken in inside.values()]
    return float(np.prod(shares, axis=0).mean()) if shares and first.size else 1.0


def tile_range(view: Contraction, row: int, mr: int) -> TileRange:
    """The range of a tile of `mr` rows along the digit `row`."""
    place = view.rows.index(row)
    size, inner = view.sizes[row], view.extent(view.rows[place + 1 :])
    outermost = view.extent(view.rows[:place]) == 1
    return TileRange(size, inner, not outermost and bool(size * inner % mr))


def _range_of(view: Contraction, window: WindowDigit, first: np.ndarray, mr: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last number of the window's row digit in the tiles that start at the rows `first`."""
    zero = np.zeros_like(first)
    if window.row is None:
        return zero, zero
    size, inner, whole = tile_range(view, window.row, mr)
    if whole:
        return zero, zero + size - 1
    return first // inner % size, np.minimum((first + mr - 1) // inner, (view.m - 1) // inner) % size


@lru_cache(maxsize=256)
def _windows(view: Contraction) -> tuple[WindowDigit, ...]:
    """The digits of windows over the rows' image that have enough terms inside them."""
    inside = {position: view.extent(view.k[place + 1 :]) for place, position in enumerate(view.k)}
    return tuple(window for window in padded_windows(view) if inside[window.digit] >= _LEAST_TERMS)


def padded_windows(view: Contraction) -> tuple[WindowDigit, ...]:
    """The digits of windows over the rows' image whose terms from the padding may be left out, if the columns are
    finite."""
    side = 1 - view.vector
    is_float = DTYPES[view.accumulator].is_float
    if view.ordered or not is_float or not view.is_constant(view.vector) or view.is_empty:
        return ()
    image = view.padded_image(side)
    if image is None or image.fill != 0:
        return ()
    return window_digits(image.read, view.rows, view.k)
