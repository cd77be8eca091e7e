"""The buffers of an e-graph: inputs, constants, and a name per buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eqsat.egraph.view import STEPS, EGraphView
from ir.names import new_name
from ir.term.language import Sort


def input_classes(view: EGraphView) -> dict[str, int]:
    """The Buf class of every input by its name."""
    return {node.name: class_ for class_, nodes in view.classes.items() for node in nodes if node.ctor == "Input"}


def buffer_names(view: EGraphView, inputs: Mapping[str, int], roots: Iterable[int], prefix: str = "") -> dict[int, str]:
    """A name per Buf class, no two alike: the input's, else the output's Tiny id, else that of its first node. prefix:
    of the names of buffers that no uop writes."""
    names: dict[int, str] = {}
    for name, buffer in inputs.items():
        names.setdefault(buffer, name)
    taken = set(names.values())
    by_class: dict[int, str] = {}
    for tiny, buffer in view.tiny.items():
        by_class.setdefault(buffer, tiny)
    for buffer in [*roots, *by_class, *view.classes]:
        if buffer not in names and view.sorts[buffer] is Sort.BUF:
            names[buffer] = new_name(by_class.get(buffer, f"{prefix}t{buffer}"), taken)
            taken.add(names[buffer])
    return names


def constant_classes(view: EGraphView, constants: Iterable[int]) -> frozenset[int]:
    """The Buf classes that can be computed when the program is built: from constants, numbers and indices."""
    known = computable_classes(view, constants)
    return frozenset(class_ for class_ in known if view.sorts[class_] is Sort.BUF)


def computable_classes(view: EGraphView, given: Iterable[int], without: Iterable[str] = ()) -> frozenset[int]:
    """The classes that can be computed from given ones, from numbers and indices. without: constructors of which no
    node is used, beside those of inputs and of steps."""
    unused = {"Input", *STEPS, *without}
    needs: dict[int, list[list[int]]] = {}
    waiting = list(dict.fromkeys(given))
    for class_, nodes in view.classes.items():
        for node in nodes:
            if node.ctor not in unused:
                operands = frozenset(node.children)
                missing = [len(operands), class_]
                for operand in operands:
                    needs.setdefault(operand, []).append(missing)
                if not operands:
                    waiting.append(class_)
    known: set[int] = set()
    while waiting:
        class_ = waiting.pop()
        if class_ not in known:
            known.add(class_)
            for missing in needs.get(class_, ()):
                missing[0] -= 1
                if not missing[0]:
                    waiting.append(missing[1])
    return frozenset(known)
