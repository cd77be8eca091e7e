"""When two parts of a program are one and the same, but for names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from eqsat.looping.parts import Part
from eqsat.looping.uop_key import uop_key
from ir.tiny.graph import Imm, Ref


def part_form(part: Part) -> object:
    """Equal for parts that have the same uops and barriers in the same order, and inputs of the same types, the same of
    which are constants."""
    graph = part.graph
    uops = {node.id: number for number, node in enumerate(graph.nodes)}
    tensors = {tensor: number for number, tensor in enumerate(graph.inputs)}
    entries: list[object] = []
    for node in graph.nodes:
        if node.uop == "INPUT":
            tensor, type_ = node.arg["tensor_id"], graph.types[node.id]
            entries.append((tensors[tensor], type_.dtype.name, type_.shape, tensor in part.constants))
        else:
            key = uop_key(node, (read if isinstance(read, Imm) else uops[read] for read in node.src))
            entries.append((key, node.barrier))
    return tuple(entries), tuple(uops[output] for output in graph.outputs)


class Renaming(NamedTuple):
    """From the names of one part to those of a part of the same form: of its uops, and of its inputs by tensor_id."""

    uops: Mapping[Ref, Ref]
    tensors: Mapping[str, str]


def renaming(one: Part, other: Part) -> Renaming:
    """The names of the other part, which has the form of the first, by those of the first."""
    uops = zip((node.id for node in one.graph.nodes), (node.id for node in other.graph.nodes), strict=True)
    return Renaming(dict(uops), dict(zip(one.graph.inputs, other.graph.inputs, strict=True)))
