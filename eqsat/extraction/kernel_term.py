"""A chosen kernel as plain data: the term that extraction decided on, which outlives the e-graph."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from eqsat.extraction.kernel_tree import Tree, subtrees
from ir.term import CTORS, Sort


class KernelTerm(msgspec.Struct, frozen=True):
    """One line per distinct subterm, operands first, the whole last: its constructor, then its arguments; a buffer is
    its name, another term the number of its line."""

    lines: tuple[tuple[str | int, ...], ...] = ()


def kernel_term(tree: Tree, names: Mapping[int, str]) -> KernelTerm:
    """The term of a tree whose buffers have these names."""
    places: dict[Tree, int] = {}
    lines: list[tuple[str | int, ...]] = []
    for each in subtrees(tree):
        kids = iter(each.kids)
        line: list[str | int] = [each.node.ctor]
        for arg, sort in zip(each.node.args, CTORS[each.node.ctor].args, strict=True):
            match sort:
                case Sort.STR | Sort.I64:
                    line.append(arg)
                case Sort.BUF:
                    line.append(names[int(arg)])
                case _:
                    line.append(places[next(kids)])
        places[each] = len(lines)
        lines.append(tuple(line))
    return KernelTerm(tuple(lines))
