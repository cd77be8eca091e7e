"""LSTMs of onnxruntime's quantizer (domain com.microsoft): weights of bytes, states that each step rounds to bytes."""

from __future__ import annotations

from eqsat import tensor
from eqsat.frontends.onnx.operands import malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.quantization import centre, quantize_by_range
from eqsat.frontends.onnx.operators.recurrent import Attributes, lstm_cell, run
from eqsat.tensor import Tensor
from ir.dtype import fp32


@operator("DynamicQuantizeLSTM", domain="com.microsoft")
def _lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    lengths: Tensor | None,
    h: Tensor | None,
    c: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
    *,
    attributes: Attributes,
) -> tuple[Tensor, ...]:
    """An LSTM whose weights w [directions, inputs, gates] and r are transposed. The steps that are run, as a whole, and
    the hidden states of each step have a scale and a zero point from their range."""
    if lengths is not None:
        runs = tensor.arange(x.shape[0]) < lengths.cast("i64").max()
        x = tensor.where(runs.reshape(-1, 1, 1), x, 0)
    weights = (_dequantize(w, w_scale, w_zero), _dequantize(r, r_scale, r_zero), b)
    cell = lstm_cell(attributes, p, seen=_through_bytes)
    return run(_through_bytes(x), weights, [h, c], lengths, attributes, cell)


def _dequantize(weights: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """The weights as those of LSTM, [directions, gates, inputs]. Scales are for directions, or for their gates."""
    directions, _, gates = weights.shape
    if scale.size not in (directions, directions * gates) or zero.size != scale.size:
        malformed(f"scales {list(scale.shape)} and zero points {list(zero.shape)} of weights {list(weights.shape)}")
    factor, offset = (value.reshape(directions, 1, -1) for value in (scale, zero))
    return (centre(weights, offset).cast(fp32) * factor).swapaxes(1, 2)


def _through_bytes(x: Tensor) -> Tensor:
    """x, rounded to 256 levels of its range."""
    integers, scale, zero = quantize_by_range(x)
    return centre(integers, zero).cast(fp32) * scale
