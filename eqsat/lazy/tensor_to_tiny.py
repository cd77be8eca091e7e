"""Lazy tensors → a Tiny graph: one uop a tensor, shared where tensors are shared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail


def tensor_to_tiny(
    outputs: Tensor | Iterable[Tensor], arguments: Sequence[Tensor] = ()
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The Tiny graph of these outputs as `{"uops": …, "outputs": …}`, and its constants by tensor_id.

    `arguments` are inputs that come first and stay even where nothing reads them; others follow as they are read.

    Raises:
        EqsatError: MalformedGraph for an output that is no tensor.
    """
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    for root in roots:
        if not isinstance(root, Tensor):
            fail(Kind.MALFORMED_GRAPH, "tensor", f"an output is a {type(root).__name__}, not a lazy tensor")
    tensors = list(_topological([*arguments, *roots]))
    ids = {id(tensor): f"n{number}" for number, tensor in enumerate(tensors)}
    names = _constant_names(tensors)
    uops = []
    for tensor in tensors:
        arg = dict(tensor.arg)
        if tensor.array is not None:
            arg |= {"tensor_id": names[id(tensor)], "dtype": str(tensor.dtype), "shape": tensor.shape}
        src = [ids[id(each)] if isinstance(each, Tensor) else each for each in tensor.src]
        uops.append({"id": ids[id(tensor)], "uop": tensor.uop, "src": src, "arg": arg})
    constants = {names[id(tensor)]: tensor.array for tensor in tensors if tensor.array is not None}
    return {"uops": uops, "outputs": [ids[id(root)] for root in roots]}, constants


def _constant_names(tensors: Sequence[Tensor]) -> dict[int, str]:
    """A tensor_id per constant: the name that it was given, or a number; no two are alike."""
    taken = {tensor.arg["tensor_id"] for tensor in tensors if tensor.uop == "INPUT" and tensor.array is None}
    names: dict[int, str] = {}
    for tensor in tensors:
        if tensor.array is not None:
            name = tensor.arg.get("tensor_id", f"const{len(names)}")
            while name in taken:
                name += "_"
            taken.add(name)
            names[id(tensor)] = name
    return names


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
