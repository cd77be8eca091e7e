"""A candidate kernel on its way into a cover: what is known of its cost so far."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.extraction.kernel_tree import Tree
from ir.pricer import Price, Rejected
from ir.region.region import Region


@dataclass(frozen=True)
class PricedRegion:
    """A distinct region, and what the pricer says of it; None where it never runs.

    inputs  of the region, in order: which of the buffers that a tree of this structure reads, by first appearance
    """

    region: Region
    inputs: tuple[int, ...]
    price: Price | Rejected | None


@dataclass(eq=False)
class KernelCandidate:
    """One candidate of one buffer.

    reads         the buffers that a kernel must compute for it
    ordinary      whether it is a kernel that ordinary fusion makes
    bound_ns      what no plan of it can beat; of a kernel that runs when the program is built, what breaks ties
    """

    buffer: int
    tree: Tree
    reads: tuple[int, ...]
    bound_ns: float
    compile_time: bool = False
    ordinary: bool = False
    priced: PricedRegion | None = None

    @property
    def price(self) -> Price | None:
        """Of its best plan, where it was asked for and there is one."""
        return self.priced.price if self.priced and isinstance(self.priced.price, Price) else None

    @property
    def refusal(self) -> Rejected | None:
        """Why it can be no kernel, where it was asked for and cannot."""
        return self.priced.price if self.priced and isinstance(self.priced.price, Rejected) else None
