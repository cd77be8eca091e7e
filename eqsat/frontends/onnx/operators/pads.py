"""Pad: constants, reflections, edges and repetitions around a tensor."""

from __future__ import annotations

from eqsat import tensor
from eqsat.frontends.onnx.operands import known_integers, malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.lazy.known_value import is_known, known_value
from eqsat.nn.paddings import pad_with_elements
from eqsat.tensor import Tensor

_NUMPY_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@operator("Pad")
def _pad_old(x: Tensor, *, paddings: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Tensor:
    return pad(x, paddings, range(x.ndim), mode, tensor.constant(value, x.dtype))


@operator("Pad", since=2)
def _pad_attributes(x: Tensor, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Tensor:
    return pad(x, pads, range(x.ndim), mode, tensor.constant(value, x.dtype))


@operator("Pad", since=11)
def _pad(
    x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None, *, mode: str = "constant"
) -> Tensor:
    along = range(x.ndim) if axes is None else known_integers(axes, "the list of axes")
    return pad(x, known_integers(pads, "the list of pads"), along, mode, value)


def pad(
    x: Tensor, pads: list[int] | tuple[int, ...], axes: list[int] | range, mode: str, value: Tensor | None
) -> Tensor:
    """x with elements before and after these axes; a negative number of elements cuts them away.

    pads: ONNX's, all numbers before, then all after.
    """
    if len(pads) != 2 * len(axes):
        malformed(f"{len(pads)} pads for {len(axes)} axes", hint="two pads per axis: all before, then all after")
    half = len(axes)
    widths = [(0, 0)] * x.ndim
    for place, axis in enumerate(axes):
        widths[axis_in(axis, x.shape)] = (pads[place], pads[place + half])
    if mode == "constant":
        return _pad_value(x, widths, value)
    if mode not in _NUMPY_MODES:
        malformed(f"the mode {mode!r} of padding is unknown", hint=", ".join(["constant", *_NUMPY_MODES]))
    return pad_with_elements(x, widths, _NUMPY_MODES[mode])


def _pad_value(x: Tensor, widths: list[tuple[int, int]], value: Tensor | None) -> Tensor:
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(x.shape, widths, strict=True))
    around = [(max(a, 0), max(b, 0)) for a, b in widths]
    kept = x[cut] if x.ndim else x
    if value is None or is_known(value):
        number = 0 if value is None else known_value(value, "the value").reshape(()).item()
        return kept.pad(around, number)
    inside = tensor.full(kept.shape, True, "bool").pad(around, False)
    return tensor.where(inside, kept.pad(around), value.reshape(()))
