"""A candidate kernel, with what is known of its cost so far, and the covering problem of several candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from eqsat.extraction.covering.problem import Problem
from eqsat.extraction.enumeration.kernel_tree import Tree
from ir.pricer import Price, Rejected
from ir.region.region import Region


@dataclass(frozen=True)
class PricedKernel:
    """A kernel as a region, which kernels of the same structure share.

    reads  the Buf classes that are the region's inputs, in order
    price  of the region; None where it never runs
    """

    region: Region
    reads: tuple[int, ...]
    price: Price | Rejected | None


@dataclass(eq=False)
class KernelCandidate:
    """One candidate of one buffer.

    buffer        the Buf class that it writes, and `tree` the Store tree that computes the value
    reads         the Buf classes that a kernel must compute for it
    bound_ns      what no plan of it can beat; of a kernel that runs when the program is built, what breaks ties
    compile_time  whether it runs when the program is built
    ordinary      whether ordinary fusion makes this kernel
    priced        None until its price was asked for
    """

    buffer: int
    tree: Tree
    reads: tuple[int, ...]
    bound_ns: float
    compile_time: bool = False
    ordinary: bool = False
    priced: PricedKernel | None = None

    @property
    def price(self) -> Price | None:
        """Of its best plan, where it was asked for and there is one."""
        return self.priced.price if self.priced and isinstance(self.priced.price, Price) else None

    @property
    def refusal(self) -> Rejected | None:
        """Why it can be no kernel, where it was asked for and cannot."""
        return self.priced.price if self.priced and isinstance(self.priced.price, Rejected) else None


CandidateCover = tuple[KernelCandidate, ...]
"""A cover: one candidate for each buffer that is written, in an order in which the kernels can run."""


@dataclass(frozen=True)
class CandidateProblem:
    """A covering problem, and the candidate of each of its columns."""

    problem: Problem
    candidates: Sequence[KernelCandidate]

    @cached_property
    def _index(self) -> Mapping[KernelCandidate, int]:
        return {candidate: index for index, candidate in enumerate(self.candidates)}

    def indices(self, cover: CandidateCover) -> list[int]:
        """The columns of a cover's candidates."""
        return [self._index[candidate] for candidate in cover]

    def cover(self, indices: Iterable[int]) -> CandidateCover:
        """The candidates of these columns."""
        return tuple(self.candidates[index] for index in indices)
