"""A cover: the kernels that extraction chose for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eqsat.extraction.kernel_tree import Tree
from eqsat.extraction.selection import UNCONTESTED, Selection
from ir.diagnostics import Diagnostic
from ir.pricer import Price
from ir.region.order import Order
from ir.region.region import Region


@dataclass(frozen=True)
class CoverKernel:
    """One kernel of a cover.

    writes    the Buf classes it writes, and the Store tree of each, in the order of the region's outputs; `reads` those
              it reads, in the order of its inputs
    region    shared by all kernels that differ only in what they are applied to
    price     of its best plan; None for a kernel that runs once, when the program is built
    selection what else could have written the buffers, where that was asked for
    """

    writes: tuple[int, ...]
    trees: tuple[Tree, ...]
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

    names: Buf class → the name of its buffer. considered: candidates; priced: distinct regions priced. saved_ns: what
    kernels of several outputs save, which no choice among candidates of one output can. diagnostics: a word where a
    limit ended the search for a better one. orders: of the buffers that are not row-major.
    """

    kernels: tuple[CoverKernel, ...]
    outputs: tuple[tuple[str, int], ...]
    names: Mapping[int, str]
    constants: frozenset[int]
    considered: int = 0
    priced: int = 0
    saved_ns: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()
    orders: Mapping[int, Order] = field(default_factory=dict)

    @property
    def time_ns(self) -> float:
        return sum(kernel.time_ns for kernel in self.kernels)

    @property
    def apart_ns(self) -> float:
        """The time with one kernel per output."""
        return self.time_ns + self.saved_ns


def assert_acyclic(kernels: Sequence[CoverKernel]) -> None:
    """The order of the kernels is one in which they can run; networkx is a second opinion on that."""
    import networkx

    place = {buffer: position for position, kernel in enumerate(kernels) for buffer in kernel.writes}
    reads = ((read, position) for position, kernel in enumerate(kernels) for read in kernel.reads if read in place)
    graph = networkx.DiGraph((place[read], position) for read, position in reads)
    assert networkx.is_directed_acyclic_graph(graph), "the cover has a cycle"
    for position, kernel in enumerate(kernels):
        assert all(place.get(read, -1) < position for read in kernel.reads), "a kernel runs before its source"
