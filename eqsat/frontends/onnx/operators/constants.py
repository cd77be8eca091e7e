"""Operators that make tensors from numbers: ranges, identities, one-hot vectors, windows of signals."""

from __future__ import annotations

import math

import numpy as np

from eqsat import tensor
from eqsat.frontends.onnx.decode import TensorLiteral
from eqsat.frontends.onnx.element_types import element_type
from eqsat.frontends.onnx.operands import known_integers, known_number
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.lazy.known_value import known_value
from eqsat.tensor import Tensor
from ir.dtype import dtype
from ir.frontend import STAGE


@operator("ConstantOfShape", since=9)
def _constant_of_shape(shape: Tensor, *, value: TensorLiteral | None = None) -> Tensor:
    element = np.zeros((), np.float32) if value is None else value.array.reshape(())
    return tensor.constant(element).expand(known_integers(shape, "the shape"))


@operator("Range", since=11)
def _range(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    bounds = [
        known_value(value, what) for value, what in ((start, "the start"), (limit, "the limit"), (delta, "delta"))
    ]
    first, last, step = (bound.reshape(()).item() for bound in bounds)
    places = tensor.arange(max(math.ceil((last - first) / step), 0), dtype=start.dtype)
    steps = places if step == 1 else places * step  # by numbers, which rules and index maps see
    return steps if first == 0 else steps + first


@operator("NonZero", since=9)
def _places_of_nonzero(x: Tensor) -> Tensor:
    """[axes, elements]: the places of the elements that are not 0, in row-major order. x must be known: the size of the
    result depends on its values."""
    return tensor.constant(np.stack(np.nonzero(np.atleast_1d(known_value(x, "the tensor of NonZero", STAGE)))))


@operator("EyeLike", since=9)
def _identity_matrix(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    rows, columns = (tensor.iota(x.shape, axis, "i64") for axis in (0, 1))
    diagonal: Tensor = columns - rows == k
    return diagonal.cast(x.dtype if dtype is None else element_type(dtype))


@operator("OneHot", since=9)
def _one_hot(indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    """values[1] where the new axis stands at the index, else values[0]; indices outside are nowhere."""
    size = int(known_number(depth, "the depth"))
    place = axis_in(axis, (*indices.shape, size))
    shape = (*indices.shape[:place], size, *indices.shape[place:])
    index = indices.cast("i64").unsqueeze(place)
    hot = tensor.iota(shape, place, "i64") == tensor.where(index < 0, index + size, index)
    return tensor.where(hot, values[1], values[0])


def _signal_window(name: str, weights: tuple[float, ...]) -> None:
    """Registers a window Σ weights[j] cos(2πjn/N)."""

    @operator(name, since=17)
    def lower(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
        count = int(known_number(size, "the size"))
        turns = tensor.arange(count, dtype="fp64") * (2 * math.pi / (count if periodic else max(count - 1, 1)))
        terms = [weight * (turns * place).cos() if place else weight for place, weight in enumerate(weights)]
        total = terms[1] + terms[0]
        for term in terms[2:]:
            total = total + term
        assert isinstance(total, Tensor)
        return total.cast(element_type(output_datatype))


_signal_window("HannWindow", (0.5, -0.5))
_signal_window("HammingWindow", (25 / 46, -21 / 46))
_signal_window("BlackmanWindow", (0.42, -0.5, 0.08))


@operator("MelWeightMatrix", since=17)
def _mel_weights(
    bins: Tensor, length: Tensor, rate: Tensor, lower: Tensor, upper: Tensor, *, output_datatype: int = 1
) -> Tensor:
    """Triangles on the mel scale (TensorFlow's linear_to_mel_weight_matrix), a column per mel bin."""
    count, size = int(known_number(bins, "the number of bins")), int(known_number(length, "the length"))
    hertz = [float(known_number(edge, "an edge of the band")) for edge in (lower, upper)]
    low, high = (2595 * math.log10(1 + edge / 700) for edge in hertz)
    mel = low + np.arange(count + 2) * (high - low) / (count + 2)
    places = np.floor((size + 1) * 700 * (10 ** (mel / 2595) - 1) / float(known_number(rate, "the rate"))).astype(int)
    weights = np.zeros((size // 2 + 1, count))
    for column in range(count):
        left, centre, right = places[column : column + 3]
        if centre == left:
            weights[centre, column] = 1
        else:
            weights[left : centre + 1, column] = np.arange(centre - left + 1) / (centre - left)
        if right > centre:
            weights[centre:right, column] = (right - np.arange(centre, right)) / (right - centre)
    return tensor.constant(weights.astype(dtype(element_type(output_datatype)).numpy))
