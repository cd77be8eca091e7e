"""The padding of a convolution or a pool: how many elements stand before and after each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from eqsat.lazy.argument_checks import pair
from eqsat.tensor import Tensor

Pair = int | tuple[int, ...]
Same = Literal["same_upper", "same_lower"]
"""As many windows as strides fit; an odd element of padding stands after (upper) or before (lower) the axis."""
Padding = int | tuple[int | tuple[int, int], ...] | Same


class WindowPadding(NamedTuple):
    """(before, after) per axis. pads: as the op declares. more: extra, only to complete the last window."""

    pads: list[tuple[int, int]]
    more: list[tuple[int, int]]

    @property
    def both(self) -> list[tuple[int, int]]:
        """The sum of `pads` and `more`."""
        return [(a + c, b + d) for (a, b), (c, d) in zip(self.pads, self.more, strict=True)]


def around(
    x: Tensor, kernel: Pair, stride: Pair, pad: Padding, dilation: Pair, ceil_mode: bool = False
) -> WindowPadding:
    """The padding of x [N, C, H, W]. `ceil_mode` keeps an incomplete last window if it begins inside x or the padding
    before x (ONNX MaxPool-22, AveragePool-22). With `Same` all windows are complete."""
    reach = [(k - 1) * d + 1 for k, d in zip(pair(kernel, "kernel"), pair(dilation, "dilation"), strict=True)]
    axes = list(zip(x.shape[2:], reach, pair(stride, "stride"), strict=False))
    if isinstance(pad, str):
        return WindowPadding([_same(*axis, pad) for axis in axes], [(0, 0)] * len(axes))
    pads = _explicit(pad)
    more = [_incomplete(*axis, *around_axis) if ceil_mode else 0 for axis, around_axis in zip(axes, pads, strict=False)]
    return WindowPadding(pads, [(0, places) for places in more])


def _explicit(pad: int | Sequence[int | tuple[int, int]]) -> list[tuple[int, int]]:
    both = (pad, pad) if isinstance(pad, int) else pad
    return [pair(widths, "pad") for widths in both]


def _same(size: int, reach: int, stride: int, pad: Same) -> tuple[int, int]:
    windows = -(-size // stride)
    missing = max((windows - 1) * stride + reach - size, 0)
    less, more = missing // 2, missing - missing // 2
    return (less, more) if pad == "same_upper" else (more, less)


def _incomplete(size: int, reach: int, stride: int, before: int, after: int) -> int:
    """How many elements the last window reads beyond the padding."""
    whole = before + size + after
    windows = -(-(whole - reach) // stride) + 1
    if (windows - 1) * stride >= before + size:
        windows -= 1
    return max((windows - 1) * stride + reach - whole, 0)
