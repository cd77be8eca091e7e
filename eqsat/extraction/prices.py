"""What candidates cost as far as is known: exactly where a pricer was asked, else by a bound that learns from that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from eqsat.extraction.choice import Choice, Priced
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
        region: Callable[[Choice], tuple[Region, tuple[int, ...]]],
        refused: Callable[[Choice, Region], Rejected | None] = lambda choice, region: None,
    ) -> None:
        self._pricer, self._shape_of, self._leaf, self._region = pricer, shape_of, leaf, region
        self._refused = refused
        self._known: dict[tuple[object, ...], Priced] = {}
        self._kinds: dict[tuple[str, ...], tuple[float, float]] = {}

    def __len__(self) -> int:
        """Distinct regions priced."""
        return len(self._known)

    def cost(self, choice: Choice) -> float:
        """The price, or the bound scaled by how far kernels of this kind were from theirs; in ns."""
        if choice.compile_time:
            return choice.bound_ns
        tie = TIE_NS_PER_FLOP * choice.tree.flops
        if choice.price is not None:
            return choice.price.time_ns + tie
        time, bound = self._kinds.get(choice.tree.kinds, (1.0, 1.0))
        return choice.bound_ns * max(1.0, time / bound) + tie

    def learn(self, choices: Iterable[Choice]) -> bool:
        """Price what is not priced yet; whether that may change a choice among candidates: there was one that runs when
        the program does, or one that was refused."""
        fresh = [choice for choice in choices if choice.priced is None]
        for choice in fresh:
            choice.priced = self._priced(choice)
            refusal = self._refused(choice, choice.priced.region)
            if refusal:
                choice.priced = replace(choice.priced, price=refusal)
        return any(choice.refusal or not choice.compile_time for choice in fresh)

    def _priced(self, choice: Choice) -> Priced:
        number, buffers = self._shape_of(choice.tree)
        key = (number, *map(self._leaf, (choice.buffer, *buffers)))
        if key not in self._known:
            region, reads = self._region(choice)
            inputs = tuple(map(buffers.index, reads))
            self._known[key] = Priced(region, inputs, None if choice.compile_time else self._exact(choice, region))
        return self._known[key]

    def _exact(self, choice: Choice, region: Region) -> Price | Rejected:
        """What the pricer says; a price tells how far the bounds of its kind are off."""
        found = self._pricer.price(region)
        if isinstance(found, Price) and choice.bound_ns > 0:
            time, bound = self._kinds.get(choice.tree.kinds, (0.0, 0.0))
            self._kinds[choice.tree.kinds] = (time + found.time_ns, bound + choice.bound_ns)
        return found
