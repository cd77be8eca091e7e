"""Windows that are added into an image, as transposed convolutions and `fold` do it, without stored zeros.

Tap k of window i is added at the place i·stride + k·dilation − before of the result. Let g = gcd(stride, dilation),
period = stride / g and hop = dilation / g. All taps k of one phase, that is, of one remainder k mod period, are added
at places of one remainder:

    place + before = stride·q + g·((k·hop) mod period)    with    q = i + ⌊k·hop / period⌋

So the image at q in one phase is a sum over the taps of that phase, which read window q − ⌊k·hop / period⌋, and the
phases are interleaved at the end. No product reads an inserted zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eqsat.tensor import Tensor


class PhaseAxis(NamedTuple):
    """One spatial axis. size: windows. kernel: taps of a window. before, length: the place of the result's first
    element, and the number of its elements."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    length: int

    @property
    def gap(self) -> int:
        """The greatest common divisor of stride and dilation. Only one of `gap` neighbouring places has taps."""
        return math.gcd(self.stride, self.dilation)

    @property
    def period(self) -> int:
        """How many phases the result has, apart from the gaps."""
        return self.stride // self.gap

    @property
    def hop(self) -> int:
        return self.dilation // self.gap

    @property
    def phases(self) -> int:
        """How many phases have taps."""
        return min(self.kernel, self.period)

    @property
    def rounds(self) -> int:
        """The most taps of a phase."""
        return -(-self.kernel // self.phases)

    @property
    def first(self) -> int:
        """The q of the result's first element."""
        return self.before // self.stride

    @property
    def quotients(self) -> int:
        """How many q the result has."""
        return -(-(self.before + self.length) // self.stride) - self.first

    @property
    def lag(self) -> int:
        """How many windows before q the last tap reads."""
        return (self.kernel - 1) * self.hop // self.period


def cover(windows: Tensor, axes: Sequence[PhaseAxis]) -> Tensor:
    """The last axes cut and padded to the windows that the result reads: from first − lag to first + quotients − 1."""
    lead, widths = windows.ndim - len(axes), []
    low, high = [0] * lead, [*windows.shape[:lead]]
    for axis in axes:
        start, stop = axis.first - axis.lag, axis.first + axis.quotients
        last = _clamp(stop, 0, axis.size)
        low.append(min(_clamp(start, 0, axis.size), last))
        high.append(last)
        before = _clamp(-start, 0, stop - start)
        widths.append((before, stop - start - before - (high[-1] - low[-1])))
    part = windows if (*low, *high) == (*(0,) * len(low), *windows.shape) else windows.shrink(low, high)
    return part.pad([(0, 0)] * lead + widths)


def positions(axes: Sequence[PhaseAxis], q: int, tap: int) -> list[str]:
    """The window that the last tap but k reads at q, in a tensor that `cover` made: an index expression per axis, where
    axis `q` + a of the result counts q and axis `tap` + a counts k."""
    return [_position(axis, f"i{q + place}", f"i{tap + place}") for place, axis in enumerate(axes)]


def split_taps(x: Tensor, axes: Sequence[PhaseAxis], first: int) -> Tensor:
    """The axes of taps from `first` on, each as (rounds, phases) with rounds backwards; missing taps are 0."""
    after = first + len(axes)
    widths = [(0, axis.rounds * axis.phases - axis.kernel) for axis in axes]
    padded = x.pad([(0, 0)] * first + widths + [(0, 0)] * (x.ndim - after))
    split = [size for axis in axes for size in (axis.rounds, axis.phases)]
    return padded.reshape(*x.shape[:first], *split, *x.shape[after:]).flip(rounds_of(axes, first))


def rounds_of(axes: Sequence[PhaseAxis], first: int) -> tuple[int, ...]:
    """The axes of rounds after `split_taps`."""
    return tuple(range(first, first + 2 * len(axes), 2))


def phases_of(axes: Sequence[PhaseAxis], first: int) -> tuple[int, ...]:
    """The axes of phases after `split_taps`."""
    return tuple(range(first + 1, first + 2 * len(axes), 2))


def interleave(x: Tensor, axes: Sequence[PhaseAxis]) -> Tensor:
    """The result [N, C, length of each axis] of x [N, C, quotients, phases, quotients, phases, …]."""
    lead = x.shape[:2]
    missing = [widths for axis in axes for widths in ((0, 0), (0, axis.period - axis.phases))]
    every = _in_order_of_places(x.pad([(0, 0), (0, 0), *missing]), axes)
    places = every.reshape(*lead, *(size for axis in axes for size in (axis.quotients * axis.period, 1)))
    gaps = [widths for axis in axes for widths in ((0, 0), (0, axis.gap - 1))]
    whole = places.pad([(0, 0), (0, 0), *gaps]).reshape(*lead, *(axis.quotients * axis.stride for axis in axes))
    low = [axis.before % axis.stride for axis in axes]
    high = [start + axis.length for start, axis in zip(low, axes, strict=True)]
    return whole if whole.shape[2:] == tuple(high) and not any(low) else whole.shrink((0, 0, *low), (*lead, *high))


def _position(axis: PhaseAxis, q: str, tap: str) -> str:
    """q + lag − ⌊(kernel − 1 − tap)·hop / period⌋, written with a positive stride."""
    offset = axis.lag * axis.period - (axis.kernel - 1) * axis.hop + axis.period - 1
    return f"{q} + ({axis.hop}*{tap} + {offset})//{axis.period}"


def _in_order_of_places(x: Tensor, axes: Sequence[PhaseAxis]) -> Tensor:
    """x [N, C, quotients, phase, …] with phases ordered by their places: phase k is at the place (k·hop) mod period."""
    if all(axis.hop % axis.period == 1 % axis.period for axis in axes):
        return x
    expressions = ["i0", "i1"]
    for number, axis in enumerate(axes):
        place, inverse = f"i{3 + 2 * number}", pow(axis.hop, -1, axis.period)
        turn = f"{inverse}*{place} - {axis.period}*(({inverse}*{place})//{axis.period})"
        expressions += [f"i{2 + 2 * number}", turn]
    return Tensor("VIEW", [x], {"result_shape": x.shape, "index_map": expressions})


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def alternate(firsts: Iterable[int], seconds: Iterable[int]) -> tuple[int, ...]:
    """One of the first, one of the second, and so on."""
    return tuple(number for both in zip(firsts, seconds, strict=True) for number in both)
