"""A cover: the kernels that extraction chose for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.extraction.kernel_tree import Tree
from eqsat.extraction.selection import UNCONTESTED, Selection
from ir.diagnostics import Diagnostic
from ir.pricer import Price
from ir.region import Region


@dataclass(frozen=True)
class Kernel:
    """One kernel of a cover.

    buffer    the Buf class it writes; `reads` those it reads, in the order of the region's inputs
    region    shared by all kernels that differ only in what they are applied to
    price     of its best plan; None for a kernel that runs once, when the program is built
    selection what else could have written the buffer, where that was asked for
    """

    buffer: int
    tree: Tree
    reads: tuple[int, ...]
    region: Region
    price: Price | None
    selection: Selection = UNCONTESTED

    @property
    def time_ns(self) -> float:
        return self.price.time_ns if self.price else 0.0


@dataclass(frozen=True)
class Cover:
    """The kernels in an order in which they can run, and what was learnt on the way.

    names: Buf class → the name of its buffer. considered: candidates; priced: distinct regions priced. diagnostics: a
    word where a limit ended the search for a better one.
    """

    kernels: tuple[Kernel, ...]
    outputs: tuple[tuple[str, int], ...]
    names: Mapping[int, str]
    constants: frozenset[int]
    considered: int = 0
    priced: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def time_ns(self) -> float:
        return sum(kernel.time_ns for kernel in self.kernels)


def assert_acyclic(kernels: Sequence[Kernel]) -> None:
    """The order of the kernels is one in which they can run; networkx is a second opinion on that."""
    import networkx

    graph = networkx.DiGraph((read, kernel.buffer) for kernel in kernels for read in kernel.reads)
    assert networkx.is_directed_acyclic_graph(graph), "the cover has a cycle"
    place = {kernel.buffer: position for position, kernel in enumerate(kernels)}
    for position, kernel in enumerate(kernels):
        assert all(place.get(read, -1) < position for read in kernel.reads), "a kernel runs before its source"
