"""A cover: the kernels that extraction chose for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eqsat.extraction.enumeration.kernel_tree import Tree
from eqsat.extraction.selection import UNCONTESTED, Selection
from ir.diagnostics import Diagnostic
from ir.pricer import Price
from ir.region.order import Order
from ir.region.region import Region


@dataclass(frozen=True)
class CoverKernel:
    """One kernel of a cover.

    writes     the Buf classes that it writes, in the order of the region's outputs
    trees      the Store tree of each of these classes
    reads      the Buf classes that it reads, in the order of the region's inputs
    region     shared by all kernels that differ in their buffers only
    price      of its best plan; None for a kernel that runs once, when the program is built
    parts      the kernels of one output that it was joined from; none where it was not joined
    selection  what else could have written the buffers, once explained
    """

    writes: tuple[int, ...]
    trees: tuple[Tree, ...]
    reads: tuple[int, ...]
    region: Region
    price: Price | None
    parts: tuple[CoverKernel, ...] = ()
    selection: Selection = UNCONTESTED

    @property
    def time_ns(self) -> float:
        return self.price.time_ns if self.price else 0.0

    @property
    def is_copy(self) -> bool:
        """Whether the kernel copies a buffer to another order of axes."""
        return not self.trees


@dataclass(frozen=True)
class Cover:
    """The kernels in an order in which they can run, and what was learnt on the way.

    outputs      Tiny node → the Buf class that holds its value
    names        Buf class → the name of its buffer
    constants    the Buf classes that are known when the program is built
    considered   how many candidates there were, and `priced` how many distinct regions were priced
    diagnostics  where a limit ended the search for a better cover
    orders       the order of axes of every buffer that is not row-major
    free         the Buf classes of inputs and outputs that only kernels of other parts of the program see
    row_major    the cover before its buffers got orders
    """

    kernels: tuple[CoverKernel, ...]
    outputs: tuple[tuple[str, int], ...]
    names: Mapping[int, str]
    constants: frozenset[int]
    considered: int = 0
    priced: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    orders: Mapping[int, Order] = field(default_factory=dict)
    free: frozenset[int] = frozenset()
    row_major: Cover | None = None

    @property
    def time_ns(self) -> float:
        return sum(kernel.time_ns for kernel in self.kernels)

    @property
    def unordered(self) -> Cover:
        """The cover before its buffers got orders, with what was learnt since."""
        if self.row_major is None:
            return self
        learnt = tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.stage != "layouts")
        return replace(self.row_major, considered=self.considered, priced=self.priced, diagnostics=learnt)


def assert_acyclic(kernels: Sequence[CoverKernel]) -> None:
    """The order of the kernels is one in which they can run."""
    place = {buffer: position for position, kernel in enumerate(kernels) for buffer in kernel.writes}
    for position, kernel in enumerate(kernels):
        assert all(place.get(read, -1) < position for read in kernel.reads), "a kernel runs before its source"
