"""Windows that slide over the spatial axes of an image: their places, and the padding around the image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from eqsat.lazy.argument_checks import STAGE, flag, pair, per_axis
from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail
from ir.grammar import with_count

PerAxis = int | Sequence[int]
"""One number for all spatial axes, or one per axis."""
AutoPadding = Literal["valid", "same", "same_upper", "same_lower"]
"""valid: no padding. same_upper and same_lower (ONNX): as many windows as strides fit; an odd element of padding stands
after (upper) or before (lower) the axis. same (torch): same_upper of windows with stride 1."""
Padding = int | Sequence[int | Sequence[int]] | AutoPadding
"""The same padding on all sides, per axis one number or (before, after), or a name."""


class Window(NamedTuple):
    """The windows along one spatial axis, in elements. before, after: the padding. beyond: the elements that the last
    window of `ceil_mode` reads beyond the padding."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    beyond: int = 0

    @property
    def reach(self) -> int:
        """From the first to the last element of a window."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def places(self) -> int:
        """How many windows there are."""
        return (self.before + self.size + self.after + self.beyond - self.reach) // self.stride + 1


def windows_over(
    op: str,
    sizes: Sequence[int],
    kernel: PerAxis,
    stride: PerAxis | None = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> list[Window]:
    """The windows along each spatial axis. Without a stride, windows stand side by side.

    `ceil_mode` keeps an incomplete last window if it begins inside the image or the padding before it, as torch and
    ONNX define it.

    Raises:
        EqsatError: MalformedGraph for another number of axes, or a kernel, stride or dilation below 1.
    """
    count = len(sizes)
    given = {"kernel": kernel, "stride": kernel if stride is None else stride, "dilation": dilation}
    steps = {name: per_axis(value, count, name) for name, value in given.items()}
    for name, numbers in steps.items():
        if any(number < 1 for number in numbers):
            message = f"the {name} is {list(numbers)}, but windows have numbers from 1 on"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, op=op, hint="flip(axis) reads an axis backwards")
    axes = zip(sizes, steps["kernel"], steps["stride"], steps["dilation"], strict=True)
    bare = [Window(*axis, 0, 0) for axis in axes]
    widths = _padding(op, padding, bare)
    padded = [axis._replace(before=a, after=b) for axis, (a, b) in zip(bare, widths, strict=True)]
    return [axis._replace(beyond=_beyond(axis)) for axis in padded] if flag(ceil_mode, "ceil_mode") else padded


def pad_around(x: Tensor, windows: Iterable[Window], value: float | int = 0) -> Tensor:
    """x with the padding of the windows, along its last axes."""
    widths = [(axis.before, axis.after + axis.beyond) for axis in windows]
    return x.pad([(0, 0)] * (x.ndim - len(widths)) + widths, value)


def slide(x: Tensor, windows: Sequence[Window]) -> Tensor:
    """x […, size of each axis], which is padded, as […, places of windows, elements of a window]."""
    given: dict[str, Any] = {name: tuple(getattr(axis, name) for axis in windows) for name in _POOL}
    return Tensor("POOL", [x], given)


_POOL = ("kernel", "stride", "dilation")


def _padding(op: str, padding: Padding, windows: Sequence[Window]) -> list[tuple[int, int]]:
    """(before, after) of every axis."""
    if isinstance(padding, str):
        return [_automatic(op, padding, axis) for axis in windows]
    if not isinstance(padding, list | tuple):
        return [pair(padding, "padding")] * len(windows)
    if len(padding) != len(windows):
        axes = with_count(len(windows), "spatial axis", "spatial axes")
        message = f"padding has {with_count(len(padding), 'item')} for {axes}"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op=op, hint="per axis one number or (before, after)")
    return [pair(widths, "padding") for widths in padding]


def _automatic(op: str, padding: str, axis: Window) -> tuple[int, int]:
    if padding == "valid":
        return 0, 0
    if padding not in ("same", "same_upper", "same_lower"):
        hint = "valid, same, same_upper or same_lower"
        fail(Kind.MALFORMED_GRAPH, STAGE, f"there is no padding {padding!r}", op=op, hint=hint)
    if padding == "same" and axis.stride != 1:
        message = f"padding='same' with the stride {axis.stride}"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, op=op, hint="'same_upper' and 'same_lower' go with any stride")
    places = -(-axis.size // axis.stride)
    missing = max((places - 1) * axis.stride + axis.reach - axis.size, 0)
    less, more = missing // 2, missing - missing // 2
    return (more, less) if padding == "same_lower" else (less, more)


def _beyond(axis: Window) -> int:
    """How many elements the last window of `ceil_mode` reads beyond the padding."""
    whole = axis.before + axis.size + axis.after
    places = -(-(whole - axis.reach) // axis.stride) + 1
    if (places - 1) * axis.stride >= axis.before + axis.size:
        places -= 1
    return max((places - 1) * axis.stride + axis.reach - whole, 0)
