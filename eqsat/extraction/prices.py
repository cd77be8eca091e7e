"""What candidates cost as far as is known: exactly where a pricer was asked, else by a bound that learns from that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from eqsat.extraction.candidate import KernelCandidate, PricedRegion
from eqsat.extraction.kernel_tree import Tree
from eqsat.extraction.shapes import Shape
from ir.pricer import Price, Pricer, Rejected
from ir.region.region import Region

TIE_NS_PER_FLOP, TIE_NS_PER_BYTE = 1e-8, 1e-9
"""Far below any time: among covers of one price the one that computes less wins (a roofline hides the smaller side),
then the one with fewer bytes of constants, whose kernels cost nothing when the program runs."""


class Prices:
    """Prices of candidates, each distinct region priced once.

    Args:
        shape_of: a tree up to its buffers.
        leaf: what a kernel's price depends on of a buffer: its type, and whether it is constant.
        region: a candidate as a region, and the buffers that are its inputs.
        refused: why a candidate, as this region, may be no kernel; None where it may.
    """

    def __init__(
        self,
        pricer: Pricer,
        shape_of: Callable[[Tree], Shape],
        leaf: Callable[[int], str],
        region: Callable[[KernelCandidate], tuple[Region, tuple[int, ...]]],
        refused: Callable[[KernelCandidate, Region], Rejected | None] = lambda candidate, region: None,
    ) -> None:
        self._pricer, self._shape_of, self._leaf, self._region = pricer, shape_of, leaf, region
        self._refused = refused
        self._known: dict[tuple[object, ...], PricedRegion] = {}
        self._kinds: dict[tuple[str, ...], tuple[float, float]] = {}

    def __len__(self) -> int:
        """Distinct regions priced."""
        return len(self._known)

    def cost(self, candidate: KernelCandidate) -> float:
        """The price, or the bound scaled by how far kernels of this kind were from theirs; in ns."""
        if candidate.compile_time:
            return candidate.bound_ns
        tie = TIE_NS_PER_FLOP * candidate.tree.flops
        if candidate.price is not None:
            return candidate.price.time_ns + tie
        time, bound = self._kinds.get(candidate.tree.kinds, (1.0, 1.0))
        return candidate.bound_ns * max(1.0, time / bound) + tie

    def learn(self, candidates: Iterable[KernelCandidate]) -> bool:
        """Price what is not priced yet. Whether that may change a cover: some candidate runs when the program does, or
        was refused."""
        fresh = [candidate for candidate in candidates if candidate.priced is None]
        for candidate in fresh:
            candidate.priced = self._priced(candidate)
            refusal = self._refused(candidate, candidate.priced.region)
            if refusal:
                candidate.priced = replace(candidate.priced, price=refusal)
        return any(candidate.refusal or not candidate.compile_time for candidate in fresh)

    def _priced(self, candidate: KernelCandidate) -> PricedRegion:
        number, buffers = self._shape_of(candidate.tree)
        key = (number, *map(self._leaf, (candidate.buffer, *buffers)))
        if key not in self._known:
            region, reads = self._region(candidate)
            inputs = tuple(map(buffers.index, reads))
            self._known[key] = PricedRegion(
                region, inputs, None if candidate.compile_time else self._exact(candidate, region)
            )
        return self._known[key]

    def _exact(self, candidate: KernelCandidate, region: Region) -> Price | Rejected:
        """What the pricer says; a price tells how far the bounds of its kind are off."""
        found = self._pricer.price(region)
        if isinstance(found, Price) and candidate.bound_ns > 0:
            time, bound = self._kinds.get(candidate.tree.kinds, (0.0, 0.0))
            self._kinds[candidate.tree.kinds] = (time + found.time_ns, bound + candidate.bound_ns)
        return found
