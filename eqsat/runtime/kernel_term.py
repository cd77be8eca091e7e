"""A chosen kernel as plain data: the term that extraction decided on, which outlives the e-graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from eqsat.extraction.enumeration.kernel_tree import Tree, subtrees
from ir.term.language import CTORS, Sort


class KernelTerm(msgspec.Struct, frozen=True):
    """One line per distinct subterm, operands first: its constructor, then its arguments; a buffer is its name,
    another term the number of its line. There is one Store per output, in their order, the last at the end."""

    lines: tuple[tuple[str | int, ...], ...] = ()

    @property
    def is_copy(self) -> bool:
        """Whether the kernel copies a buffer to another order of axes, of which no term tells."""
        return not self.lines

    @property
    def reads(self) -> frozenset[str]:
        """The buffers that are read, as the program has them: a kernel may read a constant's copy in another order."""
        named = (CTORS[str(ctor)].by_field(args) for ctor, *args in self.lines)
        return frozenset(str(fields["buffer"]) for fields in named if "buffer" in fields)

    def loads(self, buffer: str) -> list[str]:
        """The maps at which Loads read a buffer, one per Load."""
        named = (CTORS[str(ctor)].by_field(args) for ctor, *args in self.lines if ctor == "Load")
        return [str(fields["map"]) for fields in named if fields["buffer"] == buffer]

    def outputs_reading(self, buffer: str) -> tuple[int, ...]:
        """The outputs, by their order, for which this buffer is read."""
        reading: set[int] = set()
        outputs, output = [], 0
        for place, (ctor, *args) in enumerate(self.lines):
            sorts = CTORS[str(ctor)].args
            reads = any(arg == buffer for arg, sort in zip(args, sorts, strict=True) if sort is Sort.BUF)
            below = (arg for arg, sort in zip(args, sorts, strict=True) if sort.is_inline)
            if reads or not reading.isdisjoint(map(int, below)):
                reading.add(place)
                outputs += [output] if ctor == "Store" else []
            output += ctor == "Store"
        return tuple(outputs)


def kernel_term(trees: Sequence[Tree], names: Mapping[int, str]) -> KernelTerm:
    """The term of Store trees whose buffers have these names."""
    places: dict[Tree, int] = {}
    lines: list[tuple[str | int, ...]] = []
    for subtree in subtrees(*trees):
        kids = iter(subtree.kids)
        line: list[str | int] = [subtree.node.ctor]
        for arg, sort in zip(subtree.node.args, CTORS[subtree.node.ctor].args, strict=True):
            match sort:
                case Sort.STR | Sort.I64:
                    line.append(arg)
                case Sort.BUF:
                    line.append(names[int(arg)])
                case _:
                    line.append(places[next(kids)])
        places[subtree] = len(lines)
        lines.append(tuple(line))
    return KernelTerm(tuple(lines))
