"""An optimized part of a program → the same part under the names of an equal one.

Both have one e-graph and one cover, up to the names of uops and inputs; only what holds names is made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from eqsat.egraph.buffers import buffer_names, input_classes
from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.extraction.selection import Selection
from eqsat.looping.part_form import Renaming
from ir.tiny.graph import Ref


def rename_view(view: EGraphView, names: Renaming) -> EGraphView:
    """The e-graph of a part as that of an equal part."""
    classes = dict(view.classes)
    for class_ in input_classes(view).values():
        classes[class_] = tuple(_rename_input(node, names.tensors) for node in view.classes[class_])
    return replace(view, classes=classes, tiny={names.uops[uop]: class_ for uop, class_ in view.tiny.items()})


def _rename_input(node: ENode, tensors: Mapping[str, str]) -> ENode:
    if node.ctor != "Input":
        return node
    return ENode(node.ctor, tuple(tensors[node.name] if field == "name" else arg for field, arg in node.fields.items()))


def rename_cover(cover: Cover, view: EGraphView, outputs: Sequence[Ref], prefix: str) -> Cover:
    """The row-major cover of a part as that of an equal part, whose e-graph this is. What extraction did is not said
    again."""
    classes = [class_ for _, class_ in cover.outputs]
    names = buffer_names(view, input_classes(view), classes, prefix)
    by_name = {name: names[class_] for class_, name in cover.names.items()}
    return replace(
        cover,
        kernels=tuple(replace(kernel, selection=_rename_selection(kernel, by_name)) for kernel in cover.kernels),
        outputs=tuple(zip(outputs, classes, strict=True)),
        names=names,
        considered=0,
        priced=0,
        diagnostics=(),
    )


def _rename_selection(kernel: CoverKernel, names: Mapping[str, str]) -> Selection:
    """The rejected candidates, the joined kernels and the neighbours, with their buffers under these names."""
    old = kernel.selection

    def renamed(buffers: Sequence[str]) -> tuple[str, ...]:
        return tuple(names[buffer] for buffer in buffers)

    return msgspec.structs.replace(
        old,
        rivals=tuple(msgspec.structs.replace(rival, reads=renamed(rival.reads)) for rival in old.rivals),
        parts=tuple(msgspec.structs.replace(part, writes=renamed(part.writes)) for part in old.parts),
        apart=tuple(msgspec.structs.replace(apart, writes=renamed(apart.writes)) for apart in old.apart),
    )
