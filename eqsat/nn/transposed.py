"""Transposed convolutions, as one contraction per result that multiplies no inserted zeros."""

from __future__ import annotations

from eqsat.lazy.argument_checks import STAGE, integer, per_axis
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, image_of, over_axes, per_channel, tensor_of
from eqsat.nn.phases import PhaseAxis, alternate, cover, interleave, phases_of, positions, rounds_of, split_taps
from eqsat.nn.windows import Padding, PerAxis, Window, windows_over
from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail


@takes_torchs_names
def conv_transpose(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    groups: int = 1,
    dilation: PerAxis = 1,
) -> Tensor:
    """The transposed convolution of x [N, Cin, …] with weight [Cin, Cout / groups, …]: x[i]·weight[k] is added
    at the place i·stride + k·dilation − padding of the result, of size
    (size − 1)·stride + (kernel − 1)·dilation + 1 − padding before and after + output_padding.

    The result is computed by phases, the places of one remainder modulo the stride, with the taps that each phase has.
    If the stride does not divide the kernel, phases with fewer taps are filled up with taps of 0·0, to the number of
    taps ⌈kernel / stride⌉. `padding` is as in `conv`, without names.
    """
    op = "conv_transpose"
    x, weight = image_of(x, op), tensor_of(op, "weight", weight)
    count = x.ndim - 2
    _check(op, x, weight, groups)
    if isinstance(padding, str):
        fail(Kind.UNSUPPORTED_OP, STAGE, f"padding={padding!r} of a transposed convolution", op=op, hint="numbers")
    windows = windows_over(op, x.shape[2:], weight.shape[2:], stride, padding, dilation)
    extra = per_axis(output_padding, count, "output_padding")
    axes = [_axis(op, axis, more) for axis, more in zip(windows, extra, strict=True)]
    n, group, r_out = x.shape[0], weight.shape[0] // groups, weight.shape[1]
    images = _image_of_taps(x.reshape(n, groups, group, *x.shape[2:]), axes)
    products = images * _filters(weight.reshape(groups, group, *weight.shape[1:]), axes)
    phases = products.sum(tuple(range(3 + 2 * count, products.ndim)), dtype=products.dtype)
    result = interleave(phases.reshape(n, groups * r_out, *phases.shape[3:]), axes)
    return result if bias is None else result + per_channel(op, bias, result, 1)


conv_transpose1d = over_axes(conv_transpose, "conv_transpose1d", 1)
conv_transpose2d = over_axes(conv_transpose, "conv_transpose2d", 2)
conv_transpose3d = over_axes(conv_transpose, "conv_transpose3d", 3)


def _image_of_taps(x: Tensor, axes: list[PhaseAxis]) -> Tensor:
    """x [N, groups, Cin, …] as [N, groups, 1, (quotients, phases) per axis, Cin, rounds per axis]."""
    taps = 3 + len(axes)
    shape = (*x.shape[:3], *(axis.quotients for axis in axes), *(axis.kernel for axis in axes))
    index_map = ["i0", "i1", "i2", *positions(axes, 3, taps)]
    windows = Tensor("VIEW", [cover(x, axes)], {"result_shape": shape, "index_map": index_map})
    split = split_taps(windows.flip(tuple(range(taps, windows.ndim))), axes, taps)
    places = alternate(range(3, taps), phases_of(axes, taps))
    return split.permute(0, 1, *places, 2, *rounds_of(axes, taps)).unsqueeze(2)


def _filters(weight: Tensor, axes: list[PhaseAxis]) -> Tensor:
    """weight [groups, Cin, Cout, …] as [1, groups, Cout, (1, phases) per axis, Cin, rounds per axis]."""
    groups, c_in, c_out = weight.shape[:3]
    split = split_taps(weight, axes, 3)
    ordered = split.permute(0, 2, *phases_of(axes, 3), 1, *rounds_of(axes, 3))
    places = alternate((1,) * len(axes), (axis.phases for axis in axes))
    return ordered.reshape(1, groups, c_out, *places, c_in, *(axis.rounds for axis in axes))


def _axis(op: str, window: Window, output_padding: int) -> PhaseAxis:
    whole = (window.size - 1) * window.stride + window.reach
    length = whole - window.before - window.after + output_padding
    if output_padding < 0 or window.before < 0 or length < 1:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            f"the result has {length} elements along an axis of {window.size}",
            op=op,
            hint="paddings from 0 on; a smaller padding, or a greater output_padding",
            kernel=window.kernel,
            stride=window.stride,
            padding=(window.before, window.after),
            output_padding=output_padding,
        )
    return PhaseAxis(window.size, window.kernel, window.stride, window.dilation, window.before, length)


def _check(op: str, x: Tensor, weight: Tensor, groups: int) -> None:
    if integer(groups, "groups") < 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{groups} groups", op=op)
    if weight.ndim != x.ndim or x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            f"{op} takes x [N, groups·Cin, …] and weight [groups·Cin, Cout, …] with {x.ndim} axes",
            op=op,
            shapes=[list(x.shape), list(weight.shape)],
            groups=groups,
        )
