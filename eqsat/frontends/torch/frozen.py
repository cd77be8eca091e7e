"""Frozen parameters: arguments of a graph that become constants of its programs, folded and packed when they are built.

A change in place of a frozen parameter is noticed by torch's version counter, and other memory by its address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.runtime.arrays import as_numpy
from ir.host.memory import memory_for

MOST_CHANGES = 4
"""After so many changes of its parameters, a graph takes them as arguments again."""

Stamp = tuple[int, ...]


def parameters() -> tuple[int, ...]:
    """The places of parameters and buffers among the arguments of the graph that `aot_autograd` compiles at present,
    except those that the graph changes."""
    import torch

    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return ()
    changed = {*metadata.mutated_inp_runtime_indices, *metadata.mutated_graph_handled_indices}
    return tuple(place for place in metadata.static_input_indices if place not in changed)


def stamp_of(tensors: Sequence[Any]) -> Stamp:
    """Addresses and versions of tensors: other ones after a change. Tensors made in inference mode have no version."""
    try:
        versions = [tensor._version for tensor in tensors]
    except RuntimeError:
        versions = [-1 if tensor.is_inference() else tensor._version for tensor in tensors]
    return (*[tensor.data_ptr() for tensor in tensors], *versions)


def copies_of(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Copies as arrays, by name. Raises EqsatError, ResourceExceeded, where they do not fit in memory."""
    bytes_needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    with memory_for(bytes_needed, "call", "copies of frozen parameters", names=list(tensors)):
        return {name: np.array(as_numpy(name, tensor.detach()), order="C") for name, tensor in tensors.items()}
