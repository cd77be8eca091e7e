"""The values of lazy tensors that depend on constants alone, such as the shapes that an ONNX model computes."""

from __future__ import annotations

import numpy as np

from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail
from ir.post_order import post_order
from ir.tiny.bind import load
from ir.tiny.playback import playback


def known_value(tensor: Tensor, what: str, stage: str = "tensor") -> np.ndarray:
    """The value of a tensor, computed by playback.

    what: the tensor's part in an operator, for the message.

    Raises:
        EqsatError: UnsupportedOp if the tensor depends on arguments; the detail `needs` names them.
    """
    if tensor.array is not None:
        return tensor.array
    needs = arguments_of(tensor)
    if needs:
        fail(
            Kind.UNSUPPORTED_OP,
            stage,
            f"{what} must be known when the program is built, but depends on the input {', '.join(needs)}",
            hint=f"constants={{{needs[0]!r}: array}}, if the value is always the same",
            needs=needs,
        )
    tiny, constants = tensor_to_tiny(tensor)
    graph, _ = load(tiny)
    (value,) = playback(graph, constants)
    return value


def is_known(tensor: Tensor) -> bool:
    """Whether a tensor depends on constants alone."""
    return tensor.array is not None or not arguments_of(tensor)


def arguments_of(tensor: Tensor) -> list[str]:
    """The names of the arguments that a tensor depends on."""
    tensors = post_order([tensor], lambda reader: [source for source in reader.src if isinstance(source, Tensor)])
    return [tensor.arg["tensor_id"] for tensor in tensors if tensor.uop == "INPUT" and tensor.array is None]
