"""Lazy tensors → a Tiny graph, one uop per tensor; shared tensors are shared uops."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail
from ir.grammar import with_article
from ir.names import new_name
from ir.post_order import post_order
from ir.tiny.graph import check_id
from ir.tiny.loop_graphs import graphs_json, name_bodies


def tensor_to_tiny(
    outputs: Tensor | Iterable[Tensor] | Mapping[str, Tensor], arguments: Sequence[Tensor] = ()
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The Tiny graph of these outputs as `{"uops": …, "outputs": …}`, with the `graphs` of its loops; and its constants
    by tensor_id.

    outputs: those of a mapping have its keys as ids.
    arguments: inputs that come first and stay even if nothing reads them; other inputs follow in the order of their
    creation, which is the order of positional arguments.

    Raises:
        EqsatError: MalformedGraph for an output that is no tensor, and for a name that is no id.
    """
    wanted: list[str] = []
    if isinstance(outputs, Mapping):
        wanted, outputs = list(map(check_id, outputs)), _distinct(outputs.values())
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    for root in roots:
        if not isinstance(root, Tensor):
            fail(Kind.MALFORMED_GRAPH, "tensor", f"an output is {with_article(type(root).__name__)}, not a lazy tensor")
    tensors = _in_order(arguments, roots)
    ids = _ids(tensors, {id(root): name for root, name in zip(roots, wanted, strict=False)})
    names = _constant_names(tensors)
    graphs = name_bodies(tensor.arg["graph"] for tensor in tensors if tensor.uop == "LOOP")
    uops = []
    constants: dict[str, np.ndarray] = {}
    for tensor in tensors:
        uop, arg = tensor.uop, dict(tensor.arg)
        src = [ids[id(operand)] if isinstance(operand, Tensor) else operand for operand in tensor.src]
        if tensor.array is not None and id(tensor) in names:
            arg |= {"tensor_id": names[id(tensor)], "dtype": str(tensor.dtype), "shape": tensor.shape}
            constants[names[id(tensor)]] = tensor.array
        elif tensor.array is not None:
            uop, src, arg = "CAST", [tensor.array.item()], {"to": str(tensor.dtype)}
        if uop == "LOOP":
            arg["graph"] = graphs[arg["graph"]]
        tag = {"tag": tensor.tag} if tensor.tag is not None and uop != "INPUT" else {}
        barrier = {"barrier": True} if tensor.barrier else {}
        uops.append({"id": ids[id(tensor)], "uop": uop, "src": src, "arg": arg, **tag, **barrier})
    program = {"uops": uops, "outputs": [ids[id(root)] for root in roots]}
    return {**program, **({"graphs": graphs_json(graphs)} if graphs else {})}, constants


def _in_order(arguments: Sequence[Tensor], roots: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that the roots need, operands first. Where inputs are not read in the order of their creation, they
    come first, in that order."""

    def order(first: Sequence[Tensor]) -> list[Tensor]:
        return post_order([*first, *roots], lambda tensor: [s for s in tensor.src if isinstance(s, Tensor)])

    tensors, given = order(arguments), set(map(id, arguments))
    read = [tensor for tensor in tensors if tensor.uop == "INPUT" and tensor.array is None and id(tensor) not in given]
    created = sorted(read, key=lambda tensor: tensor.serial)
    same = all(one is other for one, other in zip(read, created, strict=True))
    return tensors if same else order([*arguments, *created])


def _distinct(outputs: Iterable[Any]) -> list[Any]:
    """The outputs; where a tensor is an output for a second time, a movement that leaves it as it is."""
    seen: set[int] = set()
    distinct = []
    for output in outputs:
        if id(output) in seen and isinstance(output, Tensor):
            output = Tensor("RESHAPE", [output], {"result_shape": output.shape})
        seen.add(id(output))
        distinct.append(output)
    return distinct


def _ids(tensors: Sequence[Tensor], named: Mapping[int, str]) -> dict[int, str]:
    """An id per tensor: its name, or else a number that is no name."""
    taken = {*named.values()}
    free = (f"n{number}" for number in itertools.count())
    fresh = (name for name in free if name not in taken)
    return {id(tensor): named.get(id(tensor)) or next(fresh) for tensor in tensors}


def _constant_names(tensors: Sequence[Tensor]) -> dict[int, str]:
    """A distinct tensor_id per constant: its given name, or a number; made distinct by underscores. A constant without
    axes and without a name gets none: it becomes a number, which rules know and no kernel reads from memory."""
    taken = {tensor.arg["tensor_id"] for tensor in tensors if tensor.uop == "INPUT" and tensor.array is None}
    names: dict[int, str] = {}
    for tensor in tensors:
        if tensor.array is not None and (tensor.ndim or "tensor_id" in tensor.arg):
            names[id(tensor)] = name = new_name(tensor.arg.get("tensor_id", f"const{len(names)}"), taken)
            taken.add(name)
    return names
