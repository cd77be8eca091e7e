"""Lazy tensors → a Tiny graph: one uop a tensor, shared where tensors are shared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from eqsat.tensor import Tensor


def tensor_to_tiny(outputs: Tensor | Iterable[Tensor]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The Tiny graph of these outputs as `{"uops": …, "outputs": …}`, and its constants by tensor_id."""
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    ids: dict[int, str] = {}
    uops: list[dict[str, Any]] = []
    constants: dict[str, np.ndarray] = {}
    for tensor in _topological(roots):
        arg = dict(tensor.arg)
        if tensor.array is not None:
            arg["tensor_id"] = f"const{len(constants)}"
            constants[arg["tensor_id"]] = tensor.array
            arg |= {"dtype": str(tensor.dtype), "shape": tensor.shape}
        ids[id(tensor)] = f"n{len(uops)}"
        src = [ids[id(each)] if isinstance(each, Tensor) else each for each in tensor.src]
        uops.append({"id": ids[id(tensor)], "uop": tensor.uop, "src": src, "arg": arg})
    return {"uops": uops, "outputs": [ids[id(root)] for root in roots]}, constants


def _topological(roots: Sequence[Tensor]) -> Iterable[Tensor]:
    """Sources before users, iteratively: graphs are deeper than Python's stack."""
    done: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        tensor, expanded = stack.pop()
        if id(tensor) in done:
            continue
        if expanded:
            done.add(id(tensor))
            yield tensor
            continue
        stack.append((tensor, True))
        stack += [(each, False) for each in reversed(tensor.src) if isinstance(each, Tensor)]
