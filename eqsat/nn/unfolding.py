"""The windows of an image as columns of a matrix, and the sum of such columns (im2col and col2im)."""

from __future__ import annotations

import math

from eqsat.lazy.argument_checks import STAGE, per_axis, refuse
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import image_of
from eqsat.nn.phases import PhaseAxis, alternate, cover, interleave, phases_of, positions, rounds_of, split_taps
from eqsat.nn.windows import Padding, PerAxis, pad_around, slide, windows_over
from eqsat.tensor import Tensor, as_tensor
from ir.diagnostics import Kind, fail


@takes_torchs_names
def unfold(x: Tensor, kernel: PerAxis, dilation: PerAxis = 1, padding: Padding = 0, stride: PerAxis = 1) -> Tensor:
    """The windows of x [N, C, …] as [N, C · elements of a window, windows]; torch's order of arguments."""
    x = image_of(x, "unfold")
    count = x.ndim - 2
    plan = windows_over("unfold", x.shape[2:], kernel, stride, padding, dilation)
    windows = slide(pad_around(x, plan), plan)
    places, elements = windows.shape[2 : 2 + count], windows.shape[2 + count :]
    ordered = windows.permute(0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count))
    return ordered.reshape(x.shape[0], x.shape[1] * math.prod(elements), math.prod(places))


@takes_torchs_names
def fold(
    x: Tensor,
    output_size: PerAxis,
    kernel: PerAxis,
    dilation: PerAxis = 1,
    padding: Padding = 0,
    stride: PerAxis = 1,
) -> Tensor:
    """The image [N, C, *output_size] whose elements are sums of the columns x [N, C · elements of a window, windows]
    that `unfold` would make of them; torch's order of arguments. `output_size` is one number for an image of two axes,
    or one number per axis."""
    x = as_tensor(x)
    sizes = per_axis(output_size, len(output_size) if isinstance(output_size, list | tuple) else 2, "output_size")
    if x.ndim != 3 or not sizes:
        refuse(Kind.AXIS_SIZE_MISMATCH, "fold", "x must be [N, C · elements, windows]", x.shape, hint="reshape it")
    plan = windows_over("fold", sizes, kernel, stride, padding, dilation)
    taps, places = [axis.kernel for axis in plan], [axis.places for axis in plan]
    n, columns, windows = x.shape
    if columns % math.prod(taps) or min(places) < 1 or windows != math.prod(places):
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            "the columns are not those of this image",
            op="fold",
            hint=f"x [N, C·{math.prod(taps)}, {math.prod(max(place, 0) for place in places)}]",
            shape=x.shape,
            output_size=sizes,
        )
    axes = [PhaseAxis(a.places, a.kernel, a.stride, a.dilation, a.before, a.size) for a in plan]
    return _sum_of_taps(x.reshape(n, columns // math.prod(taps), *taps, *places), axes)


def _sum_of_taps(x: Tensor, axes: list[PhaseAxis]) -> Tensor:
    """The image of x [N, C, kernel of each axis, windows of each axis]."""
    count = len(axes)
    taps = range(2 + count, 2 + 2 * count)
    backwards = cover(x, axes).flip(tuple(range(2, 2 + count)))
    shape = (*x.shape[:2], *(axis.quotients for axis in axes), *(axis.kernel for axis in axes))
    index_map = ["i0", "i1", *(f"i{axis}" for axis in taps), *positions(axes, 2, 2 + count)]
    windows = Tensor("VIEW", [backwards], {"result_shape": shape, "index_map": index_map})
    split = split_taps(windows.flip(tuple(taps)), axes, 2 + count)
    places = alternate(range(2, 2 + count), phases_of(axes, 2 + count))
    rounds = split.permute(0, 1, *places, *rounds_of(axes, 2 + count))
    return interleave(rounds.sum(tuple(range(2 + 2 * count, rounds.ndim)), dtype=x.dtype), axes)
