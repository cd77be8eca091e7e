"""Candidates as regions, and their prices: exact where the pricer was asked, else a bound that learns from prices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from eqsat.extraction.candidate import KernelCandidate, PricedKernel
from eqsat.extraction.enumeration.kernel_tree import Forest, Tree
from eqsat.extraction.in_place import filling_price, may_fill
from eqsat.extraction.rounding.one_rounding import SUM_TWICE, Roundings
from eqsat.extraction.term_to_region import Written, region_of_several
from ir.index.map import AxisMap
from ir.pricer import Price, Pricer, Rejected
from ir.region.region import Buffer, MemRef, Region

TIE_NS_PER_FLOP, TIE_NS_PER_BYTE = 1e-8, 1e-9
"""Far below any time: among covers of one price the one that computes less wins (a roofline hides the smaller side),
then the one with fewer bytes of constants, whose kernels cost nothing when the program runs."""

Stores = Sequence[tuple[int, Tree]]
"""The Buf classes that a kernel writes, and the Store tree that computes the value of each."""
Places = Sequence[AxisMap | None]
"""Per Store tree the points at which it writes, as in `ir.region.region.Yield.at`."""


class Prices:
    """The regions of kernels over one e-graph, and their prices. Each distinct region is made and priced once.

    Args:
        names: Buf class → the name of its buffer.
        constant: the Buf classes that are known when the program is built.
        cold: the Buf classes that no kernel of the program writes, where prices depend on that.
        unread: the Buf classes of results, which leave the caches before the caller reads them, where prices depend on
            that.
        fixed: the Buf classes whose memory the caller decides, and constants; None where kernels do not fill
            concatenations in place.
    """

    def __init__(
        self,
        pricer: Pricer,
        forest: Forest,
        roundings: Roundings,
        names: Mapping[int, str],
        constant: Collection[int],
        cold: Collection[int] = (),
        unread: Collection[int] = (),
        fixed: Collection[int] | None = None,
    ) -> None:
        self._pricer, self._forest, self._roundings = pricer, forest, roundings
        self._names, self._constant, self._cold, self._unread, self._fixed = names, constant, cold, unread, fixed
        self._known: dict[tuple[object, ...], tuple[Region, tuple[int, ...], Price | Rejected | None]] = {}
        self._kinds: dict[tuple[str, ...], tuple[float, float]] = {}
        self._waiting: dict[tuple[object, ...], list[KernelCandidate]] = {}

    def __len__(self) -> int:
        """How many distinct regions were priced."""
        return sum(price is not None for _, _, price in self._known.values())

    def enter(self, candidate: KernelCandidate) -> None:
        """Note a candidate, to be priced with the first one of its structure that is."""
        key, _ = self._key([(candidate.buffer, candidate.tree)])
        if key in self._known:
            self._price(candidate)
        else:
            self._waiting.setdefault(key, []).append(candidate)

    def cost(self, candidate: KernelCandidate) -> float:
        """The price in ns, or the bound scaled by the ratio of prices to bounds of kernels of this kind."""
        if candidate.compile_time:
            return candidate.bound_ns
        tie = TIE_NS_PER_FLOP * candidate.tree.flops
        if candidate.price is not None:
            return candidate.price.time_ns + tie
        time, bound = self._kinds.get(candidate.tree.kinds, (1.0, 1.0))
        return candidate.bound_ns * max(1.0, time / bound) + tie

    def learn(self, candidates: Iterable[KernelCandidate]) -> bool:
        """Price the candidates that are not priced yet, and those of the same structures. Returns whether that may
        change a cover: some candidate runs when the program does, or was refused."""
        fresh = [candidate for candidate in candidates if candidate.priced is None]
        for candidate in fresh:
            key, _ = self._key([(candidate.buffer, candidate.tree)])
            for alike in (candidate, *self._waiting.pop(key, ())):
                self._price(alike)
        return any(candidate.refusal or not candidate.compile_time for candidate in fresh)

    def _price(self, candidate: KernelCandidate) -> None:
        stores = [(candidate.buffer, candidate.tree)]
        candidate.priced = self.of(stores, bound_ns=candidate.bound_ns, compile_time=candidate.compile_time)

    def of(
        self, stores: Stores, places: Places = (None,), *, bound_ns: float = 0.0, compile_time: bool = False
    ) -> PricedKernel:
        """The kernel of these Store trees as a region, with its price.

        Args:
            bound_ns: what no plan can beat. Where it is given, the price tells how far bounds of this kind are off.
            compile_time: whether the kernel runs when the program is built; such a kernel has no price.
        """
        key, buffers = self._key(stores, places)
        if key not in self._known:
            region, reads = self.region(stores, places)
            price = None if compile_time else self._pricer.price(region)
            if isinstance(price, Price) and bound_ns > 0:
                kinds = stores[0][1].kinds
                time, bound = self._kinds.get(kinds, (0.0, 0.0))
                self._kinds[kinds] = (time + price.time_ns, bound + bound_ns)
            self._known[key] = region, tuple(map(buffers.index, reads)), price
        region, inputs, price = self._known[key]
        if self._roundings.repeats_sums([tree for _, tree in stores], region):
            price = SUM_TWICE
        if isinstance(price, Price) and self._may_fill(region, (*buffers, *(buffer for buffer, _ in stores))):
            price = filling_price(price)
        return PricedKernel(region, tuple(buffers[place] for place in inputs), price)

    def _may_fill(self, region: Region, buffers: Sequence[int]) -> bool:
        return self._fixed is not None and may_fill(region, buffers, self._fixed)

    def _key(self, stores: Stores, places: Places = (None,)) -> tuple[tuple[object, ...], tuple[int, ...]]:
        """What kernels with one region have in common, and the buffers that this one reads."""
        structures = [self._forest.structure_of(tree) for _, tree in stores]
        number, buffers = self._forest.structures.combine(tuple(places), structures)
        return (number, *map(self._leaf, (*(buffer for buffer, _ in stores), *buffers))), buffers

    def region(self, stores: Stores, places: Places = (None,)) -> tuple[Region, tuple[int, ...]]:
        """The region of a kernel, and the Buf classes that are its inputs."""
        written = [
            Written(tree, self.edge(buffer, written=True), place)
            for (buffer, tree), place in zip(stores, places, strict=True)
        ]
        return region_of_several(written, self.edge)

    def edge(self, buffer: int, *, written: bool = False) -> Buffer:
        """A Buf class as a buffer at the edge of a region that reads it or, if `written`, writes it."""
        type_ = self._forest.type_of(buffer)
        constant = not written and buffer in self._constant
        cold = buffer in (self._unread if written else self._cold)
        return Buffer(self._names[buffer], MemRef(type_.shape, type_.dtype.name), constant, cold)

    def _leaf(self, buffer: int) -> str:
        """All that a price depends on of a buffer: its type, and whether it is constant or cold."""
        is_cold = buffer in self._cold or buffer in self._unread
        marks = ("const " if buffer in self._constant else "") + ("cold " if is_cold else "")
        return f"{marks}{self._forest.type_of(buffer)}"
