"""Convolutions over any number of spatial axes: windows of the image times filters, summed."""

from __future__ import annotations

from eqsat.lazy.argument_checks import STAGE, integer
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, image_of, over_axes, per_channel, tensor_of
from eqsat.nn.windows import Padding, PerAxis, pad_around, slide, windows_over
from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail


@takes_torchs_names
def conv(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x [N, Cin, …] with weight [Cout, Cin / groups, …] over all spatial axes (seed 002 §5.2).

    `padding` is one number, or per axis one number or a (before, after) pair, or "valid", "same", "same_upper" or
    "same_lower". `bias` has one number per output channel.
    """
    op = "conv"
    x, weight = image_of(x, op), tensor_of(op, "weight", weight)
    axes = x.ndim - 2
    if integer(groups, "groups") < 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{groups} groups", op=op)
    if weight.ndim != axes + 2 or x.shape[1] != groups * weight.shape[1] or weight.shape[0] % groups:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            f"{op} takes x [N, groups·Cin, …] and weight [groups·Cout, Cin, …] with {axes + 2} axes",
            op=op,
            shapes=[list(x.shape), list(weight.shape)],
            groups=groups,
        )
    n, (c_out, c_in, *kernel) = x.shape[0], weight.shape
    plan = windows_over(op, x.shape[2:], tuple(kernel), stride, padding, dilation)
    windows = slide(pad_around(x, plan), plan)
    places = windows.shape[2 : 2 + axes]
    r_out = c_out // groups
    full = (n, groups, r_out, *places, c_in, *kernel)
    patches = windows.reshape(n, groups, c_in, 1, *places, *kernel).expand(n, groups, c_in, r_out, *places, *kernel)
    filters = weight.reshape(1, groups, r_out, *(1,) * axes, c_in, *kernel).expand(*full)
    taps = range(4 + axes, 4 + 2 * axes)
    products = patches.permute(0, 1, 3, *range(4, 4 + axes), 2, *taps) * filters
    summed = products.sum(tuple(range(3 + axes, 4 + 2 * axes)), dtype=products.dtype).reshape(n, c_out, *places)
    return summed if bias is None else summed + per_channel(op, bias, summed, 1)


conv1d = over_axes(conv, "conv1d", 1)
conv2d = over_axes(conv, "conv2d", 2)
conv3d = over_axes(conv, "conv3d", 3)
